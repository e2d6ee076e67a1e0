//! Command line arguments: `--name value` and `--name` in any order, nothing else.
//! An argument nobody asked for is an error, so that a typing mistake never changes what a run means.

use std::str::FromStr;

use anyhow::{Context, Result, bail};

pub(crate) struct Args(Vec<String>);

impl Args {
    pub(crate) fn new(arguments: impl Iterator<Item = String>) -> Self {
        Self(arguments.collect())
    }

    /// Takes the first argument when it is a word and not an option.
    pub(crate) fn word(&mut self) -> Option<String> {
        let is_word = self.0.first().is_some_and(|first| !first.starts_with('-'));
        is_word.then(|| self.0.remove(0))
    }

    pub(crate) fn flag(&mut self, name: &str) -> bool {
        let found = self.0.iter().position(|argument| argument == name);
        found.map(|at| self.0.remove(at)).is_some()
    }

    pub(crate) fn value<T: FromStr>(&mut self, name: &str) -> Result<Option<T>>
    where
        T::Err: std::error::Error + Send + Sync + 'static,
    {
        let Some(at) = self.0.iter().position(|argument| argument == name) else {
            return Ok(None);
        };
        self.0.remove(at);
        if at >= self.0.len() {
            bail!("{name} needs a value");
        }
        let text = self.0.remove(at);
        let value = text.parse().with_context(|| format!("{name} {text}"))?;
        Ok(Some(value))
    }

    pub(crate) fn required<T: FromStr>(&mut self, name: &str) -> Result<T>
    where
        T::Err: std::error::Error + Send + Sync + 'static,
    {
        self.value(name)?.with_context(|| format!("{name} is required"))
    }

    /// Every argument must have been taken by now.
    pub(crate) fn finish(self) -> Result<()> {
        if let Some(left) = self.0.first() {
            bail!("unknown argument {left}; `bench --help` lists them");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> Args {
        Args::new(line.split(' ').map(String::from))
    }

    #[test]
    fn options_come_in_any_order() {
        let mut given = args("crash --seed 7 --keep-dir --kills 60");
        assert_eq!(given.word().as_deref(), Some("crash"));
        assert_eq!(given.value::<u64>("--kills").unwrap(), Some(60));
        assert_eq!(given.value::<u64>("--seed").unwrap(), Some(7));
        assert!(given.flag("--keep-dir"));
        given.finish().unwrap();
    }

    #[test]
    fn an_unknown_or_incomplete_argument_is_refused() {
        assert!(args("--kils 60").finish().is_err());
        assert!(args("--kills").value::<u64>("--kills").is_err());
        assert!(args("--kills many").value::<u64>("--kills").is_err());
    }
}
