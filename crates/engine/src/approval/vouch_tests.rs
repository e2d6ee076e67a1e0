//! The record cannot be written by who it is about: forged rows, edited rows, edited notes, with and without those who vouch.

use ostler_story::{ArgPattern, Pattern};

use super::tests::*;
use super::*;

/// A rule that lets `id` run as root.
fn rule(name: &str) -> Rule {
    let stages = vec![vec![ArgPattern::Is("/usr/bin/id".into())]];
    let pattern = Pattern::Command { stages, env: Default::default(), privileged: true, forward_agent: false };
    Rule {
        name: name.into(),
        effect: Effect::Allow,
        scope: RuleScope::Host,
        pattern,
        title: "/usr/bin/id".into(),
        made_at: 1,
        expires_at: None,
        made_by: me(),
    }
}

fn new_rule() -> NewRule {
    let Rule { effect, scope, pattern, title, expires_at, .. } = rule("");
    NewRule { effect, scope, pattern, title, expires_at }
}

fn id_as_root() -> Ask {
    let stages = vec![StageContent { argv: vec!["id".into()], program: "/usr/bin/id".into(), seal: None }];
    let command = CommandContent { stages, env: Default::default(), privileged: true, forward_agent: false };
    ask(&command.canonical())
}

/// Writes rows as somebody does who knows how they are hashed, but not the key; the note beside the log too.
pub(super) fn forge(folder: &Path, rows: &[(Option<&str>, &Record)]) {
    let db = rusqlite::Connection::open(folder.join("inbox.db")).unwrap();
    let last = db.query_row("SELECT seq, hash FROM entry ORDER BY seq DESC LIMIT 1", [], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?))
    });
    let (mut seq, hash) = last.unwrap();
    let mut hash: chain::Hash = hash.try_into().unwrap();
    for (about, record) in rows {
        seq += 1;
        let body = serde_json::to_string(record).unwrap();
        let entry = Entry { seq: seq as u64, at_ms: clock::wall_ms(), about: about.map(str::to_owned), body };
        hash = entry.hash(&hash);
        let values = rusqlite::params![seq, entry.at_ms as i64, entry.about, entry.body, hash, [7u8; 32]];
        db.execute("INSERT INTO entry (seq, at_ms, about, body, hash, mac) VALUES (?1, ?2, ?3, ?4, ?5, ?6)", values)
            .unwrap();
    }
    std::fs::write(folder.join("inbox.head"), chain::head(seq as u64, &hash)).unwrap();
}

async fn runs(inbox: &Inbox) -> bool {
    let ticket = inbox.ask(id_as_root()).await.unwrap();
    let yes = matches!(ticket.approval().unwrap().state, State::Accepted { .. });
    // As if the daemon had been killed: nobody hangs up.
    std::mem::forget(ticket);
    yes
}

#[tokio::test]
async fn a_rule_that_was_written_into_the_file_answers_nothing_and_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let inbox = open(folder.path());
    std::mem::forget(inbox.ask(ask("a")).await.unwrap());
    drop(inbox);
    forge(folder.path(), &[(None, &Record::RuleAdded { rule: rule("rforged") })]);
    // The keeper vouches for what was before: this was not.
    let inbox = open(folder.path());
    assert_eq!(inbox.rules(), []);
    assert!(!runs(&inbox).await);
    let verified = inbox.verify(WAIT).unwrap();
    assert!(matches!(&verified.foreign[..], [(_, entry)] if entry.body.contains("rforged")), "{verified:?}");
    assert!(story(&inbox).contains(&"quarantined".to_owned()));
}

#[tokio::test]
async fn a_rule_of_a_person_outlives_the_daemon_alone() {
    let folder = tempfile::tempdir().unwrap();
    let inbox = open(folder.path());
    inbox.add_rule(WAIT, new_rule(), me()).unwrap();
    assert!(runs(&inbox).await);
    drop(inbox);
    let inbox = open(folder.path());
    assert!(runs(&inbox).await, "nothing is suspended");
    assert_eq!((inbox.suspended(), inbox.verify(WAIT).unwrap().foreign), (0, vec![]));
}

