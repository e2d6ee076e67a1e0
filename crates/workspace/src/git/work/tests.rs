use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use super::*;
use crate::git::tests::Repo;

/// A work tree for the root of a repository, or for a folder in it.
pub(super) fn open(repo: &Repo, folder: &str) -> WorkTree {
    let dir = if folder.is_empty() { repo.dir() } else { repo.dir().join(folder) };
    try_open(repo, &dir).expect("a work tree")
}

fn try_open(repo: &Repo, dir: &Path) -> Result<WorkTree, GitError> {
    WorkTree::open(&repo.at(dir), Root::open(dir).expect("a folder"))
}

pub(super) fn write(repo: &Repo, path: &str, content: &str) {
    let path = repo.dir().join(path);
    fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    fs::write(path, content).expect("written");
}

/// Runs what a hosted process would.
pub(super) fn host(repo: &Repo, command: &HostedGit) -> (bool, String) {
    let mut git = Command::new(&command.program);
    git.args(&command.args).current_dir(&command.cwd).env_clear().envs(super::super::tests::env(&repo.base()));
    git.env("PATH", std::env::var_os("PATH").unwrap_or_default()).envs(command.env.iter().cloned());
    let ran = git.stdin(std::process::Stdio::null()).output().expect("git runs");
    (ran.status.success(), String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned())
}

fn letters(status: &Status) -> Vec<String> {
    let letter = |change: &Change<PathBuf>| {
        let from = change.from.as_ref().map_or(String::new(), |from| format!(" from {}", from.display()));
        format!("{}{} {}{from}", char::from(change.index), char::from(change.work), change.path.display())
    };
    status.changed.iter().map(letter).collect()
}

#[test]
fn a_status_tells_branch_upstream_and_every_sort_of_change() {
    let repo = Repo::new();
    write(&repo, "gone", "x\n");
    write(&repo, "old name", "a\nb\nc\nd\n");
    repo.git(&["add", "-A"]);
    repo.git(&["commit", "-qm", "second"]);
    repo.git(&["clone", "-q", "--bare", ".", "../origin"]);
    repo.git(&["remote", "add", "origin", "../origin"]);
    repo.git(&["fetch", "-q", "origin"]);
    repo.git(&["branch", "-q", "--set-upstream-to=origin/main"]);
    repo.git(&["commit", "-qm", "third", "--allow-empty"]);
    write(&repo, "a.txt", "2\n");
    repo.git(&["add", "a.txt"]);
    write(&repo, "a.txt", "3\n3\n");
    fs::remove_file(repo.dir().join("gone")).unwrap();
    repo.git(&["mv", "old name", "new name"]);
    write(&repo, "dir/one", "");
    write(&repo, "dir/two", "");
    let status = open(&repo, "").status(Untracked::Folders).unwrap();
    assert_eq!(status.branch.name.as_deref(), Some(b"main".as_slice()));
    assert_eq!(status.branch.upstream.as_deref(), Some(b"origin/main".as_slice()));
    assert_eq!(status.branch.ahead_behind, Some((1, 0)));
    assert_eq!(letters(&status), ["MM a.txt", ".D gone", "R. new name from old name"]);
    assert_eq!(status.untracked, [PathBuf::from("dir/")]);
    let all = open(&repo, "").status(Untracked::All).unwrap();
    assert_eq!(all.untracked, [PathBuf::from("dir/one"), PathBuf::from("dir/two")]);
    let counts = open(&repo, "").line_counts(false).unwrap();
    assert_eq!(counts.get(Path::new("a.txt")), Some(&Some((2, 1))));
    assert_eq!(open(&repo, "").line_counts(true).unwrap().get(Path::new("new name")), Some(&Some((0, 0))));
}

