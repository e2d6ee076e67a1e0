//! `audit.forward`: every entry of the audit goes to a second place, once and in order. The position is noted after the other
//! side has taken an entry, so a crash in between sends it again: at least once, never not at all. It reads the log like
//! everybody else, so a place that is slow or gone holds up nothing but itself.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ostler_api::Timestamp;
use ostler_engine::approval::Entry;
use ostler_engine::brief::{Brief, Ended};
use ostler_engine::{Engine, Forker, Inbox, MayWait};
use ostler_workspace::{Durable, replace};
use tokio::net::UnixDatagram;

use crate::config::Forward;

/// Entries that are sent, and sent again after a failure, together.
const BATCH: usize = 128;
/// A command that takes longer than this for a batch hangs.
const BATCH_WITHIN: Duration = Duration::from_secs(60);
/// The first and the longest pause after a failure.
const PAUSE: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(60);
/// Where journald listens.
const JOURNALD: &str = "/run/systemd/journal/socket";
/// Beside the log: the last entry that was taken.
const POSITION_FILE: &str = "audit.forwarded";

/// Begins to forward; for as long as the runtime lives.
pub(crate) fn forward(engine: &Engine, dir: &Path, to: &Forward) {
    let place = match to {
        Forward::Nowhere => return,
        Forward::Journald => Destination::Journald(JOURNALD.into()),
        Forward::Command(line) => Destination::Command(engine.forker(), line.clone()),
    };
    tokio::spawn(run(engine.inbox().clone(), dir.join(POSITION_FILE), place));
}

/// The last entry of an instance that was forwarded.
pub(crate) fn forwarded(dir: &Path) -> Option<u64> {
    std::fs::read_to_string(dir.join(POSITION_FILE)).ok()?.trim().parse().ok()
}

enum Destination {
    Journald(PathBuf),
    /// Who runs it, and its line.
    Command(Forker, String),
}

async fn run(inbox: Inbox, note: PathBuf, place: Destination) {
    let mut sent = note.parent().and_then(forwarded).unwrap_or(0);
    let mut pause = *PAUSE.start();
    let mut revision = inbox.revision();
    loop {
        // Not before there is a log: reading would make one.
        let Ok(newest) = revision.wait_for(|newest| *newest > 0 && *newest != sent).await.map(|newest| *newest) else {
            return;
        };
        if newest < sent {
            // The log was moved away and begins anew.
            sent = 0;
        }
        let reader = inbox.clone();
        let read = MayWait::pool(move |wait| reader.audit(wait, sent, BATCH)).await;
        let taken = match read {
            Ok(Ok(entries)) => match (place.send(&entries).await, entries.last()) {
                (Ok(()), Some(last)) => remember(&note, last.seq).await,
                (Ok(()), None) => Ok(sent),
                (Err(error), _) => Err(error),
            },
            Ok(Err(error)) => Err(io::Error::other(error)),
            Err(lost) => Err(io::Error::other(lost)),
        };
        match taken {
            Ok(last) => (sent, pause) = (last, *PAUSE.start()),
            Err(error) => {
                tracing::warn!("audit.forward: {error}; trying again in {} s", pause.as_secs());
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(*PAUSE.end());
            }
        }
    }
}

/// Replaced in one step: half a number would be another position.
async fn remember(note: &Path, seq: u64) -> io::Result<u64> {
    let note = note.to_owned();
    MayWait::run(move |_| replace(&note, &note.with_extension("new"), format!("{seq}\n").as_bytes(), Durable::No))
        .await
        .map(|()| seq)
}

impl Destination {
    async fn send(&self, entries: &[Entry]) -> io::Result<()> {
        match self {
            Self::Journald(socket) => journald(socket, entries).await,
            Self::Command(forker, line) => {
                let (forker, line, entries) = (forker.clone(), line.clone(), entries.to_vec());
                let sent = MayWait::pool(move |_| command(&forker, &line, &entries, BATCH_WITHIN));
                sent.await.map_err(io::Error::other)?
            }
        }
    }
}

/// One run of the command per batch: only its exit says that it has taken everything.
fn command(forker: &Forker, line: &str, entries: &[Entry], within: Duration) -> io::Result<()> {
    let mut brief = Brief::new("/bin/sh", &["-c", line], within);
    for entry in entries {
        let time = Timestamp::from_millis(entry.at_ms);
        let record: serde_json::Value = serde_json::from_str(&entry.body)?;
        let line = serde_json::json!({"seq": entry.seq, "time": time, "about": entry.about, "record": record});
        brief.stdin.extend_from_slice(format!("{line}\n").as_bytes());
    }
    let ran = forker.run(&brief)?;
    match ran.ended {
        ended if ended.well() => Ok(()),
        Ended::TimedOut => Err(io::Error::other(format!("`{line}` did not end within {} s", within.as_secs()))),
        ended => {
            let said = String::from_utf8_lossy(&ran.said);
            let last = said.lines().last().unwrap_or_default().escape_debug();
            Err(io::Error::other(format!("`{line}` ended with {ended} {last}").trim_end().to_owned()))
        }
    }
}

async fn journald(socket: &Path, entries: &[Entry]) -> io::Result<()> {
    let out = UnixDatagram::unbound()?;
    out.connect(socket)?;
    for entry in entries {
        match out.send(&datagram(entry, &entry.body)).await {
            // Larger than a datagram can be: who misses the text finds it in the log, by its position.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::MSGSIZE.raw_os_error()) => {
                let short = format!(r#"{{"what":"too long","bytes":{}}}"#, entry.body.len());
                out.send(&datagram(entry, &short)).await?;
            }
            other => drop(other?),
        }
    }
    Ok(())
}

