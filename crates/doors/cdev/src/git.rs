//! `git/*`: the repository around the workspace. What may run hooks or ask other machines is a hosted process; its end is waited
//! for and put into the protocol's words. Whatever was done, also over REST, is told to everybody by the feed.

mod change;
mod hosted;
mod look;
mod rest;

pub(crate) use change::*;
pub(crate) use hosted::*;
pub(crate) use look::*;
pub(crate) use rest::*;

use std::path::{Path, PathBuf};

use ostler_api::Timestamp;
use ostler_engine::MayWait;
use ostler_engine::feed::{GitDone, Happened};
use ostler_engine::workspace::work::WorkTree;

use crate::error::Error;
use crate::method::Call;

/// Tells everybody what was done, and where git stands after it.
fn told(call: &Call, folder: &Path, tree: &WorkTree, mut done: GitDone) {
    if done.error.is_some() {
        // What was to be said of its success did not happen.
        done.message = format!("{} failed", done.operation);
        done.files = done.files.map(|_| 0);
    }
    let feed = call.state.engine.feed();
    feed.happened(folder, Happened::Done(done));
    if let Ok(stands) = ostler_engine::workspace::stands(tree) {
        feed.happened(folder, Happened::Git(stands));
    }
}

/// The branch, or the beginning of the commit where there is none.
fn branch_name(branch: &ostler_engine::workspace::work::Branch) -> String {
    let named = branch.name.as_deref().map(|name| String::from_utf8_lossy(name).into_owned());
    named.or_else(|| branch.commit.as_ref().map(|commit| short(commit))).unwrap_or_default()
}

/// A moment of git's; what was before 1970 was then.
fn date(second: i64) -> String {
    Timestamp::from_secs(u64::try_from(second).unwrap_or(0)).to_string()
}

/// A commit as people name it.
fn short(commit: &str) -> String {
    commit.get(..7).unwrap_or(commit).to_owned()
}

/// Paths that a client named, each beneath the repository; `.` is all of it.
fn paths(named: &[String], method: &str) -> Result<Vec<PathBuf>, Error> {
    if named.is_empty() {
        return Err(Error::params(format!("{method}: `paths` is empty")));
    }
    if named.iter().any(String::is_empty) {
        return Err(Error::params(format!("{method}: a path is empty")));
    }
    let beneath = named.iter().map(|path| crate::file::within(path));
    beneath.map(|path| path.map(|path| if path.as_os_str().is_empty() { ".".into() } else { path })).collect()
}

/// A workspace and its git.
fn opened(wait: &MayWait, call: &Call, workspace: Option<&str>) -> Result<(PathBuf, WorkTree), Error> {
    let folder = call.folder(workspace)?;
    let tree = call.tree(wait, &folder)?;
    Ok((folder, tree))
}
