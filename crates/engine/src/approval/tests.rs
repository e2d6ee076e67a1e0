use std::collections::BTreeMap;
pub(super) use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
pub(super) use std::time::Duration;

use super::store::{Change, Store};
use super::*;
pub(super) use crate::may_wait::IN_A_TEST as WAIT;

pub(super) fn ask(content: &str) -> Ask {
    Ask {
        kind: AskKind::Command,
        content: content.to_owned(),
        title: content.to_owned(),
        privileged: true,
        asker: Asker { door: "test".into(), claimed_session: "s1".into(), ..Asker::default() },
        reason: "because".into(),
        after_shown: None,
        after_asked: None,
        bound: Bound::Connection,
        key: None,
        workspace: None,
        tires: true,
    }
}

pub(super) fn me() -> By {
    By::Terminal { uid: 1000, pid: Some(1), tty: "/dev/pts/1".into() }
}

/// What the keepers of these folders remember.
static KEEPERS: Mutex<BTreeMap<PathBuf, Vec<u8>>> = Mutex::new(BTreeMap::new());

pub(super) fn keepers() -> std::sync::MutexGuard<'static, BTreeMap<PathBuf, Vec<u8>>> {
    KEEPERS.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

pub(super) fn witness(folder: &Path) -> Witness {
    let folder = folder.to_owned();
    let given = keepers().get(&folder).cloned().unwrap_or_default();
    Witness::new(given, move |head| drop(keepers().insert(folder.clone(), head.to_vec())))
}

pub(super) fn nobody() -> Witness {
    Witness::new(Vec::new(), |_| {})
}

/// The keeper of this folder is lost.
pub(super) fn lose_keeper(folder: &Path) {
    keepers().remove(folder);
}

/// A daemon beside a keeper that lives on.
pub(super) fn open(folder: &Path) -> Inbox {
    Inbox::open(WAIT, folder.join("inbox.db"), Settings::default(), witness(folder), |_| Trace::Nothing).unwrap()
}

/// What the audit says happened, in order.
pub(super) fn story(inbox: &Inbox) -> Vec<String> {
    let word = |entry: Entry| -> String {
        let record: serde_json::Value = serde_json::from_str(&entry.body).unwrap();
        record["what"].as_str().unwrap().to_owned()
    };
    inbox.audit(WAIT, 0, 1000).unwrap().into_iter().map(word).collect()
}

#[tokio::test]
async fn the_first_decision_counts_and_the_second_is_told_whose_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let inbox = open(folder.path());
    let ticket = inbox.ask(ask("a")).await.unwrap();
    let hash = content_hash("a");
    inbox.decide(ticket.id(), &hash, Decision::Once, me()).await.unwrap();
    let other = By::Terminal { uid: 0, pid: Some(2), tty: "/dev/pts/2".into() };
    let late = inbox.decide(ticket.id(), &hash, Decision::deny(), other).await;
    assert!(matches!(late, Err(DecideError::AnsweredElsewhere { by, .. }) if by == me()));
    assert_eq!(ticket.settled().await, State::Accepted { decision: Decision::Once });
    assert_eq!(story(&inbox), ["opened", "asked", "decided"]);
}

#[tokio::test]
async fn a_decision_about_other_content_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let inbox = open(folder.path());
    let ticket = inbox.ask(ask("rm -rf /tmp/x")).await.unwrap();
    let wrong = inbox.decide(ticket.id(), &content_hash("ls"), Decision::Once, me()).await;
    assert!(matches!(wrong, Err(DecideError::OtherContent)));
    assert!(inbox.peek(ticket.id()).unwrap().state.is_pending());
}

#[tokio::test]
async fn time_runs_from_the_first_display_and_a_late_key_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let inbox = open(folder.path());
    let quick = Ask { after_shown: Some(Duration::from_millis(30)), ..ask("a") };
    let ticket = inbox.ask(quick).await.unwrap();
    tokio::time::sleep(Duration::from_millis(60)).await;
    assert!(inbox.peek(ticket.id()).unwrap().state.is_pending(), "nobody has seen it");
    inbox.shown(WAIT, ticket.id(), "test").unwrap();
    assert_eq!(ticket.settled().await, State::Expired);
    let late = inbox.decide(ticket.id(), &content_hash("a"), Decision::Once, me()).await;
    assert!(matches!(late, Err(DecideError::Expired)));
    assert_eq!(story(&inbox), ["opened", "asked", "shown", "expired"]);
}