#[tokio::test]
async fn with_keeper_and_daemon_lost_every_rule_waits_for_a_person() {
    let folder = tempfile::tempdir().unwrap();
    let inbox = open(folder.path());
    inbox.add_rule(WAIT, new_rule(), me()).unwrap();
    drop(inbox);
    forge(folder.path(), &[(None, &Record::RuleAdded { rule: rule("rforged") })]);
    lose_keeper(folder.path());
    let inbox = open(folder.path());
    assert_eq!(inbox.suspended(), 2);
    assert!(!runs(&inbox).await);
    assert!(story(&inbox).contains(&"suspended".to_owned()));
    // It stays so while they live.
    drop(inbox);
    let inbox = open(folder.path());
    assert!(!runs(&inbox).await);
    // The person affirms the one they know, and it holds; the other does not.
    let known: Vec<String> =
        inbox.rules().into_iter().filter(|held| held.rule.name != "rforged").map(|held| held.digest).collect();
    assert_eq!(inbox.affirm(WAIT, &["0".repeat(64)], me()).unwrap(), Vec::<String>::new());
    assert_eq!(inbox.affirm(WAIT, &known, me()).unwrap().len(), 1);
    assert!(runs(&inbox).await);
    assert!(inbox.revoke_rule(WAIT, "rforged", me()).unwrap());
    drop(inbox);
    let inbox = open(folder.path());
    assert_eq!(inbox.suspended(), 0);
    assert!(runs(&inbox).await);
}

#[tokio::test]
async fn a_start_with_nothing_to_affirm_asks_for_nothing() {
    let folder = tempfile::tempdir().unwrap();
    std::mem::forget(open(folder.path()).ask(ask("a")).await.unwrap());
    lose_keeper(folder.path());
    let inbox = open(folder.path());
    assert_eq!(inbox.suspended(), 0);
    assert!(!story(&inbox).contains(&"suspended".to_owned()));
}

#[tokio::test]
async fn a_yes_that_was_written_into_the_file_is_asked_again() {
    let folder = tempfile::tempdir().unwrap();
    let inbox = open(folder.path());
    let ticket = inbox.ask(Ask { bound: Bound::Session, key: Some("k".into()), ..id_as_root() }).await.unwrap();
    let (id, hash) = (ticket.id().to_owned(), ticket.approval().unwrap().hash);
    let yes = Record::Decided { decision: Decision::Once, content: hash.clone(), by: me() };
    drop((ticket, inbox));
    forge(folder.path(), &[(Some(&id), &yes)]);
    let state = |inbox: &Inbox| inbox.peek(&id).unwrap().state;
    let inbox = open(folder.path());
    assert!(state(&inbox).is_pending(), "the keeper vouches for what was before");
    drop(inbox);
    forge(folder.path(), &[(Some(&id), &yes)]);
    lose_keeper(folder.path());
    let inbox = open(folder.path());
    assert!(state(&inbox).is_pending(), "nobody vouches for anything");
    // A person's yes counts, and outlives the daemon alone.
    inbox.decide(&id, &hash, Decision::Once, me()).await.unwrap();
    drop(inbox);
    assert!(matches!(state(&open(folder.path())), State::Accepted { .. }));
}

#[tokio::test]
async fn what_is_written_into_the_file_of_a_living_daemon_stops_a_yes_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let inbox = open(folder.path());
    let ticket = inbox.ask(ask("a")).await.unwrap();
    forge(folder.path(), &[(None, &Record::RuleAdded { rule: rule("rforged") })]);
    let hash = content_hash("a");
    let yes = || inbox.decide(ticket.id(), &hash, Decision::Once, me());
    let why = yes().await.unwrap_err().to_string();
    assert!(why.contains("written by somebody else") && why.contains("audit --verify"), "{why}");
    assert!(ticket.approval().unwrap().state.is_pending());
    assert!(!inbox.audit(WAIT, 0, 1000).unwrap().iter().any(|entry| entry.body.contains("rforged")));
    yes().await.unwrap();
    assert_eq!(inbox.verify(WAIT).unwrap().foreign.len(), 1);
    // What was recorded is neither changed nor taken away.
    let db = rusqlite::Connection::open(folder.path().join("inbox.db")).unwrap();
    let ticket = inbox.ask(ask("b")).await.unwrap();
    db.execute("DELETE FROM entry WHERE seq = (SELECT max(seq) FROM entry)", []).unwrap();
    let why = inbox.decide(ticket.id(), &content_hash("b"), Decision::Once, me()).await.unwrap_err().to_string();
    assert!(why.contains("was changed") && why.contains("gone or changed"), "{why}");
}

