//! Finishing a session that has a work tree of its own: merged, proposed or thrown away, and then the tree and its branch go.
//!
//! One call is one step. It looks at how things stand and does what is next: a hosted process that commits, merges or proposes
//! (which may run hooks, and outlives this program), or the removal. Who calls again after such a process has ended is told the
//! next step, and so is who calls again after a crash. Nothing is removed before everything in it is elsewhere.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ostler_hooks::hook;

use super::finished::FinishedTree;
use super::work::{Forge, GitError, HostedGit, KeptChanges, Proposal, Untracked, WorkTree};
use super::{Busy, GitProcess, Turn};
use crate::session::Status;
use crate::{Engine, MayWait, Process, Session, SpawnError};

/// Ending an agent takes at most a grace of 5 s and a kill; after this an answer is better than none.
const GONE_WITHIN: Duration = Duration::from_secs(20);
/// Attempts at one step that are told apart; each is a process that somebody watched fail.
const ATTEMPTS: usize = 1000;

/// What is to become of the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinishHow {
    /// Taken into another branch.
    Merge,
    /// Sent, and proposed by the user's own program for that.
    PullRequest,
    /// Thrown away; kept for a day.
    Discard,
}

/// What is asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Finish {
    /// Nothing: only look.
    pub how: Option<FinishHow>,
    /// The branch that takes it in; the one of the repository's main work tree when left out.
    pub into: Option<OsString>,
    /// Commit what is not committed first, with these words.
    pub message: Option<String>,
}

/// How a session's work tree stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Its top.
    pub tree: PathBuf,
    /// The branch that is checked out.
    pub branch: Option<OsString>,
    /// Its last commit.
    pub commit: Option<String>,
    /// The branch that would take it in, and the work tree that has it checked out.
    pub into: Option<(OsString, PathBuf)>,
    /// Commits that that branch does not have.
    pub ahead: u64,
    /// Paths that are not committed.
    pub uncommitted: Vec<PathBuf>,
}

/// What a call came to.
pub enum FinishStep {
    /// This is how it stands.
    Looked(Standing),
    /// This process does the next step; call again when it has ended.
    Running(Process),
    /// Everything is done, and the work tree is gone.
    Done(FinishedTree),
}

fn uncommitted(count: usize) -> String {
    if count == 1 { "1 file is not committed".into() } else { format!("{count} files are not committed") }
}

