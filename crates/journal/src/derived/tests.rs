//! Recovery and reading of event journals that were cut, torn or flipped in every place.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::sync::atomic::AtomicUsize;
use std::time::Instant;

use proptest::prelude::*;

use super::record::Record;
use super::*;
use crate::index::Record as _;
use crate::raw::{Missing, disk_usage};

/// In memory where there is such a place: hundreds of cases need no disk.
fn home() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn file(dir: &Path, name: &str) -> File {
    OpenOptions::new().read(true).write(true).open(dir.join(name)).unwrap()
}

/// Source, raw offset and payload of a record.
type Line = (u32, u64, Vec<u8>);

/// Two agents that take turns, and payloads no two of which look alike.
fn lines(sizes: &[usize]) -> Vec<Line> {
    let line = |(number, size): (usize, &usize)| {
        let payload = (0..*size).map(|at| (number * 31 + at * 7) as u8).collect();
        (1 + number as u32 % 2, 10 * (number as u64 + 1), payload)
    };
    sizes.iter().enumerate().map(line).collect()
}

/// Appends them all; how many were new.
fn derive(journal: &Arc<EventJournal>, lines: &[Line]) -> usize {
    let append = |(source, src_end, payload): &Line| journal.append(*source, *src_end, payload).unwrap();
    lines.iter().filter_map(append).count()
}

fn written(dir: &Path, lines: &[Line]) -> Arc<EventJournal> {
    let journal = EventJournal::create(dir).unwrap();
    assert_eq!(derive(&journal, lines), lines.len());
    journal
}

/// Everything after a record, of which nothing is missing.
fn read_after(journal: &Arc<EventJournal>, after: u64) -> Vec<Line> {
    let (lines, gaps) = read_with_gaps(journal, after);
    assert_eq!(gaps, []);
    lines
}

/// Everything after a record, and what was said to be missing.
fn read_with_gaps(journal: &Arc<EventJournal>, after: u64) -> (Vec<Line>, Vec<(u64, Missing)>) {
    let mut cursor = EventCursor::new(Arc::clone(journal), after);
    let (mut lines, mut gaps) = (Vec::new(), Vec::new());
    loop {
        let mut payload = Vec::new();
        match cursor.next_blocking(&mut payload) {
            Ok(EventStep::Event(head)) => {
                assert_eq!((head.record, head.len), (cursor.position(), payload.len()));
                lines.push((head.source, head.src_end, payload));
            }
            Ok(EventStep::UpToDate) => return (lines, gaps),
            Ok(EventStep::Gap { first, missing }) => gaps.push((first, missing)),
            other => panic!("{other:?}"),
        }
    }
}

fn read(journal: &Arc<EventJournal>) -> Vec<Line> {
    read_after(journal, 0)
}