#[test]
fn a_part_of_a_repository_shows_and_touches_nothing_outside() {
    let repo = Repo::new();
    write(&repo, "sub/in", "1\n");
    repo.git(&["add", "-A"]);
    repo.git(&["commit", "-qm", "sub"]);
    write(&repo, "sub/in", "2\n");
    write(&repo, "sub/new", "n\n");
    write(&repo, "a.txt", "2\n");
    write(&repo, "other", "");
    let part = open(&repo, "sub");
    let status = part.status(Untracked::All).unwrap();
    assert_eq!((letters(&status), status.untracked), (vec![".M in".to_owned()], vec![PathBuf::from("new")]));
    let diff = part.diff(&DiffOf::Unstaged, None).unwrap();
    assert_eq!(
        diff.files.iter().map(|file| file.path.as_path()).collect::<Vec<_>>(),
        [Path::new("in"), Path::new("new")]
    );
    for path in ["../a.txt", "/etc/passwd", "x/../../a.txt", ""] {
        let path = PathBuf::from(path);
        assert!(matches!(part.stage(std::slice::from_ref(&path)), Err(GitError::Path(_))), "{}", path.display());
        assert!(matches!(part.diff(&DiffOf::Unstaged, Some(&path)), Err(GitError::Path(_))));
        let discard = Discard { paths: std::slice::from_ref(&path), staged: true, keep_in: None };
        assert!(matches!(part.discard(discard), Err(GitError::Path(_))));
    }
    part.stage(&["in".into(), "new".into()]).unwrap();
    assert_eq!(repo.git(&["diff", "--cached", "--name-only"]), "sub/in\nsub/new");
    let patch = part.diff(&DiffOf::Staged, Some(Path::new("in"))).unwrap();
    let Patch::Text { text, .. } = &patch.files[0].patch else { panic!() };
    part.stage_patch(text, true).unwrap();
    assert_eq!(repo.git(&["diff", "--cached", "--name-only"]), "sub/new");
    part.stage_patch(text, false).unwrap();
    assert_eq!(repo.git(&["diff", "--cached", "--name-only"]), "sub/in\nsub/new");
    assert!(
        part.stash(None, true).is_err()
            && part.commit_command(&Commit { message: Some("x"), ..Commit::default() }).is_err()
    );
}

#[test]
fn what_is_no_work_tree_says_why() {
    let repo = Repo::new();
    assert!(matches!(try_open(&repo, &repo.base()), Err(GitError::NotARepository(_))));
    repo.git(&["clone", "-q", "--bare", ".", "../bare"]);
    assert!(matches!(try_open(&repo, &repo.base().join("bare")), Err(GitError::Bare(_))));
    assert!(matches!(try_open(&repo, &repo.dir().join(".git")), Err(GitError::NotARepository(_))));
    let mut foreign = repo.at(&repo.dir());
    set(&mut foreign.env, "GIT_TEST_ASSUME_DIFFERENT_OWNER", "1");
    let said = WorkTree::open(&foreign, Root::open(&repo.dir()).unwrap()).unwrap_err();
    assert!(matches!(said, GitError::Owner(_)), "{said}");
}

#[test]
fn unborn_detached_shallow_and_unfinished_are_told() {
    let repo = Repo::empty();
    let unborn = open(&repo, "").status(Untracked::All).unwrap();
    assert_eq!((unborn.branch.commit, unborn.branch.name.as_deref()), (None, Some(b"main".as_slice())));
    assert_eq!(open(&repo, "").log(None, None, 0, 10).unwrap(), []);
    let nothing = open(&repo, "").stood_at(u64::MAX).unwrap().unwrap();
    assert!(open(&repo, "").diff(&DiffOf::Since(nothing.into()), None).unwrap().files.is_empty());
    write(&repo, "f", "1\n");
    open(&repo, "").stage(&["f".into()]).unwrap();
    open(&repo, "").unstage(&["f".into()]).unwrap();
    assert_eq!(open(&repo, "").status(Untracked::All).unwrap().untracked, [PathBuf::from("f")]);
    repo.git(&["add", "f"]);
    repo.git(&["commit", "-qm", "one"]);
    repo.git(&["switch", "-qc", "side"]);
    write(&repo, "f", "side\n");
    repo.git(&["commit", "-qam", "side"]);
    repo.git(&["switch", "-q", "main"]);
    write(&repo, "f", "main\n");
    repo.git(&["commit", "-qam", "main"]);
    let tree = open(&repo, "");
    let merge = tree.merge_command(&Merge { name: OsStr::new("side"), fast_forward: None, message: None }).unwrap();
    assert!(!host(&repo, &merge).0);
    let status = tree.status(Untracked::All).unwrap();
    assert_eq!(status.operation, Some(Operation::Merge));
    assert_eq!(status.conflicted.iter().map(|change| (change.index, change.work)).collect::<Vec<_>>(), [(b'U', b'U')]);
    assert_eq!(tree.diff(&DiffOf::Unstaged, None).unwrap().files[0].letter, b'U');
    assert!(tree.commit_command(&Commit { message: Some("x"), ..Commit::default() }).is_err());
    tree.abort_merge().unwrap();
    assert!(tree.abort_merge().is_err() && tree.operation().is_none());
    let rebase = ["-c", "user.name=t", "-c", "user.email=t@example.invalid", "rebase", "side"];
    let stopped = Command::new("git").current_dir(repo.dir()).args(rebase).output().unwrap();
    assert!(!stopped.status.success());
    let status = tree.status(Untracked::All).unwrap();
    assert_eq!((status.operation, status.branch.name), (Some(Operation::Rebase), None));
    assert_eq!(status.conflicted.len(), 1);
    repo.git(&["rebase", "--abort"]);
    assert_eq!(tree.operation(), None);
    let detach = tree.switch_command(SwitchTo::Commit(OsStr::new("side"))).unwrap();
    assert!(host(&repo, &detach).0);
    assert_eq!(tree.status(Untracked::All).unwrap().branch.name, None);
    repo.git(&["clone", "-q", "--depth=1", &format!("file://{}", repo.dir().display()), "../shallow"]);
    let shallow = try_open(&repo, &repo.base().join("shallow")).unwrap();
    assert!(shallow.status(Untracked::No).unwrap().shallow);
}

