//! What was changed in a folder since something began there: the commits and git's difference, made safe and coloured. Git may
//! take its time: it is asked by a thread of its own.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};

use ostler_api::Timestamp;
use ostler_workspace::git::{Changes, Git};

use super::pager::Pager;
use crate::output::{Paint, difference_paint, visible, visible_lines};
use crate::request::Row;
use crate::verbs::helper;

/// More than this nobody reads on a screen.
const SHOWN: usize = 1 << 20;

/// A difference that is being made.
pub(super) struct Looking {
    made: Receiver<Pager>,
}

impl Looking {
    pub(super) fn begin(title: String, folder: String, began: Timestamp) -> Option<Self> {
        let (tell, made) = sync_channel(1);
        let thread = std::thread::Builder::new().name("changes".to_owned());
        // If nobody waits any more, nobody misses it.
        thread
            .spawn(move || drop(tell.send(Pager::new(&format!("{title}: changes in {folder}"), rows(&folder, began)))))
            .ok()?;
        Some(Self { made })
    }

    /// The page, once it is there; `Err` when it never will be.
    pub(super) fn take(&self) -> Result<Option<Pager>, ()> {
        match self.made.try_recv() {
            Ok(pager) => Ok(Some(pager)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(()),
        }
    }
}

fn rows(folder: &str, began: Timestamp) -> Vec<Row> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let variables: Vec<_> = std::env::vars_os().collect();
    let git = Git::new(Path::new(folder), &path, &variables, Arc::new(helper::forker()));
    let looked = git.guarded().and_then(|git| git.changes_since(began.as_micros() / 1_000_000));
    let said = |text: String| vec![Row::ours(Paint::Plain, visible(&text))];
    match looked {
        _ if !Path::new(folder).is_dir() => said(format!("{folder} no longer exists")),
        Ok(None) => said(format!("{folder} is not in a git repository")),
        Ok(Some(changes)) => listed(&changes),
        Err(error) => said(format!("git: {error}")),
    }
}

/// The commits, then the whole difference; or what there is where nobody knows since when.
fn listed(changes: &Changes) -> Vec<Row> {
    let ours = |paint, text: &str| Row::ours(paint, text.to_owned());
    let mut rows = match &changes.commits {
        Some(commits) if commits.is_empty() && changes.diff.is_empty() => {
            return vec![ours(Paint::Plain, "no changes in this folder since it began")];
        }
        Some(commits) if commits.is_empty() => {
            vec![ours(Paint::Head, "No commits since it began. Uncommitted changes:")]
        }
        None if changes.diff.is_empty() => {
            return vec![ours(Paint::Plain, "no uncommitted changes; commits since it began are not known")];
        }
        None => vec![ours(Paint::Head, "Uncommitted changes only; commits since it began are not known:")],
        Some(commits) => {
            let count = if commits.len() == 1 { "1 commit".to_owned() } else { format!("{} commits", commits.len()) };
            let more = if changes.more_commits { " and more" } else { "" };
            let mut rows = vec![Row::ours(Paint::Head, format!("{count}{more} in this folder since it began:"))];
            let line =
                |line: &Vec<u8>| Row::ours(Paint::Plain, format!("  {}", visible(&String::from_utf8_lossy(line))));
            rows.extend(commits.iter().map(line));
            rows.push(ours(Paint::Plain, ""));
            rows.push(ours(Paint::Head, "All changes since it began, committed or not:"));
            rows
        }
    };
    rows.push(ours(Paint::Plain, ""));
    rows.extend(difference(&changes.diff));
    rows
}

fn difference(diff: &[u8]) -> Vec<Row> {
    let text = String::from_utf8_lossy(diff.get(..SHOWN).unwrap_or(diff));
    let mut rows: Vec<Row> = text.lines().map(|line| Row::ours(difference_paint(line), visible_lines(line))).collect();
    if diff.len() > SHOWN {
        rows.push(Row::ours(Paint::Warn, format!("({} more bytes)", diff.len() - SHOWN)));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_coloured_and_nothing_in_it_acts() {
        let rows = difference(b"diff --git a/x b/x\n@@ -1 +1 @@\n-a\x1b[2J\n+b\xff\t\r\n c\n");
        let paints: Vec<Paint> = rows.iter().map(|row| row.paint).collect();
        assert_eq!(paints, [Paint::Head, Paint::Warn, Paint::Bad, Paint::Good, Paint::Plain]);
        assert_eq!(rows[2].text, "-a^[[2J");
        assert_eq!(rows[3].text, "+b\u{fffd}    ");
    }

    fn told(commits: Option<&[&str]>, diff: &str) -> String {
        let commits = commits.map(|all| all.iter().map(|line| line.as_bytes().to_vec()).collect());
        let rows = listed(&Changes { commits, more_commits: false, diff: diff.into() });
        rows.iter().map(|row| row.text.clone() + "\n").collect()
    }

    #[test]
    fn commits_stand_above_what_changed_and_what_is_not_known_is_said() {
        let text = told(Some(&["1234567 dev: add it\x1b[2J"]), "+x\n");
        assert!(text.starts_with("1 commit in this folder since it began:\n  1234567 dev: add it^[[2J\n"), "{text}");
        assert!(text.ends_with("\n+x\n"), "{text}");
        assert!(told(Some(&[]), "+x\n").starts_with("No commits since it began. Uncommitted changes:"));
        assert!(told(None, "+x\n").starts_with("Uncommitted changes only"));
        assert_eq!(told(Some(&[]), ""), "no changes in this folder since it began\n");
        assert!(told(None, "").contains("not known"));
    }

    #[test]
    fn a_difference_without_end_is_cut_and_says_so() {
        let rows = difference(&b"+x\n".repeat(SHOWN));
        assert!(rows.len() < SHOWN && rows.last().unwrap().text.contains("more bytes"));
    }
}
