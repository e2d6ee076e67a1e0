//! Names of branches, remotes and commits. A name from outside is never handed on as it came: it is looked up as what it must
//! be, and git is given the whole reference or the commit's hash.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use super::{GitError, WorkTree};

/// Shortest beginning of a hash that git takes.
const HASH_MIN: usize = 4;

/// A branch of a remote, and what it would be called here.
pub(super) struct RemoteBranch {
    pub(super) local: OsString,
    pub(super) whole: OsString,
}

impl WorkTree {
    /// The whole name of a local branch that there is.
    pub(super) fn branch_ref(&self, name: &OsStr) -> Result<OsString, GitError> {
        let whole = new_branch(name)?;
        match self.is_ref(&whole)? {
            true => Ok(whole),
            false => Err(GitError::missing("branch", name)),
        }
    }

    /// The whole name of a branch that may be made: git says whether it can be one.
    pub(super) fn free_branch(&self, name: &OsStr) -> Result<OsString, GitError> {
        let whole = new_branch(name)?;
        let args = ["check-ref-format".into(), whole.clone()];
        match self.asks(&args)? {
            Some(_) => Ok(whole),
            None => Err(GitError::name("branch", name)),
        }
    }

    /// The hash of a commit that a branch, a remote's branch, a tag, `HEAD` or a beginning of its hash names.
    pub(super) fn commit(&self, name: &OsStr) -> Result<String, GitError> {
        let bytes = name.as_bytes();
        if bytes.is_empty() || bytes.starts_with(b"-") || bytes.iter().any(|byte| *byte <= b' ' || *byte == 0x7f) {
            return Err(GitError::name("commit", name));
        }
        let places = ["refs/heads/", "refs/remotes/", "refs/tags/"];
        let mut candidates: Vec<OsString> = places.iter().map(|place| joined(place, name)).collect();
        if bytes == b"HEAD" || bytes.starts_with(b"refs/") {
            candidates.insert(0, name.to_owned());
        }
        for candidate in candidates {
            if candidate == "HEAD" || self.is_ref(&candidate)? {
                return self.hash(&candidate)?.ok_or_else(|| GitError::missing("commit", name));
            }
        }
        let is_hash = bytes.len() >= HASH_MIN && bytes.iter().all(u8::is_ascii_hexdigit);
        match is_hash.then(|| self.hash(name)).transpose()?.flatten() {
            Some(hash) => Ok(hash),
            None => Err(GitError::missing("commit", name)),
        }
    }

    /// The branch that only one remote has, by its own name or by the one that it is listed with.
    pub(super) fn remote_branch(&self, name: &OsStr) -> Result<Option<RemoteBranch>, GitError> {
        let remotes = self.remotes()?;
        let mut found = Vec::new();
        for branch in self.branches()?.into_iter().filter(|branch| branch.remote) {
            let own = |remote: &super::Remote| {
                let rest = branch.name.as_bytes().strip_prefix(remote.name.as_bytes())?;
                Some(OsStr::from_bytes(rest.strip_prefix(b"/")?).to_owned())
            };
            let locals = remotes.iter().filter_map(own).filter(|local| local == name || branch.name == name);
            found.extend(locals.map(|local| RemoteBranch { local, whole: joined("refs/remotes/", &branch.name) }));
        }
        let Some(only) = found.pop().filter(|_| found.is_empty()) else { return Ok(None) };
        // One that is here already is meant by its own name.
        let here = self.is_ref(&self.free_branch(&only.local)?)?;
        Ok((!here).then_some(only))
    }

    /// A remote that the repository knows.
    pub(super) fn remote(&self, name: &OsStr) -> Result<OsString, GitError> {
        let known = self.remotes()?.into_iter().any(|remote| remote.name == name);
        if known && !name.as_bytes().starts_with(b"-") {
            Ok(name.to_owned())
        } else {
            Err(GitError::missing("remote", name))
        }
    }

    fn is_ref(&self, whole: &OsStr) -> Result<bool, GitError> {
        let args = ["show-ref", "--verify", "--quiet", "--"].map(OsStr::new);
        let args: Vec<&OsStr> = args.into_iter().chain([whole]).collect();
        Ok(self.asks(&args)?.is_some())
    }

    fn hash(&self, name: &OsStr) -> Result<Option<String>, GitError> {
        let mut commit = name.to_owned();
        commit.push("^{commit}");
        let args = ["rev-parse".into(), "--verify".into(), "--quiet".into(), "--end-of-options".into(), commit];
        Ok(self.asks(&args)?.map(|said| String::from_utf8_lossy(&said).trim().to_owned()))
    }
}

/// The whole name of a local branch, if it looks like one.
fn new_branch(name: &OsStr) -> Result<OsString, GitError> {
    let bytes = name.as_bytes();
    // Git itself would make a branch of either name, and nobody could name it again.
    let odd = bytes.is_empty() || bytes.starts_with(b"-") || bytes == b"HEAD" || bytes == b"@" || bytes.contains(&0);
    if odd { Err(GitError::name("branch", name)) } else { Ok(joined("refs/heads/", name)) }
}

/// A whole name of a local branch as people say it.
pub(super) fn short(whole: &OsStr) -> OsString {
    let bytes = whole.as_bytes();
    OsStr::from_bytes(bytes.strip_prefix(b"refs/heads/").unwrap_or(bytes)).to_owned()
}

fn joined(place: &str, name: &OsStr) -> OsString {
    let mut whole = OsString::from(place);
    whole.push(name);
    whole
}