#[test]
fn looking_runs_nothing_that_the_repository_names() {
    let repo = Repo::new();
    let mark = repo.base().join("ran");
    let script = format!("touch {}; cat", mark.display());
    for key in ["filter.evil.clean", "filter.evil.smudge", "diff.external", "diff.evil.textconv", "core.fsmonitor"] {
        repo.git(&["config", key, &format!("sh -c '{script}'")]);
    }
    write(&repo, ".gitattributes", "* filter=evil diff=evil\n");
    write(&repo, "a.txt", "2\n");
    let tree = open(&repo, "");
    assert_eq!(tree.status(Untracked::All).unwrap().filters_left_out, ["evil"]);
    let left_out = ["evil", "diff.evil", "diff.external"];
    assert_eq!(tree.diff(&DiffOf::Unstaged, None).unwrap().left_out, left_out);
    assert_eq!(tree.diff(&DiffOf::Since("HEAD".into()), None).unwrap().left_out, left_out);
    tree.line_counts(false).unwrap();
    tree.log(None, None, 0, 5).unwrap();
    tree.branches().unwrap();
    tree.stashes().unwrap();
    tree.trees().unwrap();
    assert!(!mark.exists(), "a program of the repository ran");
    // The positive control: who changes something gets what the repository's people mean by it.
    tree.stage(&["a.txt".into()]).unwrap();
    assert!(mark.exists());
}

#[test]
fn what_the_user_has_make_text_of_files_does_so_unless_the_repository_names_such_a_program() {
    let repo = Repo::new();
    fs::write(repo.base().join(".gitconfig"), "[diff \"mine\"]\n\ttextconv = sed s/^/converted:/\n").unwrap();
    write(&repo, ".gitattributes", "*.txt diff=mine\n");
    write(&repo, "a.txt", "2\n");
    let drawn = |diffs: Diffs| {
        let Patch::Text { text, .. } = &diffs.files[0].patch else { panic!() };
        (String::from_utf8_lossy(text).contains("\n-converted:1\n+converted:2\n"), diffs.left_out)
    };
    let (of, path) = (DiffOf::Unstaged, Some(Path::new("a.txt")));
    assert_eq!(drawn(open(&repo, "").diff(&of, path).unwrap()), (true, vec![]));
    // Hunks are staged by what the file holds.
    let plain = open(&repo, "").plain_diff(&of, path).unwrap();
    let Patch::Text { text, .. } = &plain.files[0].patch else { panic!() };
    open(&repo, "").stage_patch(text, false).unwrap();
    assert_eq!(repo.git(&["show", ":a.txt"]), "2");
    assert_eq!(drawn(plain), (false, vec![]));
    repo.git(&["commit", "-qm", "two"]);
    let commit = DiffOf::Commit("HEAD".into());
    assert_eq!(drawn(open(&repo, "").diff(&commit, path).unwrap()), (true, vec![]));
    // The repository's word for the same driver counts for nothing.
    repo.git(&["config", "diff.mine.textconv", "false"]);
    assert_eq!(drawn(open(&repo, "").diff(&commit, path).unwrap()), (true, vec![]));
    // Git can leave out only all of them; all are named.
    repo.git(&["config", "diff.theirs.textconv", "false"]);
    let left_out = vec!["diff.mine".to_owned(), "diff.theirs".to_owned()];
    assert_eq!(drawn(open(&repo, "").diff(&commit, path).unwrap()), (false, left_out));
}

