//! Everything about the feed that needs no engine: what an entry says, how it is brought into line with its sources after a cut
//! at any point, what is kept, and what a reader who comes too late is told.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use ostler_journal::{EventStep, Missing};
use ostler_story::FilePath;
use proptest::prelude::*;

use super::entry::{Checkpoint, ENDED, Entry, STARTED};
use super::pending::Batch;
use super::sum::{News, Source, Sum, What, weave};
use super::writer::{Refused, VERSION, Writer};
use super::*;
use crate::may_wait::IN_A_TEST as WAIT;

fn said(session: &str, at: u64, time_ns: u64, kind: Kind) -> News {
    News { source: Source::Session(session.into()), at, time_ns, what: What::Said(kind) }
}

fn process(id: &str, at: u64, time_ns: u64) -> News {
    News { source: Source::Process(id.into()), at, time_ns, what: What::Process(None) }
}

fn noted(at: u64, time_ns: u64) -> News {
    let noted = Noted { kind: Kind::ApprovalAsked, id: Some(format!("a{at}")), session: None };
    News { source: Source::Audit, at, time_ns, what: What::Noted(noted) }
}

/// What a reader is told of these entries.
fn told(entries: &[Entry]) -> Vec<Change> {
    let numbered = (1..).zip(entries.iter().cloned());
    numbered.flat_map(|(number, entry)| entry.changes(number, number << 11, None)).collect()
}

/// A name for what a change is about, and its numbers there.
fn which(change: &Change) -> (String, u64, u64) {
    let about = change.process.clone().or(change.session.clone()).unwrap_or_else(|| "audit".into());
    let process = |kind| if kind == Kind::ProcessStarted { STARTED } else { ENDED };
    let (from, to) = change.records.unwrap_or((process(change.kind), process(change.kind)));
    (about, from, to)
}

/// Each source from its first change to its last, none missing and none twice.
fn counted(entries: &[Entry]) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for change in told(entries) {
        let (about, from, to) = which(&change);
        let count = counts.entry(about.clone()).or_insert(0);
        assert_eq!(from, *count + 1, "{about}: {change:?}");
        *count = to;
    }
    counts
}

#[test]
fn a_run_is_one_entry_and_each_of_its_changes_has_an_address() {
    let kinds = [Kind::SessionMade, Kind::SessionSaid, Kind::SessionSaid, Kind::TurnEnded, Kind::SessionSaid];
    let news = (1..).zip(kinds).map(|(at, kind)| said("s1", at, at, kind));
    let entries = Sum::default().tell(news);
    assert_eq!(entries.len(), 1);
    let all = told(&entries);
    let kinds: Vec<(Kind, u64, u64)> =
        all.iter().map(|change| (change.kind, which(change).1, which(change).2)).collect();
    let run =
        [(Kind::SessionMade, 1, 1), (Kind::SessionSaid, 2, 3), (Kind::TurnEnded, 4, 4), (Kind::SessionSaid, 5, 5)];
    assert_eq!(kinds, run);
    // From the middle of what is told as one.
    let rest: Vec<_> = entries[0].clone().changes(1, 0, Some(1)).iter().map(|change| change.records).collect();
    assert_eq!(rest, [Some((3, 3)), Some((4, 4)), Some((5, 5))]);
    assert!(entries[0].clone().changes(1, 0, Some(4)).is_empty());
    for change in all {
        let after = change.position.index;
        let rest = entries[0].clone().changes(1, 1 << 11, after);
        assert!(rest.iter().all(|next| next.records > change.records), "{change:?}: {rest:?}");
    }
}