#[tokio::test]
async fn a_file_that_is_put_in_place_of_ours_takes_no_decision() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("inbox.db"), folder.path().join("copy"));
    let inbox = open(folder.path());
    let ticket = inbox.ask(ask("a")).await.unwrap();
    std::fs::copy(&path, &copy).unwrap();
    std::fs::rename(&copy, &path).unwrap();
    let why = inbox.decide(ticket.id(), &content_hash("a"), Decision::Once, me()).await.unwrap_err().to_string();
    assert!(why.contains("moved away or replaced"), "{why}");
}

#[tokio::test]
async fn a_log_that_is_cut_or_gone_is_missed_by_the_keeper() {
    let folder = tempfile::tempdir().unwrap();
    let inbox = open(folder.path());
    let rule = inbox.add_rule(WAIT, new_rule(), me()).unwrap();
    assert!(inbox.revoke_rule(WAIT, &rule.name, me()).unwrap());
    drop(inbox);
    let path = folder.path().join("inbox.db");
    let db = rusqlite::Connection::open(&path).unwrap();
    db.execute("DELETE FROM entry WHERE seq = (SELECT max(seq) FROM entry)", []).unwrap();
    drop(db);
    std::fs::remove_file(folder.path().join("inbox.head")).unwrap();
    let next = Inbox::open(WAIT, path.clone(), Settings::default(), witness(folder.path()), |_| Trace::Nothing);
    let why = next.err().unwrap().to_string();
    assert!(why.contains("is gone or changed"), "{why}");
    for name in ["inbox.db", "inbox.db-wal", "inbox.db-shm"] {
        let _ = std::fs::remove_file(folder.path().join(name));
    }
    let inbox = open(folder.path());
    assert_eq!((inbox.rules(), story(&inbox)), (vec![], vec!["opened".to_owned(), "lost".to_owned()]));
}

#[tokio::test]
async fn a_trigger_in_the_file_does_not_act_for_us() {
    let folder = tempfile::tempdir().unwrap();
    let inbox = open(folder.path());
    inbox.ask(ask("a")).await.unwrap();
    let db = rusqlite::Connection::open(folder.path().join("inbox.db")).unwrap();
    db.execute_batch("CREATE TRIGGER t AFTER INSERT ON entry BEGIN DELETE FROM content; END").unwrap();
    inbox.ask(ask("b")).await.unwrap();
    let left: i64 = db.query_row("SELECT count(*) FROM content", [], |row| row.get(0)).unwrap();
    assert_eq!(left, 2);
}

#[tokio::test]
async fn a_file_of_the_layout_before_is_read_and_suspended() {
    let folder = tempfile::tempdir().unwrap();
    let inbox = open(folder.path());
    inbox.add_rule(WAIT, new_rule(), me()).unwrap();
    drop(inbox);
    let db = rusqlite::Connection::open(folder.path().join("inbox.db")).unwrap();
    let back = "DROP INDEX content_fate; ALTER TABLE entry DROP COLUMN mac; ALTER TABLE content DROP COLUMN fate;
        ALTER TABLE content DROP COLUMN bytes; DROP TABLE quarantine; DROP TABLE checkpoint; PRAGMA user_version = 1";
    db.execute_batch(back).unwrap();
    drop(db);
    lose_keeper(folder.path());
    let inbox = open(folder.path());
    assert_eq!(inbox.suspended(), 1);
    let all: Vec<String> = inbox.rules().into_iter().map(|held| held.digest).collect();
    inbox.affirm(WAIT, &all, me()).unwrap();
    assert!(runs(&inbox).await);
}

#[tokio::test]
async fn the_files_are_for_their_user_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let inbox = open(folder.path());
    inbox.ask(ask("a")).await.unwrap();
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{:?}", entry.file_name());
    }
}
