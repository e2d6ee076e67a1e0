//! What was changed in a folder: git's difference, made safe and coloured. Git may take its time: it is asked by a thread
//! of its own.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};

use ostler_engine::Forker;
use ostler_workspace::git::Git;

use super::pager::Pager;
use crate::output::{Paint, visible, visible_lines};
use crate::request::Row;

/// More than this nobody reads on a screen.
const SHOWN: usize = 1 << 20;

/// A difference that is being made.
pub(super) struct Looking {
    made: Receiver<Pager>,
}

impl Looking {
    pub(super) fn begin(title: String, folder: String) -> Option<Self> {
        let (tell, made) = sync_channel(1);
        let thread = std::thread::Builder::new().name("changes".to_owned());
        // If nobody waits any more, nobody misses it.
        thread
            .spawn(move || drop(tell.send(Pager::new(&format!("{title}: changes in {folder}"), rows(&folder)))))
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

fn rows(folder: &str) -> Vec<Row> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let variables: Vec<_> = std::env::vars_os().collect();
    let looked =
        Git::new(Path::new(folder), &path, &variables, Arc::new(Forker::here())).guarded().and_then(|git| git.diff());
    let said = |text: String| vec![Row::ours(Paint::Plain, visible(&text))];
    match looked {
        _ if !Path::new(folder).is_dir() => said(format!("{folder} no longer exists")),
        Ok(None) => said(format!("{folder} is not in a git repository")),
        Ok(Some(diff)) if diff.is_empty() => said("no changes since the last commit".to_owned()),
        Ok(Some(diff)) => difference(&diff),
        Err(error) => said(format!("git: {error}")),
    }
}

fn difference(diff: &[u8]) -> Vec<Row> {
    let text = String::from_utf8_lossy(diff.get(..SHOWN).unwrap_or(diff));
    let mut rows: Vec<Row> = text.lines().map(|line| Row::ours(paint(line), visible_lines(line))).collect();
    if diff.len() > SHOWN {
        rows.push(Row::ours(Paint::Warn, format!("({} more bytes)", diff.len() - SHOWN)));
    }
    rows
}

fn paint(line: &str) -> Paint {
    match line.as_bytes() {
        [b'd', b'i', b'f', b'f', b' ', ..] => Paint::Head,
        [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] => Paint::Dim,
        [b'+', ..] => Paint::Good,
        [b'-', ..] => Paint::Bad,
        [b'@', ..] => Paint::Warn,
        [b' ', ..] => Paint::Plain,
        _ => Paint::Dim,
    }
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

    #[test]
    fn a_difference_without_end_is_cut_and_says_so() {
        let rows = difference(&b"+x\n".repeat(SHOWN));
        assert!(rows.len() < SHOWN && rows.last().unwrap().text.contains("more bytes"));
    }
}