#[test]
fn an_entry_reads_back_and_what_is_newer_tells_nothing() {
    let news = [said("s1", 2, 0, Kind::TurnBegan), process("p1", ENDED, 0), noted(3, 0)];
    let mut sum = Sum::default();
    for entry in sum.tell(news) {
        assert_eq!(Entry::decode(&entry.encode()), Some(entry));
    }
    assert_eq!(Entry::decode(br#"{"host":{"name":"far"}}"#), None);
    assert_eq!(serde_json::from_str::<Sum>(&serde_json::to_string(&sum).unwrap()).unwrap(), sum);
}

#[test]
fn what_nobody_noted_is_told_as_words_and_nothing_twice() {
    let mut sum = Sum::default();
    let entries = sum.tell([said("s1", 3, 0, Kind::TurnEnded), noted(2, 0), process("p1", ENDED, 0)]);
    let kinds: Vec<Kind> = told(&entries).iter().map(|change| change.kind).collect();
    use Kind::{ApprovalAsked, AuditNoted, ProcessEnded, ProcessStarted, SessionSaid, TurnEnded};
    assert_eq!(kinds, [SessionSaid, TurnEnded, AuditNoted, ApprovalAsked, ProcessStarted, ProcessEnded]);
    assert!(sum.tell([said("s1", 2, 0, Kind::TurnBegan), noted(1, 0), process("p1", STARTED, 0)]).is_empty());
}

#[test]
fn what_is_deleted_is_told_once_with_the_place_that_nothing_else_says() {
    let gone = || News {
        source: Source::Session("s1".into()),
        at: u64::MAX,
        time_ns: 0,
        what: What::Forgotten(Some(FilePath("/w".into()))),
    };
    let mut sum = Sum::default();
    let entries = sum.tell([said("s1", 1, 0, Kind::SessionMade), gone(), gone()]);
    let last = told(&entries).pop().unwrap();
    assert_eq!(
        (entries.len(), last.kind, last.workspace.clone()),
        (2, Kind::SessionForgotten, Some(FilePath("/w".into())))
    );
    assert_eq!(sum, Sum::default());
}

#[test]
fn a_clock_that_was_put_back_does_not_change_what_came_first() {
    let woven = weave(vec![vec![noted(1, 50), noted(2, 10), noted(3, 60)], vec![process("p1", STARTED, 55)]]);
    let order: Vec<u64> = woven.iter().map(|news| if news.source == Source::Audit { news.at } else { 0 }).collect();
    assert_eq!(order, [1, 2, 0, 3]);
}

/// A history over a few sources, in the order in which it happened.
fn history() -> impl Strategy<Value = Vec<News>> {
    prop::collection::vec(0..5_usize, 0..40).prop_map(|steps| {
        let (mut counts, mut news) = ([0_u64; 5], Vec::new());
        for (time, source) in (1..).zip(steps) {
            counts[source] += 1;
            let at = counts[source];
            match source {
                0 | 1 => news.push(said(
                    &format!("s{source}"),
                    at,
                    time,
                    [Kind::SessionSaid, Kind::TurnEnded][at as usize % 2],
                )),
                2 | 3 if at <= ENDED => news.push(process(&format!("p{source}"), at, time)),
                4 => news.push(noted(at, time)),
                _ => {}
            }
        }
        news
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever the feed had of a history when the daemon died, and however often it dies while it is brought into line: each
    /// change is told once, what was told stays, and what follows is in the order of the time.
    #[test]
    fn whatever_was_cut_off_is_told_once_and_in_one_order(history in history(), window in 1..6_usize, dies in 0..8_usize) {
        // The feed takes what is noted in groups, so that runs arise.
        let mut sum = Sum::default();
        let whole: Vec<Entry> = history.chunks(window).flat_map(|group| sum.tell(group.to_vec())).collect();
        let totals = counted(&whole);
        for cut in 0..=whole.len() {
            let mut feed = whole[..cut].to_vec();
            for attempt in 0..=dies {
                let mut sum = Sum::default();
                feed.iter().for_each(|entry| sum.take(entry));
                let behind = |source: &Source| history.iter().filter(|news| news.source == *source && news.at > sum.of(source)).cloned().collect::<Vec<_>>();
                let sources = ["s0", "s1"].map(|id| Source::Session(id.into())).into_iter()
                    .chain(["p2", "p3"].map(|id| Source::Process(id.into()))).chain([Source::Audit]);
                let missing = weave(sources.map(|source| behind(&source)).collect());
                prop_assert!(missing.is_sorted_by_key(|news| news.time_ns));
                let entries = sum.tell(missing);
                // Killed after some of it, but not for ever.
                let written = if attempt < dies { (attempt + cut) % (entries.len() + 1) } else { entries.len() };
                feed.extend(entries.into_iter().take(written));
                prop_assert_eq!(&feed[..cut], &whole[..cut]);
            }
            prop_assert_eq!(counted(&feed), totals.clone());
        }
    }
}

/// A session with so many records, and an audit with so many entries.
struct Disk {
    records: u64,
    entries: u64,
}

impl Sources for Disk {
    fn records(&self, _: &MayWait, _: &str, after: u64, to: u64) -> io::Result<Vec<(u64, u64, Kind)>> {
        Ok((after + 1..=to.min(self.records)).map(|at| (at, at, Kind::SessionSaid)).collect())
    }

    fn audit(&self, _: &MayWait, after: u64, to: u64) -> io::Result<Vec<(u64, u64, Noted)>> {
        let noted = || Noted { kind: Kind::ApprovalAsked, id: None, session: Some("s1".into()) };
        Ok((after + 1..=to.min(self.entries)).map(|at| (at, at, noted())).collect())
    }

    fn is_gone(&self, _: &str) -> bool {
        true
    }
}

impl Disk {
    fn found(&self) -> FoundAtStart {
        let (id, workspace) = ("s1".to_owned(), "/w".into());
        let sessions = if self.records > 0 { vec![FoundSession { id, last: self.records, workspace }] } else { vec![] };
        FoundAtStart { sessions, processes: Vec::new(), audit: Some(self.entries) }
    }

    fn open(&self, dir: &Path) -> Writer {
        Writer::open(WAIT, dir, &self.found(), self).unwrap()
    }
}

/// A feed that is read from what a writer wrote.
fn opened(writer: &Writer) -> Feed {
    let feed = Feed::default();
    feed.shared.pending.open(Ok(Arc::clone(&writer.journal)));
    feed.is_at("s1", Path::new("/w"));
    feed
}

/// Everything after a position, through a filter.
fn read(feed: &Feed, after: Position, filter: &Filter) -> Vec<Change> {
    let Opened { mut cursor, told, .. } = feed.read_after(WAIT, after).unwrap();
    let mut all = Vec::new();
    loop {
        let mut payload = Vec::new();
        match cursor.next_blocking(&mut payload).unwrap() {
            EventStep::Event(head) => all.extend(feed.changes(&head, &payload, told, filter)),
            EventStep::Gap { .. } => {}
            EventStep::UpToDate | EventStep::WouldBlock => return all,
        }
    }
}

fn put(writer: &mut Writer, news: Vec<News>) {
    writer.take(WAIT, Batch { news, ..Batch::default() }, &Disk { records: 0, entries: 0 });
    writer.flush().unwrap();
}

#[test]
fn a_feed_begins_with_what_comes_and_goes_on_where_its_daemon_died() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("feed");
    // What was before there was a feed is told elsewhere.
    let writer = Disk { records: 5, entries: 2 }.open(&dir);
    assert!(read(&opened(&writer), Position::default(), &Filter::default()).is_empty());
    drop(writer);
    // Killed before anything was noted.
    let mut writer = Disk { records: 7, entries: 3 }.open(&dir);
    put(&mut writer, vec![process("p1", STARTED, 1)]);
    drop(writer);
    let writer = Disk { records: 7, entries: 3 }.open(&dir);
    let told: Vec<_> = read(&opened(&writer), Position::default(), &Filter::default()).iter().map(which).collect();
    assert_eq!(told[..3], [("s1".into(), 3, 3), ("s1".into(), 6, 7), ("p1".into(), 1, 1)]);
    let gone = read(&opened(&writer), Position::default(), &Filter::default()).pop().unwrap();
    assert_eq!((gone.kind, gone.process.as_deref()), (Kind::ProcessForgotten, Some("p1")));
}

#[test]
fn what_a_power_loss_took_from_a_source_is_told_again_when_it_comes_again() {
    let dir = tempfile::tempdir().unwrap();
    drop(Disk { records: 9, entries: 8 }.open(dir.path()));
    drop(Disk { records: 4, entries: 2 }.open(dir.path()));
    let writer = Disk { records: 5, entries: 3 }.open(dir.path());
    let told: Vec<_> = read(&opened(&writer), Position::default(), &Filter::default()).iter().map(which).collect();
    let audit = |from, to| (from..=to).map(|at| ("s1".to_owned(), at, at));
    assert_eq!(told.len(), 1 + 2 + 1, "{told:?}");
    assert!(audit(1, 3).all(|entry| told.contains(&entry)) && told.contains(&("s1".into(), 5, 5)));
}

#[test]
fn a_reader_goes_on_after_any_change_that_it_was_told_of() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Disk { records: 0, entries: 0 }.open(dir.path());
    let kinds = [Kind::SessionMade, Kind::SessionSaid, Kind::TurnEnded];
    for round in 0..4 {
        let run = (1..).zip(kinds).map(|(at, kind)| said("s1", round * 3 + at, 0, kind));
        put(&mut writer, run.chain([process(&format!("p{round}"), ENDED, 0)]).collect());
    }
    let feed = opened(&writer);
    let all = read(&feed, Position::default(), &Filter::default());
    assert_eq!(all.len(), 4 * 5);
    for (index, change) in all.iter().enumerate() {
        let after: Position = change.position.to_string().parse().unwrap();
        assert_eq!(read(&feed, after, &Filter::default()), all[index + 1..]);
    }
}

#[test]
fn who_comes_too_late_or_from_another_feed_is_told_of_a_gap() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Disk { records: 0, entries: 0 }.open(dir.path());
    put(&mut writer, vec![said("s1", 1, 0, Kind::SessionMade)]);
    let feed = opened(&writer);
    let first = read(&feed, Position::default(), &Filter::default()).remove(0).position;
    put(&mut writer, vec![said("s1", 2, 0, Kind::TurnBegan)]);
    assert_eq!(feed.read_after(WAIT, first).unwrap().gap, None);
    let other = Position { stamp: first.stamp.map(|stamp| stamp ^ 1), ..first };
    assert_eq!(feed.read_after(WAIT, other).unwrap().gap, Some(Missing::Lost));
    assert_eq!(feed.read_after(WAIT, Position::after(999)).unwrap().gap, Some(Missing::Lost));
    // A checkpoint, and everything before it is let go.
    let number = writer.journal.bounds().last + 1;
    writer.checkpoint().unwrap();
    writer.journal.cut_to(0, u64::MAX, number).unwrap();
    let late = feed.read_after(WAIT, first).unwrap();
    assert_eq!((late.gap, late.first), (Some(Missing::LetGo), number));
    // Who had read everything missed nothing, and what was told before is known to the next daemon.
    assert_eq!(feed.read_after(WAIT, Position::after(number - 1)).unwrap().gap, None);
    drop(writer);
    let mut writer = Disk { records: 2, entries: 0 }.open(dir.path());
    put(&mut writer, vec![said("s1", 2, 0, Kind::TurnBegan), said("s1", 3, 0, Kind::TurnEnded)]);
    let told = read(&opened(&writer), Position::after(number), &Filter::default());
    assert_eq!(told.iter().map(|change| change.kind).collect::<Vec<_>>(), [Kind::TurnEnded]);
}

#[test]
fn a_filter_passes_kinds_sessions_and_folders() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Disk { records: 0, entries: 0 }.open(dir.path());
    let own = Noted { kind: Kind::ApprovalAsked, id: Some("a1".into()), session: Some("s1".into()) };
    let ask = News { source: Source::Audit, at: 1, time_ns: 0, what: What::Noted(own) };
    put(&mut writer, vec![said("s1", 1, 0, Kind::SessionMade), said("s2", 1, 0, Kind::SessionMade), ask]);
    put(&mut writer, vec![said("s1", 2, 0, Kind::TurnBegan), process("p1", STARTED, 0)]);
    let feed = opened(&writer);
    feed.is_at("s2", Path::new("/w/inner"));
    feed.is_at("p1", Path::new("/wide"));
    let count = |filter: Filter| read(&feed, Position::default(), &filter).len();
    assert_eq!(count(Filter::default()), 5);
    assert_eq!(count(Filter { kinds: vec![Kind::SessionMade, Kind::ProcessStarted], ..Filter::default() }), 3);
    assert_eq!(count(Filter { session: Some("s1".into()), ..Filter::default() }), 3);
    assert_eq!(count(Filter { workspace: Some("/w".into()), ..Filter::default() }), 4);
    assert_eq!(count(Filter { workspace: Some("/w/inner".into()), ..Filter::default() }), 1);
    assert_eq!(count(Filter { workspace: Some("/wi".into()), ..Filter::default() }), 0);
}

