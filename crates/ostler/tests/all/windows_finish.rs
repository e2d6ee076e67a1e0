//! The daemon is killed in the middle of `ostler finish`: nothing is lost, and who calls it again sees it through.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cli_kit::hooked::Hooked;

fn git(at: &Path, args: &[&str]) -> String {
    let set = ["-c", "user.name=t", "-c", "user.email=t@example.invalid", "-c", "commit.gpgsign=false"];
    let ran = Command::new("git").args(set).args(args).current_dir(at).output().unwrap();
    assert!(ran.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap()
}

/// A session with a work tree that holds a commit, a staged change, a change and a new file.
fn session(hooked: &Hooked) -> (PathBuf, PathBuf) {
    let repo = hooked.home.path("repo");
    std::fs::create_dir(&repo).unwrap();
    git(&repo, &["init", "-q", "-b", "main"]);
    for name in ["a", "b"] {
        std::fs::write(repo.join(name), "1\n").unwrap();
    }
    git(&repo, &["add", "-A"]);
    git(&repo, &["commit", "-qm", "first"]);
    let made = hooked.home.json(&["new", "echo", repo.to_str().unwrap(), "--name", "fix", "--worktree"]);
    let tree = PathBuf::from(made["worktree"].as_str().unwrap());
    std::fs::write(tree.join("c"), "committed\n").unwrap();
    git(&tree, &["add", "-A"]);
    git(&tree, &["commit", "-qm", "work"]);
    std::fs::write(tree.join("a"), "staged\n").unwrap();
    git(&tree, &["add", "a"]);
    std::fs::write(tree.join("b"), "changed\n").unwrap();
    std::fs::write(tree.join("new"), "new\n").unwrap();
    (repo, tree)
}

/// How a tree stands: what differs, in what, on which commit and branch.
fn stands(tree: &Path) -> [String; 3] {
    let files = ["a", "b", "c", "new"].map(|name| std::fs::read_to_string(tree.join(name)).unwrap());
    [git(tree, &["status", "--porcelain"]), files.concat(), git(tree, &["log", "-1", "--format=%H %D"])]
}

fn a_discard_killed_at(hook: &str) {
    let hooked = Hooked::up();
    let (repo, tree) = session(&hooked);
    let before = stands(&tree);
    hooked.set(hook);
    let mut first = hooked.home.command(&["finish", "fix", "--discard"]).spawn().unwrap();
    hooked.kill_at(hook);
    let _ = first.wait().unwrap();
    hooked.home.ok(&["finish", "fix", "--discard"]);
    assert!(!tree.exists(), "its tree should be gone");
    assert_eq!(git(&repo, &["branch", "--list", "ostler/*"]), "", "and its branch");
    hooked.home.ok(&["finish", "fix", "--undo"]);
    assert_eq!(stands(&tree), before, "all of it is back");
}

#[test]
fn a_discard_killed_before_anything_was_thrown_away_is_done_again() {
    a_discard_killed_at("finish.discarding");
}

#[test]
fn a_discard_killed_after_everything_was_kept_loses_nothing() {
    a_discard_killed_at("finish.noted");
}

#[test]
fn a_discard_killed_between_the_tree_and_its_branch_loses_nothing() {
    a_discard_killed_at("finish.tree-gone");
}

#[test]
fn a_merge_killed_before_its_tree_is_removed_is_merged_once() {
    let hooked = Hooked::up();
    let (repo, tree) = session(&hooked);
    git(&tree, &["add", "-A"]);
    git(&tree, &["commit", "-qm", "more"]);
    hooked.set("finish.noted");
    let mut first = hooked.home.command(&["finish", "fix", "--merge"]).spawn().unwrap();
    hooked.kill_at("finish.noted");
    let _ = first.wait().unwrap();
    hooked.home.ok(&["finish", "fix", "--merge"]);
    assert!(!tree.exists());
    assert_eq!(git(&repo, &["log", "--format=%s"]), "more\nwork\nfirst\n");
    assert_eq!(git(&repo, &["branch", "--list", "ostler/*"]), "");
}