#[test]
fn the_name_of_an_open_request_stays_taken_however_old_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let again = || Ask { bound: Bound::Session, key: Some("k".into()), ..ask("a") };
    let (mut store, _) =
        Store::open(&folder.path().join("inbox.db"), Duration::ZERO, &Arc::new(witness(folder.path())), |_, _| {})
            .unwrap();
    let asked = desk::asked(&again(), &content_hash("a"), 0);
    let long_ago = 1;
    let opened = Record::Opened { pid: 1, boot: boot_id(), version: None };
    let change = Change { at_ms: long_ago, ..Change::default() };
    store.append(&Change { records: &[&opened], ..change }).unwrap();
    store.append(&Change { about: Some("aold"), records: &[&asked], content: Some("a"), ..change }).unwrap();
    drop(store);
    let inbox = open(folder.path());
    assert_eq!(inbox.ask_again(WAIT, again()).unwrap(), "aold");
    assert_eq!(inbox.pending().len(), 1);
}

#[test]
fn of_a_flood_of_attempts_a_few_are_recorded_and_the_rest_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let inbox = open(folder.path());
    for pid in 0..500 {
        inbox.attempted(WAIT, "keeper", format!("pid {pid}"), "it may not".into()).unwrap();
    }
    let attempts = || story(&inbox).iter().filter(|what| *what == "attempted").count();
    assert!((1..100).contains(&attempts()), "{}", attempts());
    let told = |entry: Entry| entry.body.contains("more attempts were refused");
    let end = std::time::Instant::now() + Duration::from_secs(60);
    while !inbox.audit(WAIT, 0, 1000).unwrap().into_iter().any(told) {
        assert!(std::time::Instant::now() < end, "they are counted");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[tokio::test]
async fn an_asker_that_hangs_up_withdraws_and_a_session_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let inbox = open(folder.path());
    let stays = inbox.ask(Ask { bound: Bound::Session, ..ask("b") }).await.unwrap();
    let goes = inbox.ask(ask("a")).await.unwrap();
    let (kept, id) = (stays.id().to_owned(), goes.id().to_owned());
    drop((stays, goes));
    let mut revision = inbox.revision();
    while inbox.peek(&id).unwrap().state.is_pending() {
        tokio::time::timeout(Duration::from_secs(30), revision.changed()).await.unwrap().unwrap();
    }
    assert!(matches!(inbox.peek(&id).unwrap().state, State::Withdrawn { .. }));
    assert!(inbox.peek(&kept).unwrap().state.is_pending());
}

#[tokio::test]
async fn the_same_words_after_a_restart_find_their_request_once() {
    let folder = tempfile::tempdir().unwrap();
    let request = Ask { key: Some("k".into()), ..ask("a") };
    let first = {
        let inbox = open(folder.path());
        let ticket = inbox.ask(request.clone()).await.unwrap();
        let id = ticket.id().to_owned();
        inbox.decide(&id, &content_hash("a"), Decision::Once, me()).await.unwrap();
        std::mem::forget(ticket); // The daemon dies; nobody hangs up.
        id
    };
    let inbox = open(folder.path());
    let other = inbox.ask(Ask { content: "b".into(), ..request.clone() }).await;
    assert!(matches!(other, Err(AskError::Duplicate(_))), "the name is used, the words differ");
    let ticket = inbox.ask(request.clone()).await.unwrap();
    assert!(ticket.is_reattached());
    assert_eq!(ticket.id(), first);
    assert_eq!(ticket.settled().await, State::Accepted { decision: Decision::Once });
    assert_eq!(ticket.approval().unwrap().ask.content, "a", "what will run is what was stored");
    assert!(matches!(inbox.ask(request).await, Err(AskError::Duplicate(_))), "only once");
}