#[test]
fn what_there_was_no_room_for_is_read_from_its_source() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Disk { records: 0, entries: 0 }.open(dir.path());
    let pending = Pending::default();
    for at in 1..=40_000 {
        pending.add(said("s1", at, at, Kind::SessionSaid));
    }
    pending.add(process("p1", STARTED, 0));
    let batch = pending.next().unwrap();
    assert!(batch.news.len() < 20_000 && batch.behind.len() == 2);
    writer.take(WAIT, batch, &Disk { records: 40_000, entries: 0 });
    writer.flush().unwrap();
    let told = read(&opened(&writer), Position::default(), &Filter::default());
    let spans: Vec<_> = told.iter().filter(|change| change.process.is_none()).map(which).collect();
    assert_eq!(spans.iter().map(|(_, from, to)| to - from + 1).sum::<u64>(), 40_000);
    assert!(told.iter().any(|change| change.kind == Kind::ProcessStarted));
}

#[test]
fn a_newer_feed_is_refused_and_left_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let writer = Disk { records: 0, entries: 0 }.open(dir.path());
    let newer = Entry::Checkpoint(Checkpoint { version: VERSION + 1, sum: Sum::default() });
    writer.journal.append_all(1, &[newer.encode()]).unwrap();
    drop(writer);
    let disk = Disk { records: 3, entries: 0 };
    assert!(matches!(Writer::open(WAIT, dir.path(), &disk.found(), &disk), Err(Refused::Newer(2))));
}

