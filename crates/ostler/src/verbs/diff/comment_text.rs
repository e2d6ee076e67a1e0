//! A difference as a text to write comments into, and what was written: whatever was added is about the line above it.
//!
//! What stands in it was written by an agent: it is shown in plain letters, and lines of ours stand first and last, where editors
//! look for settings.

use std::time::{Duration, Instant};

use ostler_api::{FilePath, GitDiff, GitFileDiff, ReviewComment, TurnChanges};
use ostler_door_rpc::decode_base64;
use ostler_story::{Diff as Edit, Mark};
use similar::{Algorithm, DiffOp, capture_diff_slices_deadline};

use crate::output::{visible, visible_lines};

/// At most so long is looked for what was added; then what is found by then counts.
const LOOK: Duration = Duration::from_secs(5);
/// What editors read settings from is within five lines of either end.
const TAIL: [&str; 6] = ["#", "# This is the end of the changes.", "#", "#", "#", "#"];

/// The text and what each line is about.
pub(super) struct CommentText {
    lines: Vec<(String, Option<CommentedLine>)>,
}

/// What a comment below a line is about.
#[derive(Clone)]
struct CommentedLine {
    path: FilePath,
    line: Option<u64>,
    removed: bool,
    quote: Option<String>,
}

/// What was written.
#[derive(Debug)]
pub(super) struct Written {
    /// About all of it.
    pub(super) text: Option<String>,
    pub(super) comments: Vec<ReviewComment>,
}

impl CommentText {
    /// A text without changes yet; `whose` is for the person who writes.
    pub(super) fn new(whose: &str) -> Self {
        let head = [
            format!("# Comments for {whose}. Write below a line what you have to say about it, in lines"),
            "# of their own: the agent gets each with the line above it, all together as one".to_owned(),
            "# prompt. What you write up here is about all of it.".to_owned(),
            "#".to_owned(),
            "# Nothing is sent if you add nothing, or if the editor ends with an error (vi: :cq).".to_owned(),
            "#".to_owned(),
        ];
        Self { lines: head.into_iter().map(|line| (line, None)).collect() }
    }

    /// Git's difference.
    pub(super) fn add_files(&mut self, diff: &GitDiff) {
        diff.files.iter().for_each(|file| self.add_file(file));
    }

    fn add_file(&mut self, file: &GitFileDiff) {
        let data = file.patch_data.as_ref().and_then(|data| decode_base64(data.as_bytes()).ok());
        let patch = file.patch.clone().or_else(|| data.map(|data| String::from_utf8_lossy(&data).into_owned()));
        let Some(patch) = patch else {
            self.add(format!("# {}: not shown", visible(&file.path.to_string())), &file.path, None, None, false);
            return;
        };
        let mut at: Option<(u64, u64)> = None;
        for line in patch.lines() {
            if let Some(hunk) = line.strip_prefix("@@ ") {
                at = begins(hunk);
                self.add(visible_lines(line), &file.path, None, None, false);
                continue;
            }
            let (number, removed) = match (&mut at, line.as_bytes().first()) {
                (Some((_, new)), Some(b'+')) => (step(new), false),
                (Some((old, _)), Some(b'-')) => (step(old), true),
                (Some((old, new)), Some(b' ') | None) => {
                    step(old);
                    (step(new), false)
                }
                _ => (None, false),
            };
            let quote = number.and(line.get(1..)).map(str::to_owned);
            self.add(visible_lines(line), &file.path, number, quote, removed);
        }
    }

    /// What the agent's tools did in one turn.
    pub(super) fn add_turn(&mut self, turn: &TurnChanges) {
        for file in &turn.files {
            let name = visible(&file.path.to_string());
            self.add(format!("# turn {}: {name} ({})", turn.turn, visible(&file.tool)), &file.path, None, None, false);
            for edit in &file.edits {
                let (mut old, mut new) = (edit.line, edit.line);
                let edit = Edit { path: String::new(), old: edit.old.clone(), new: edit.new.clone(), line: edit.line };
                for (mark, line) in edit.lines() {
                    let shown = visible_lines(&format!("{}{line}", mark.sign()));
                    let removed = mark == Mark::Removed;
                    let number = if removed { old } else { new };
                    (old, new) =
                        (old.map(|old| old + u64::from(mark != Mark::Added)), new.map(|new| new + u64::from(!removed)));
                    self.add(shown, &file.path, number, Some(line.to_owned()), removed);
                }
            }
        }
    }

    fn add(&mut self, shown: String, path: &FilePath, line: Option<u64>, quote: Option<String>, removed: bool) {
        self.lines.push((shown, Some(CommentedLine { path: path.clone(), line, removed, quote })));
    }

    fn shown(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(|(line, _)| line.as_str()).chain(TAIL)
    }

    /// The text for the editor.
    pub(super) fn text(&self) -> String {
        self.shown().flat_map(|line| [line, "\n"]).collect()
    }

