//! Names that nobody should give a file, against every verb: each verb means exactly that file.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::tests::{host, open};
use super::*;
use crate::git::tests::Repo;

const HOSTILE: [&[u8]; 22] = [
    b"with space",
    b" leading",
    b"trailing ",
    b"quote\"d",
    b"single'quote",
    b"back\\slash",
    b"new\nline",
    b"tab\tbed",
    b"\x01\x7f",
    "gr\u{fc}\u{df}e \u{65e5}\u{672c}".as_bytes(),
    b"\xff\xfe not UTF-8",
    b"-dash",
    b"--option=x",
    b"-",
    b":colon.txt",
    b":(top)magic",
    b":!not",
    b"..hidden",
    b"*",
    b"[a-z]?",
    b"@{0}",
    b"x\ndiff --git a/y b/y\n",
];

fn path(name: &[u8]) -> PathBuf {
    path_of(name)
}

fn put(repo: &Repo, name: &[u8], content: &str) {
    let path = repo.dir().join(OsStr::from_bytes(name));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// Every hostile name with one version committed, and a bystander that each pattern among them would match.
fn hostile() -> Repo {
    let repo = Repo::empty();
    for name in HOSTILE.iter().chain(&[b"bystander".as_slice()]) {
        put(&repo, name, "1\n");
    }
    repo.git(&["add", "-A"]);
    repo.git(&["commit", "-qm", "all"]);
    for name in HOSTILE.iter().chain(&[b"bystander".as_slice()]) {
        put(&repo, name, "2\n");
    }
    repo
}

fn with(status: &Status, wanted: impl Fn(&Change<PathBuf>) -> bool) -> BTreeSet<PathBuf> {
    status.changed.iter().filter(|change| wanted(change)).map(|change| change.path.clone()).collect()
}

#[test]
fn every_name_comes_back_as_it_is_and_can_be_given_again() {
    let repo = hostile();
    let tree = open(&repo, "");
    let all: BTreeSet<PathBuf> = HOSTILE.iter().chain(&[b"bystander".as_slice()]).map(|name| path(name)).collect();
    let status = tree.status(Untracked::All).unwrap();
    assert_eq!(with(&status, |change| (change.index, change.work) == (b'.', b'M')), all);
    assert_eq!(tree.line_counts(false).unwrap().into_keys().collect::<BTreeSet<_>>(), all);
    let diffs = tree.diff(&DiffOf::Unstaged, None).unwrap();
    assert_eq!(diffs.files.iter().map(|file| file.path.clone()).collect::<BTreeSet<_>>(), all);
    let whole = |file: &FileDiff| matches!(file.patch, Patch::Text { added: 1, removed: 1, .. });
    assert!(diffs.files.iter().all(whole), "{diffs:?}");
}

#[test]
fn stage_unstage_diff_log_and_hunks_mean_exactly_that_file() {
    let repo = hostile();
    let tree = open(&repo, "");
    for name in HOSTILE {
        let one = [path(name)];
        let only: BTreeSet<PathBuf> = one.iter().cloned().collect();
        let staged = || with(&tree.status(Untracked::All).unwrap(), |change| change.index != b'.');
        tree.stage(&one).unwrap();
        assert_eq!(staged(), only);
        let diff = tree.diff(&DiffOf::Staged, Some(&one[0])).unwrap();
        assert_eq!(diff.files.len(), 1, "{}", one[0].display());
        let Patch::Text { text, .. } = &diff.files[0].patch else { panic!() };
        tree.unstage(&one).unwrap();
        assert_eq!(staged(), BTreeSet::new());
        tree.stage_patch(text, false).unwrap();
        assert_eq!(staged(), only);
        tree.stage_patch(text, true).unwrap();
        assert_eq!(staged(), BTreeSet::new());
        assert_eq!(tree.log(None, Some(&one[0]), 0, 9).unwrap().len(), 1);
    }
}

#[test]
fn discard_and_its_way_back_mean_exactly_that_file() {
    let repo = hostile();
    let tree = open(&repo, "");
    let kept = repo.base().join("kept");
    let count = || tree.status(Untracked::All).unwrap().changed.len();
    for name in HOSTILE {
        let one = [path(name)];
        let content = || fs::read_to_string(repo.dir().join(&one[0])).unwrap();
        let discard = Discard { paths: &one, staged: false, keep_in: Some(&kept) };
        let discarded = tree.discard(discard).unwrap();
        assert_eq!((discarded.paths.as_slice(), content().as_str(), count()), (one.as_slice(), "1\n", HOSTILE.len()));
        tree.restore_discarded(&kept, &discarded.kept.unwrap().id).unwrap();
        assert_eq!((content().as_str(), count()), ("2\n", HOSTILE.len() + 1));
    }
}

#[test]
fn a_file_that_git_does_not_know_is_drawn_staged_and_discarded_under_any_name() {
    let repo = Repo::new();
    for name in HOSTILE {
        put(&repo, name, "new\n");
    }
    let tree = open(&repo, "");
    let all: BTreeSet<PathBuf> = HOSTILE.iter().map(|name| path(name)).collect();
    assert_eq!(tree.status(Untracked::All).unwrap().untracked.into_iter().collect::<BTreeSet<_>>(), all);
    let kept = repo.base().join("kept");
    for name in HOSTILE {
        let one = [path(name)];
        let diff = tree.diff(&DiffOf::Unstaged, Some(&one[0])).unwrap();
        let Patch::Text { text, added: 1, .. } = &diff.files[0].patch else { panic!("{diff:?}") };
        assert_eq!((diff.files.len(), diff.files[0].path.as_path()), (1, one[0].as_path()));
        // The patch that we draw is one that git takes.
        tree.stage_patch(text, false).unwrap();
        tree.unstage(&one).unwrap();
        let discarded = tree.discard(Discard { paths: &one, staged: false, keep_in: Some(&kept) }).unwrap();
        assert!(!repo.dir().join(&one[0]).exists());
        tree.restore_discarded(&kept, &discarded.kept.unwrap().id).unwrap();
    }
    assert_eq!(tree.status(Untracked::All).unwrap().untracked.len(), HOSTILE.len());
}

#[test]
fn hostile_names_of_branches_are_made_switched_to_and_deleted_or_refused() {
    let repo = Repo::new();
    let tree = open(&repo, "");
    for name in HOSTILE {
        let name = OsStr::from_bytes(name);
        let there = || tree.branches().unwrap().iter().any(|branch| branch.name == name);
        match tree.create_branch(name, None) {
            Err(GitError::Name { .. }) => assert!(tree.switch_command(SwitchTo::Branch(name)).is_err()),
            other => {
                other.unwrap();
                assert!(there());
                let switch = tree.switch_command(SwitchTo::Branch(name)).unwrap();
                assert!(host(&repo, &switch).0);
                let status = tree.status(Untracked::No).unwrap();
                assert_eq!(status.branch.name.as_deref(), Some(name.as_bytes()));
                assert!(host(&repo, &tree.switch_command(SwitchTo::Branch(OsStr::new("main"))).unwrap()).0);
                let merge = tree.merge_command(&Merge { name, fast_forward: None, message: None }).unwrap();
                assert!(host(&repo, &merge).0);
                tree.delete_branch(name, false).unwrap();
            }
        }
        assert!(!there());
    }
    let message = "-F/etc/passwd \"quoted\"\nsecond line";
    fs::write(repo.dir().join("a.txt"), "x\n").unwrap();
    tree.stage(&["a.txt".into()]).unwrap();
    let commit = tree.commit_command(&Commit { message: Some(message), ..Commit::default() }).unwrap();
    assert!(host(&repo, &commit).0);
    assert_eq!(repo.git(&["log", "-1", "--format=%B"]), message);
}
