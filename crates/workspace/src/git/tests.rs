use std::fs;
use std::process::Command;

use super::*;

/// Runs git as a child of the test.
#[derive(Debug)]
pub(super) struct Plain;

impl RunGit for Plain {
    fn run_git(&self, command: GitCommand) -> Result<GitRan, RunError> {
        let mut git = Command::new(command.program);
        git.args(command.args).env_clear().envs(command.env).current_dir(command.cwd);
        let mut input = tempfile::tempfile()?;
        std::io::Write::write_all(&mut input, &command.stdin)?;
        std::io::Seek::rewind(&mut input)?;
        let ran = git.stdin(input).output()?;
        let said = if command.with_stderr { ran.stderr } else { Vec::new() };
        Ok(GitRan { success: ran.status.success(), output: [said, ran.stdout].concat() })
    }
}

/// A repository in a temporary directory, and a git that knows nothing of the machine it runs on.
pub(super) struct Repo {
    base: tempfile::TempDir,
}

pub(super) fn env(home: &Path) -> Vec<(OsString, OsString)> {
    [
        ("HOME", home.as_os_str()),
        ("GIT_CONFIG_NOSYSTEM", OsStr::new("1")),
        ("GIT_AUTHOR_NAME", OsStr::new("t")),
        ("GIT_AUTHOR_EMAIL", OsStr::new("t@example.invalid")),
        ("GIT_COMMITTER_NAME", OsStr::new("t")),
        ("GIT_COMMITTER_EMAIL", OsStr::new("t@example.invalid")),
        ("LC_ALL", OsStr::new("C")),
    ]
    .map(|(name, value)| (name.into(), value.to_owned()))
    .to_vec()
}

impl Repo {
    pub(super) fn empty() -> Self {
        let repo = Repo { base: tempfile::tempdir().expect("a temporary directory") };
        fs::create_dir(repo.dir()).expect("made");
        repo.git(&["init", "-q", "-b", "main"]);
        repo
    }

    pub(super) fn new() -> Self {
        let repo = Repo::empty();
        fs::write(repo.dir().join("a.txt"), "1\n").expect("written");
        repo.git(&["add", "-A"]);
        repo.git(&["commit", "-q", "-m", "first"]);
        repo
    }

    pub(super) fn base(&self) -> PathBuf {
        self.base.path().canonicalize().expect("there")
    }

    pub(super) fn dir(&self) -> PathBuf {
        self.base().join("proj")
    }

    pub(super) fn git(&self, args: &[&str]) -> String {
        self.git_with(args, &[])
    }

    pub(super) fn git_with(&self, args: &[&str], more: &[(&str, &str)]) -> String {
        let output = Command::new("git")
            .current_dir(self.dir())
            .args(["-c", "commit.gpgsign=false"])
            .args(args)
            .env_clear()
            .envs(env(&self.base()))
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .envs(more.iter().copied())
            .output()
            .expect("git runs");
        assert!(output.status.success(), "git {args:?}: {output:?}");
        String::from_utf8(output.stdout).expect("UTF-8").trim().to_owned()
    }

    pub(super) fn at(&self, dir: &Path) -> Git {
        let path = std::env::var_os("PATH").unwrap_or_default();
        Git::new(dir, &path, &env(&self.base()), Arc::new(Plain))
    }

    pub(super) fn here(&self) -> Git {
        self.at(&self.dir())
    }

    /// A `git` of our own making, to see what happens when the real one would not do it. A child
    /// writes it: a descriptor of ours, still open for writing, could slip into another test's child
    /// and keep the program from being run.
    fn fake(&self, script: &str) -> Git {
        let bin = self.base().join("bin");
        fs::create_dir_all(&bin).expect("made");
        let status = Command::new("sh")
            .args(["-c", "printf '#!/bin/sh\n%s\n' \"$1\" >\"$2\" && chmod 755 \"$2\"", "sh", script])
            .arg(bin.join("git"))
            .status()
            .expect("sh runs");
        assert!(status.success());
        let mut path = bin.into_os_string();
        path.push(":/usr/bin:/bin");
        Git::new(&self.dir(), &path, &[], Arc::new(Plain))
    }
}