/// Why nothing was done.
#[derive(Debug, thiserror::Error)]
pub enum FinishError {
    /// It works in a folder of its user's.
    #[error("it works in {} itself, not in a worktree of its own", .0.display())]
    NoTree(PathBuf),
    /// The work tree is gone, and nobody noted how.
    #[error("its worktree is gone already: {}", .0.display())]
    Gone(PathBuf),
    /// It asks, and goes on when somebody answers.
    #[error("its agent waits for your answer to request {0}")]
    Waiting(String),
    /// A turn runs or waits.
    #[error("its agent is at work")]
    Working,
    /// Git is in the middle of something.
    #[error("git is in the middle of something in {}", .0.display())]
    Operation(PathBuf),
    /// What is not committed would not be taken along.
    #[error("{}", uncommitted(*.0))]
    Uncommitted(usize),
    /// No branch is checked out, or nothing was ever committed.
    #[error("no branch is checked out in {}", .0.display())]
    NoBranch(PathBuf),
    /// There is nowhere to merge into.
    #[error("{0}")]
    NoTarget(String),
    /// The other side has changes that a merge could touch.
    #[error("{} has uncommitted files ({count})", tree.display())]
    TargetDirty {
        /// Where.
        tree: PathBuf,
        /// So many.
        count: usize,
    },
    /// There is nothing to propose.
    #[error("there is nothing to propose: it has no commits of its own")]
    NothingNew,
    /// The user's own program is missing.
    #[error("`{}` is not installed", .0.program())]
    NoForge(Forge),
    /// The process ended well, and yet it is not so.
    #[error("{0}")]
    NotDone(String),
    /// The tree was not removed.
    #[error("its worktree stays: {0}")]
    Stays(String),
    /// Somebody else changes the repository.
    #[error(transparent)]
    Busy(#[from] Busy),
    /// Git said no.
    #[error(transparent)]
    Git(#[from] GitError),
    /// The process could not be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// A note could not be written.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// What is next.
enum Next {
    Told(FinishStep),
    Start(Box<HostedGit>, String, Turn),
    End(FinishedTree),
}

/// How far a step has come.
enum Attempt {
    /// Nobody has begun it, or who did has failed: the key of the next process.
    New(String),
    Running(Process),
    EndedWell,
}

/// One step of a session, and who asked for it.
struct Step<'a> {
    engine: &'a Engine,
    wait: &'a MayWait,
    session: &'a Session,
    finish: &'a Finish,
}

impl Engine {
    /// Does the next step of finishing a session. `owner` is the hosted process that asked, if one may.
    pub async fn finish(
        &self,
        session: &Session,
        finish: Finish,
        owner: Option<String>,
    ) -> Result<FinishStep, FinishError> {
        let (engine, asked) = (self.clone(), session.clone());
        let looked = MayWait::pool(move |wait| Step { engine: &engine, wait, session: &asked, finish: &finish }.next());
        let note = match looked.await.map_err(io::Error::other)?? {
            Next::Told(step) => return Ok(step),
            Next::Start(command, key, turn) => {
                let process = self.host_git(GitProcess { command: *command, key: Some(key), owner }, turn).await?;
                return Ok(FinishStep::Running(process));
            }
            Next::End(note) => note,
        };
        hook!("finish.noted");
        if let Some(why) = session.end(GONE_WITHIN).await?.and_then(|fate| fate.kept) {
            return Err(FinishError::Stays(why));
        }
        hook!("finish.tree-gone");
        let (engine, gone) = (self.clone(), note.clone());
        let removed = MayWait::pool(move |_| engine.remove_finished_branch(&gone));
        removed.await.map_err(io::Error::other)??;
        Ok(FinishStep::Done(note))
    }

    fn remove_finished_branch(&self, note: &FinishedTree) -> Result<(), FinishError> {
        let (Some(branch), Some(commit)) = (&note.branch, &note.commit) else { return Ok(()) };
        let removed = self.repository_git(&note.repository).remove_branch(branch.as_ref(), commit);
        match removed.map_err(GitError::from)? {
            true => Ok(()),
            false => Err(FinishError::NotDone(format!("branch {branch} has new commits and stays"))),
        }
    }
}

impl Step<'_> {
    fn next(&self) -> Result<Next, FinishError> {
        let view = self.session.view();
        let path = view.worktree.ok_or(FinishError::NoTree(view.workspace))?;
        let noted = self.engine.finished(self.wait, self.session.id())?;
        if !path.exists() {
            // Somebody was killed between the tree and its branch.
            return noted.map(Next::End).ok_or(FinishError::Gone(path));
        }
        let tree = self.open(&path)?;
        let standing = self.look(&tree)?;
        let Some(how) = self.finish.how else { return Ok(Next::Told(FinishStep::Looked(standing))) };
        if let Some(request) = view.approvals.first() {
            return Err(FinishError::Waiting(request.clone()));
        }
        if matches!(view.status, Status::Running | Status::Waiting) || view.queued > 0 || view.screen.is_some() {
            return Err(FinishError::Working);
        }
        if tree.operation().is_some() {
            return Err(FinishError::Operation(path));
        }
        match how {
            FinishHow::Merge => self.merge(&tree, &standing),
            FinishHow::PullRequest => self.propose(&tree, &standing),
            FinishHow::Discard => self.discard(&tree, &standing, noted),
        }
    }

    fn open(&self, path: &Path) -> Result<WorkTree, FinishError> {
        let root = self.engine.root(self.wait, path).map_err(GitError::from)?;
        Ok(self.engine.work_tree(self.wait, root)?)
    }

    fn look(&self, tree: &WorkTree) -> Result<Standing, FinishError> {
        let (branch, commit, uncommitted) = (tree.branch()?, tree.head()?, tree.uncommitted()?);
        let trees = tree.trees()?;
        let others = || trees.iter().filter(|other| !other.bare && !other.gone && other.path != tree.top());
        let target = match &self.finish.into {
            Some(name) => others().find(|other| other.branch.as_ref() == Some(name)),
            None => trees.first().filter(|main| !main.bare && !main.gone && main.path != tree.top()),
        };
        let into = target.and_then(|target| Some((target.branch.clone()?, target.path.clone())));
        let ahead = match (&commit, target.and_then(|target| target.commit.as_ref())) {
            (Some(commit), Some(into)) => tree.beyond(into, commit)?,
            _ => 0,
        };
        Ok(Standing { tree: tree.top().to_owned(), branch, commit, into, ahead, uncommitted })
    }

    /// What is not committed, committed first; `None` when there is nothing.
    fn commit(&self, tree: &WorkTree, standing: &Standing) -> Result<Option<Next>, FinishError> {
        let count = standing.uncommitted.len();
        match &self.finish.message {
            _ if count == 0 => Ok(None),
            None => Err(FinishError::Uncommitted(count)),
            Some(message) => match self.attempt(standing, "commit")? {
                Attempt::Running(process) => Ok(Some(Next::Told(FinishStep::Running(process)))),
                Attempt::New(key) => self.start(tree, key, tree.commit_all_command(message)?).map(Some),
                Attempt::EndedWell => {
                    Err(FinishError::NotDone("git commit ended well, but nothing is committed".into()))
                }
            },
        }
    }

    fn merge(&self, tree: &WorkTree, standing: &Standing) -> Result<Next, FinishError> {
        let (into, place) = self.target(standing)?;
        // What cannot be merged is not committed either.
        if self.finish.message.is_some() && !standing.uncommitted.is_empty() {
            self.takes(place)?;
        }
        if let Some(next) = self.commit(tree, standing)? {
            return Ok(next);
        }
        let (branch, commit) = standing.whole()?;
        if standing.ahead > 0 {
            // One that is at work makes the other side look changed.
            let key = match self.attempt(standing, "merge")? {
                Attempt::Running(process) => return Ok(Next::Told(FinishStep::Running(process))),
                Attempt::EndedWell => {
                    let (branch, into) = (branch.to_string_lossy(), into.to_string_lossy());
                    let why = format!("git merge ended well, but {into} does not have {branch}");
                    return Err(FinishError::NotDone(why));
                }
                Attempt::New(key) => key,
            };
            return self.start(tree, key, self.takes(place)?.merge_whole_command(branch)?);
        }
        self.end(tree, branch, commit)
    }

    /// The work tree that a merge would change, if it can take one.
    fn takes(&self, place: &Path) -> Result<WorkTree, FinishError> {
        let target = self.open(place)?;
        if target.operation().is_some() {
            return Err(FinishError::Operation(place.to_owned()));
        }
        let dirty = target.status(Untracked::No)?;
        match dirty.changed.len() + dirty.conflicted.len() {
            0 => Ok(target),
            count => Err(FinishError::TargetDirty { tree: place.to_owned(), count }),
        }
    }

    fn propose(&self, tree: &WorkTree, standing: &Standing) -> Result<Next, FinishError> {
        let into = match (&self.finish.into, &standing.into) {
            (Some(name), _) | (None, Some((name, _))) => name,
            (None, None) => return Err(self.no_target(standing)),
        };
        let forge = tree.forge()?;
        let path = self.engine.environment().wide_path();
        let program =
            crate::lookup::executable(forge.program().as_ref(), &path).map_err(|_| FinishError::NoForge(forge))?;
        if let Some(next) = self.commit(tree, standing)? {
            return Ok(next);
        }
        let (branch, commit) = standing.whole()?;
        if standing.into.is_some() && standing.ahead == 0 {
            return Err(FinishError::NothingNew);
        }
        let proposal = Proposal { forge, program: &program, branch, into };
        match self.attempt(standing, "propose")? {
            Attempt::Running(process) => return Ok(Next::Told(FinishStep::Running(process))),
            Attempt::New(key) => return self.start(tree, key, tree.propose_command(&proposal)?),
            Attempt::EndedWell => {}
        }
        match tree.sent(branch)? {
            Some(sent) if tree.holds(&sent, commit)? => self.end(tree, branch, commit),
            _ => Err(FinishError::NotDone("it was proposed, but the remote does not have all of it".into())),
        }
    }

    fn discard(&self, tree: &WorkTree, standing: &Standing, noted: Option<FinishedTree>) -> Result<Next, FinishError> {
        let text = |branch: &OsString| {
            branch.clone().into_string().map_err(|_| GitError::Asked("its branch has no name in UTF-8"))
        };
        let branch = standing.branch.as_ref().map(text).transpose()?;
        let id = self.session.id();
        let _turn = self.engine.write_turn(self.wait, tree, "ostler finish")?;
        let mut note = FinishedTree::new(tree.repository(), tree.top(), branch, standing.commit.clone());
        let git = self.engine.repository_git(tree.repository());
        if let Some(commit) = &standing.commit {
            note.reference = Some(git.keep_commit(id, commit).map_err(GitError::from)?);
            // Without another branch to compare with, all of them are its own.
            note.commits = standing.into.is_none() || standing.ahead > 0;
        }
        // Noted before anything is thrown away: a daemon that is killed in between leaves the way back. One that was killed here
        // before has kept everything already; what it did not get to is kept once more, beside.
        let folder = self.engine.discarded_folder();
        let fresh = KeptChanges::new_id(&folder)?;
        let listed = self.engine.discarded(self.wait)?;
        let before = noted.and_then(|noted| noted.kept).filter(|kept| listed.iter().any(|known| known.id == *kept));
        note.kept = before.or_else(|| (!standing.uncommitted.is_empty()).then(|| fresh.clone()));
        self.engine.note_finished(self.wait, id, &note)?;
        hook!("finish.discarding");
        if let Err(error) = tree.discard_all(&folder, &fresh) {
            // Nothing goes, so nothing is noted.
            self.engine.unnote_finished(self.wait, id);
            let _ = git.forget_commit(id);
            return Err(error.into());
        }
        Ok(Next::End(note))
    }

    /// Everything is elsewhere: the tree and the branch may go.
    fn end(&self, tree: &WorkTree, branch: &OsStr, commit: &str) -> Result<Next, FinishError> {
        let branch = branch.to_str().map(str::to_owned);
        let note = FinishedTree::new(tree.repository(), tree.top(), branch, Some(commit.to_owned()));
        self.engine.note_finished(self.wait, self.session.id(), &note)?;
        Ok(Next::End(note))
    }

    fn target<'s>(&self, standing: &'s Standing) -> Result<(&'s OsStr, &'s Path), FinishError> {
        let into = standing.into.as_ref().map(|(name, place)| (name.as_os_str(), place.as_path()));
        into.ok_or_else(|| self.no_target(standing))
    }

