use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use super::tests::{open, write};
use super::*;
use crate::git::tests::Repo;

fn said(repo: &Repo) -> String {
    repo.git(&["status", "--porcelain", "-uall"])
}

#[test]
fn what_is_discarded_can_be_put_back_as_it_was() {
    let repo = Repo::new();
    for name in ["changed", "deleted", "staged", "both", "link"] {
        write(&repo, name, "1\n");
    }
    repo.git(&["add", "-A"]);
    repo.git(&["commit", "-qm", "all"]);
    for name in ["changed", "staged", "both", "added", "dir/untracked"] {
        write(&repo, name, "2\n");
    }
    fs::set_permissions(repo.dir().join("dir/untracked"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::remove_file(repo.dir().join("deleted")).unwrap();
    fs::remove_file(repo.dir().join("link")).unwrap();
    symlink("changed", repo.dir().join("link")).unwrap();
    repo.git(&["add", "staged", "both", "added"]);
    write(&repo, "both", "3\n");
    let before = said(&repo);
    let (tree, kept) = (open(&repo, ""), repo.base().join("kept"));
    let names = ["changed", "deleted", "staged", "both", "link", "added", "dir"].map(PathBuf::from);
    let gone = tree.discard(Discard { paths: &names, staged: true, keep_in: Some(&kept) }).unwrap();
    assert_eq!((said(&repo).as_str(), gone.paths.len()), ("", 7));
    let id = gone.kept.unwrap().id;
    for entry in fs::read_dir(kept.join(&id)).unwrap() {
        assert_eq!(entry.unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
    assert_eq!(fs::metadata(kept.join(&id)).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(KeptChanges::list(&kept).unwrap().len(), 1);
    tree.restore_discarded(&kept, &id).unwrap();
    assert_eq!(said(&repo), before);
    assert_eq!(fs::read_to_string(repo.dir().join("both")).unwrap(), "3\n");
    assert_eq!(fs::read_link(repo.dir().join("link")).unwrap(), Path::new("changed"));
    let mode = fs::metadata(repo.dir().join("dir/untracked")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
    assert!(tree.restore_discarded(&kept, &id).is_err() && KeptChanges::list(&kept).unwrap().is_empty());
}

#[test]
fn what_was_taken_out_of_the_index_and_is_there_again_is_as_committed() {
    let repo = Repo::new();
    write(&repo, "old", "1\n");
    repo.git(&["add", "-A"]);
    repo.git(&["commit", "-qm", "all"]);
    repo.git(&["mv", "old", "new"]);
    write(&repo, "old", "2\n");
    let before = said(&repo);
    let (tree, kept) = (open(&repo, ""), repo.base().join("kept"));
    let gone = tree.discard(Discard { paths: &[".".into()], staged: true, keep_in: Some(&kept) }).unwrap();
    assert_eq!((said(&repo).as_str(), fs::read_to_string(repo.dir().join("old")).unwrap().as_str()), ("", "1\n"));
    tree.restore_discarded(&kept, &gone.kept.unwrap().id).unwrap();
    assert_eq!((said(&repo), fs::read_to_string(repo.dir().join("old")).unwrap()), (before, "2\n".to_owned()));
}

#[test]
fn only_the_work_tree_is_discarded_unless_more_is_asked_for() {
    let repo = Repo::new();
    write(&repo, "a.txt", "staged\n");
    repo.git(&["add", "a.txt"]);
    write(&repo, "a.txt", "worked\n");
    let tree = open(&repo, "");
    let all = ["a.txt".into()];
    tree.discard(Discard { paths: &all, staged: false, keep_in: None }).unwrap();
    assert_eq!(fs::read_to_string(repo.dir().join("a.txt")).unwrap(), "staged\n");
    let none = tree.discard(Discard { paths: &all, staged: false, keep_in: None }).unwrap();
    assert!(none.paths.is_empty());
    tree.discard(Discard { paths: &all, staged: true, keep_in: None }).unwrap();
    assert_eq!(fs::read_to_string(repo.dir().join("a.txt")).unwrap(), "1\n");
}

#[test]
fn more_than_is_kept_is_refused_unless_nothing_need_be_kept() {
    let repo = Repo::new();
    let large = fs::File::create(repo.dir().join("large")).unwrap();
    large.set_len(KEEP_MAX + 1).unwrap();
    let (tree, kept) = (open(&repo, ""), repo.base().join("kept"));
    let paths = ["large".into()];
    let refused = tree.discard(Discard { paths: &paths, staged: false, keep_in: Some(&kept) });
    assert!(matches!(refused, Err(GitError::TooMuchToKeep { size, .. }) if size == KEEP_MAX + 1), "{refused:?}");
    assert!(repo.dir().join("large").exists());
    tree.discard(Discard { paths: &paths, staged: false, keep_in: None }).unwrap();
    assert!(!repo.dir().join("large").exists());
}

#[test]
fn what_was_changed_since_is_not_overwritten_by_the_way_back() {
    let repo = Repo::new();
    write(&repo, "a.txt", "2\n");
    let (tree, kept) = (open(&repo, ""), repo.base().join("kept"));
    let gone = tree.discard(Discard { paths: &["a.txt".into()], staged: false, keep_in: Some(&kept) }).unwrap();
    write(&repo, "a.txt", "newer\n");
    let id = gone.kept.unwrap().id;
    assert!(tree.restore_discarded(&kept, &id).is_err());
    assert_eq!(fs::read_to_string(repo.dir().join("a.txt")).unwrap(), "newer\n");
    assert!(tree.restore_discarded(&kept, "../kept").is_err() && tree.restore_discarded(&kept, "").is_err());
}

#[test]
fn a_day_later_nothing_is_kept_and_what_never_counted_goes_too() {
    let repo = Repo::new();
    write(&repo, "a.txt", "2\n");
    let (tree, kept) = (open(&repo, ""), repo.base().join("kept"));
    let gone = tree.discard(Discard { paths: &["a.txt".into()], staged: false, keep_in: Some(&kept) }).unwrap();
    let folder = kept.join(gone.kept.unwrap().id);
    // Cut off before its manifest: it was never discarded, and is nobody's yet.
    fs::create_dir(kept.join("d0")).unwrap();
    assert_eq!(KeptChanges::list(&kept).unwrap().len(), 1);
    assert!(kept.join("d0").exists());
    let manifest = fs::read(folder.join("manifest")).unwrap();
    let mut fields: Vec<&[u8]> = manifest.split(|byte| *byte == 0).collect();
    fields[2] = b"1000000000";
    fs::write(folder.join("manifest"), fields.join(&0)).unwrap();
    let long_ago = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    fs::File::open(kept.join("d0")).unwrap().set_modified(long_ago).unwrap();
    assert!(KeptChanges::list(&kept).unwrap().is_empty());
    assert!(!folder.exists() && !kept.join("d0").exists());
}

#[test]
fn conflicts_submodules_and_repositories_inside_are_not_thrown_away_by_accident() {
    let repo = Repo::new();
    fs::create_dir(repo.dir().join("inner")).unwrap();
    repo.git(&["-C", "inner", "init", "-q"]);
    write(&repo, "inner/precious", "x");
    let tree = open(&repo, "");
    let refused = tree.discard(Discard { paths: &["inner".into()], staged: true, keep_in: None });
    assert!(matches!(refused, Err(GitError::Asked(_))), "{refused:?}");
    assert!(repo.dir().join("inner/precious").exists());
}

#[test]
fn putting_back_runs_nothing_that_the_repository_names() {
    let repo = Repo::new();
    let ran = repo.base().join("ran");
    let hook = repo.dir().join(".git/hooks/post-index-change");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    fs::write(&hook, format!("#!/bin/sh\necho x >> {}\n", ran.display())).unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    write(&repo, "a.txt", "staged\n");
    repo.git(&["add", "a.txt"]);
    assert!(ran.exists(), "the hook of a git that nobody guards runs");
    let (tree, kept) = (open(&repo, ""), repo.base().join("kept"));
    let all = ["a.txt".into()];
    let gone = tree.discard(Discard { paths: &all, staged: true, keep_in: Some(&kept) }).unwrap();
    fs::remove_file(&ran).unwrap();
    tree.restore_discarded(&kept, &gone.kept.unwrap().id).unwrap();
    // Looked at first: a status of a git that nobody guards may write the index.
    assert!(!ran.exists());
    assert_eq!(said(&repo).trim(), "M  a.txt");
}