fn new<'a>(branch: &'a str, path: &'a str, source: Option<&'a str>) -> NewWorktree<'a> {
    NewWorktree { branch: OsStr::new(branch), path: OsStr::new(path), source: source.map(OsStr::new) }
}

fn said(error: WorktreeError) -> String {
    match error {
        WorktreeError::Refused(text) => String::from_utf8(text).expect("UTF-8"),
        other => panic!("{other}"),
    }
}

#[test]
fn a_repository_tells_its_root_and_branch() {
    let repo = Repo::new();
    let sub = repo.dir().join("sub/deep");
    fs::create_dir_all(&sub).expect("made");
    let info = repo.at(&sub).info().expect("a repository");
    assert_eq!(info.root, repo.dir());
    assert_eq!(info.name(), "proj");
    assert_eq!(info.head, Head::Branch("main".into()));
    assert_eq!((info.slug, info.default_branch), (None, None));
}

#[test]
fn what_is_no_work_tree_is_no_repository() {
    let repo = Repo::new();
    for dir in [
        repo.base(),
        repo.base().join("none"),
        repo.dir().join("a.txt"),
        repo.dir().join(".git"),
        "a\0b".into(),
        "-x".into(),
        "--version".into(),
    ] {
        let git = repo.at(&dir);
        assert_eq!(git.info(), None, "{}", dir.display());
        assert_eq!(git.status().expect("ran"), None);
        assert_eq!(git.branches().expect("ran"), None);
        assert!(matches!(git.create_worktree(&new("b", "w", None)), Err(WorktreeError::NotARepo)));
    }
}

#[test]
fn a_branch_without_commits_and_a_detached_head_are_told() {
    let repo = Repo::empty();
    let head = |repo: &Repo| repo.here().info().expect("a repository").head;
    assert_eq!(head(&repo), Head::Branch("main".into()));
    let repo = Repo::new();
    repo.git(&["tag", "main"]);
    assert_eq!(head(&repo), Head::Branch("main".into()), "a tag of the same name changes nothing");
    repo.git(&["checkout", "-q", "--detach"]);
    let short = repo.git(&["rev-parse", "--short", "HEAD"]);
    assert_eq!(head(&repo), Head::Detached(short.into()));
}

#[test]
fn the_remote_gives_slug_and_default_branch() {
    let repo = Repo::new();
    repo.git(&["remote", "add", "origin", "git@github.com:owner/repo.git"]);
    repo.git(&["symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/rel/9"]);
    let info = repo.here().info().expect("a repository");
    assert_eq!(info.slug, Some("owner/repo".into()));
    assert_eq!(info.default_branch, Some("rel/9".into()));
}

#[test]
fn variables_that_name_another_repository_are_not_passed_on() {
    let repo = Repo::new();
    let mut vars = env(&repo.base());
    vars.push(("GIT_DIR".into(), repo.dir().join(".git").into()));
    let path = std::env::var_os("PATH").unwrap_or_default();
    assert_eq!(Git::new(&repo.base(), &path, &vars, Arc::new(Plain)).info(), None);
}

#[test]
fn a_difference_holds_changes_and_new_files_and_runs_nothing() {
    let repo = Repo::new();
    let trap = repo.base().join("ran");
    let trapped = format!("touch {}; true", trap.display());
    for name in ["diff.external", "core.fsmonitor", "filter.x.clean", "diff.y.textconv"] {
        repo.git(&["config", name, &trapped]);
    }
    fs::write(repo.dir().join(".gitattributes"), "a.txt filter=x diff=y\n").expect("written");
    fs::write(repo.dir().join("a.txt"), "1\n2\n").expect("written");
    fs::write(repo.dir().join("-"), "new\n").expect("written");
    let git = repo.at(&repo.dir()).guarded().expect("guarded");
    let text = String::from_utf8(changes(&git, u64::MAX).diff).expect("UTF-8");
    assert!(text.contains("+2\n") && text.contains("+new\n") && text.contains("b/./-\n"), "{text}");
    assert!(!trap.exists(), "something of the repository's ran");
    let empty = Repo::empty();
    fs::write(empty.dir().join("b.txt"), "first\n").expect("written");
    let text = changes(&empty.at(&empty.dir()), u64::MAX).diff;
    assert!(String::from_utf8_lossy(&text).contains("+first\n"));
    assert!(empty.at(&empty.base()).changes_since(0).expect("git runs").is_none());
}