fn sizes() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(prop_oneof![Just(0), 1..50_usize, 1..20_000_usize], 1..20)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn whatever_was_cut_off_is_derived_again_and_nothing_else(
        sizes in sizes(), index in any::<prop::sample::Index>(), data in any::<prop::sample::Index>(),
        junk in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let home = home();
        let truth = lines(&sizes);
        drop(written(home.path(), &truth));
        for (name, at) in [("events.idx", index), ("events", data)] {
            let file = file(home.path(), name);
            let len = at.index(file.metadata().unwrap().len() as usize + 1) as u64;
            file.set_len(len).unwrap();
            file.write_all_at(&junk, len).unwrap();
        }
        let journal = EventJournal::open(home.path()).unwrap();
        let found = read(&journal);
        prop_assert!(found.len() <= truth.len());
        // Junk behind the data may stand where a payload was: that is what the mark is for. Places never differ.
        for ((source, src_end, payload), wanted) in found.iter().zip(&truth) {
            prop_assert_eq!((*source, *src_end, payload.len()), (wanted.0, wanted.1, wanted.2.len()));
        }
        let again = derive(&journal, &truth);
        prop_assert_eq!(found.len() + again, truth.len());
        prop_assert_eq!(journal.bounds(), EventBounds { first: 1, last: truth.len() as u64, damaged_from: None });
        prop_assert_eq!(&read(&journal)[found.len()..], &truth[found.len()..]);
        let data_len = file(home.path(), "events").metadata().unwrap().len();
        prop_assert_eq!(data_len, sizes.iter().sum::<usize>() as u64);
        prop_assert_eq!(derive(&journal, &truth), 0, "deriving again doubles nothing");
        prop_assert_eq!(read(&EventJournal::open(home.path()).unwrap()), read(&journal));
    }

    #[test]
    fn a_flipped_bit_names_its_record_and_harms_no_other(
        sizes in sizes(), at in any::<prop::sample::Index>(), bit in 0..8_u8,
    ) {
        let home = home();
        let truth = lines(&sizes);
        drop(written(home.path(), &truth));
        let index = file(home.path(), "events.idx");
        let at = at.index(sizes.len() * RECORD) as u64;
        let mut byte = [0];
        index.read_exact_at(&mut byte, at).unwrap();
        index.write_all_at(&[byte[0] ^ 1 << bit], at).unwrap();
        let broken = at as usize / RECORD;
        let journal = EventJournal::open(home.path()).unwrap();
        if broken + 1 == truth.len() {
            // The last one: as if it had never been written.
            prop_assert_eq!(&read(&journal)[..], &truth[..broken]);
            prop_assert_eq!(derive(&journal, &truth), 1);
            prop_assert_eq!(read(&journal), truth);
        } else {
            prop_assert_eq!(journal.bounds().damaged_from, Some(broken as u64 + 1));
            let (found, gaps) = read_with_gaps(&journal, 0);
            prop_assert_eq!(gaps, [(broken as u64 + 2, Missing::Damaged)]);
            prop_assert_eq!(found, [&truth[..broken], &truth[broken + 1..]].concat());
            prop_assert_eq!(&read_after(&journal, broken as u64 + 1)[..], &truth[broken + 1..]);
            journal.cut_before(broken as u64 + 2).unwrap();
            prop_assert_eq!(&read_after(&journal, broken as u64 + 1)[..], &truth[broken + 1..]);
        }
    }

    #[test]
    fn a_cut_front_is_a_gap_and_the_rest_is_unharmed(sizes in sizes(), at in any::<prop::sample::Index>()) {
        let home = home();
        let truth = lines(&sizes);
        let journal = written(home.path(), &truth);
        let first = at.index(truth.len() + 1) as u64 + 1;
        let mut stale = EventCursor::new(Arc::clone(&journal), 0);
        journal.cut_before(first).unwrap();
        for journal in [Arc::clone(&journal), EventJournal::open(home.path()).unwrap()] {
            prop_assert_eq!(journal.bounds().first, first);
            prop_assert_eq!(&read_after(&journal, first - 1)[..], &truth[first as usize - 1..]);
            prop_assert_eq!(derive(&journal, &truth), 0, "what was cut is not derived again");
        }
        if (2..=truth.len() as u64).contains(&first) {
            let mut payload = Vec::new();
            prop_assert_eq!(stale.try_next(&mut payload).unwrap(), EventStep::Gap { first, missing: Missing::LetGo });
            prop_assert_eq!(stale.position(), first - 1);
        }
    }
}

#[test]
fn a_line_is_taken_once_and_the_engine_is_always_heard() {
    let home = home();
    let journal = EventJournal::create(home.path()).unwrap();
    assert_eq!(journal.derived_up_to(1), 0);
    // Before it said anything, twice; its first line; that line again; its end.
    for (src_end, wanted) in [(0, Some(1)), (0, None), (7, Some(2)), (7, None), (6, None), (u64::MAX, Some(3))] {
        assert_eq!(journal.append(1, src_end, b"x").unwrap(), wanted, "{src_end}");
    }
    assert_eq!(journal.append(2, 5, b"of another").unwrap(), Some(4));
    for (number, wanted) in [(0, 5), (0, 6), (9, 7), (3, 8)] {
        assert_eq!(journal.append(ENGINE, number, b"said").unwrap(), Some(wanted));
    }
    for journal in [Arc::clone(&journal), EventJournal::open(home.path()).unwrap()] {
        let up_to = [ENGINE, 1, 2, 3].map(|source| journal.derived_up_to(source));
        assert_eq!(up_to, [9, u64::MAX, 5, 0]);
        assert_eq!(journal.append(1, u64::MAX, b"x").unwrap(), None);
    }
}