fn happened(root: &str, happened: Happened) -> News {
    News { source: Source::Workspace(FilePath(root.into())), at: 1, time_ns: 0, what: What::Happened(happened) }
}

fn file(path: &str) -> Happened {
    Happened::File(FileChange { path: FilePath(path.into()), is: FileIs::Created, size: Some(3), was: None })
}

#[test]
fn what_happens_in_a_workspace_is_told_in_full_and_survives_the_daemon() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Disk { records: 0, entries: 0 }.open(dir.path());
    let done =
        Happened::Done(GitDone { operation: "commit".into(), commit: Some("c0ffee".into()), ..GitDone::default() });
    // The same twice is told twice: nothing counts what a watcher sees.
    put(&mut writer, vec![happened("/w", file("a")), happened("/w", file("a")), happened("/v", done.clone())]);
    drop(writer);
    let mut writer = Disk { records: 0, entries: 0 }.open(dir.path());
    put(&mut writer, vec![happened("/w", Happened::Diff { path: FilePath("a".into()) })]);
    let feed = opened(&writer);
    let all = read(&feed, Position::default(), &Filter::default());
    let told: Vec<_> = all.iter().map(|change| change.happened.clone().unwrap()).collect();
    assert_eq!(told, [file("a"), file("a"), done, Happened::Diff { path: FilePath("a".into()) }]);
    for (index, change) in all.iter().enumerate() {
        assert_eq!(read(&feed, change.position, &Filter::default()), all[index + 1..]);
        assert_eq!(read(&feed, change.position.before(), &Filter::default()), all[index..]);
    }
    let there = read(&feed, Position::default(), &Filter { workspace: Some("/w".into()), ..Filter::default() });
    assert_eq!(there.len(), 3);
    let git = Filter { kinds: vec![Kind::GitDone], ..Filter::default() };
    assert_eq!(read(&feed, Position::default(), &git).len(), 1);
}