fn changes(git: &Git, since: u64) -> Changes {
    git.changes_since(since).expect("git runs").expect("a repository")
}

fn commits(changes: &Changes) -> Option<Vec<String>> {
    let subject = |line: &Vec<u8>| String::from_utf8_lossy(line).split_once(": ").map(|(_, what)| what.to_owned());
    changes.commits.as_ref().map(|all| all.iter().filter_map(subject).collect())
}

/// Commits at a second of the clock, which is what the reflog goes by.
fn commit_at(repo: &Repo, second: u64, what: &str) {
    fs::write(repo.dir().join("a.txt"), what).expect("written");
    let at = format!("@{second} +0000");
    repo.git_with(&["commit", "-q", "-a", "-m", what], &[("GIT_COMMITTER_DATE", &at), ("GIT_AUTHOR_DATE", &at)]);
}

#[test]
fn what_was_committed_since_then_is_told_with_the_whole_difference() {
    let repo = Repo::empty();
    fs::write(repo.dir().join("a.txt"), "1\n").expect("written");
    repo.git(&["add", "-A"]);
    commit_at(&repo, 1000, "first");
    commit_at(&repo, 2000, "second");
    commit_at(&repo, 3000, "third");
    fs::write(repo.dir().join("new"), "not committed\n").expect("written");
    let git = repo.at(&repo.dir()).guarded().expect("guarded");
    let since = |second| changes(&git, second);
    assert_eq!(commits(&since(3000)), Some(vec![]));
    assert_eq!(commits(&since(1500)), Some(vec!["third".into(), "second".into()]));
    let diff = String::from_utf8(since(1500).diff).expect("UTF-8");
    assert!(diff.contains("-first") && diff.contains("+third") && diff.contains("+not committed"), "{diff}");
    assert!(!diff.contains("+second"), "what lies between does not show: {diff}");
    assert_eq!(commits(&since(500)).map(|all| all.len()), Some(3), "it began before the first commit");
}

#[test]
fn where_nobody_knows_how_it_stood_only_what_is_not_committed_is_shown() {
    let repo = Repo::new();
    commit_at(&repo, 2000, "second");
    let git = repo.at(&repo.dir()).guarded().expect("guarded");
    // Another history since then.
    repo.git(&["checkout", "-q", "--orphan", "other"]);
    repo.git(&["commit", "-q", "-m", "elsewhere"]);
    fs::write(repo.dir().join("a.txt"), "now\n").expect("written");
    let changed = changes(&git, 2000);
    assert_eq!(changed.commits, None);
    assert!(String::from_utf8_lossy(&changed.diff).contains("+now"));
    // Nothing was written down.
    fs::remove_dir_all(repo.dir().join(".git/logs")).expect("there");
    assert_eq!(changes(&git, u64::MAX).commits, None);
}

#[test]
fn a_work_tree_begins_where_it_was_made() {
    let repo = Repo::new();
    let tree = repo.base().join("tree");
    repo.git(&["worktree", "add", "-q", "-b", "own", tree.to_str().expect("UTF-8")]);
    let git = repo.at(&tree).guarded().expect("guarded");
    assert_eq!(commits(&changes(&git, 0)), Some(vec![]), "also if its session is older than it by the clock");
}