#[tokio::test]
async fn who_is_let_go_may_come_back_to_another_door_and_one_that_hangs_up_may_not() {
    let folder = tempfile::tempdir().unwrap();
    let inbox = open(folder.path());
    let request = |name: &str| Ask { key: Some(name.into()), ..ask("a") };
    let ticket = inbox.ask(request("let go")).await.unwrap();
    let id = ticket.id().to_owned();
    ticket.leave(WAIT);
    drop(ticket);
    assert!(inbox.peek(&id).unwrap().state.is_pending());
    let back = inbox.ask(request("let go")).await.unwrap();
    assert!(back.is_reattached() && back.id() == id);
    assert!(matches!(inbox.ask(request("let go")).await, Err(AskError::Duplicate(_))), "only once");
    drop(inbox.ask(request("hangs up")).await.unwrap());
    assert!(matches!(inbox.ask(request("hangs up")).await, Err(AskError::Duplicate(_))));
}

#[tokio::test]
async fn a_settled_request_is_answered_again_after_a_restart_and_never_asked_again() {
    let folder = tempfile::tempdir().unwrap();
    let request = Ask { key: Some("k".into()), ..ask("a") };
    {
        let inbox = open(folder.path());
        let ticket = inbox.ask(request.clone()).await.unwrap();
        inbox.decide(ticket.id(), &content_hash("a"), Decision::deny(), me()).await.unwrap();
    }
    let inbox = open(folder.path());
    let again = inbox.ask(request.clone()).await.unwrap();
    assert!(again.is_reattached());
    assert!(matches!(again.settled().await, State::Denied { .. }));
    assert!(matches!(inbox.ask(request).await, Err(AskError::Duplicate(_))));
}

#[tokio::test]
async fn what_was_carried_out_before_a_restart_is_not_carried_out_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("inbox.db");
    let id = {
        let inbox = open(folder.path());
        let ticket = inbox.ask(ask("a")).await.unwrap();
        inbox.decide(ticket.id(), &content_hash("a"), Decision::Once, me()).await.unwrap();
        let id = ticket.id().to_owned();
        std::mem::forget(ticket);
        id
    };
    for (trace, want) in [
        (Trace::Process("p1".into()), State::Applied { outcome: None }),
        (Trace::CannotTell, State::Unknown),
        (Trace::Nothing, State::Accepted { decision: Decision::Once }),
    ] {
        let copy = tempfile::tempdir().unwrap();
        let copied = copy.path().join("inbox.db");
        std::fs::copy(&path, &copied).unwrap();
        for side in ["db-wal", "head"] {
            let _ = std::fs::copy(path.with_extension(side), copied.with_extension(side));
        }
        let keeper = Witness::new(keepers()[folder.path()].clone(), |_| {});
        let inbox = Inbox::open(WAIT, copied, Settings::default(), keeper, move |_| trace.clone()).unwrap();
        assert_eq!(inbox.peek(&id).unwrap().state, want);
    }
}

#[test]
fn a_yes_from_another_boot_is_unknown_and_its_question_withdrawn() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("inbox.db");
    {
        let (mut store, _) = Store::open(&path, Duration::ZERO, &Arc::new(nobody()), |_, _| {}).unwrap();
        let opened = Record::Opened { pid: 1, boot: "another".into(), version: None };
        store.append(&Change { at_ms: 1, records: &[&opened], ..Change::default() }).unwrap();
        let asked = |key: &str| Record::Asked {
            kind: AskKind::Command,
            content: content_hash("a"),
            title: key.into(),
            privileged: true,
            asker: Asker::default(),
            reason: String::new(),
            bound: Bound::Connection,
            key: None,
            workspace: None,
            after_shown_ms: None,
            after_asked_ms: None,
            boot_ms: 1,
        };
        let decided = Record::Decided { decision: Decision::Once, content: content_hash("a"), by: me() };
        store
            .append(&Change {
                about: Some("a1"),
                at_ms: 2,
                records: &[&asked("1"), &decided],
                content: Some("a"),
                ..Change::default()
            })
            .unwrap();
        store
            .append(&Change {
                about: Some("a2"),
                at_ms: 3,
                records: &[&asked("2")],
                content: None,
                ..Change::default()
            })
            .unwrap();
        store
            .append(&Change {
                about: Some("a3"),
                at_ms: 4,
                records: &[&asked("3"), &decided, &Record::Applied { process: None }],
                content: None,
                ..Change::default()
            })
            .unwrap();
    }
    let inbox = open(folder.path());
    assert_eq!(inbox.peek("a1").unwrap().state, State::Unknown);
    assert!(matches!(inbox.peek("a2").unwrap().state, State::Withdrawn { .. }));
    assert_eq!(inbox.peek("a3").unwrap().state, State::Applied { outcome: Some(Outcome::NobodySaw) });
}

