//! What will be executed, found once: the path that is shown is the path that runs. A command that cannot be found is
//! shown as such; nothing of its pipeline runs then, not even after a yes.

use std::io;
use std::path::PathBuf;

use ostler_stages::{Behind, ResolveError, Seal, lossy};
use serde::{Deserialize, Serialize};

use crate::Request;

/// One stage as it is shown and executed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stage {
    /// As asked for.
    pub argv: Vec<String>,
    /// The file behind it, or why there is none.
    pub file: Result<File, Missing>,
    /// What the one who asks can change beside that file: its interpreter, its script, what its arguments name.
    pub behind: Behind,
}

/// The file that a stage executes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    /// What is executed: absolute, under the name that it was found by.
    #[serde(with = "lossy")]
    pub path: PathBuf,
    /// The same file, all links followed.
    #[serde(with = "lossy")]
    pub canonical: PathBuf,
    /// What was there when it was shown.
    pub seal: Option<Seal>,
    /// What the one who asks could change about it.
    #[serde(with = "lossy::option")]
    pub writable: Option<PathBuf>,
}

/// Why a stage has no file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Missing {
    /// Nothing has this name.
    NotFound,
    /// Something has, but it cannot be executed.
    Unusable(String),
}

impl Missing {
    /// As the system would say it.
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::NotFound => io::Error::from_raw_os_error(rustix::io::Errno::NOENT.raw_os_error()).to_string(),
            Self::Unusable(why) => why.clone(),
        }
    }
}

/// Finds the file of every stage. May block.
pub(crate) fn resolve(request: &Request, asker: u32) -> Vec<Stage> {
    let file = |name: &str| match ostler_stages::resolve(name, asker) {
        Ok(found) => {
            let (path, canonical, writable) = (found.path, found.canonical, found.writable_by_asker);
            Ok(File { path, canonical, seal: found.seal, writable })
        }
        Err(ResolveError::NotFound { .. }) => Err(Missing::NotFound),
        Err(other) => Err(Missing::Unusable(other.to_string())),
    };
    let stage = |argv: &Vec<String>| {
        let file = argv.first().map_or(Err(Missing::NotFound), |name| file(name));
        let found = file.as_ref().map(|file| ostler_stages::behind(&file.path, argv, request.env.values(), asker));
        Stage { argv: argv.clone(), behind: found.unwrap_or_default(), file }
    };
    request.pipeline.iter().map(stage).collect()
}

/// Why a pipeline cannot be started although somebody said yes; nothing when all of it can.
pub(crate) fn trouble(stages: &[Stage]) -> Option<String> {
    let (number, missing) =
        stages.iter().enumerate().find_map(|(number, stage)| Some((number, stage.file.as_ref().err()?)))?;
    Some(failed(number, stages.len(), &missing.reason()))
}

/// The words for a stage that could not be started.
pub(crate) fn failed(stage: usize, of: usize, why: &str) -> String {
    match of {
        1 => format!("failed to execute command: {why}"),
        _ => format!("failed to spawn pipeline stage {stage}: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(name: &str, file: Result<&str, Missing>) -> Stage {
        let path = |path: &str| File { path: path.into(), canonical: path.into(), seal: None, writable: None };
        Stage { argv: vec![name.to_owned()], file: file.map(path), behind: Behind::default() }
    }

    #[test]
    fn a_missing_command_is_told_as_the_system_tells_it() {
        let gone = || stage("no-such", Err(Missing::NotFound));
        let there = || stage("cat", Ok("/usr/bin/cat"));
        let words = "failed to execute command: No such file or directory (os error 2)";
        assert_eq!(trouble(&[gone()]).as_deref(), Some(words));
        let words = "failed to spawn pipeline stage 1: No such file or directory (os error 2)";
        assert_eq!(trouble(&[there(), gone()]).as_deref(), Some(words));
        assert_eq!(trouble(&[there(), there()]), None);
    }
}