#[test]
fn changes_are_listed_without_surrounding_blanks() {
    let repo = Repo::new();
    let changes = || -> Vec<String> {
        let lines = repo.here().status().expect("ran").expect("a repository");
        lines.into_iter().map(|line| String::from_utf8(line).expect("UTF-8")).collect()
    };
    assert!(changes().is_empty());
    fs::write(repo.dir().join("a.txt"), "2\n").expect("written");
    fs::write(repo.dir().join("new"), "").expect("written");
    assert_eq!(changes(), ["M a.txt", "?? new"]);
    repo.git(&["add", "-A"]);
    assert_eq!(changes(), ["M  a.txt", "A  new"]);
    fs::write(repo.dir().join(".git/index"), "junk").expect("written");
    let why = repo.here().status().expect_err("no index").to_string();
    assert!(why.starts_with("status failed: ") && why.contains("index"), "{why}");
}

#[test]
fn status_does_not_run_the_monitor_that_a_repository_names() {
    let repo = Repo::new();
    let trap = repo.base().join("trap");
    let script = repo.base().join("evil.sh");
    fs::write(&script, format!("#!/bin/sh\ntouch {}\n", trap.display())).expect("written");
    repo.git(&["config", "core.fsmonitor", &format!("sh {}", script.display())]);
    repo.here().status().expect("ran");
    assert!(!trap.exists());
}

#[test]
fn branches_come_in_byte_order() {
    let repo = Repo::new();
    for name in ["b", "Z", "feature/x", "a"] {
        repo.git(&["branch", name]);
    }
    repo.git(&["tag", "a"]);
    let names = repo.here().branches().expect("ran").expect("a repository");
    assert_eq!(names, ["Z", "a", "b", "feature/x", "main"]);
    assert_eq!(Repo::empty().here().branches().expect("ran"), Some(Vec::new()));
}

#[test]
fn a_worktree_starts_from_the_current_branch_or_the_one_given() {
    let repo = Repo::new();
    let path = repo.base().join("w1").into_os_string();
    let path = path.to_str().expect("UTF-8");
    let made = repo.here().create_worktree(&new("w1", path, None)).expect("made");
    assert_eq!(made.source, Some("main".into()));
    assert!(Path::new(path).join("a.txt").is_file());
    assert!(repo.here().remove_worktree(OsStr::new(path)).expect("ran"));
    assert!(!Path::new(path).exists());
    assert!(!repo.here().remove_worktree(OsStr::new(path)).expect("ran"));
    let made = repo.here().create_worktree(&new("w2", "rel", Some("w1"))).expect("made");
    assert_eq!(made.source, Some("w1".into()));
    assert!(repo.dir().join("rel/a.txt").is_file());
}

#[test]
fn a_branch_that_is_there_is_taken_unless_another_work_tree_has_it() {
    let repo = Repo::new();
    repo.git(&["branch", "topic"]);
    repo.git(&["branch", "topic-2"]);
    let tree = |name: &str| repo.base().join(name).display().to_string();
    let git = repo.here();
    git.worktree_on(&new("topic", &tree("one"), None)).expect("taken");
    assert_eq!(repo.at(&repo.base().join("one")).info().expect("a work tree").head, Head::Branch("topic".into()));
    let again = git.worktree_on(&new("topic", &tree("two"), None));
    assert!(matches!(again, Err(WorktreeError::CheckedOut { path, .. }) if path == repo.base().join("one")));
    let main = git.worktree_on(&new("main", &tree("two"), None));
    assert!(matches!(main, Err(WorktreeError::CheckedOut { path, .. }) if path == repo.dir()));
    git.worktree_on(&new("fresh", &tree("two"), None)).expect("made");
    assert!(git.worktree_on(&new("-D", &tree("three"), None)).is_err());
}

#[test]
fn a_worktree_of_an_empty_repository_is_an_orphan() {
    let repo = Repo::empty();
    let made = repo.here().create_worktree(&new("orph", "../ow", None)).expect("made");
    assert_eq!(made.source, None);
    let head = repo.at(&repo.base().join("ow")).info().expect("a repository").head;
    assert_eq!(head, Head::Branch("orph".into()));
}

