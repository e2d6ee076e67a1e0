//! Random work in random repositories: what we say is what git itself says.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use proptest::prelude::*;

use super::tests::open;
use super::*;
use crate::git::tests::{Repo, env};

const NAMES: [&str; 5] = ["a", "b c", "d/e", "d/-f", ":g"];

/// One step of somebody who works.
#[derive(Debug, Clone)]
enum Step {
    Write(usize, u8),
    Remove(usize),
    Add(usize),
    Move(usize, usize),
    Commit,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let name = 0..NAMES.len();
    let step = prop_oneof![
        4 => (name.clone(), any::<u8>()).prop_map(|(name, content)| Step::Write(name, content)),
        1 => name.clone().prop_map(Step::Remove),
        2 => name.clone().prop_map(Step::Add),
        1 => (name.clone(), name).prop_map(|(from, to)| Step::Move(from, to)),
        1 => Just(Step::Commit),
    ];
    prop::collection::vec(step, 1..14)
}

/// Git, which may refuse.
fn git(repo: &Repo, args: &[&str]) -> Vec<u8> {
    let mut git = Command::new("git");
    git.current_dir(repo.dir()).args(["--literal-pathspecs", "-c", "commit.gpgsign=false"]).args(args).env_clear();
    git.envs(env(&repo.base())).env("PATH", std::env::var_os("PATH").unwrap_or_default());
    git.output().unwrap().stdout
}

fn worked(steps: &[Step]) -> Repo {
    let repo = Repo::new();
    for step in steps {
        match step {
            Step::Write(name, content) => {
                let path = repo.dir().join(NAMES[*name]);
                let _ = fs::create_dir_all(path.parent().unwrap());
                let _ = fs::write(path, format!("{}\n{content}\n", "same\n".repeat(8)));
            }
            Step::Remove(name) => drop(fs::remove_file(repo.dir().join(NAMES[*name]))),
            Step::Add(name) => drop(git(&repo, &["add", "--", NAMES[*name]])),
            Step::Move(from, to) => drop(git(&repo, &["mv", "--", NAMES[*from], NAMES[*to]])),
            Step::Commit => drop(git(&repo, &["commit", "-qm", "x"])),
        }
    }
    repo
}

/// What `git status` says in its first form, which is another parser's.
fn told(repo: &Repo) -> BTreeSet<String> {
    let text = git(repo, &["status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames"]);
    text.split(|byte| *byte == 0)
        .filter(|line| !line.is_empty())
        .map(|line| String::from_utf8_lossy(line).into())
        .collect()
}

fn ours(tree: &WorkTree) -> BTreeSet<String> {
    let status = tree.status(Untracked::All).unwrap();
    let dot = |letter: u8| if letter == b'.' { ' ' } else { char::from(letter) };
    let mut all = BTreeSet::new();
    for change in &status.changed {
        // A rename is a deletion and an addition there.
        if let Some(from) = &change.from {
            all.insert(format!("D  {}", from.display()));
            all.insert(format!("A{} {}", dot(change.work), change.path.display()));
        } else {
            all.insert(format!("{}{} {}", dot(change.index), dot(change.work), change.path.display()));
        }
    }
    all.extend(status.untracked.iter().map(|path| format!("?? {}", path.display())));
    all
}

fn cases() -> ProptestConfig {
    let usual = if std::env::var_os("OSTLER_TEST_FULL").is_some() { 1000 } else { 32 };
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(usual);
    ProptestConfig { cases, max_shrink_iters: 40, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn status_and_diff_say_what_git_says(steps in steps()) {
        let repo = worked(&steps);
        let tree = open(&repo, "");
        prop_assert_eq!(ours(&tree), told(&repo));
        for (of, args) in [(DiffOf::Unstaged, vec!["diff"]), (DiffOf::Staged, vec!["diff", "--cached"])] {
            let theirs = git(&repo, &args);
            let ours = tree.diff(&of, None).unwrap();
            let text: Vec<u8> = ours.files.iter().filter(|file| file.letter != b'?').flat_map(|file| match &file.patch {
                Patch::Text { text, .. } => text.clone(),
                other => panic!("{other:?}"),
            }).collect();
            // Hashes are whole in one and short in the other.
            let lines = |text: &[u8]| String::from_utf8_lossy(text).lines().filter(|line| !line.starts_with("index ")).map(str::to_owned).collect::<Vec<_>>();
            prop_assert_eq!(lines(&text), lines(&theirs));
        }
    }

    #[test]
    fn stage_and_unstage_leave_what_git_leaves(steps in steps(), name in 0..NAMES.len()) {
        let (repo, twin) = (worked(&steps), worked(&steps));
        let tree = open(&repo, "");
        let paths = [PathBuf::from(NAMES[name])];
        // Where git refuses, so do we; where it does not, neither do we.
        let _ = tree.stage(&paths);
        git(&twin, &["add", "--", NAMES[name]]);
        prop_assert_eq!(told(&repo), told(&twin));
        let _ = tree.unstage(&paths);
        git(&twin, &["reset", "-q", "--", NAMES[name]]);
        prop_assert_eq!(told(&repo), told(&twin));
    }

    #[test]
    fn what_is_discarded_is_as_committed_and_comes_back_as_it_was(steps in steps()) {
        let repo = worked(&steps);
        let tree = open(&repo, "");
        let before = told(&repo);
        let kept = repo.base().join("kept");
        let all = NAMES.map(PathBuf::from);
        let gone = tree.discard(Discard { paths: &all, staged: true, keep_in: Some(&kept) }).unwrap();
        prop_assert_eq!(told(&repo), BTreeSet::new());
        if let Some(kept_as) = gone.kept {
            tree.restore_discarded(&kept, &kept_as.id).unwrap();
        }
        prop_assert_eq!(told(&repo), before);
    }
}
