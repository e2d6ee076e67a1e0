//! Names and content of a workspace, beside the programs that find the same: `rg`, `fd`, and a plain scan of the same names. Both
//! sides read files that are in memory; theirs is a process, ours a call. Where a program is missing, its row says so.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use ostler_workspace::beneath::Root;
use ostler_workspace::index::{Index, NameQuery, QueryMode};
use ostler_workspace::search::{ContentQuery, search};
use ostler_workspace::watch::{AskGit, FOLDERS_MAX, GitPlace, Setup, Timing, Watch};

use super::Bench;
use crate::measure::{Sample, pairs};
use crate::table::{Row, Target};

const PATIENCE: Duration = Duration::from_secs(120);
/// Files of one folder.
const FOLDER: u64 = 100;
/// Queries of which the slowest but one in a hundred is told.
const QUERIES: usize = 200;

struct Tree(PathBuf);

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl AskGit for Tree {
    fn place(&self) -> Option<GitPlace> {
        None
    }

    fn tracked(&self) -> Option<Vec<PathBuf>> {
        None
    }
}

pub(crate) fn rows(bench: &Bench) -> Result<()> {
    let files = bench.size(100_000, 10_000);
    let tree = tree(files)?;
    // Before anything else: memory that was given back once is taken again without a trace.
    let before = resident();
    let watch = watched(&tree.0)?;
    let index = watch.names(PATIENCE);
    let paths: u64 = (0..files).map(|number| name(number).len() as u64).sum();
    let each = (resident().saturating_sub(before).saturating_sub(paths)) as f64 / files as f64;
    let target = Target::at_most(each, 200.0, "B");
    bench.show(Row::alone(format!("index: memory per file beyond its path, {files} files"), "B", each, target));
    first(bench, &tree.0, files)?;
    fuzzy(bench, &watch, index, files)?;
    exact(bench, &tree.0, &watch, index)?;
    content(bench, &tree.0, &watch, index)
}

fn name(number: u64) -> String {
    format!("crate-{}/module-{}/source_file_{number}.rs", number / (FOLDER * 10), number / FOLDER)
}

fn tree(files: u64) -> Result<Tree> {
    let dir = std::env::temp_dir().join(format!("ostler-bench-search-{}", std::process::id()));
    let tree = Tree(dir);
    for number in 0..files {
        let path = tree.0.join(name(number));
        if number % FOLDER == 0 {
            fs::create_dir_all(path.parent().unwrap_or(&tree.0))?;
        }
        let rare = if number % 1000 == 7 { "the needle is here\n" } else { "" };
        fs::write(path, format!("fn number_{number}() {{}}\n{}{rare}", "// some hay, and more of it\n".repeat(40)))?;
    }
    Ok(tree)
}

fn watched(root: &Path) -> Result<Watch> {
    let git = Arc::new(Tree(PathBuf::from("/nonexistent/ostler-bench")));
    let (root, timing) = (Root::open(root)?, Timing::default());
    let watch = Watch::start(Setup { root, git, tell: Box::new(|_| {}), timing, folders_max: FOLDERS_MAX })?;
    ensure!(watch.ready(PATIENCE), "the index is not ready");
    Ok(watch)
}

/// The first walk, with a watch on every folder.
fn first(bench: &Bench, root: &Path, files: u64) -> Result<()> {
    let row = format!("index: first walk of {files} files");
    let Some(rg) = found(bench, &row, &["rg"]) else { return Ok(()) };
    let ours = || {
        let begun = Instant::now();
        let watch = watched(root)?;
        let sample = taken(begun);
        ensure!(watch.names(PATIENCE).totals().files == files, "not all files are in the index");
        watch.end();
        Ok(sample)
    };
    let measured = pairs(bench.pairs, || theirs(Command::new(&rg).args(["--files", "--hidden"]).arg(root)), ours)?;
    let targets = vec![Target::ratio_at_most(measured.ratio, 2.0)];
    bench.show(Row::paired(row, "ms", measured, targets).against("rg --files"));
    Ok(())
}

