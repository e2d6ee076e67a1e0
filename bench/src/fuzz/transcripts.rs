//! Transcripts that anybody may have written: whatever the bytes are, both ways through a file tell the same messages, pages join
//! without a gap, numbers and places agree, and nothing takes longer than it should. Shared with `fuzz/`, so it uses nothing of
//! this program.
//!
//! The first byte of an input says whose transcript it is, the rest is the file.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ostler_workspace::history::{Begin, History, Needle, Page, Places, Position, Search, Transcript};

const ID: &str = "00000000-0000-4000-8000-000000000001";

/// A home in memory if there is one; removed when dropped.
pub(crate) struct Home(PathBuf);

impl Home {
    pub(crate) fn new() -> io::Result<Self> {
        let memory = Path::new("/dev/shm");
        let base = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
        let dir = base.join(format!("ostler-fuzz-history-{}", std::process::id()));
        for folder in [".claude/projects/-w", ".codex/sessions/2026/01/01", ".gemini/tmp/w/chats"] {
            std::fs::create_dir_all(dir.join(folder))?;
        }
        Ok(Self(dir))
    }

    pub(crate) fn check(&self, input: &[u8]) -> Result<(), String> {
        let (whose, content) = input.split_first().unwrap_or((&0, &[]));
        let files = [
            format!(".claude/projects/-w/{ID}.jsonl"),
            format!(".codex/sessions/2026/01/01/rollout-2026-01-01T00-00-00-{ID}.jsonl"),
            ".gemini/tmp/w/chats/session-2026-01-01T00-00-00000000.jsonl".to_owned(),
        ];
        for file in &files {
            let _ = std::fs::remove_file(self.0.join(file));
        }
        let file = files.get(usize::from(whose % 3)).map(|file| self.0.join(file)).unwrap_or_default();
        std::fs::write(&file, content).map_err(|error| format!("writing: {error}"))?;
        let home = self.0.clone().into_os_string();
        let places = Places::of(|name| (name == "HOME").then(|| home.clone()));
        let history = History::new(places, self.0.join("state"));
        let listed = history.list(Instant::now() + Duration::from_secs(10));
        for found in &listed.conversations {
            look(&history, &found.transcript).map_err(|why| format!("{}: {why}", file.display()))?;
        }
        Ok(())
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

type Told = Vec<(Position, Option<String>)>;

fn told(page: &Page) -> impl Iterator<Item = (Position, Option<String>)> + '_ {
    page.messages.iter().map(|placed| (placed.position, placed.message.id.clone()))
}

/// Every message from one end to the other.
fn walk(history: &History, transcript: &Transcript, back: bool) -> Result<(Told, u64), String> {
    let (mut all, mut unread) = (Told::new(), 0);
    let mut begin = if back { Begin::Last } else { Begin::First };
    for _ in 0..100_000 {
        let page = history.page(transcript, begin, 3).map_err(|error| error.to_string())?;
        if page.changed.is_some() {
            return Err("a file that nobody touched has changed".to_owned());
        }
        unread += page.unread;
        if back {
            all.splice(0..0, told(&page));
        } else {
            all.extend(told(&page));
        }
        match back {
            true if page.older => begin = Begin::Before(page.before),
            false if page.newer => begin = Begin::From(page.next),
            _ => return Ok((all, unread)),
        }
    }
    Err("the pages do not end".to_owned())
}

fn look(history: &History, transcript: &Transcript) -> Result<(), String> {
    let (on, unread) = walk(history, transcript, false)?;
    let (back, unread_back) = walk(history, transcript, true)?;
    let ids = |told: &Told| told.iter().map(|(_, id)| id.clone()).collect::<std::collections::BTreeSet<_>>();
    // A message that is written again is told once in a page, and where pages end differs.
    if ids(&on) != ids(&back) || unread != unread_back {
        return Err(format!("{} messages and {unread} unread on, {} and {unread_back} back", on.len(), back.len()));
    }
    let count = history.describe(transcript).map_err(|error| error.to_string())?.summary.messages.unwrap_or(0);
    if count > on.len() as u64 {
        return Err(format!("{count} were counted, {} told", on.len()));
    }
    for number in [0, count / 2, count] {
        history.page(transcript, Begin::Number(number), 2).map_err(|error| error.to_string())?;
    }
    for (position, _) in on.iter().take(50) {
        let page = history.page(transcript, Begin::From(*position), 1).map_err(|error| error.to_string())?;
        if page.messages.first().map(|placed| placed.position) != Some(*position) {
            return Err(format!("{position} does not lead to its message"));
        }
    }
    for query in ["a", "\u{e9}", "\"", "echo"] {
        let Some(needle) = Needle::new(query) else { continue };
        let mut hits = |_| true;
        let mut search =
            Search { needle: &needle, stop: &|| false, told: &mut hits, bytes: 0, unread: 0, stopped: false };
        history.search(transcript, &mut search).map_err(|error| error.to_string())?;
    }
    Ok(())
}
