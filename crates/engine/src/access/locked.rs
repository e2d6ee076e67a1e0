//! After the loss of a keeper that made no control groups. What it hosted has other parents now, can shed its mark and start
//! children that look young: nobody here can tell it from a person any more. So nobody decides until a person has shown what
//! no hosted process has, the password that makes them root; or until the machine was restarted. It is shown by a file that
//! only root can make, whose name nobody could know before.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ostler_story::By;

use super::{Peer, at_large};
use crate::approval::{Record, hex};
use crate::brief::Brief;
use crate::{Engine, MayWait};

/// Where only root makes files, and none outlives the machine.
const ROOTS: &str = "/run";
/// How the name of a proof begins; random bytes follow.
const PREFIX: &str = "ostler-";
const PROOF_BYTES: usize = 16;
/// The sudo that counts; one from a PATH could be anybody's.
pub const SUDO: &str = "/usr/bin/sudo";
/// It says at once whether it would ask.
const SUDO_WITHIN: Duration = Duration::from_secs(10);

/// What everybody is told who would decide.
pub(crate) const WHY: &str = "nobody can approve now: the process that started the agents was killed, so they can no longer be told from you. Prove with your password that it is you: ostler approvals --unlock";

/// How deciding is opened again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unlock {
    /// It is open.
    Open,
    /// Root makes this file.
    Make(PathBuf),
    /// There is no way but to restart the machine; why.
    No(&'static str),
}

impl Engine {
    /// Why nobody decides at the moment, if that is so.
    pub fn locked(&self) -> Option<&'static str> {
        // A keeper that has just ended is seen here before anybody hears of it, and before its children have other parents.
        let lost = || !self.inner.has_groups() && !self.inner.keeper().is_there();
        (self.inner.locks() && (self.is_closed() || lost())).then_some(WHY)
    }

    /// Whether somebody got away, from here or from another instance of this user, and nobody has shown since to be a person.
    fn is_closed(&self) -> bool {
        self.inbox().is_locked() || at_large::is_anybody(&self.inner.config.dir)
    }

    /// Opens deciding again if root has made the file, else says which. May wait for a helper and for the disk.
    pub fn unlock(&self, wait: &MayWait, peer: &Peer) -> Result<Unlock, String> {
        if !self.inner.locks() || !self.is_closed() {
            return Ok(Unlock::Open);
        }
        let by: By = peer.place().map_err(|why| why.to_string())?.into();
        let safe = std::fs::metadata(ROOTS).is_ok_and(|folder| folder.uid() == 0 && folder.mode() & 0o022 == 0);
        if !safe {
            return Ok(Unlock::No("there is no /run that only root can write"));
        }
        let asks = Brief::new(SUDO, &["-k", "-n", "true"], SUDO_WITHIN);
        match self.forker().run(&asks) {
            Ok(ran) if ran.ended.well() => return Ok(Unlock::No("sudo asks for no password, so it proves nothing")),
            Ok(_) => {}
            Err(_) => return Ok(Unlock::No("there is no /usr/bin/sudo to ask for a password")),
        }
        let path = self.inner.proof().map_err(|error| error.to_string())?;
        if !is_roots(&path) {
            return Ok(Unlock::Make(path));
        }
        self.inbox().prove(wait, Record::Proved { by }).map_err(|error| error.to_string())?;
        at_large::settle(&self.inner.config.dir).map_err(|error| error.to_string())?;
        Ok(Unlock::Open)
    }
}

fn is_roots(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|file| file.is_file() && file.uid() == 0)
}

/// A name that nobody could know before.
pub(crate) fn fresh_proof() -> std::io::Result<PathBuf> {
    let mut random = [0; PROOF_BYTES];
    getrandom::fill(&mut random).map_err(|error| std::io::Error::other(error.to_string()))?;
    Ok(Path::new(ROOTS).join(format!("{PREFIX}{}", hex(&random))))
}

/// Whether root may be asked to make this file and to take it away again: no other is.
pub fn is_proof(path: &Path) -> bool {
    let name = path.to_str().and_then(|path| path.strip_prefix(ROOTS)?.strip_prefix('/')?.strip_prefix(PREFIX));
    name.is_some_and(|name| name.len() == 2 * PROOF_BYTES && name.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_file_of_root_is_a_proof() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!is_roots(&folder.path().join("none")));
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join("link")).unwrap();
        assert!(!is_roots(&folder.path().join("link")), "a link is its maker's");
        assert!(is_roots(Path::new("/etc/passwd")));
        assert_ne!(fresh_proof().unwrap(), fresh_proof().unwrap());
    }

    #[test]
    fn root_is_asked_for_no_other_file() {
        assert!(is_proof(&fresh_proof().unwrap()));
        let random = "0123456789abcdef0123456789abcdef";
        for path in ["/etc/passwd", "/run/sudo", "/run/ostler-", "/run/ostler-0/../../etc/shadow"] {
            assert!(!is_proof(Path::new(path)), "{path}");
        }
        assert!(
            !is_proof(Path::new(&format!("/runostler-{random}"))) && !is_proof(Path::new(&format!("ostler-{random}")))
        );
    }
}