#[test]
fn git_words_its_own_refusals() {
    let repo = Repo::new();
    let refusal = |new: NewWorktree<'_>| said(repo.here().create_worktree(&new).expect_err("refused"));
    assert!(refusal(new("main", "../w", None)).contains("'main' already exists"));
    assert!(refusal(new("w", "../w", Some("no-such"))).contains("no-such"));
    assert!(refusal(new("bad..name", "../w", None)).contains("valid branch name"));
    assert!(!refusal(new("w9", "", None)).is_empty());
    assert_eq!(repo.git(&["branch", "--list", "w9"]), "");
}

#[test]
fn names_that_look_like_options_are_not_options() {
    let repo = Repo::new();
    repo.git(&["branch", "victim"]);
    let refusal = |new: NewWorktree<'_>| said(repo.here().create_worktree(&new).expect_err("refused"));
    for branch in ["-D", "--foo", "-", "--help"] {
        assert_eq!(
            refusal(new(branch, "../w", Some("victim"))),
            format!("fatal: '{branch}' is not a valid branch name")
        );
    }
    assert_ne!(repo.git(&["branch", "--list", "victim"]), "");
    assert!(refusal(new("w", "../w", Some("--detach"))).contains("invalid reference: --detach"));
    repo.here().create_worktree(&new("w", "-x", None)).expect("a path may begin with a dash");
    assert!(repo.dir().join("-x/a.txt").is_file());
    assert!(repo.here().remove_worktree(OsStr::new("-x")).expect("ran"));
    assert!(!repo.dir().join("-x").exists());
}

#[test]
fn a_nul_byte_is_an_error_and_not_a_shorter_name() {
    let repo = Repo::new();
    let result = repo.here().create_worktree(&new("a\0b", "../w", None));
    assert!(matches!(result, Err(WorktreeError::Run(RunError::Io(_)))));
    assert_eq!(repo.git(&["branch", "--list", "a"]), "");
}

#[test]
fn without_git_nothing_is_a_repository() {
    let repo = Repo::new();
    let git = Git::new(&repo.dir(), OsStr::new("/nowhere:relative"), &[], Arc::new(Plain));
    assert_eq!(git.info(), None);
    assert!(matches!(git.change(["gc"]), Err(RunError::NotFound)));
}

#[test]
fn git_is_looked_up_in_the_path_given() {
    let repo = Repo::new();
    let git = repo.fake("echo true");
    assert!(git.is_repo());
    assert_eq!(git.status().expect("ran"), Some(vec![b"true".to_vec()]));
}

#[test]
fn a_command_is_bounded_and_asks_nobody() {
    let git = Repo::new().here();
    let command = git.command(["gc"]).expect("whole");
    assert_eq!((command.within, command.with_stderr, command.cwd), (DEADLINE, false, PathBuf::from("/")));
    assert!(command.env.contains(&("GIT_TERMINAL_PROMPT".into(), "0".into())));
}

/// Writes a program; a child does it, see [`Repo::fake`].
fn program(path: &Path, line: &str) {
    let status = Command::new("sh")
        .args(["-c", "printf '#!/bin/sh\n%s\n' \"$1\" >\"$2\" && chmod 755 \"$2\"", "sh", line])
        .arg(path)
        .status()
        .expect("sh runs");
    assert!(status.success());
}

/// A repository whose own configuration names a program at every place where git would run one.
fn hostile() -> (Repo, PathBuf) {
    let repo = Repo::new();
    let trap = repo.base().join("trapped");
    let line = format!("touch {}; cat", trap.display());
    fs::write(repo.dir().join(".gitattributes"), "* filter=trap\n").expect("written");
    repo.git(&["add", "-A"]);
    repo.git(&["commit", "-q", "-m", "attributes"]);
    for key in ["core.fsmonitor", "filter.trap.smudge", "filter.trap.clean"] {
        repo.git(&["config", key, &line]);
    }
    repo.git(&["config", "filter.trap.required", "true"]);
    program(&repo.dir().join(".git/hooks/post-checkout"), &line);
    program(&repo.dir().join(".git/hooks/reference-transaction"), &line);
    let _ = fs::remove_file(&trap);
    (repo, trap)
}