#[tokio::test]
async fn a_yes_for_good_becomes_a_rule_that_is_named_listed_and_revoked() {
    let folder = tempfile::tempdir().unwrap();
    let inbox = open(folder.path());
    let ticket = inbox.ask(ask("a")).await.unwrap();
    inbox.decide(ticket.id(), &content_hash("a"), Decision::Always, me()).await.unwrap();
    let rules = inbox.rules();
    assert_eq!((rules.len(), &rules[0].rule.made_by), (1, &me()));
    drop(inbox);

    let inbox = open(folder.path());
    let again = inbox.ask(ask("a")).await.unwrap();
    assert_eq!(again.settled().await, State::Accepted { decision: Decision::Once });
    let by = again.approval().unwrap().decided.unwrap().0;
    assert_eq!(by, By::Rule { name: rules[0].rule.name.clone() });
    assert!(inbox.ask(ask("b")).await.unwrap().approval().unwrap().state.is_pending());

    assert!(inbox.revoke_rule(WAIT, &rules[0].rule.name, me()).unwrap());
    assert!(inbox.ask(ask("a")).await.unwrap().approval().unwrap().state.is_pending());
}

#[tokio::test]
async fn a_rule_for_a_session_holds_in_that_session_only() {
    let folder = tempfile::tempdir().unwrap();
    let inbox = open(folder.path());
    let ticket = inbox.ask(ask("a")).await.unwrap();
    inbox.decide(ticket.id(), &content_hash("a"), Decision::Session, me()).await.unwrap();
    let mut elsewhere = ask("a");
    elsewhere.asker.claimed_session = "s2".into();
    assert!(inbox.ask(elsewhere).await.unwrap().approval().unwrap().state.is_pending());
    assert!(!inbox.ask(ask("a")).await.unwrap().approval().unwrap().state.is_pending());
}

#[tokio::test]
async fn three_refusals_in_a_row_are_enough() {
    let folder = tempfile::tempdir().unwrap();
    let inbox = open(folder.path());
    for _ in 0..3 {
        let ticket = inbox.ask(ask("a")).await.unwrap();
        inbox.decide(ticket.id(), &content_hash("a"), Decision::deny(), me()).await.unwrap();
    }
    assert!(matches!(inbox.ask(ask("a")).await, Err(AskError::Fatigue { times: 3, .. })));
    assert!(inbox.ask(ask("b")).await.is_ok(), "something else may be asked");
    assert_eq!(story(&inbox).iter().filter(|word| *word == "refused").count(), 1);
}

#[tokio::test]
async fn requests_that_wait_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings { pending_max: 2, ..Settings::default() };
    let inbox = Inbox::open(WAIT, folder.path().join("inbox.db"), settings, nobody(), |_| Trace::Nothing).unwrap();
    let _waiting = (inbox.ask(ask("a")).await.unwrap(), inbox.ask(ask("b")).await.unwrap());
    assert!(matches!(inbox.ask(ask("c")).await, Err(AskError::TooMany(2))));
}