#[test]
fn a_payload_that_no_reader_would_take_is_refused() {
    let home = home();
    let journal = EventJournal::create(home.path()).unwrap();
    let error = journal.append(1, 5, &vec![0; PAYLOAD_MAX + 1]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    assert_eq!((journal.bounds().last, journal.derived_up_to(1)), (0, 0));
}

#[test]
fn in_another_boot_only_what_was_synced_counts() {
    let home = home();
    let truth = lines(&[100; 10]);
    drop(written(home.path(), &truth));
    // The length was kept, the content was not.
    file(home.path(), "events").write_all_at(&[0; 500], 500).unwrap();
    let mark = Mark { out: 400, err: 4 * RECORD as u64 };
    let journal = EventJournal::new(Home::at(home.path()), Trust::Only(mark)).unwrap();
    assert_eq!(read(&journal), truth[..4]);
    assert_eq!(derive(&journal, &truth), 6);
    assert_eq!(read(&EventJournal::open(home.path()).unwrap()), truth);
}

#[test]
fn what_was_cut_away_was_on_the_disk_whatever_the_mark_says() {
    let home = home();
    let truth = lines(&[100; 10]);
    written(home.path(), &truth).cut_before(8).unwrap();
    let mark = Mark { out: 0, err: 0 };
    let journal = EventJournal::new(Home::at(home.path()), Trust::Only(mark)).unwrap();
    assert_eq!((journal.bounds().first, journal.bounds().last), (8, 7));
    assert_eq!(derive(&journal, &truth), 3);
    assert_eq!(read_after(&journal, 7), truth[7..]);
    file(home.path(), "events.idx").set_len(5 * RECORD as u64).unwrap();
    assert!(matches!(EventJournal::open(home.path()), Err(OpenError::Damaged { .. })), "a lost index is not hidden");
}

#[test]
fn cutting_gives_the_space_of_payloads_back() {
    let home = home();
    let journal = written(home.path(), &lines(&[64 * 1024; 100]));
    let before = disk_usage(home.path()).unwrap();
    journal.cut_before(91).unwrap();
    let after = disk_usage(home.path()).unwrap();
    assert!(after < before / 5, "{before} -> {after}");
    journal.cut_before(5).unwrap();
    assert_eq!(journal.bounds().first, 91, "what was cut does not come back");
}

#[test]
fn a_hundred_thousand_records_are_opened_in_one_pass() {
    let home = home();
    drop(EventJournal::create(home.path()).unwrap());
    let size = None;
    let record =
        |number: u64| Record { data_end: number * 3, src_end: number, time_ns: 1, source: number as u32 % 5, size };
    let index: Vec<u8> = (1..=100_000).flat_map(|number| record(number).encode(number)).collect();
    file(home.path(), "events.idx").write_all_at(&index, 0).unwrap();
    file(home.path(), "events").set_len(300_002).unwrap();
    let start = Instant::now();
    let journal = EventJournal::open(home.path()).unwrap();
    println!("opened in {:?}", start.elapsed());
    assert_eq!(journal.bounds().last, 100_000);
    let up_to = [0, 1, 2, 3, 4].map(|source| journal.derived_up_to(source));
    assert_eq!(up_to, [100_000, 99_996, 99_997, 99_998, 99_999]);
    assert_eq!(file(home.path(), "events").metadata().unwrap().len(), 300_000);
}

#[test]
fn a_subscriber_is_woken_once_for_each_time_it_asks() {
    let home = home();
    let journal = EventJournal::create(home.path()).unwrap();
    let wakes = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&wakes);
    let wake = move || {
        counted.fetch_add(1, Ordering::SeqCst);
    };
    let subscription = journal.subscribe(Arc::new(wake));
    derive(&journal, &lines(&[5, 5, 5]));
    assert_eq!(wakes.load(Ordering::SeqCst), 1);
    subscription.arm();
    assert_eq!(journal.append(1, 1, b"old").unwrap(), None);
    assert_eq!(wakes.load(Ordering::SeqCst), 1, "nothing new");
    journal.cut_before(2).unwrap();
    assert_eq!(wakes.load(Ordering::SeqCst), 2);
    drop(subscription);
    journal.append(ENGINE, 0, b"unheard").unwrap();
    assert_eq!(wakes.load(Ordering::SeqCst), 2);
}

#[test]
fn closed_files_are_opened_again_when_needed() {
    let home = home();
    let truth = lines(&[40; 6]);
    let journal = written(home.path(), &truth[..3]);
    let mut cursor = EventCursor::new(Arc::clone(&journal), 2);
    journal.close_files();
    derive(&journal, &truth);
    journal.close_files();
    let mut payload = Vec::new();
    assert!(matches!(cursor.next_blocking(&mut payload), Ok(EventStep::Event(head)) if head.record == 3));
    assert_eq!(read(&journal), truth);
}

