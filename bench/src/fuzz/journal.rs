//! Journal recovery: whatever is cut off, torn or flipped in the files, what is read afterwards is a prefix of what was
//! written; a record that was damaged is named and costs its own frame, and the rest stays readable. Shared with `fuzz/`, so
//! it uses nothing of this program.
//!
//! An input is a script. Its first byte is the number of steps that write a journal (stdout, stderr or reopen, each with
//! a size), the rest is damage. Index damage is at most three bits in all or a cut tail: that much the index promises to
//! notice.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use ostler_journal::{Cursor, Journal, Kind, Missing, Step};
use ostler_story::Exit;

/// Flipped bits that the check of a record must notice.
const MAX_FLIPS: usize = 3;

/// Size of an index record.
const RECORD: u64 = 32;

/// A folder in memory if there is one; removed when dropped.
pub(crate) struct Workshop(PathBuf);

impl Workshop {
    pub(crate) fn new() -> io::Result<Self> {
        let memory = Path::new("/dev/shm");
        let base = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
        let dir = base.join(format!("ostler-fuzz-{}", std::process::id()));
        std::fs::create_dir_all(&dir)?;
        Ok(Self(dir))
    }

    pub(crate) fn check(&self, input: &[u8]) -> Result<(), String> {
        let dir = self.0.join("journal");
        let _ = std::fs::remove_dir_all(&dir);
        let mut script = input.iter().copied();
        let truth = Truth::write(&dir, &mut script).map_err(|error| format!("writing: {error}"))?;
        let damage = damage(&dir, &mut script).map_err(|error| format!("damaging: {error}"))?;
        truth.compare(&dir, damage)
    }
}

impl Drop for Workshop {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What was written, stream by stream, and the frames it became.
#[derive(Default)]
struct Truth {
    out: Vec<u8>,
    err: Vec<u8>,
    frames: Vec<Frame>,
}

/// A frame as a reader gets it: its stream, its place there, its bytes.
struct Frame {
    kind: Kind,
    from: u64,
    bytes: Vec<u8>,
}

impl Frame {
    fn end(&self) -> u64 {
        self.from + self.bytes.len() as u64
    }
}

/// What was done to the files.
#[derive(Clone, Copy, Default)]
struct Damage {
    /// Bits of the index that were flipped.
    flips: usize,
    /// Output was cut off.
    cut: bool,
}

/// Sizes from one byte up to a little more than a frame.
fn size(byte: u8) -> usize {
    match byte {
        0..=199 => usize::from(byte),
        _ => usize::from(byte - 199) * 650,
    }
}

impl Truth {
    fn write(dir: &Path, script: &mut impl Iterator<Item = u8>) -> io::Result<Self> {
        drop(Journal::create(dir)?);
        let mut truth = Self::default();
        for _ in 0..script.next().unwrap_or(0) % 16 {
            let (what, length) = (script.next().unwrap_or(0), size(script.next().unwrap_or(0)));
            match what % 4 {
                0 => append(&dir.join("out"), &mut truth.out, length, 0x55)?,
                1 => append(&dir.join("err"), &mut truth.err, length, 0xaa)?,
                // Opening indexes what was appended.
                2 => drop(Journal::open(dir).map_err(io::Error::other)?),
                _ => {
                    Journal::open(dir).map_err(io::Error::other)?.record_exit(Exit::Code(7))?;
                    break;
                }
            }
        }
        truth.frames = read(dir).map_err(io::Error::other)?.frames;
        Ok(truth)
    }