#[tokio::test]
async fn settled_requests_leave_memory_and_are_still_found() {
    let folder = tempfile::tempdir().unwrap();
    let inbox = open(folder.path());
    let first = inbox.ask(ask("the first")).await.unwrap().id().to_owned();
    for number in 0..300 {
        let ticket = inbox.ask(ask(&number.to_string())).await.unwrap();
        inbox.decide(ticket.id(), &content_hash(&number.to_string()), Decision::deny(), me()).await.unwrap();
    }
    let found = inbox.get(WAIT, &first).unwrap().unwrap();
    assert_eq!(found.ask.content, "the first");
    assert!(inbox.recent().len() <= 257);
    assert_eq!(inbox.ids(WAIT, &first[..8]).unwrap(), [first]);
}

/// Every way to lay hands on the file, each to be found by a look and at the next start.
#[tokio::test]
async fn whoever_edits_the_log_is_found() {
    for edit in [
        "UPDATE entry SET body = replace(body, 'once', 'always') WHERE seq = 3",
        "UPDATE entry SET at_ms = at_ms + 1 WHERE seq = 2",
        "UPDATE entry SET about = 'a0' WHERE seq = 2",
        "DELETE FROM entry WHERE seq = 2",
        "DELETE FROM entry WHERE seq = (SELECT max(seq) FROM entry)",
        "DELETE FROM entry",
        "UPDATE content SET body = 'rm'",
        "DELETE FROM content",
        "INSERT INTO entry (seq, at_ms, about, body, hash) SELECT seq + 1, at_ms, about, body, hash FROM entry ORDER BY seq DESC LIMIT 1",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("inbox.db");
        {
            let inbox = open(folder.path());
            // Not withdrawn when the ticket goes, after which its content could be let go.
            let ticket = inbox.ask(Ask { bound: Bound::Session, ..ask("a") }).await.unwrap();
            inbox.decide(ticket.id(), &content_hash("a"), Decision::Once, me()).await.unwrap();
            assert!(inbox.verify(WAIT).is_ok());
        }
        assert!(Inbox::verify_file(&path).is_ok());
        rusqlite::Connection::open(&path).unwrap().execute_batch(edit).unwrap();
        assert!(matches!(Inbox::verify_file(&path), Err(StoreError::Tampered { .. })), "{edit}");
        let next = Inbox::open(WAIT, path, Settings::default(), nobody(), |_| Trace::Nothing);
        assert!(matches!(next, Err(StoreError::Tampered { .. })), "{edit}");
    }
}

#[test]
fn a_log_of_a_newer_program_is_refused_by_name_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("inbox.db");
    drop(Store::open(&path, Duration::ZERO, &Arc::new(nobody()), |_, _| {}).unwrap());
    rusqlite::Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let next = Inbox::open(WAIT, path, Settings::default(), nobody(), |_| Trace::Nothing);
    assert!(matches!(next, Err(StoreError::Newer { found: 99, .. })));
}

#[test]
fn records_of_a_newer_program_are_refused_by_name_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("inbox.db");
    let (mut store, _) = Store::open(&path, Duration::ZERO, &Arc::new(nobody()), |_, _| {}).unwrap();
    let opened = Record::Opened { pid: 1, boot: boot_id(), version: Some(99) };
    store.append(&Change { at_ms: 1, records: &[&opened], ..Change::default() }).unwrap();
    drop(store);
    let next = Inbox::open(WAIT, path.clone(), Settings::default(), nobody(), |_| Trace::Nothing);
    let why = next.err().unwrap().to_string();
    assert!(why.contains("written by a newer ostler (version 99, this one knows 5)"), "{why}");
    let entries = rusqlite::Connection::open(&path).unwrap();
    let count: i64 = entries.query_row("SELECT count(*) FROM entry", [], |row| row.get(0)).unwrap();
    assert_eq!(count, 1, "nothing was added");
}

#[test]
fn nothing_is_written_until_somebody_asks() {
    let folder = tempfile::tempdir().unwrap();
    let inbox = open(folder.path());
    assert!(inbox.pending().is_empty() && inbox.rules().is_empty());
    assert_eq!(inbox.settings(WAIT, Vec::new()).unwrap(), []);
    assert!(!folder.path().join("inbox.db").exists());
}