#[test]
fn what_there_was_no_room_for_in_a_workspace_is_said_to_be_missed() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Disk { records: 0, entries: 0 }.open(dir.path());
    let pending = Pending::default();
    for at in 0..20_000 {
        pending.add(happened("/w", file(&at.to_string())));
    }
    writer.take(WAIT, pending.next().unwrap(), &Disk { records: 0, entries: 0 });
    writer.flush().unwrap();
    let told = read(&opened(&writer), Position::default(), &Filter::default());
    assert!(told.len() < 20_000);
    assert_eq!(told.last().unwrap().happened, Some(Happened::Missed {}));
}

#[test]
fn each_record_of_a_run_has_a_position_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Disk { records: 0, entries: 0 }.open(dir.path());
    put(&mut writer, (1..=5).map(|at| said("s1", at, 0, Kind::SessionSaid)).collect());
    let feed = opened(&writer);
    let run = read(&feed, Position::default(), &Filter::default()).remove(0);
    assert_eq!(run.records, Some((1, 5)));
    for record in 1..=5 {
        let rest = read(&feed, run.position_of(record), &Filter::default());
        assert_eq!(rest.first().and_then(|change| change.records), (record < 5).then_some((record + 1, 5)));
    }
}

#[test]
fn a_notice_is_told_once_also_by_the_next_daemon_and_from_1_on_where_their_file_was_lost() {
    let dir = tempfile::tempdir().unwrap();
    let notices = |newest: u64| News { source: Source::Notices, at: newest, time_ns: 0, what: What::Told };
    let mut writer = Disk { records: 0, entries: 0 }.open(dir.path());
    // Again when a way has come to its end, and by the next daemon, which says how far they are.
    put(&mut writer, vec![notices(0), notices(1), notices(1), notices(2)]);
    drop(writer);
    let mut writer = Disk { records: 0, entries: 0 }.open(dir.path());
    put(&mut writer, vec![notices(2)]);
    put(&mut writer, vec![notices(5)]);
    let told = |writer: &Writer| -> Vec<(u64, u64)> {
        let all = read(&opened(writer), Position::default(), &Filter::default());
        assert!(all.iter().all(|change| change.kind == Kind::NoticeTold));
        all.into_iter().filter_map(|change| change.records).collect()
    };
    assert_eq!(told(&writer), [(1, 2), (3, 5)]);
    put(&mut writer, vec![notices(0), notices(1)]);
    assert_eq!(told(&writer), [(1, 2), (3, 5), (1, 1)]);
}

#[test]
fn a_feed_from_before_notices_is_read() {
    let sum: Sum = serde_json::from_str(r#"{"sessions":{},"processes":{},"audit":7}"#).unwrap();
    assert_eq!((sum.audit, sum.notices), (7, 0));
}

#[test]
fn who_is_told_of_an_entry_of_the_audit_finds_it() {
    let pending = Arc::new(Pending::default());
    let (tell, told) = std::sync::mpsc::sync_channel(1);
    let reader = std::thread::spawn({
        let pending = Arc::clone(&pending);
        move || pending.next().is_some_and(|batch| tell.send(batch.news.len()).is_ok())
    });
    let before = pending.add_all([noted(1, 0)], || {
        // Nobody hears of it while it is being published, however long that takes.
        std::thread::sleep(std::time::Duration::from_millis(100));
        told.try_recv().is_err()
    });
    assert_eq!((before, told.recv()), (true, Ok(1)));
    assert!(reader.join().unwrap());
}