    fn compare(&self, dir: &Path, damage: Damage) -> Result<(), String> {
        let found = read(dir)?;
        for (name, kind, written) in [("stdout", Kind::Stdout, &self.out), ("stderr", Kind::Stderr, &self.err)] {
            let mut end = 0;
            for frame in found.frames.iter().filter(|frame| frame.kind == kind) {
                if frame.from != end && found.gaps == 0 {
                    return Err(format!("{name} is not whole at byte {end}, and nobody says so"));
                }
                end = frame.end();
                let from = usize::try_from(frame.from).unwrap_or(usize::MAX);
                let there = written.get(from..from.saturating_add(frame.bytes.len())).unwrap_or_default();
                let same = frame.bytes.iter().zip(there).take_while(|(a, b)| a == b).count();
                if same < frame.bytes.len() {
                    return Err(format!("{name} differs from what was written at byte {}", from + same));
                }
            }
        }
        if found.gaps > damage.flips {
            return Err(format!("{} gaps after {} flipped bits", found.gaps, damage.flips));
        }
        let lost = self.frames.iter().filter(|frame| !found.holds(frame)).count();
        if lost > damage.flips && !damage.cut {
            return Err(format!("{} flipped bits cost {lost} frames", damage.flips));
        }
        let exits = found.frames.iter().filter(|frame| frame.kind == Kind::Exit).count();
        if exits > 1 {
            return Err(format!("{exits} exits"));
        }
        Ok(())
    }
}

fn append(path: &Path, truth: &mut Vec<u8>, length: usize, salt: u8) -> io::Result<()> {
    let start = truth.len();
    truth.extend((start..start + length).map(|at| (at as u8).wrapping_mul(31) ^ (at >> 8) as u8 ^ salt));
    let mut file = OpenOptions::new().append(true).open(path)?;
    file.write_all(truth.get(start..).unwrap_or_default())
}

/// Everything that a reader gets, in order.
#[derive(Default)]
struct Found {
    frames: Vec<Frame>,
    /// How often it was said that something is damaged.
    gaps: usize,
}

impl Found {
    /// Whether every byte of this frame was read, in whatever frames it is now.
    fn holds(&self, wanted: &Frame) -> bool {
        let mut at = wanted.from;
        for frame in self.frames.iter().filter(|frame| frame.kind == wanted.kind && frame.end() > wanted.from) {
            if frame.from > at {
                return false;
            }
            at = frame.end();
            if at >= wanted.end() {
                return true;
            }
        }
        // The end of a process has no bytes, and may be noted anew.
        wanted.bytes.is_empty()
    }
}

fn read(dir: &Path) -> Result<Found, String> {
    let journal = Journal::open(dir).map_err(|error| format!("opening: {error}"))?;
    read_open(&journal).map_err(|error| format!("reading: {error}"))
}

fn read_open(journal: &std::sync::Arc<Journal>) -> io::Result<Found> {
    let mut cursor = Cursor::new(std::sync::Arc::clone(journal), 0);
    let mut found = Found::default();
    loop {
        let mut bytes = Vec::new();
        match cursor.next_blocking(&mut bytes)? {
            Step::Frame(head) => found.frames.push(Frame { kind: head.kind, from: head.from, bytes }),
            Step::UpToDate => return Ok(found),
            Step::Gap { missing: Missing::Damaged, .. } => found.gaps += 1,
            Step::Gap { .. } | Step::WouldBlock => return Err(io::Error::other("a gap that nobody cut")),
        }
    }
}

/// Damages the files as the script says.
fn damage(dir: &Path, script: &mut impl Iterator<Item = u8>) -> io::Result<Damage> {
    let mut damage = Damage::default();
    while let Some(what) = script.next() {
        let (a, b) = (script.next().unwrap_or(0), script.next().unwrap_or(0));
        let at = u64::from(a) | u64::from(b) << 8;
        match what % 6 {
            0 => cut(&dir.join("idx"), at)?,
            1 => cut(&dir.join("idx"), at * RECORD)?,
            2 | 3 => {
                damage.cut = true;
                cut(&dir.join(if what % 6 == 2 { "out" } else { "err" }), at)?;
            }
            4 if damage.flips < MAX_FLIPS => damage.flips += flip(&dir.join("idx"), at, what >> 5)?,
            // What a crash of the machine leaves behind a file that had grown.
            5 => OpenOptions::new().append(true).open(dir.join("idx"))?.write_all(&vec![0; usize::from(a)])?,
            _ => {}
        }
    }
    Ok(damage)
}

fn cut(path: &Path, length: u64) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    if file.metadata()?.len() > length { file.set_len(length) } else { Ok(()) }
}

fn flip(path: &Path, at: u64, bit: u8) -> io::Result<usize> {
    let file: File = OpenOptions::new().read(true).write(true).open(path)?;
    let length = file.metadata()?.len();
    if length == 0 {
        return Ok(0);
    }
    let mut byte = [0];
    file.read_exact_at(&mut byte, at % length)?;
    file.write_all_at(&byte.map(|byte| byte ^ 1 << bit), at % length)?;
    Ok(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes 300 bytes of stdout and 40 of stderr as frames, then an exit.
    fn written(workshop: &Workshop) -> (PathBuf, Truth) {
        let dir = workshop.0.join("journal");
        let _ = std::fs::remove_dir_all(&dir);
        let mut script = [5, 0, 150, 2, 0, 0, 150, 1, 40, 3, 0].into_iter();
        let truth = Truth::write(&dir, &mut script).unwrap();
        assert_eq!((truth.out.len(), truth.err.len(), truth.frames.len()), (300, 40, 4));
        (dir, truth)
    }

    #[test]
    fn a_cut_journal_is_a_prefix_and_a_changed_byte_is_found() {
        let workshop = Workshop::new().unwrap();
        let (dir, truth) = written(&workshop);
        truth.compare(&dir, Damage::default()).unwrap();

        cut(&dir.join("idx"), RECORD + 5).unwrap();
        truth.compare(&dir, Damage::default()).unwrap();

        let (dir, truth) = written(&workshop);
        flip(&dir.join("out"), 200, 3).unwrap();
        let why = truth.compare(&dir, Damage::default()).unwrap_err();
        assert!(why.contains("stdout differs from what was written at byte 200"), "{why}");

        let (dir, truth) = written(&workshop);
        assert_eq!(flip(&dir.join("idx"), RECORD + 3, 2).unwrap(), 1);
        truth.compare(&dir, Damage { flips: 1, cut: false }).unwrap();
        let (dir, truth) = written(&workshop);
        flip(&dir.join("idx"), RECORD + 3, 2).unwrap();
        assert!(truth.compare(&dir, Damage::default()).is_err(), "a flipped bit must not pass unnoticed");
    }
}