    fn no_target(&self, _: &Standing) -> FinishError {
        FinishError::NoTarget(match &self.finish.into {
            Some(name) => format!("no worktree has branch {} checked out", name.to_string_lossy()),
            None => "the repository's own folder has no branch checked out".to_owned(),
        })
    }

    /// How far a step has come, by the processes that were started for it.
    fn attempt(&self, standing: &Standing, step: &str) -> Result<Attempt, FinishError> {
        let commit = standing.commit.as_deref().unwrap_or_default();
        for number in 0..ATTEMPTS {
            // No client's key: those have the name of a method before them.
            let key = format!("finish {} {step} {commit} {number}", self.session.id());
            let Some(process) = self.engine.started_under(&key) else { return Ok(Attempt::New(key)) };
            match process.exit() {
                None => return Ok(Attempt::Running(process)),
                Some(exit) if exit.code() == Some(0) => return Ok(Attempt::EndedWell),
                Some(_) => {}
            }
        }
        Err(FinishError::NotDone(format!("{step} failed too often")))
    }

    fn start(&self, tree: &WorkTree, key: String, command: HostedGit) -> Result<Next, FinishError> {
        let turn = self.engine.write_turn(self.wait, tree, "ostler finish")?;
        Ok(Next::Start(Box::new(command), key, turn))
    }
}

impl Standing {
    fn whole(&self) -> Result<(&OsStr, &str), FinishError> {
        let none = || FinishError::NoBranch(self.tree.clone());
        Ok((self.branch.as_deref().ok_or_else(none)?, self.commit.as_deref().ok_or_else(none)?))
    }
}