#[test]
fn a_diff_reads_no_file_outside_of_the_workspace() {
    let repo = Repo::new();
    fs::write(repo.base().join("secret"), "secret\n").unwrap();
    symlink("../secret", repo.dir().join("link")).unwrap();
    symlink("..", repo.dir().join("up")).unwrap();
    let tree = open(&repo, "");
    for path in ["link", "up/secret", "up", "link/x"] {
        let diffs = match tree.diff(&DiffOf::Unstaged, Some(Path::new(path))) {
            Ok(diffs) => diffs,
            // Git refuses to look behind a link.
            Err(GitError::Failed { said, .. }) => {
                assert!(said.contains("beyond a symbolic link"), "{said}");
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        for file in diffs.files {
            let Patch::Text { text, .. } = file.patch else { panic!() };
            let text = String::from_utf8(text).unwrap();
            assert!(!text.contains("+secret\n") && text.contains("120000"), "{text}");
        }
    }
}

#[test]
fn a_diff_tells_new_renamed_binary_deleted_links_and_submodules_apart() {
    let repo = Repo::new();
    write(&repo, "old", "1\n2\n3\n4\n5\n");
    write(&repo, "bin", "a\0b");
    write(&repo, "gone", "x\n");
    write(&repo, "kind", "file\n");
    repo.git(&["add", "-A"]);
    repo.git(&["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "./", "module"]);
    repo.git(&["commit", "-qm", "second"]);
    repo.git(&["mv", "old", "new"]);
    write(&repo, "bin", "a\0c");
    repo.git(&["rm", "-q", "gone"]);
    fs::remove_file(repo.dir().join("kind")).unwrap();
    symlink("a.txt", repo.dir().join("kind")).unwrap();
    repo.git(&["-C", "module", "commit", "-q", "--allow-empty", "-m", "x"]);
    repo.git(&["add", "-A"]);
    write(&repo, "fresh", "one\ntwo");
    let tree = open(&repo, "");
    let staged = tree.diff(&DiffOf::Staged, None).unwrap();
    let told: Vec<String> = staged
        .files
        .iter()
        .map(|file| {
            let lines = match &file.patch {
                Patch::Text { added, removed, .. } => format!("+{added} -{removed}"),
                other => format!("{other:?}"),
            };
            format!(
                "{} {} {lines}{}",
                char::from(file.letter),
                file.path.display(),
                if file.submodule { " sub" } else { "" }
            )
        })
        .collect();
    assert_eq!(told, ["M bin Binary", "D gone +0 -1", "T kind +1 -1", "M module +1 -1 sub", "R new +0 -0"]);
    assert_eq!(staged.files[4].from.as_deref(), Some(Path::new("old")));
    let new = tree.diff(&DiffOf::Unstaged, None).unwrap();
    let Patch::Text { text, added, .. } = &new.files[0].patch else { panic!() };
    assert_eq!((new.files[0].letter, *added), (b'?', 2));
    let theirs =
        Command::new("git").current_dir(repo.dir()).args(["diff", "--no-index", "/dev/null", "fresh"]).output();
    let theirs = String::from_utf8(theirs.unwrap().stdout).unwrap();
    let index = theirs.lines().find(|line| line.starts_with("index ")).unwrap();
    assert_eq!(String::from_utf8_lossy(text), theirs.replace(&format!("{index}\n"), ""));
    let commit = tree.diff(&DiffOf::Commit("HEAD".into()), None).unwrap();
    assert_eq!(commit.files.len(), 6, "{commit:?}");
}

#[test]
fn a_diff_that_is_too_much_is_cut_and_says_so() {
    let repo = Repo::new();
    write(&repo, "a.txt", &"line\n".repeat(DIFF_FILE_MAX / 4));
    write(&repo, "small", "x\n");
    let diffs = open(&repo, "").diff(&DiffOf::Unstaged, None).unwrap();
    assert!(matches!(diffs.files[0].patch, Patch::Cut(Some(size)) if size > DIFF_FILE_MAX as u64));
    assert!(matches!(diffs.files[1].patch, Patch::Text { added: 1, .. }));
    write(&repo, "new.txt", &"line\n".repeat(DIFF_FILE_MAX / 4));
    let tree = open(&repo, "");
    for (path, first) in
        [("a.txt", "diff --git a/a.txt b/a.txt\nindex "), ("new.txt", "diff --git a/new.txt b/new.txt\nnew file mode ")]
    {
        let begun = String::from_utf8(tree.beginning(&DiffOf::Unstaged, Path::new(path), 1000).unwrap()).unwrap();
        assert!(begun.starts_with(first) && begun.ends_with("+line\n"), "{begun}");
        assert!((990..=1000).contains(&begun.len()), "{}", begun.len());
    }
    assert!(tree.beginning(&DiffOf::Unstaged, Path::new("none"), 1000).unwrap().is_empty());
}

#[test]
fn commit_amend_branch_merge_log_and_stash_do_what_git_does() {
    let repo = Repo::new();
    let tree = open(&repo, "");
    write(&repo, "b", "b\n");
    assert!(tree.commit_command(&Commit { message: Some("nothing is staged"), ..Commit::default() }).is_err());
    tree.stage(&["b".into()]).unwrap();
    assert!(
        tree.commit_command(&Commit::default()).is_err()
            && tree.commit_command(&Commit { message: Some(" \n"), ..Commit::default() }).is_err()
    );
    let commit =
        tree.commit_command(&Commit { message: Some("--amend"), sign_off: true, ..Commit::default() }).unwrap();
    assert!(host(&repo, &commit).0);
    let log = tree.log(None, None, 0, 10).unwrap();
    assert_eq!(log.iter().map(|entry| entry.subject.as_str()).collect::<Vec<_>>(), ["--amend", "first"]);
    assert_eq!(log[0].parents, [log[1].commit.clone()]);
    assert!(log[0].body.starts_with("Signed-off-by: t"));
    repo.git(&["commit", "-q", "--amend", "--no-edit", "--author=First <first@example.invalid>"]);
    let amend = tree.commit_command(&Commit { message: Some("better"), amend: true, sign_off: false }).unwrap();
    assert!(host(&repo, &amend).0);
    let amended = &tree.log(None, None, 0, 1).unwrap()[0];
    let told = [&amended.subject, &amended.author, &amended.email];
    assert_eq!(told, ["better", "First", "first@example.invalid"], "who amends is not its author");
    assert_eq!(tree.log(None, Some(Path::new("a.txt")), 0, 9).unwrap().len(), 1);
    let new = tree.switch_command(SwitchTo::New { name: OsStr::new("side"), start: Some(OsStr::new("HEAD")) }).unwrap();
    assert!(host(&repo, &new).0);
    tree.create_branch(OsStr::new("other"), Some(OsStr::new("main"))).unwrap();
    let branches = tree.branches().unwrap();
    let names: Vec<_> = branches.iter().map(|branch| (branch.name.to_str().unwrap(), branch.current)).collect();
    assert_eq!(names, [("main", false), ("other", false), ("side", true)]);
    assert_eq!(branches[2].worktree.as_deref(), Some(repo.dir().as_path()));
    tree.delete_branch(OsStr::new("other"), false).unwrap();
    assert!(
        tree.delete_branch(OsStr::new("side"), true).is_err() && tree.delete_branch(OsStr::new("none"), true).is_err()
    );
    write(&repo, "b", "changed\n");
    write(&repo, "c", "c\n");
    tree.stash(Some("-m odd"), true).unwrap();
    let stashes = tree.stashes().unwrap();
    assert!(stashes[0].message.ends_with("-m odd") && tree.status(Untracked::All).unwrap().changed.is_empty());
    tree.take_stash(&stashes[0].commit, StashTake::Pop).unwrap();
    assert!(tree.take_stash(&stashes[0].commit, StashTake::Drop).is_err() && tree.stashes().unwrap().is_empty());
    assert_eq!(fs::read_to_string(repo.dir().join("b")).unwrap(), "changed\n");
    repo.git(&["worktree", "add", "-q", "--detach", "../tree\nwith line"]);
    assert_eq!(tree.trees().unwrap()[1].path, repo.base().join("tree\nwith line"));
}

#[test]
fn push_pull_and_fetch_go_to_remotes_that_there_are() {
    let repo = Repo::new();
    repo.git(&["clone", "-q", "--bare", ".", "../origin"]);
    let tree = open(&repo, "");
    let url = repo.base().join("origin");
    tree.add_remote(OsStr::new("origin"), url.as_os_str()).unwrap();
    for url in ["ext::sh -c id", "-x", ""] {
        assert!(tree.add_remote(OsStr::new("bad"), OsStr::new(url)).is_err(), "{url}");
    }
    let remote = Some(OsStr::new("origin"));
    repo.git(&["commit", "-qm", "more", "--allow-empty"]);
    let push = tree.push_command(&Push { set_upstream: true, ..Push::default() }).unwrap();
    assert!(host(&repo, &push).0);
    assert_eq!(tree.status(Untracked::No).unwrap().branch.ahead_behind, Some((0, 0)));
    for command in [
        tree.pull_command(&Pull { remote, branch: Some(OsStr::new("main")), how: PullHow::FastForward }),
        tree.pull_command(&Pull { remote: None, branch: None, how: PullHow::Rebase }),
        tree.fetch_command(&Fetch { remote, prune: true }),
        tree.fetch_command(&Fetch::default()),
    ] {
        let (went, said) = host(&repo, &command.unwrap());
        assert!(went, "{said}");
    }
    for name in ["none", "--upload-pack=x", "/srv/x", "../origin", ""] {
        let remote = Some(OsStr::new(name));
        assert!(tree.push_command(&Push { remote, ..Push::default() }).is_err(), "{name}");
        assert!(tree.fetch_command(&Fetch { remote, prune: false }).is_err(), "{name}");
        assert!(tree.pull_command(&Pull { remote, branch: None, how: PullHow::AsSetUp }).is_err(), "{name}");
    }
    tree.remove_remote(OsStr::new("origin")).unwrap();
    assert!(tree.remotes().unwrap().is_empty());
}

#[test]
fn a_lock_of_another_program_is_waited_for_and_then_named() {
    let repo = Repo::new();
    write(&repo, "a.txt", "2\n");
    let lock = repo.dir().join(".git/index.lock");
    fs::write(&lock, "").unwrap();
    let said = open(&repo, "").stage(&["a.txt".into()]).unwrap_err();
    assert!(matches!(&said, GitError::Locked(path) if *path == lock), "{said}");
    let soon = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        fs::remove_file(lock).unwrap();
    });
    open(&repo, "").stage(&["a.txt".into()]).unwrap();
    soon.join().unwrap();
}

#[test]
fn names_that_are_options_or_paths_are_no_branches_and_no_commits() {
    let repo = Repo::new();
    let tree = open(&repo, "");
    let head = repo.git(&["rev-parse", "HEAD"]);
    for name in [
        "--orphan=evil",
        "-",
        "a.txt",
        "README.md",
        "HEAD~1",
        "HEAD@{0}",
        ":/first",
        "",
        "@",
        "a b",
        "..",
        "x.lock",
        "a\nb",
    ] {
        let name = OsStr::new(name);
        assert!(tree.switch_command(SwitchTo::Branch(name)).is_err(), "{name:?}");
        assert!(tree.switch_command(SwitchTo::Commit(name)).is_err(), "{name:?}");
        assert!(tree.diff(&DiffOf::Commit(name.to_owned()), None).is_err(), "{name:?}");
        assert!(tree.log(Some(name), None, 0, 1).is_err(), "{name:?}");
        let merge = Merge { name, fast_forward: None, message: None };
        assert!(tree.merge_command(&merge).is_err(), "{name:?}");
    }
    for name in ["--orphan=evil", "-", "", "@", "HEAD", "a b", "..", "x.lock", "a\nb", "a:b", "a\0b"] {
        assert!(tree.create_branch(OsStr::new(name), None).is_err(), "{name:?}");
        assert!(tree.switch_command(SwitchTo::New { name: OsStr::new(name), start: None }).is_err(), "{name:?}");
    }
    assert_eq!((repo.git(&["rev-parse", "HEAD"]), repo.git(&["branch", "--show-current"])), (head, "main".to_owned()));
}

#[test]
fn a_branch_that_only_one_remote_has_is_made_and_follows_it() {
    let repo = Repo::new();
    repo.git(&["branch", "far/away"]);
    repo.git(&["clone", "-q", "--bare", ".", "../origin"]);
    repo.git(&["branch", "-D", "far/away"]);
    repo.git(&["remote", "add", "origin", "../origin"]);
    repo.git(&["fetch", "-q", "origin"]);
    let tree = open(&repo, "");
    for name in ["far/away", "origin/far/away"] {
        let (went, said) = host(&repo, &tree.switch_command(SwitchTo::Branch(OsStr::new(name))).unwrap());
        assert!(went, "{said}");
        assert_eq!(repo.git(&["rev-parse", "--abbrev-ref", "@", "@{u}"]), "far/away\norigin/far/away", "{name}");
        assert!(host(&repo, &tree.switch_command(SwitchTo::Branch(OsStr::new("main"))).unwrap()).0);
        repo.git(&["branch", "-q", "-D", "far/away"]);
    }
    assert_eq!(tree.unpushed().unwrap(), 0);
    repo.git(&["commit", "-qm", "ours", "--allow-empty"]);
    assert_eq!(tree.unpushed().unwrap(), 1);
    // `main` is here: its remote's is not meant by another name for it.
    assert!(tree.switch_command(SwitchTo::Branch(OsStr::new("origin/main"))).is_err());
    repo.git(&["remote", "add", "second", "../origin"]);
    repo.git(&["fetch", "-q", "second"]);
    assert!(tree.switch_command(SwitchTo::Branch(OsStr::new("far/away"))).is_err(), "two have it");
    assert!(tree.switch_command(SwitchTo::Branch(OsStr::new("second/far/away"))).is_ok());
}

#[test]
fn a_folder_with_a_line_end_in_its_name_is_a_work_tree_too() {
    let repo = Repo::new();
    repo.git(&["clone", "-q", ".", "../line\nend"]);
    let tree = try_open(&repo, &repo.base().join("line\nend")).unwrap();
    assert_eq!(tree.top(), repo.base().join("line\nend"));
    fs::write(tree.top().join("a.txt"), "2\n").unwrap();
    assert_eq!(letters(&tree.status(Untracked::All).unwrap()), [".M a.txt"]);
}

#[test]
fn where_it_stood_is_known_and_what_was_committed_since() {
    let repo = Repo::new();
    let at = |second: u64| [("GIT_COMMITTER_DATE", format!("{second} +0000"))];
    let commit = |second: u64, message: &str| {
        write(&repo, message, "x\n");
        repo.git(&["add", "-A"]);
        let date = at(second);
        let more: Vec<(&str, &str)> = date.iter().map(|(name, value)| (*name, value.as_str())).collect();
        repo.git_with(&["commit", "-qm", message], &more);
        repo.git(&["rev-parse", "HEAD"])
    };
    let later = 4_000_000_000;
    let (one, two) = (commit(later, "one"), commit(later + 100, "two"));
    let tree = open(&repo, "");
    assert_eq!(tree.stood_at(later + 50).unwrap(), Some(one.clone()));
    assert_eq!(tree.stood_at(u64::MAX).unwrap(), Some(two.clone()));
    let between = tree.log_between(&one, &two).unwrap();
    assert_eq!(between.iter().map(|entry| entry.subject.as_str()).collect::<Vec<_>>(), ["two"]);
    let diff = tree.diff(&DiffOf::Between(one, two), None).unwrap();
    assert_eq!(diff.files.iter().map(|file| file.path.as_path()).collect::<Vec<_>>(), [Path::new("two")]);
    assert!(tree.diff(&DiffOf::Between("--output=/x".into(), "HEAD".into()), None).is_err());
    // Before the first commit there was nothing, and everything has come since.
    assert_eq!(tree.stood_at(1).unwrap(), Some(tree.nothing().unwrap()));
    assert_eq!(
        tree.log_between(&tree.nothing().unwrap(), &tree.stood_at(u64::MAX).unwrap().unwrap()).unwrap().len(),
        3
    );
}
