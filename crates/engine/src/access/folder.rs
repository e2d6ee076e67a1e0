//! The folders that a device reaches: to begin a session there, and to see and change files.
//!
//! One that may type into terminals could start a command anywhere, so it may name any. Every other reaches a folder in which
//! there is or was a session, or which somebody had listed, and what is beneath: the first one there was begun by a person, a
//! device that types, or an agent, which sees its user's files anyway. What is this program's own is nobody's workspace, nor is
//! what holds it, with its user's whole home.

use std::path::{Path, PathBuf};

use super::OutOfReach;
use super::device::{Guest, Right};
use crate::session::{WORKSPACES, WORKTREES};
use crate::{Engine, MayWait};

impl Engine {
    /// Whether a device reaches a folder; a refusal goes on record.
    pub(super) fn device_reaches(&self, wait: &MayWait, guest: &Guest, folder: &Path) -> Result<(), OutOfReach> {
        let types = self.guest_may(guest, Right::TypeIntoTerminals).is_ok();
        let own = Own::of(self);
        let why = match folder.canonicalize() {
            // What is wrong with it is said by whoever opens it, but only to who may know what is there.
            Err(_) if types => return Ok(()),
            Ok(real) if own.has(&real) || (!types && own.is_in(&real)) => OutOfReach::OurOwn(folder.to_owned()),
            Ok(real) if types || self.is_worked_in(&real, &own) => return Ok(()),
            Ok(_) | Err(_) => OutOfReach::NoWorkspace(folder.to_owned()),
        };
        self.guest_refused(wait, guest, "devices", &why.to_string());
        Err(why)
    }

    /// Whether a folder, by its real path, is one in which somebody works, or beneath one.
    fn is_worked_in(&self, folder: &Path, own: &Own) -> bool {
        let is_above = |worked: &PathBuf| {
            let real = worked.canonicalize();
            real.is_ok_and(|real| folder.starts_with(&real) && !own.has(&real) && !own.is_in(&real))
        };
        self.worked_in().iter().any(is_above)
    }
}

/// This program's own folders, by their real paths.
struct Own {
    ours: Vec<PathBuf>,
    /// Those among them that are made for sessions to work in.
    made: Vec<PathBuf>,
}

impl Own {
    fn of(engine: &Engine) -> Self {
        let config = &engine.inner.config;
        let real = |path: PathBuf| path.canonicalize().unwrap_or(path);
        Self {
            ours: config.own.iter().cloned().map(real).collect(),
            made: [WORKTREES, WORKSPACES].map(|name| real(config.dir.join(name))).to_vec(),
        }
    }

    /// Whether a folder is one of them, or beneath one.
    fn has(&self, folder: &Path) -> bool {
        let within = |made: &PathBuf| folder.starts_with(made) && folder != made;
        self.ours.iter().any(|own| folder.starts_with(own)) && !self.made.iter().any(within)
    }

    /// Whether one of them is beneath a folder.
    fn is_in(&self, folder: &Path) -> bool {
        self.ours.iter().any(|own| own.starts_with(folder))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_folders_are_no_workspace_but_those_that_are_made_for_sessions() {
        let made = ["/s/instances/main/worktrees", "/s/instances/main/zeroclaw/workspaces"].map(PathBuf::from).to_vec();
        let own = Own { ours: ["/s", "/r", "/home/c/config.toml"].map(PathBuf::from).to_vec(), made };
        let has = |path: &str| own.has(Path::new(path));
        assert!(has("/s") && has("/s/instances/main") && has("/r/x") && has("/s/instances/main/worktrees"));
        assert!(!has("/s/instances/main/worktrees/tree") && !has("/sx") && !has("/home/c") && !has("/"));
        let is_in = |path: &str| own.is_in(Path::new(path));
        assert!(is_in("/") && is_in("/home") && is_in("/home/c") && !is_in("/home/project"));
    }
}