/// A fuzzy query beside a plain scan of the same names for a text.
fn fuzzy(bench: &Bench, watch: &Watch, index: &Index, files: u64) -> Result<()> {
    let names: Vec<String> = (0..files).map(name).collect();
    let asked = |text: &str| NameQuery { text: text.into(), limit: 50, ..NameQuery::default() };
    let mut all = Vec::new();
    for at in 0..QUERIES {
        let query = asked(&format!("c{}m{}sf{}", at % 9, at % 7, at));
        let begun = Instant::now();
        let found = index.search(watch.root(), &query);
        all.push(begun.elapsed().as_secs_f64() * 1e3);
        ensure!(found.files.len() <= 50, "too many");
    }
    all.sort_by(f64::total_cmp);
    let slow = all.get(all.len() * 99 / 100).copied().unwrap_or(f64::NAN);
    let scan = || {
        let begun = Instant::now();
        let hits = names.iter().filter(|name| name.contains("source_file_77")).count();
        ensure!(hits > 0, "nothing was found");
        Ok(taken(begun))
    };
    let ours = || {
        let begun = Instant::now();
        ensure!(index.search(watch.root(), &asked("srcfl77")).total > 0, "nothing was found");
        Ok(taken(begun))
    };
    let measured = pairs(bench.pairs, scan, ours)?;
    let targets = vec![Target::ratio_at_most(measured.ratio, 100.0)];
    let row = format!("index: fuzzy query, p99 of {QUERIES}");
    bench.show(Row::alone(row, "ms", slow, Target::at_most(slow, 200.0, "ms")));
    bench.show(Row::paired(format!("index: fuzzy query, {files} names"), "ms", measured, targets).against("scan"));
    Ok(())
}

fn exact(bench: &Bench, root: &Path, watch: &Watch, index: &Index) -> Result<()> {
    let row = "index: a part of a name";
    let Some(fd) = found(bench, row, &["fdfind", "fd"]) else { return Ok(()) };
    let query = NameQuery { text: "file_777".into(), mode: QueryMode::Exact, limit: 1000, ..NameQuery::default() };
    let ours = || {
        let begun = Instant::now();
        ensure!(index.search(watch.root(), &query).total > 0, "nothing was found");
        Ok(taken(begun))
    };
    let fd = || theirs(Command::new(&fd).args(["--hidden", "file_777"]).arg(root));
    let measured = pairs(bench.pairs, fd, ours)?;
    let targets = vec![Target::ratio_at_most(measured.ratio, 1.0)];
    bench.show(Row::paired(row, "ms", measured, targets).against("fd"));
    Ok(())
}

fn content(bench: &Bench, root: &Path, watch: &Watch, index: &Index) -> Result<()> {
    let row = "search: a text in all files";
    let Some(rg) = found(bench, row, &["rg"]) else { return Ok(()) };
    let query = ContentQuery { pattern: "the needle".into(), limit: 5000, within: PATIENCE, ..ContentQuery::default() };
    let ours = || {
        let begun = Instant::now();
        let found = search(watch.root(), index, &query, &|| false)?;
        ensure!(found.matches > 0 && !found.more, "{} lines, more: {}", found.matches, found.more);
        Ok(taken(begun))
    };
    // Capitals fit small letters on both sides.
    let rg = || theirs(Command::new(&rg).args(["--hidden", "-n", "-S", "-F", "the needle"]).arg(root));
    let measured = pairs(bench.pairs, rg, ours)?;
    let targets = vec![Target::ratio_at_most(measured.ratio, 1.3)];
    bench.show(Row::paired(row, "ms", measured, targets).against("rg"));
    Ok(())
}

/// The first of these programs; a row that says so where there is none.
fn found(bench: &Bench, row: &str, names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let there = |name: &&str| std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file());
    let program = names.iter().find_map(there);
    if program.is_none() {
        let missing = Target { text: format!("{} is not installed", names.join(" or ")), met: true };
        bench.show(Row::alone(row, "-", f64::NAN, missing));
    }
    program
}

fn taken(begun: Instant) -> Sample {
    Sample::of(begun.elapsed().as_secs_f64() * 1e3)
}

fn theirs(command: &mut Command) -> Result<Sample> {
    let begun = Instant::now();
    let status = command.stdout(Stdio::null()).status()?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(taken(begun))
}

/// Bytes of this program in memory.
fn resident() -> u64 {
    let text = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = text.split_whitespace().nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}
