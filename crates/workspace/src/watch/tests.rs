use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use super::*;
use crate::index::{NameQuery, QueryMode};

/// Long enough for a loaded machine.
const LONG: Duration = Duration::from_secs(30);

/// Everything ten times as fast, so that tests wait less.
fn fast() -> Timing {
    let Timing { together, between, quiet, calm, storm, .. } = Timing::default();
    let unused = Duration::from_secs(600);
    let poll = Duration::from_millis(200);
    Timing {
        together: together / 10,
        between: between / 10,
        quiet: quiet / 10,
        calm: calm / 10,
        storm: storm / 10,
        poll,
        unused,
    }
}

/// A repository at the top of the root.
struct Top(PathBuf);

impl AskGit for Top {
    fn place(&self) -> Option<GitPlace> {
        let git_dir = self.0.join(".git");
        git_dir.is_dir().then(|| GitPlace { top: self.0.clone(), common_dir: git_dir.clone(), git_dir })
    }

    fn tracked(&self) -> Option<Vec<PathBuf>> {
        let listed = Command::new("git").arg("ls-files").current_dir(&self.0).output().ok()?;
        Some(String::from_utf8(listed.stdout).ok()?.lines().map(Into::into).collect())
    }
}

struct Trial {
    dir: tempfile::TempDir,
    watch: Watch,
    told: Receiver<Told>,
    _lease: Lease,
}

impl Trial {
    fn of(dir: tempfile::TempDir, timing: Timing, folders_max: usize) -> Self {
        let (sender, told) = channel();
        let root = Root::open(dir.path()).unwrap();
        let git = Arc::new(Top(root.path().to_owned()));
        let tell = move |told| drop(sender.send(told));
        let setup = Setup { root, git, tell: Box::new(tell), timing, folders_max };
        let watch = Watch::start(setup).unwrap();
        let lease = watch.lease();
        assert!(watch.ready(LONG));
        Self { dir, watch, told, _lease: lease }
    }

