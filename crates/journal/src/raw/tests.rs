//! Recovery and reading of journals that were cut, torn or flipped in every place.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use ostler_story::Exit;
use proptest::prelude::*;

use super::*;
use crate::FRAME_MAX;

/// In memory where there is such a place: hundreds of cases need no disk.
fn home() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// What was journaled: frames in order, each with its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Truth {
    frames: Vec<(FrameHead, Vec<u8>)>,
    /// Frames that were said to be damaged: the last of each gap.
    damaged: Vec<u64>,
}

impl Truth {
    fn bytes(&self, kind: Kind) -> Vec<u8> {
        let of_kind = self.frames.iter().filter(|(head, _)| head.kind == kind);
        of_kind.map(|(_, bytes)| bytes.as_slice()).collect::<Vec<_>>().concat()
    }
}

/// A piece of life: some bytes on a stream, or the exit.
#[derive(Clone, Debug)]
enum Piece {
    Output(Kind, usize),
    Exit,
}

fn pieces() -> impl Strategy<Value = Vec<Piece>> {
    let len = prop_oneof![1..20_usize, 1..FRAME_MAX + 1, Just(FRAME_MAX)];
    let output =
        (prop_oneof![Just(Kind::Stdout), Just(Kind::Stderr)], len).prop_map(|(kind, len)| Piece::Output(kind, len));
    prop::collection::vec(prop_oneof![12 => output, 1 => Just(Piece::Exit)], 1..16)
}