#[test]
fn nothing_runs_that_the_repository_names() {
    let (repo, trap) = hostile();
    let tree = |name: &str| repo.base().join(name).display().to_string();
    repo.git(&["worktree", "add", "-q", &tree("plain")]);
    assert!(trap.exists(), "without the guards the trap would not show anything");
    fs::remove_file(&trap).expect("there");
    let git = repo.here();
    git.create_worktree(&new("ostler/one", &tree("one"), None)).expect("made");
    assert_eq!(fs::read_to_string(repo.base().join("one/a.txt")).expect("checked out"), "1\n");
    // A file whose time has changed is compared anew.
    fs::write(repo.dir().join("a.txt"), "2\n").expect("written");
    assert_eq!(git.status().expect("ran"), Some(vec![b"M a.txt".to_vec()]));
    git.info().expect("a repository");
    git.branches().expect("ran");
    assert!(git.remove_worktree(OsStr::new(&tree("one"))).expect("ran"));
    git.worktree_on(&new("ostler/one", &tree("two"), None)).expect("made");
    let git = repo.at(&repo.base().join("two")).guarded().expect("guarded");
    let left = git.leave_worktree(&repo.base().join("two"), "ostler/").expect("git runs");
    assert_eq!(left, Left::Removed { branch: Some("ostler/one".into()), branch_removed: true });
    assert!(!trap.exists());
    assert!(!repo.git(&["branch", "--list"]).contains("ostler/one"));
}

#[test]
fn what_the_users_own_configuration_names_runs_whatever_the_repository_says_of_it() {
    let (repo, trap) = hostile();
    let (smudged, hooked) = (repo.base().join("smudged"), repo.base().join("hooked"));
    let hooks = repo.base().join("hooks");
    fs::create_dir(&hooks).expect("made");
    program(&hooks.join("post-checkout"), &format!("touch {}", hooked.display()));
    let settings = format!(
        "[filter \"trap\"]\n\tsmudge = \"touch {}; cat\"\n\tclean = cat\n[core]\n\thooksPath = {}\n",
        smudged.display(),
        hooks.display()
    );
    fs::write(repo.base().join(".gitconfig"), settings).expect("written");
    let tree = repo.base().join("tree");
    repo.here().create_worktree(&new("w", tree.to_str().expect("UTF-8"), None)).expect("made");
    assert!(smudged.exists() && hooked.exists() && !trap.exists());
}

#[test]
fn settings_of_the_environment_stay_and_ours_are_stronger() {
    let repo = Repo::new();
    let mut vars = env(&repo.base());
    for (name, value) in [("COUNT", "1"), ("KEY_0", "remote.origin.url"), ("VALUE_0", "git@github.com:owner/repo.git")]
    {
        vars.push((format!("GIT_CONFIG_{name}").into(), value.into()));
    }
    vars.push(("GIT_CONFIG_KEY_1".into(), "core.fsmonitor".into()));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let git = Git::new(&repo.dir(), &path, &vars, Arc::new(Plain));
    assert_eq!(git.info().expect("a repository").slug, Some("owner/repo".into()));
    assert_eq!(git.line(["config", "--get", "core.fsmonitor"]), Some(b"false".to_vec()));
}