#[test]
fn nothing_unfinished_finished_and_newer_are_told_apart() {
    let home = home();
    let dir = home.path().join("session");
    assert!(matches!(EventJournal::open(&dir), Err(OpenError::NotFound)));
    std::fs::create_dir(&dir).unwrap();
    assert!(matches!(EventJournal::open(&dir), Err(OpenError::NotFound)));
    for begun in ["events", "events.idx", "events.ctl"] {
        std::fs::write(dir.join(begun), "").unwrap();
        assert!(matches!(EventJournal::open(&dir), Err(OpenError::Unfinished)), "{begun}");
    }
    drop(written(&dir, &lines(&[5])));
    let again = EventJournal::create(&dir).err().unwrap();
    assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
    // Torn: an opener that looked at the index first would cut it.
    file(&dir, "events.idx").set_len(31).unwrap();
    let newer = crate::raw::ctl::head_of_version(4);
    file(&dir, "events.ctl").write_all_at(&newer, 0).unwrap();
    assert!(matches!(EventJournal::open(&dir), Err(OpenError::Version { found: 4, ours: 3 })));
    assert_eq!(file(&dir, "events.idx").metadata().unwrap().len(), 31);
}

#[test]
fn files_are_for_their_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let home = home();
    let dir = home.path().join("a/session");
    drop(written(&dir, &[]));
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&dir), 0o700);
    for name in ["events", "events.idx", "events.ctl"] {
        assert_eq!(mode(&dir.join(name)), 0o600, "{name}");
    }
}

fn texts(count: usize, size: usize) -> Vec<Vec<u8>> {
    (0..count).map(|number| vec![number as u8; size]).collect()
}

#[test]
fn what_was_appended_together_is_there_up_to_any_cut() {
    let (dir, all) = (home(), texts(5, 3));
    let journal = EventJournal::create(&dir.path().join("j")).unwrap();
    assert_eq!(journal.append_all(0, &all).unwrap(), 5);
    drop(journal);
    for cut in 0..=5 * RECORD as u64 {
        file(&dir.path().join("j"), "events.idx").set_len(cut).unwrap_or_else(|_| panic!("cut at {cut}"));
        let journal = EventJournal::open(&dir.path().join("j")).unwrap();
        let whole = (cut / RECORD as u64) as usize;
        let there: Vec<_> = read_after(&journal, 0).into_iter().map(|(_, _, payload)| payload).collect();
        assert_eq!(there, all[..whole]);
        // Written again, it is as if nothing had happened.
        assert_eq!(journal.append_all(0, &all[whole..]).unwrap(), 5);
    }
}

#[test]
fn a_journal_is_cut_by_size_and_by_age_and_gives_its_index_back() {
    let dir = home();
    let dir = dir.path().join("j");
    let journal = EventJournal::create(&dir).unwrap();
    for _ in 0..40 {
        journal.append_all(0, &texts(100, 50)).unwrap();
    }
    let before = disk_usage(&dir).unwrap();
    // Nothing beyond what is to be kept, however small the bounds are.
    journal.cut_to(0, u64::MAX, 3).unwrap();
    assert_eq!(journal.bounds().first, 3);
    journal.cut_to(1000 * 50, 0, 4001).unwrap();
    assert_eq!(journal.bounds().first, 3001);
    assert!(disk_usage(&dir).unwrap() < before / 2);
    drop(journal);
    let journal = EventJournal::open(&dir).unwrap();
    assert_eq!(journal.bounds(), EventBounds { first: 3001, last: 4000, damaged_from: None });
    assert_eq!(read_after(&journal, 3000).len(), 1000);
    assert_eq!(read_with_gaps(&journal, 7).1, [(3001, Missing::LetGo)]);
    assert_eq!(journal.append_all(0, &texts(1, 5)).unwrap(), 4001);
    let time = crate::sys::now_ns() + 1_000_000_000;
    journal.cut_to(u64::MAX, time, 4001).unwrap();
    assert_eq!(journal.bounds().first, 4001);
    drop(journal);
    assert_eq!(read_after(&EventJournal::open(&dir).unwrap(), 4000).len(), 1);
}