    fn new(with: impl FnOnce(&Path)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        with(dir.path());
        Self::of(dir, fast(), FOLDERS_MAX)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn next(&self) -> Told {
        self.told.recv_timeout(LONG).expect("something is told")
    }

    /// What is told of files until all of these were; in the order of their paths.
    fn files(&self, most: usize) -> Vec<FileChange> {
        let mut all = Vec::new();
        while all.len() < most {
            match self.next() {
                Told::Files(more) => all.extend(more),
                Told::Git => {}
                other => panic!("{other:?}"),
            }
        }
        all
    }

    /// What is told in the time that something would take.
    fn soon(&self) -> Option<Told> {
        self.told.recv_timeout(Duration::from_millis(400)).ok()
    }

    fn is_silent(&self) -> bool {
        self.soon().is_none()
    }

    /// The numbers of a moment in which everything is seen; while its own thread looks, a watch says that it does not know.
    fn unchanged(&self) -> Option<(u64, u64)> {
        let until = Instant::now() + LONG;
        loop {
            let numbers = self.watch.unchanged();
            if numbers.is_some() || Instant::now() > until {
                return numbers;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn finds(&self, name: &str) -> bool {
        let query = NameQuery { text: name.into(), mode: QueryMode::Exact, limit: 1, ..NameQuery::default() };
        self.watch.names(LONG).search(self.watch.root(), &query).total > 0
    }
}

fn change(path: &str, became: Became, size: Option<u64>) -> FileChange {
    FileChange { path: path.into(), became, size, tracked: false }
}

#[test]
fn files_that_come_change_and_go_are_told_and_asked_for_without_delay() {
    let trial = Trial::new(|dir| fs::write(dir.join("old"), "1").unwrap());
    fs::write(trial.path("new"), "12").unwrap();
    assert!(trial.finds("new"), "an answer is not older than its question");
    assert_eq!(trial.files(1), [change("new", Became::Created, Some(2))]);
    fs::write(trial.path("old"), "123").unwrap();
    assert_eq!(trial.files(1), [change("old", Became::Modified, Some(3))]);
    fs::remove_file(trial.path("old")).unwrap();
    assert_eq!(trial.files(1), [change("old", Became::Deleted, None)]);
    assert!(!trial.finds("old") && trial.is_silent());
}

#[test]
fn a_renamed_file_is_one_change_and_so_is_a_renamed_folder() {
    let trial = Trial::new(|dir| {
        fs::create_dir_all(dir.join("folder/deep")).unwrap();
        fs::write(dir.join("folder/deep/a"), "1").unwrap();
        fs::write(dir.join("b"), "12").unwrap();
    });
    fs::rename(trial.path("b"), trial.path("folder/c")).unwrap();
    assert_eq!(trial.files(1), [change("folder/c", Became::Renamed("b".into()), Some(2))]);
    fs::rename(trial.path("folder"), trial.path("moved")).unwrap();
    assert_eq!(trial.files(1), [change("moved", Became::Renamed("folder".into()), None)]);
    assert!(trial.finds("moved/deep/a") && !trial.finds("folder/deep/a"));
    fs::write(trial.path("moved/deep/a"), "2").unwrap();
    assert_eq!(trial.files(1), [change("moved/deep/a", Became::Modified, Some(1))], "it is watched where it is now");
}

#[test]
fn an_editor_that_writes_beside_and_renames_has_modified_the_file() {
    let trial = Trial::new(|dir| fs::write(dir.join("a"), "1").unwrap());
    fs::write(trial.path(".a.tmp"), "12").unwrap();
    fs::rename(trial.path(".a.tmp"), trial.path("a")).unwrap();
    assert_eq!(trial.files(1), [change("a", Became::Modified, Some(2))]);
}

#[test]
fn new_folders_are_watched_with_all_that_came_into_them_meanwhile() {
    let trial = Trial::new(|_| {});
    fs::create_dir_all(trial.path("a/b/c")).unwrap();
    fs::write(trial.path("a/b/c/d"), "1").unwrap();
    assert_eq!(trial.files(1), [change("a/b/c/d", Became::Created, Some(1))]);
    fs::write(trial.path("a/b/c/e"), "1").unwrap();
    assert_eq!(trial.files(1), [change("a/b/c/e", Became::Created, Some(1))]);
    fs::remove_dir_all(trial.path("a")).unwrap();
    assert_eq!(trial.files(2).len(), 2);
    assert_eq!(trial.watch.names(LONG).totals().folders, 0);
}

#[test]
fn what_is_ignored_is_not_told_and_rules_that_change_are_taken_at_once() {
    let trial = Trial::new(|dir| {
        fs::create_dir(dir.join("target")).unwrap();
        fs::write(dir.join(".gitignore"), "target\n*.log\n").unwrap();
    });
    fs::write(trial.path("target/x"), "1").unwrap();
    fs::write(trial.path("a.log"), "1").unwrap();
    assert!(trial.is_silent());
    fs::write(trial.path(".gitignore"), "target\n").unwrap();
    let told = trial.files(2);
    assert_eq!(told, [change(".gitignore", Became::Modified, Some(7)), change("a.log", Became::Created, Some(1))]);
}

#[test]
fn a_file_that_is_written_on_and_on_is_told_at_most_once_a_second_and_its_last_state_always() {
    let trial = Trial::new(|_| {});
    let (began, mut size) = (Instant::now(), 0);
    while began.elapsed() < Duration::from_millis(1000) {
        size += 1;
        fs::write(trial.path("a"), vec![b'x'; size]).unwrap();
        std::thread::sleep(Duration::from_millis(5));
    }
    let (mut told, mut last) = (0, 0);
    while last != size as u64 {
        let Told::Files(changes) = trial.next() else { panic!("files") };
        last = changes[0].size.unwrap();
        told += 1;
    }
    // A tenth of the usual times: one in a hundred milliseconds.
    assert!((1..=1 + began.elapsed().as_millis() / 100).contains(&told), "{told} in {:?}", began.elapsed());
}

#[test]
fn fifty_thousand_touched_files_are_one_look_again() {
    let calm = Duration::from_secs(3);
    let timing = Timing { calm, storm: LONG, ..Timing::default() };
    let trial = Trial::of(tempfile::tempdir().unwrap(), timing, FOLDERS_MAX);
    let began = Instant::now();
    for number in 0..50_000 {
        fs::File::create(trial.path(&format!("file-{number}"))).unwrap();
    }
    let mut again = 0;
    // Until nothing more is told for a while.
    while let Some(told) = if again == 0 { Some(trial.next()) } else { trial.soon() } {
        match told {
            // A machine that begins slowly may tell of the first few.
            Told::Files(_) => {}
            Told::LookAgain => again += 1,
            other => panic!("{other:?}"),
        }
    }
    // One that stands still in the middle of it may have seen the end of a storm, and another begin.
    assert!(calm * (again - 1) <= began.elapsed(), "told {again} times in {:?}", began.elapsed());
    assert_eq!(trial.watch.names(LONG).totals().files, 50_000, "and the index has them all");
}

#[test]
fn where_folders_are_too_many_to_watch_it_is_said_and_they_are_looked_at() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["a", "b", "c"] {
        fs::create_dir(dir.path().join(name)).unwrap();
    }
    let trial = Trial::of(dir, fast(), 2);
    let why = trial.watch.status().polled.expect("it is said");
    assert!(why.contains("max_user_watches") && why.contains("at most 2"), "{why}");
    assert!(matches!(trial.next(), Told::Polled(_)));
    fs::write(trial.path("c/new"), "1").unwrap();
    assert_eq!(trial.files(1), [change("c/new", Became::Created, Some(1))]);
    assert_eq!(trial.watch.unchanged(), None, "nothing is vouched for");
}

#[test]
fn a_root_that_is_gone_is_said_to_be_gone() {
    let trial = Trial::new(|dir| fs::create_dir(dir.join("x")).unwrap());
    fs::remove_dir_all(trial.dir.path()).unwrap();
    while trial.next() != Told::Gone {}
    assert!(matches!(trial.watch.status().phase, Phase::Failed(_)));
}

#[test]
fn an_index_that_nobody_asks_for_is_dropped_and_a_lease_keeps_it() {
    let trial =
        Trial::of(tempfile::tempdir().unwrap(), Timing { unused: Duration::from_millis(100), ..fast() }, FOLDERS_MAX);
    std::thread::sleep(Duration::from_millis(500));
    assert!(!trial.watch.is_over());
    let Trial { watch, _lease, .. } = trial;
    drop(_lease);
    let until = Instant::now() + LONG;
    while !watch.is_over() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(watch.is_over());
}

fn git(dir: &Path, args: &[&str]) {
    let mut git = Command::new("git");
    git.args(["-c", "user.name=t", "-c", "user.email=t@example.invalid", "-c", "commit.gpgsign=false"]);
    let done = git.args(args).current_dir(dir).env("GIT_CONFIG_GLOBAL", "/dev/null").output().unwrap();
    assert!(done.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&done.stderr));
}

fn repository() -> Trial {
    Trial::new(|dir| {
        git(dir, &["init", "-q", "-b", "main"]);
        fs::write(dir.join("a"), "1").unwrap();
        git(dir, &["add", "-A"]);
        git(dir, &["commit", "-qm", "first"]);
    })
}

impl Trial {
    fn hears_of_git(&self, args: &[&str]) {
        git(self.dir.path(), args);
        let until = Instant::now() + LONG;
        while self.told.recv_timeout(LONG) != Ok(Told::Git) {
            assert!(Instant::now() < until, "git {args:?} is told");
        }
        while !self.is_silent() {}
    }
}

#[test]
fn what_git_does_is_told_also_to_branches_in_folders() {
    let trial = repository();
    assert!(trial.is_silent(), "the start is quiet");
    fs::write(trial.path("b"), "1").unwrap();
    trial.hears_of_git(&["add", "b"]);
    trial.hears_of_git(&["commit", "-qm", "second"]);
    trial.hears_of_git(&["branch", "feature/deep/one"]);
    trial.hears_of_git(&["branch", "feature/deep/two"]);
    trial.hears_of_git(&["switch", "-q", "feature/deep/two"]);
    trial.hears_of_git(&["tag", "v1"]);
}

#[test]
fn a_repository_that_is_made_later_is_noticed() {
    let trial = Trial::new(|dir| fs::write(dir.join("a"), "1").unwrap());
    git(trial.dir.path(), &["init", "-q", "-b", "main"]);
    while trial.next() != Told::Git {}
    assert!(trial.watch.status().git.is_some());
    trial.hears_of_git(&["add", "a"]);
}

#[test]
fn nothing_changed_is_only_said_while_everything_is_seen() {
    let trial = repository();
    let first = trial.unchanged();
    assert!(first.is_some() && trial.unchanged() == first);
    fs::write(trial.path("a"), "2").unwrap();
    let second = trial.unchanged();
    assert!(second.is_some() && second != first, "a word of the kernel is heard before the answer");
    git(trial.dir.path(), &["branch", "other"]);
    let third = trial.unchanged();
    assert!(third.is_some() && third != second);
    fs::hard_link(trial.path("a"), trial.path("b")).unwrap();
    assert_eq!(trial.watch.unchanged(), None, "through another name a file changes unseen");
}