/// Byte `at` of a stream: no two places nearby look alike.
fn byte(kind: Kind, at: u64) -> u8 {
    let salt = if kind == Kind::Stderr { 0x5bd1 } else { 0 };
    ((at + salt).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

fn write(dir: &Path, pieces: &[Piece]) -> Truth {
    let journal = Journal::create(dir).unwrap();
    let files = journal.files().unwrap();
    let mut writer = journal.writer();
    for piece in pieces {
        match *piece {
            Piece::Output(kind, len) => {
                let at = writer.len(kind);
                let bytes: Vec<u8> = (at..at + len as u64).map(|at| byte(kind, at)).collect();
                files.raw(kind).write_all_at(&bytes, at).unwrap();
                writer.grew(kind, len);
                journal.index(&mut writer, &files, kind).unwrap();
            }
            Piece::Exit => journal.index_exit(&mut writer, &files, Exit::Code(7)).unwrap(),
        }
    }
    drop(writer);
    read(&journal).unwrap()
}

/// Every frame, or how far it got.
fn read(journal: &Arc<Journal>) -> Result<Truth, (Truth, io::Error)> {
    let mut cursor = Cursor::new(Arc::clone(journal), journal.bounds().first_seq - 1);
    let mut truth = Truth { frames: Vec::new(), damaged: Vec::new() };
    loop {
        let mut bytes = Vec::new();
        match cursor.next_blocking(&mut bytes) {
            Ok(Step::Frame(head)) => truth.frames.push((head, bytes)),
            Ok(Step::Gap { first_seq, missing: Missing::Damaged }) => truth.damaged.push(first_seq - 1),
            Ok(Step::UpToDate) => return Ok(truth),
            Ok(other) => panic!("{other:?}"),
            Err(error) => return Err((truth, error)),
        }
    }
}

fn file(dir: &Path, name: &str) -> File {
    OpenOptions::new().read(true).write(true).open(dir.join(name)).unwrap()
}

fn cut(dir: &Path, name: &str, share: f64) -> u64 {
    let file = file(dir, name);
    let len = (file.metadata().unwrap().len() as f64 * share).round() as u64;
    file.set_len(len).unwrap();
    len
}

/// Often whole, sometimes cut somewhere.
fn share() -> impl Strategy<Value = f64> {
    prop_oneof![Just(1.0), 0.0..1.0_f64]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_cut_off_the_rest_is_a_prefix_and_indexed_frames_do_not_change(
        pieces in pieces(), out in share(), err in share(), idx in share(),
    ) {
        let home = home();
        let dir = home.path().join("j");
        let truth = write(&dir, &pieces);
        let out_len = cut(&dir, "out", out) as usize;
        let err_len = cut(&dir, "err", err) as usize;
        let idx_len = cut(&dir, "idx", idx) as usize;

        let journal = Journal::open(&dir).unwrap();
        prop_assert_eq!(journal.bounds().damaged_from, None);
        let found = read(&journal).map_err(|(_, error)| error).unwrap();
        prop_assert_eq!(found.bytes(Kind::Stdout), &truth.bytes(Kind::Stdout)[..out_len]);
        prop_assert_eq!(found.bytes(Kind::Stderr), &truth.bytes(Kind::Stderr)[..err_len]);

        let mut ends = [0, 0];
        let whole = truth.frames.iter().take(idx_len / 32).take_while(|(head, bytes)| {
            ends[usize::from(head.kind == Kind::Stderr)] += bytes.len();
            ends[0] <= out_len && ends[1] <= err_len
        });
        for (before, after) in whole.zip(&found.frames) {
            prop_assert_eq!(before, after);
        }
        for (position, (head, _)) in found.frames.iter().enumerate() {
            prop_assert_eq!(head.seq, position as u64 + 1);
        }
        drop(journal);
        let again = Journal::open(&dir).unwrap();
        prop_assert_eq!(read(&again).map_err(|(_, error)| error).unwrap(), found, "recovery is done once");
    }

    #[test]
    fn flipped_index_bits_are_noticed_and_never_shown(
        pieces in pieces(), at in any::<prop::sample::Index>(), mask in 1..=255_u8,
    ) {
        let home = home();
        let dir = home.path().join("j");
        let truth = write(&dir, &pieces);
        let idx = file(&dir, "idx");
        let len = idx.metadata().unwrap().len() as usize;
        let at = at.index(len) as u64;
        let mut old = [0];
        idx.read_exact_at(&mut old, at).unwrap();
        idx.write_all_at(&[old[0] ^ mask], at).unwrap();
        let broken = at / 32 + 1;

        let journal = Journal::open(&dir).unwrap();
        let is_last = broken as usize == truth.frames.len();
        prop_assert_eq!(journal.bounds().damaged_from, (!is_last).then_some(broken));
        let found = read(&journal).map_err(|(_, error)| error).unwrap();
        if is_last {
            // The last record was cut, and its bytes indexed again (an exit has none).
            for kind in [Kind::Stdout, Kind::Stderr] {
                prop_assert_eq!(found.bytes(kind), truth.bytes(kind));
            }
        } else {
            // It costs its own frame and no other, and that is said where it is missing.
            let mut rest = truth.frames.clone();
            rest.remove(broken as usize - 1);
            prop_assert_eq!(&found.frames, &rest);
            prop_assert_eq!(&found.damaged, &[broken]);
        }
        // Whoever goes on behind the damage reads on unharmed.
        if !is_last {
            let mut cursor = Cursor::new(Arc::clone(&journal), broken + 1);
            let mut bytes = Vec::new();
            if let Step::Frame(head) = cursor.next_blocking(&mut bytes).unwrap() {
                prop_assert_eq!(&(head, bytes), &truth.frames[broken as usize + 1]);
            }
        }
    }

    #[test]
    fn a_cut_front_is_a_gap_and_the_rest_is_unharmed(pieces in pieces(), at in any::<prop::sample::Index>()) {
        let home = home();
        let dir = home.path().join("j");
        let truth = write(&dir, &pieces);
        let first = at.index(truth.frames.len()) as u64 + 1;
        let journal = Journal::open(&dir).unwrap();
        let mut stale = Cursor::new(Arc::clone(&journal), 0);
        journal.cut_before(first).unwrap();
        for journal in [Arc::clone(&journal), Journal::open(&dir).unwrap()] {
            prop_assert_eq!(journal.bounds().first_seq, first);
            let found = read(&journal).map_err(|(_, error)| error).unwrap();
            prop_assert_eq!(&found.frames[..], &truth.frames[first as usize - 1..]);
        }
        if first > 1 {
            let mut bytes = Vec::new();
            prop_assert_eq!(stale.try_next(&mut bytes).unwrap(), Step::Gap { first_seq: first, missing: Missing::LetGo });
            prop_assert_eq!(stale.position(), first - 1);
        }
    }
}

#[test]
fn the_last_bytes_begin_where_enough_is_left() {
    let home = home();
    let dir = home.path().join("j");
    write(&dir, &vec![Piece::Output(Kind::Stdout, 100); 10]);
    let journal = Journal::open(&dir).unwrap();
    for (bytes, first) in [(0, 11), (1, 10), (100, 10), (101, 9), (999, 1), (1000, 1), (5000, 1)] {
        assert_eq!(journal.tail_from(bytes).unwrap(), first, "{bytes} bytes");
    }
    journal.cut_before(4).unwrap();
    assert_eq!(journal.tail_from(5000).unwrap(), 4);
    assert_eq!(Journal::create(&home.path().join("empty")).unwrap().tail_from(10).unwrap(), 1);
}

#[test]
fn a_tail_after_a_hole_of_zeros_is_cut_only_if_nothing_good_follows() {
    let home = home();
    let dir = home.path().join("j");
    let truth = write(&dir, &vec![Piece::Output(Kind::Stdout, 100); 10]);
    file(&dir, "idx").write_all_at(&[0; 96], 7 * 32).unwrap();
    let journal = Journal::open(&dir).unwrap();
    let found = read(&journal).unwrap();
    assert_eq!(found.frames[..7], truth.frames[..7]);
    assert_eq!(found.frames.len(), 8, "the rest became one frame");
    assert_eq!(found.bytes(Kind::Stdout), truth.bytes(Kind::Stdout));
    assert_eq!(journal.bounds().damaged_from, None);
}

#[test]
fn an_index_longer_than_the_window_is_opened_by_its_end() {
    let home = home();
    let dir = home.path().join("j");
    let mut pieces = vec![Piece::Output(Kind::Stdout, 1); 20_000];
    pieces.push(Piece::Exit);
    pieces.extend(vec![Piece::Output(Kind::Stdout, 1); 10_000]);
    write(&dir, &pieces);
    // Everything after the exit and most of what is before is lost; the exit is found again.
    file(&dir, "out").set_len(29_000).unwrap();
    let journal = Journal::open(&dir).unwrap();
    assert_eq!(journal.bounds().exit.unwrap().seq, 20_001);
    assert_eq!(journal.bounds().last_seq, 29_001);
    drop(journal);
    file(&dir, "out").set_len(3).unwrap();
    let journal = Journal::open(&dir).unwrap();
    assert_eq!((journal.bounds().last_seq, journal.bounds().exit), (3, None));
}

#[test]
fn a_newer_journal_is_refused_and_left_alone() {
    let home = home();
    let dir = home.path().join("j");
    write(&dir, &[Piece::Output(Kind::Stdout, 5)]);
    // Torn: an opener that looked at the index first would cut it.
    file(&dir, "idx").set_len(31).unwrap();
    let newer = super::ctl::head_of_version(4);
    file(&dir, "ctl").write_all_at(&newer, 0).unwrap();
    let Err(error) = Journal::open(&dir) else { panic!("opened") };
    assert!(matches!(error, OpenError::Version { found: 4, ours: 3 }));
    assert_eq!(file(&dir, "idx").metadata().unwrap().len(), 31);
}

#[test]
fn nothing_unfinished_and_damaged_are_told_apart() {
    let home = home();
    let dir = home.path().join("j");
    assert!(matches!(Journal::open(&dir), Err(OpenError::NotFound)));
    write(&dir, &[Piece::Output(Kind::Stdout, 5)]);
    file(&dir, "ctl").write_all_at(b"?", 9).unwrap();
    assert!(matches!(Journal::open(&dir), Err(OpenError::Damaged { .. })));
    std::fs::remove_file(dir.join("ctl")).unwrap();
    assert!(matches!(Journal::open(&dir), Err(OpenError::Unfinished)));
    assert!(Journal::create(&dir).is_err(), "never over something else");
}

#[test]
fn a_limit_cuts_the_front_and_gives_the_space_back() {
    let home = home();
    let dir = home.path().join("j");
    write(&dir, &vec![Piece::Output(Kind::Stdout, FRAME_MAX); 100]);
    let before = disk_usage(&dir).unwrap();
    let options = JournalOptions { live_max: Some(10 * FRAME_MAX as u64), ..JournalOptions::default() };
    let journal = Journal::open_with(&dir, options).unwrap();
    journal.cut_to_limit().unwrap();
    assert_eq!(journal.bounds().first_seq, 91);
    let after = disk_usage(&dir).unwrap();
    assert!(after < before / 5, "{before} -> {after}");
    journal.cut_before(5).unwrap();
    assert_eq!(journal.bounds().first_seq, 91, "what was cut does not come back");
}

#[test]
fn a_memory_journal_lives_in_the_descriptors_somebody_keeps() {
    let journal = Journal::in_memory(JournalOptions::default()).unwrap();
    let held = journal.held().unwrap();
    let files = journal.files().unwrap();
    files.out.write_all_at(b"never indexed", 0).unwrap();
    drop((journal, files));
    let again = Journal::from_held(held, JournalOptions::default()).unwrap();
    assert_eq!(read(&again).unwrap().bytes(Kind::Stdout), b"never indexed");
    assert_eq!(again.dir(), None);
}

#[test]
fn files_are_for_their_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let home = home();
    let dir = home.path().join("a/j");
    write(&dir, &[]);
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&dir), 0o700);
    for name in ["out", "err", "idx", "in", "ctl"] {
        assert_eq!(mode(&dir.join(name)), 0o600, "{name}");
    }
}
