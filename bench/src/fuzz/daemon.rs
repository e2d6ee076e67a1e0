//! The dispatcher behind a real socket: every line gets exactly one well-formed answer, and the daemon stays.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::value::RawValue;

use crate::conn::Conn;
use crate::running::Running;

/// A reply may have to wait for git.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) struct Daemon {
    running: Running,
    conn: Conn,
}

impl Daemon {
    /// As an ordinary user: whatever a mutated request means, it must not be able to do much.
    pub(crate) fn start(bin: &Path) -> Result<Self> {
        let running = Running::unprivileged(bin, "fuzz")?;
        let conn = running.instance.dial()?;
        Ok(Self { running, conn })
    }

    pub(crate) fn check(&mut self, input: &[u8]) -> Result<()> {
        // A method that changes something may come about by chance; it is not sent.
        if harmful(input) {
            return Ok(());
        }
        let lines = input.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        let wanted = lines.filter(|line| !line.is_empty()).count();
        self.conn.send_bytes(input);
        self.conn.send_bytes(b"\n");
        let deadline = Instant::now() + PATIENCE;
        let (mut answers, mut bad) = (0, None);
        while answers < wanted {
            let left = deadline.saturating_duration_since(Instant::now());
            ensure!(!left.is_zero(), "{answers} answers to {wanted} lines within {PATIENCE:?}");
            let turned = self.conn.turn(left, |line| {
                answers += 1;
                bad = bad.take().or_else(|| wrong(line));
            });
            turned.with_context(|| format!("the connection ended; {}", self.state()))?;
        }
        match bad {
            Some(why) => bail!("{why}"),
            None => Ok(()),
        }
    }

    fn state(&self) -> String {
        let alive = Path::new(&format!("/proc/{}", self.running.pid())).exists();
        let tail = self.running.instance.log_tail();
        format!("the daemon {}; its log ends with:\n{tail}", if alive { "lives" } else { "is dead" })
    }
}

fn harmful(input: &[u8]) -> bool {
    let text = String::from_utf8_lossy(input).to_ascii_lowercase();
    ["shutdown", "extract", "worktree"].iter().any(|word| text.contains(word))
}

/// What is wrong with an answer, if anything.
fn wrong(line: &[u8]) -> Option<String> {
    // An id comes back as it was sent, bytes that are not UTF-8 included: they are the client's own.
    let shown = String::from_utf8_lossy(line);
    // Raw values: an id such as 1e4001 is sound JSON, and no number of ours.
    let fields: HashMap<String, Box<RawValue>> = match serde_json::from_str(&shown) {
        Ok(fields) => fields,
        Err(error) => return Some(format!("an answer is not JSON ({error}): {shown}")),
    };
    let sound = fields.get("jsonrpc").is_some_and(|version| version.get() == "\"2.0\"")
        && fields.contains_key("id")
        && fields.contains_key("result") != fields.contains_key("error");
    (!sound).then(|| format!("an answer of a wrong shape: {shown}"))
}