    /// What was added to it. Lines that were taken away do not count, nor do blanks at the end of one.
    pub(super) fn written(&self, edited: &str) -> Written {
        let before: Vec<&str> = self.shown().map(str::trim_end).collect();
        let after: Vec<&str> = edited.lines().map(str::trim_end).collect();
        let steps = capture_diff_slices_deadline(Algorithm::Myers, &before, &after, Some(Instant::now() + LOOK));
        let mut written = Written { text: None, comments: Vec::new() };
        for step in steps {
            if !matches!(step, DiffOp::Insert { .. } | DiffOp::Replace { .. }) {
                continue;
            }
            let text = after.get(step.new_range()).unwrap_or_default().join("\n");
            let text = text.trim_matches('\n').to_owned();
            if text.trim().is_empty() {
                continue;
            }
            let above = step.old_range().start.checked_sub(1);
            match above.and_then(|above| self.lines.get(above)).and_then(|(_, place)| place.clone()) {
                Some(CommentedLine { path, line, removed, quote }) => {
                    written.comments.push(ReviewComment { path, line, last_line: None, removed, quote, text });
                }
                None => match &mut written.text {
                    Some(said) => said.extend(["\n\n", &text]),
                    None => written.text = Some(text),
                },
            }
        }
        written
    }
}

/// The number of this line; the next one is counted.
fn step(number: &mut u64) -> Option<u64> {
    let this = *number;
    *number = number.saturating_add(1);
    Some(this)
}

/// `-OLD,COUNT +NEW,COUNT @@…`: where a hunk begins on both sides.
fn begins(hunk: &str) -> Option<(u64, u64)> {
    let mut sides = hunk.split(' ').map(|side| side.get(1..)?.split(',').next()?.parse().ok());
    Some((sides.next()??, sides.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str = "diff --git a/src/a.rs b/src/a.rs\n--- a/src/a.rs\n+++ b/src/a.rs\n@@ -10,3 +10,4 @@ fn a\n one\n-two\n\
                         +zwei\n+drei\n four\n";

    fn sheet() -> CommentText {
        let file = serde_json::json!({"path": "src/a.rs", "status": "M", "patch": PATCH});
        let mut sheet = CommentText::new("fix");
        sheet.add_files(&serde_json::from_value(serde_json::json!({"files": [file], "cut": false})).unwrap());
        sheet
    }

    fn places(written: &Written) -> Vec<(Option<u64>, bool, Option<&str>, &str)> {
        let place = |comment: &'_ ReviewComment| (comment.line, comment.removed);
        let all = written.comments.iter();
        all.map(|comment| (place(comment).0, place(comment).1, comment.quote.as_deref(), comment.text.as_str()))
            .collect()
    }

    #[test]
    fn what_is_added_below_a_line_is_about_that_line() {
        let sheet = sheet();
        let edited = sheet
            .text()
            .replace("-two\n", "-two\n\nwhy did it go?\n\n")
            .replace("+drei\n", "+drei\n- a list\n- of things\n")
            .replace(" four\n", " four\nlast\n")
            .replace("+++ b/src/a.rs\n", "+++ b/src/a.rs\nthe file\n");
        let written = sheet.written(&edited);
        let want = [
            (None, false, None, "the file"),
            (Some(11), true, Some("two"), "why did it go?"),
            (Some(12), false, Some("drei"), "- a list\n- of things"),
            (Some(13), false, Some("four"), "last"),
        ];
        assert_eq!(places(&written), want);
        assert_eq!(written.text, None);
    }

    #[test]
    fn what_stands_above_or_behind_everything_is_about_all_of_it() {
        let sheet = sheet();
        let written = sheet.written(&format!("well done\n{}but\n", sheet.text()));
        assert!(written.comments.is_empty());
        assert_eq!(written.text.unwrap(), "well done\n\nbut");
    }

    #[test]
    fn nothing_added_is_nothing_said_whatever_was_taken_away() {
        let sheet = sheet();
        let cut: String =
            sheet.text().lines().filter(|line| !line.contains('e')).map(|line| format!("{line}\n")).collect();
        for edited in [sheet.text(), cut, String::new(), sheet.text().replace(" one\n", " one   \n\n\n")] {
            let written = sheet.written(&edited);
            assert!(written.comments.is_empty() && written.text.is_none(), "{written:?}");
        }
    }

    #[test]
    fn nothing_of_the_agents_stands_where_an_editor_looks_for_settings() {
        let file =
            serde_json::json!({"path": "vim: set ai:", "status": "M", "patch": "# vim: set modeline:\n\u{1b}[2J"});
        let mut sheet = CommentText::new("fix");
        sheet.add_files(&serde_json::from_value(serde_json::json!({"files": [file], "cut": false})).unwrap());
        let text = sheet.text();
        let lines: Vec<&str> = text.lines().collect();
        let ends = [&lines[..6], &lines[lines.len() - 6..]].concat();
        assert!(!ends.concat().contains("vim: set") && !text.contains('\u{1b}'), "{text}");
    }
}
