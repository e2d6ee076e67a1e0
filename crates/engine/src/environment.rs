//! What a hosted child inherits: the daemon's environment as it was at start, with the PATH that a login shell would have.

use std::ffi::{OsStr, OsString};
use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::watch;

/// One variable.
pub(crate) type Variable = (OsString, OsString);

/// The inherited variables; only PATH ever changes after start.
#[derive(Debug)]
pub struct Environment {
    variables: RwLock<Arc<Vec<Variable>>>,
    /// PATH as it was at the start.
    first_path: OsString,
    /// False while a login shell is being asked.
    path_known: watch::Sender<bool>,
}

/// A login shell is being asked; until this is dropped, [`Environment::settled`] waits.
#[derive(Debug)]
pub struct Asking(Arc<Environment>);

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.path_known.send_replace(true);
    }
}

impl Environment {
    /// These variables.
    pub fn new(variables: Vec<Variable>) -> Self {
        let first_path = variables.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.clone());
        Self {
            variables: RwLock::new(Arc::new(variables)),
            first_path: first_path.unwrap_or_default(),
            path_known: watch::Sender::new(true),
        }
    }

    /// Says that a login shell is asked from now on.
    pub fn asking(self: &Arc<Self>) -> Asking {
        self.path_known.send_replace(false);
        Asking(Arc::clone(self))
    }

    /// Waits until PATH is what it will be: what is started before would not find what is installed where profiles say.
    pub async fn settled(&self) {
        // The sender is ours, so there is always an answer.
        let _ = self.path_known.subscribe().wait_for(|known| *known).await;
    }

    /// This process's own variables, without the named ones.
    pub fn of_this_process(without: &[&str]) -> Self {
        Self::new(std::env::vars_os().filter(|(name, _)| !without.iter().any(|hidden| name == hidden)).collect())
    }

    /// All variables as they are now.
    pub fn snapshot(&self) -> Arc<Vec<Variable>> {
        Arc::clone(&self.variables.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The PATH in which bare command names are looked up.
    pub fn path(&self) -> OsString {
        self.get("PATH").unwrap_or_default()
    }

    /// The same, and behind it what the daemon was started with: where agents are looked for, which people often have from
    /// somewhere else than a login shell.
    pub fn wide_path(&self) -> OsString {
        let path = self.path();
        let known: Vec<_> = std::env::split_paths(&path).collect();
        let more = std::env::split_paths(&self.first_path).filter(|folder| !known.contains(folder));
        std::env::join_paths(known.iter().cloned().chain(more)).unwrap_or(path)
    }

    /// One variable.
    pub fn get(&self, name: &str) -> Option<OsString> {
        self.snapshot().iter().find(|(key, _)| key == name).map(|(_, value)| value.clone())
    }

    /// Replaces PATH for every child started from now on.
    pub fn set_path(&self, path: OsString) {
        let mut variables = self.snapshot().as_ref().clone();
        set(&mut variables, OsStr::new("PATH"), path);
        *self.variables.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(variables);
    }

    /// These variables with `over` on top, each name once.
    pub fn merged(&self, over: &[Variable]) -> Vec<Variable> {
        let mut variables = self.snapshot().as_ref().clone();
        for (name, value) in over {
            set(&mut variables, name, value.clone());
        }
        variables
    }
}

fn set(variables: &mut Vec<Variable>, name: &OsStr, value: OsString) {
    match variables.iter_mut().find(|(key, _)| key == name) {
        Some((_, old)) => *old = value,
        None => variables.push((name.to_owned(), value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn var(name: &str, value: &str) -> Variable {
        (name.into(), value.into())
    }

    #[test]
    fn a_merge_replaces_in_place_and_appends_the_rest() {
        let base = Environment::new(vec![var("A", "1"), var("B", "2")]);
        assert_eq!(base.merged(&[var("A", "x"), var("C", "")]), vec![var("A", "x"), var("B", "2"), var("C", "")]);
        assert_eq!(base.merged(&[]), vec![var("A", "1"), var("B", "2")]);
    }

    #[tokio::test]
    async fn a_path_that_is_being_asked_for_is_waited_for() {
        let base = Arc::new(Environment::new(vec![var("PATH", "/bin")]));
        base.settled().await;
        let asking = base.asking();
        let waiter = tokio::spawn({
            let base = Arc::clone(&base);
            async move {
                base.settled().await;
                base.path()
            }
        });
        tokio::task::yield_now().await;
        base.set_path("/opt/bin".into());
        drop(asking);
        assert_eq!(waiter.await.unwrap(), "/opt/bin");
    }

    #[test]
    fn a_new_path_reaches_later_readers_only_through_the_environment() {
        let base = Environment::new(vec![var("PATH", "/bin")]);
        let before = base.snapshot();
        base.set_path("/opt/bin".into());
        assert_eq!(base.path(), "/opt/bin");
        assert_eq!(base.wide_path(), "/opt/bin:/bin");
        assert_eq!(before.first(), Some(&var("PATH", "/bin")));
    }
}