#[test]
fn a_worktree_with_changes_stays_and_commits_keep_their_branch() {
    let repo = Repo::new();
    let make = |branch: &str| {
        let tree = repo.base().join(branch.replace('/', "-"));
        let git = repo.here().guarded().expect("guarded");
        git.create_worktree(&new(branch, tree.to_str().expect("UTF-8"), None)).expect("made");
        tree
    };
    let leave = |tree: &Path| repo.at(tree).guarded().expect("guarded").leave_worktree(tree, "ostler/").expect("runs");
    for (branch, file) in [("ostler/new", "fresh.txt"), ("ostler/changed", "a.txt")] {
        let tree = make(branch);
        fs::write(tree.join(file), "2\n").expect("written");
        assert!(matches!(leave(&tree), Left::Kept { why, .. } if why.contains("not committed")), "{branch}");
        assert!(tree.join(file).exists());
    }
    let tree = make("ostler/committed");
    fs::write(tree.join("a.txt"), "2\n").expect("written");
    let status = Command::new("git")
        .args(["-c", "commit.gpgsign=false", "commit", "-qam", "work"])
        .current_dir(&tree)
        .env_clear()
        .envs(env(&repo.base()))
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .status();
    assert!(status.expect("git runs").success());
    assert_eq!(leave(&tree), Left::Removed { branch: Some("ostler/committed".into()), branch_removed: false });
    assert!(repo.git(&["log", "--format=%s", "ostler/committed"]).starts_with("work"));
    let tree = make("mine");
    assert!(matches!(leave(&tree), Left::Removed { branch_removed: false, .. }));
    let nowhere = repo.base().join("nowhere");
    fs::create_dir(&nowhere).expect("made");
    assert!(matches!(leave(&nowhere), Left::Kept { .. }));
}

#[test]
fn commits_that_are_on_no_branch_keep_their_worktree() {
    let repo = Repo::new();
    let tree = repo.base().join("stray");
    let git = repo.here().guarded().expect("guarded");
    git.create_worktree(&new("ostler/stray", tree.to_str().expect("UTF-8"), None)).expect("made");
    let run = |args: &[&str]| {
        let mut git = Command::new("git");
        git.args(["-c", "commit.gpgsign=false"]).args(args).current_dir(&tree).env_clear().envs(env(&repo.base()));
        let status = git.env("PATH", std::env::var_os("PATH").unwrap_or_default()).status();
        assert!(status.expect("git runs").success(), "{args:?}");
    };
    let here = repo.at(&tree).guarded().expect("guarded");
    run(&["checkout", "-q", "--detach"]);
    assert_eq!(here.unsaved().expect("runs"), None);
    run(&["commit", "-q", "--allow-empty", "-m", "nowhere else"]);
    let left = here.leave_worktree(&tree, "ostler/").expect("runs");
    assert!(matches!(left, Left::Kept { why, .. } if why.contains("on no branch")));
    assert!(tree.exists());
    assert!(here.drop_worktree(&tree).expect("runs") && !tree.exists());
    assert!(!repo.git(&["worktree", "list"]).contains("stray"));
}

#[test]
fn nothing_that_a_submodule_names_runs_when_a_worktree_is_left() {
    let repo = Repo::new();
    repo.git(&["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "./", "module"]);
    repo.git(&["commit", "-q", "-m", "with a module"]);
    let tree = repo.base().join("tree");
    let git = repo.here().guarded().expect("guarded");
    git.create_worktree(&new("ostler/tree", tree.to_str().expect("UTF-8"), None)).expect("made");
    let here = repo.at(&tree).guarded().expect("guarded");
    assert_eq!(here.unsaved().expect("runs"), None, "the folder of a module that nobody filled is nothing");
    let ran = repo.base().join("ran");
    let run = |folder: &Path, args: &[&str]| {
        let mut git = Command::new("git");
        git.args(args).current_dir(folder).env_clear().envs(env(&repo.base()));
        let status = git.env("PATH", std::env::var_os("PATH").unwrap_or_default()).status();
        assert!(status.expect("git runs").success(), "{args:?}");
    };
    run(&tree, &["-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init"]);
    let module = tree.join("module");
    run(&module, &["config", "core.fsmonitor", &format!("echo >>{}; false", ran.display())]);
    run(&module, &["status", "--porcelain"]);
    assert!(ran.exists(), "the module's own git runs it");
    fs::remove_file(&ran).expect("removed");
    let left = here.leave_worktree(&tree, "ostler/").expect("runs");
    assert!(matches!(&left, Left::Kept { why, .. } if why.contains("submodule")), "{left:?}");
    assert!(module.join("a.txt").exists() && !ran.exists());
}
