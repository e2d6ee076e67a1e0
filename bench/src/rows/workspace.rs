//! Files and git of a workspace, beside the programs that tell the same.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use ostler_api::client::Client;
use ostler_api::{FilePath, GitStatusParams, WorkspaceListParams, WorkspaceWatchParams, methods};

use super::Bench;
use crate::approvals::{Daemon, native};
use crate::instance::Instance;
use crate::measure::{Sample, pairs};
use crate::table::{Row, Target};

/// No row waits longer for a single answer, on any machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// Files of one folder of the repository.
const FOLDER: u64 = 100;

pub(crate) fn rows(bench: &Bench) -> Result<()> {
    let instance = Instance::new(&bench.bin, "workspace")?;
    let mut daemon = Daemon::new(&instance)?;
    daemon.start()?;
    let mut client = Client::connect(&native(instance.dir()))?;
    client.answer_within(Some(PATIENCE))?;
    bench.show(status(bench, &instance, &mut client)?);
    bench.show(unchanged(bench, &instance, &mut client)?);
    bench.show(listing(bench, &instance, &mut client)?);
    daemon.stop()
}

fn timed(work: impl FnOnce() -> Result<()>) -> Result<Sample> {
    let began = Instant::now();
    work()?;
    Ok(Sample::of(began.elapsed().as_secs_f64() * 1e3))
}

fn run(command: &mut Command) -> Result<()> {
    match command.stdout(Stdio::null()).status()?.success() {
        true => Ok(()),
        false => bail!("{command:?} failed"),
    }
}

fn git(at: &Path) -> Command {
    let mut git = Command::new("git");
    git.current_dir(at).args(["-c", "user.name=bench", "-c", "user.email=bench@example.invalid"]);
    // Nobody misses what a power loss would take of it.
    git.args(["-c", "commit.gpgsign=false", "-c", "gc.auto=0", "-c", "core.fsync=none"]);
    git
}

/// A repository with so many files, all of them committed.
fn repository(at: PathBuf, files: u64) -> Result<PathBuf> {
    for number in 0..files {
        let folder = at.join(format!("d{}", number / FOLDER));
        if number % FOLDER == 0 {
            fs::create_dir_all(&folder)?;
        }
        fs::write(folder.join(format!("f{number}")), format!("{number}\n"))?;
    }
    run(git(&at).args(["init", "-q", "-b", "main"]))?;
    run(git(&at).args(["add", "-A"]))?;
    run(git(&at).args(["commit", "-qm", "all"]))?;
    Ok(at)
}

/// Something changed: the whole work tree is looked through by both.
fn status(bench: &Bench, instance: &Instance, client: &mut Client) -> Result<Row> {
    let files = bench.size(100_000, 10_000);
    let repo = repository(instance.dir().join("repo"), files)?;
    fs::write(repo.join("d0/f0"), "changed\n")?;
    let root = Some(FilePath(repo.clone()));
    let params = GitStatusParams { root, session: None, untracked: None, lines: false };
    let measured = pairs(
        bench.pairs,
        || timed(|| run(git(&repo).args(["--no-optional-locks", "status", "--porcelain=v2", "--branch", "-z"]))),
        || {
            timed(|| match client.call::<methods::GitStatus>(&params)?.unstaged.as_slice() {
                [_] => Ok(()),
                other => bail!("one file has changed, not {other:?}"),
            })
        },
    )?;
    let target = Target::ratio_at_most(measured.ratio, 1.15);
    Ok(Row::paired(format!("git.status, {files} files"), "ms", measured, vec![target]).against("git status"))
}

/// Nothing changed, and a watch says so: git is not run.
fn unchanged(bench: &Bench, instance: &Instance, client: &mut Client) -> Result<Row> {
    let repo = instance.dir().join("repo");
    let root = Some(FilePath(repo.clone()));
    let params = GitStatusParams { root: root.clone(), session: None, untracked: None, lines: false };
    client.call::<methods::WorkspaceWatch>(&WorkspaceWatchParams { root, session: None })?;
    // Once for the answer, once more when it is known what else git reads.
    for _ in 0..3 {
        client.call::<methods::GitStatus>(&params)?;
        std::thread::sleep(Duration::from_secs(1));
    }
    let measured = pairs(
        bench.pairs,
        || timed(|| run(git(&repo).args(["--no-optional-locks", "status", "--porcelain=v2", "--branch", "-z"]))),
        || timed(|| client.call::<methods::GitStatus>(&params).map(drop).map_err(Into::into)),
    )?;
    let target = Target::ratio_at_most(measured.ratio, 0.25);
    Ok(Row::paired("git.status, watched and unchanged", "ms", measured, vec![target]).against("git status"))
}

/// A folder, page by page.
fn listing(bench: &Bench, instance: &Instance, client: &mut Client) -> Result<Row> {
    let files = bench.size(10_000, 2_000);
    let folder = instance.dir().join("folder");
    fs::create_dir(&folder)?;
    for number in 0..files {
        fs::write(folder.join(format!("f{number}")), "x")?;
    }
    let measured = pairs(
        bench.pairs,
        || timed(|| run(Command::new("ls").arg("-l").arg(&folder))),
        || timed(|| listed(client, &folder, files)),
    )?;
    let target = Target::ratio_at_most(measured.ratio, 2.0);
    Ok(Row::paired(format!("workspace.list, {files} files"), "ms", measured, vec![target]).against("ls -l"))
}

fn listed(client: &mut Client, folder: &Path, files: u64) -> Result<()> {
    let (mut after, mut seen) = (None, 0);
    loop {
        let params = WorkspaceListParams {
            root: Some(folder.into()),
            session: None,
            path: FilePath::default(),
            after,
            limit: 0,
            counts: false,
        };
        let page = client.call::<methods::WorkspaceList>(&params)?;
        seen += page.entries.len() as u64;
        after = page.entries.into_iter().next_back().map(|entry| entry.name);
        if !page.more {
            break;
        }
    }
    if seen == files { Ok(()) } else { bail!("{seen} of {files} files were listed") }
}
