//! The log grows with what is decided, not with what is asked for.

use ostler_story::Pattern;

use super::contents::KEPT_BYTES;
use super::tests::*;
use super::*;

fn of(session: &str, content: &str) -> Ask {
    let mut ask = ask(content);
    ask.asker.verified_session = Some(session.into());
    ask
}

#[tokio::test]
async fn one_who_asks_for_much_takes_nobody_elses_place() {
    let folder = tempfile::tempdir().unwrap();
    let inbox = open(folder.path());
    let mut waiting = Vec::new();
    for number in 0..64 {
        waiting.push(inbox.ask(of("s1", &format!("{number}"))).await.unwrap());
    }
    assert!(matches!(inbox.ask(of("s1", "more")).await, Err(AskError::TooMany(64))));
    waiting.push(inbox.ask(of("s2", "another session")).await.unwrap());
    waiting.push(inbox.ask(ask("another program of the user")).await.unwrap());
    // A claim is no place of its own.
    let mut other = of("s1", "claims to be another");
    other.asker.claimed_session = "s3".into();
    assert!(inbox.ask(other).await.is_err());
    // The same for bytes.
    let large = "x".repeat(5 << 20);
    waiting.push(inbox.ask(of("s4", &large)).await.unwrap());
    assert!(inbox.ask(of("s4", &(large.clone() + "y"))).await.is_err());
    waiting.push(inbox.ask(of("s5", &large)).await.unwrap());
}

#[tokio::test]
async fn contents_that_nobody_said_yes_to_do_not_fill_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let inbox = open(folder.path());
    let approved = inbox.ask(ask("approved")).await.unwrap();
    inbox.decide(approved.id(), &content_hash("approved"), Decision::Once, me()).await.unwrap();
    for number in 0..80 {
        let content = format!("{number}{}", "x".repeat(1 << 20));
        let ticket = inbox.ask(ask(&content)).await.unwrap();
        inbox.decide(ticket.id(), &content_hash(&content), Decision::deny(), me()).await.unwrap();
    }
    let db = rusqlite::Connection::open(folder.path().join("inbox.db")).unwrap();
    let held = || db.query_row("SELECT sum(length(body)) FROM content", [], |row| row.get::<_, i64>(0)).unwrap();
    let end = std::time::Instant::now() + Duration::from_secs(60);
    while held() as u64 > KEPT_BYTES * 2 {
        assert!(std::time::Instant::now() < end, "{} bytes", held());
        std::thread::sleep(Duration::from_millis(50));
    }
    // The log still holds, and what was approved is there.
    assert_eq!(inbox.verify(WAIT).unwrap().foreign, vec![]);
    let kept = inbox.get(WAIT, approved.id()).unwrap().unwrap();
    assert_eq!(kept.ask.content, "approved");
    db.execute("DELETE FROM content WHERE body = 'approved'", []).unwrap();
    assert!(inbox.verify(WAIT).unwrap_err().to_string().contains("is gone"));
}

#[tokio::test]
async fn refusals_of_one_asker_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let inbox = open(folder.path());
    for _ in 0..500 {
        inbox.turned_away(WAIT, of("s1", "a").asker, "a".into(), "no".into()).unwrap();
    }
    inbox.turned_away(WAIT, of("s2", "a").asker, "a".into(), "no".into()).unwrap();
    let entries = inbox.audit(WAIT, 0, 1000).unwrap();
    let refused = entries.iter().filter(|entry| entry.body.contains("\"refused\""));
    assert!((1..100).contains(&refused.count()));
    assert!(entries.last().unwrap().body.contains("s2"), "another asker has a count of its own");
    let told = |entry: Entry| entry.body.contains("more requests were refused") && entry.body.contains("s1");
    let end = std::time::Instant::now() + Duration::from_secs(60);
    while !inbox.audit(WAIT, 0, 1000).unwrap().into_iter().any(told) {
        assert!(std::time::Instant::now() < end, "they are counted");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[tokio::test]
async fn a_start_reads_the_sum_and_what_came_after() {
    let folder = tempfile::tempdir().unwrap();
    let inbox = open(folder.path());
    let waiting = inbox.ask(Ask { bound: Bound::Session, key: Some("k".into()), ..ask("open") }).await.unwrap();
    let rule = NewRule {
        effect: Effect::Deny,
        scope: RuleScope::Host,
        pattern: Pattern::Content { hash: content_hash("denied") },
        title: "denied".into(),
        expires_at: None,
    };
    let rule = inbox.add_rule(WAIT, rule, me()).unwrap();
    inbox.sum_up_now();
    let id = waiting.id().to_owned();
    inbox.shown(WAIT, &id, "test").unwrap();
    drop((waiting, inbox));
    // What is before the sum is not read: it may be anything. A walk over all of it finds that.
    let db = rusqlite::Connection::open(folder.path().join("inbox.db")).unwrap();
    db.execute("UPDATE entry SET body = '{}' WHERE seq = 1", []).unwrap();
    let inbox = open(folder.path());
    assert_eq!(inbox.rules()[0].rule, rule);
    assert_eq!(inbox.peek(&id).unwrap().state, State::Pending { shown: true });
    assert!(inbox.verify(WAIT).unwrap_err().to_string().contains("entry 1 was changed"));
    // A sum that is not the one in the log is none.
    drop(inbox);
    db.execute("UPDATE checkpoint SET body = '[]'", []).unwrap();
    let next = Inbox::open(WAIT, folder.path().join("inbox.db"), Settings::default(), witness(folder.path()), |_| {
        Trace::Nothing
    });
    assert!(next.err().unwrap().to_string().contains("entry 1 was changed"));
}

#[tokio::test]
async fn what_was_settled_before_a_sum_stays_settled() {
    let folder = tempfile::tempdir().unwrap();
    let inbox = open(folder.path());
    for number in 0..300 {
        let ticket = inbox.ask(ask(&number.to_string())).await.unwrap();
        inbox.decide(ticket.id(), &content_hash(&number.to_string()), Decision::deny(), me()).await.unwrap();
    }
    let ticket = inbox.ask(ask("for good")).await.unwrap();
    inbox.decide(ticket.id(), &content_hash("for good"), Decision::Always, me()).await.unwrap();
    std::mem::forget(ticket);
    let rule = inbox.rules().remove(0).rule.name;
    assert!(inbox.revoke_rule(WAIT, &rule, me()).unwrap());
    inbox.sum_up_now();
    let before = story(&inbox).len();
    drop(inbox);
    let inbox = open(folder.path());
    assert_eq!((inbox.pending(), story(&inbox).len()), (vec![], before + 1), "opened, and nothing else");
    assert_eq!(inbox.rules(), [], "what was revoked stays so");
}

#[tokio::test]
async fn what_was_changed_in_the_file_does_not_get_into_a_sum() {
    let folder = tempfile::tempdir().unwrap();
    let inbox = open(folder.path());
    inbox.ask(ask("a")).await.unwrap();
    inbox.ask(ask("b")).await.unwrap();
    let db = rusqlite::Connection::open(folder.path().join("inbox.db")).unwrap();
    db.execute("UPDATE entry SET body = replace(body, 'because', 'by now') WHERE seq = 2", []).unwrap();
    inbox.sum_up_now();
    let sums: i64 = db.query_row("SELECT count(*) FROM checkpoint", [], |row| row.get(0)).unwrap();
    assert_eq!(sums, 0);
}