/// journald's own format: texts carry their length, so that nothing in them can pose as another field.
fn datagram(entry: &Entry, body: &str) -> Vec<u8> {
    let seq = entry.seq.to_string();
    let about = entry.about.as_deref().unwrap_or("");
    let fields = [
        ("MESSAGE", format!("approval audit {seq} {about}: {body}")),
        ("PRIORITY", "5".to_owned()),
        ("SYSLOG_IDENTIFIER", "ostler".to_owned()),
        ("OSTLER_AUDIT_SEQ", seq.clone()),
        ("OSTLER_AUDIT_ABOUT", about.to_owned()),
        ("OSTLER_AUDIT_RECORD", body.to_owned()),
    ];
    let mut bytes = Vec::new();
    for (name, value) in fields {
        bytes.extend_from_slice(name.as_bytes());
        bytes.push(b'\n');
        bytes.extend_from_slice(&(value.len() as u64).to_le_bytes());
        bytes.extend_from_slice(value.as_bytes());
        bytes.push(b'\n');
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(seq: u64, body: &str) -> Entry {
        Entry { seq, at_ms: 1, about: Some("a1".into()), body: body.into() }
    }

    #[tokio::test]
    async fn a_command_gets_every_entry_and_its_exit_code_counts() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("out");
        let place = Destination::Command(Forker::here(), format!("cat >> {}", file.display()));
        place.send(&[entry(1, r#"{"what":"expired"}"#), entry(2, r#"{"what":"rebooted"}"#)]).await.unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        let seqs: Vec<u64> = text
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["seq"].as_u64().unwrap())
            .collect();
        assert_eq!(seqs, [1, 2]);
        let failed = Destination::Command(Forker::here(), "cat > /dev/null; echo full >&2; exit 3".into())
            .send(&[entry(3, "{}")])
            .await;
        assert!(failed.unwrap_err().to_string().contains("exit status: 3 full"));
    }

    #[tokio::test]
    async fn a_command_that_hangs_is_killed_with_all_that_it_started() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("pid");
        let line = format!("sleep 300 & echo $! > {}; wait", file.display());
        let error = command(&Forker::here(), &line, &[entry(1, "{}")], Duration::from_secs(1)).unwrap_err();
        assert!(error.to_string().contains("did not end within 1 s"), "{error}");
        let sleeper = Path::new("/proc").join(std::fs::read_to_string(&file).unwrap().trim()).join("exe");
        while sleeper.exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Reads a datagram as journald does; anything that is not its format fails.
    fn fields(mut bytes: &[u8]) -> Vec<(String, String)> {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let end = bytes.iter().position(|byte| *byte == b'\n').expect("a name ends with its line");
            let (name, rest) = (&bytes[..end], &bytes[end + 1..]);
            let good = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_';
            assert!(name.iter().all(good) && name[0].is_ascii_uppercase() && name.len() <= 64, "{name:?}");
            let (length, rest) = rest.split_first_chunk::<8>().expect("a length follows");
            let (value, rest) = rest.split_at(usize::try_from(u64::from_le_bytes(*length)).unwrap());
            bytes = rest.strip_prefix(b"\n").expect("a value ends with its line");
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            fields.push((text(name), text(value)));
        }
        fields
    }

    #[test]
    fn no_text_can_pose_as_another_field() {
        let body = "{\"why\":\"a\nPRIORITY=0\n_UID\n\"}";
        let expected = [
            ("MESSAGE", format!("approval audit 7 a1: {body}")),
            ("PRIORITY", "5".into()),
            ("SYSLOG_IDENTIFIER", "ostler".into()),
            ("OSTLER_AUDIT_SEQ", "7".into()),
            ("OSTLER_AUDIT_ABOUT", "a1".into()),
            ("OSTLER_AUDIT_RECORD", body.to_owned()),
        ];
        let expected: Vec<_> = expected.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        assert_eq!(fields(&datagram(&entry(7, body), body)), expected);
    }

    #[tokio::test]
    async fn what_does_not_fit_a_datagram_is_told_to_be_too_long() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("journal");
        let journal = UnixDatagram::bind(&socket).unwrap();
        let long = format!(r#"{{"what":"failed","why":"{}"}}"#, "x".repeat(4 << 20));
        Destination::Journald(socket).send(&[entry(1, r#"{"what":"expired"}"#), entry(2, &long)]).await.unwrap();
        let mut buffer = vec![0; 65536];
        let mut next = async || {
            let length = journal.recv(&mut buffer).await.unwrap();
            String::from_utf8_lossy(&buffer[..length]).into_owned()
        };
        let (first, second) = (next().await, next().await);
        assert!(first.contains("approval audit 1 a1: {\"what\":\"expired\"}"), "{first}");
        assert!(second.contains("too long") && second.contains("approval audit 2"), "{second}");
    }

    #[tokio::test]
    async fn the_position_survives_and_a_missing_one_is_the_beginning() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(forwarded(dir.path()), None);
        remember(&dir.path().join(POSITION_FILE), 41).await.unwrap();
        assert_eq!(forwarded(dir.path()), Some(41));
    }
}