/// Unmounted when the test is over, however that goes.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount(options: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let made = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "tmpfs"])
            .arg(folder.path())
            .output();
        if made.as_ref().is_ok_and(|made| made.status.success()) {
            return Some(Self(folder));
        }
        assert!(std::env::var_os("CI").is_none(), "CI must be able to mount: {made:?}");
        eprintln!("skipped: a small disk needs root: {made:?}");
        None
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[tokio::test]
async fn a_full_disk_still_takes_decisions() {
    let Some(disk) = SmallDisk::mount("size=80m") else { return };
    let inbox = open(disk.0.path());
    let ticket = inbox.ask(ask("a")).await.unwrap();
    let mut filler = std::fs::File::create(disk.0.path().join("filler")).unwrap();
    while std::io::Write::write_all(&mut filler, &[0; 65536]).is_ok() {}
    while std::io::Write::write_all(&mut filler, &[0]).is_ok() {}
    inbox.decide(ticket.id(), &content_hash("a"), Decision::Once, me()).await.unwrap();
    for number in 0..20 {
        // Well within the twentieth of the disk that is set aside.
        let content = format!("{number}").repeat(10_000);
        inbox.ask(ask(&content)).await.unwrap();
    }
    assert!(!disk.0.path().join("inbox.reserve").exists());
    assert!(inbox.verify(WAIT).is_ok());
}

#[test]
fn a_setting_counts_once_a_person_has_confirmed_its_value_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _inside = runtime.enter();
    let warn = || vec![("approvals.writable_programs".to_owned(), "warn".to_owned())];
    let inbox = open(folder.path());
    assert_eq!(inbox.settings(WAIT, warn()).unwrap(), warn());
    assert_eq!(inbox.unconfirmed(), warn());
    let other = ("approvals.writable_programs".to_owned(), "run".to_owned());
    assert!(matches!(inbox.confirm(WAIT, other.clone(), me()), Err(DecideError::DoesNotFit(_))), "it does not wait");
    inbox.confirm(WAIT, warn()[0].clone(), me()).unwrap();
    assert_eq!(inbox.unconfirmed(), []);
    drop(inbox);
    let inbox = open(folder.path());
    assert_eq!(inbox.settings(WAIT, warn()).unwrap(), [], "also to the next daemon");
    assert_eq!(inbox.settings(WAIT, vec![other.clone()]).unwrap(), [other], "another value waits");
    assert_eq!(inbox.settings(WAIT, warn()).unwrap(), []);
    assert_eq!(inbox.settings(WAIT, Vec::new()).unwrap(), []);
    assert_eq!(inbox.settings(WAIT, warn()).unwrap(), warn(), "what was taken back waits again");
    assert_eq!(story(&inbox), ["opened", "setting_confirmed", "opened", "setting_lapsed"]);
}

/// Another process holds the database: what needs the log waits, and who only looks does not.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_only_looks_never_waits_for_the_log() {
    const AT_ONCE: Duration = Duration::from_secs(4);
    let folder = tempfile::tempdir().unwrap();
    let inbox = open(folder.path());
    let ticket = inbox.ask(Ask { key: Some("known".into()), ..ask("a") }).await.unwrap();
    let other = rusqlite::Connection::open(folder.path().join("inbox.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let deciding = {
        let (inbox, id) = (inbox.clone(), ticket.id().to_owned());
        tokio::spawn(async move { inbox.decide(&id, &content_hash("a"), Decision::Once, me()).await })
    };
    // Until the desk is held for sure.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let began = std::time::Instant::now();
    assert_eq!(inbox.pending().len(), 1, "not decided as long as the log does not have it");
    assert!(inbox.peek(ticket.id()).is_some() && inbox.recent().len() == 1);
    assert!(inbox.rules().is_empty() && inbox.suspended() == 0 && !inbox.is_locked() && inbox.unconfirmed().is_empty());
    assert!(inbox.first_use("new") && !inbox.first_use("new") && !inbox.first_use("known"));
    assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
    assert!(!deciding.is_finished(), "the log is held");
    other.execute_batch("ROLLBACK").unwrap();
    deciding.await.unwrap().unwrap();
    assert!(inbox.pending().is_empty());
}
