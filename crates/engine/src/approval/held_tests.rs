//! Another program holds the log: who only reads goes on, who needs it waits and gets the true answer.

use std::time::Instant;

use rusqlite::Connection;

use super::tests::*;
use super::*;

/// Another program that writes to the log of this folder, until it is let go.
fn hold(folder: &Path) -> Connection {
    let other = Connection::open(folder.join("inbox.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    other
}

fn let_go(other: &Connection) {
    other.execute_batch("ROLLBACK").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn who_only_reads_the_record_does_not_wait_for_who_writes() {
    let folder = tempfile::tempdir().unwrap();
    let inbox = open(folder.path());
    let ticket = inbox.ask(ask("a")).await.unwrap();
    let other = hold(folder.path());
    let writes = tokio::spawn({
        let (inbox, id) = (inbox.clone(), ticket.id().to_owned());
        async move { inbox.decide(&id, &content_hash("a"), Decision::Once, me()).await }
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    let began = Instant::now();
    assert_eq!(story(&inbox), ["opened", "asked"]);
    assert_eq!(inbox.get(WAIT, ticket.id()).unwrap().unwrap().ask.content, "a");
    assert_eq!(inbox.get(WAIT, "none").unwrap(), None);
    assert_eq!(inbox.ids(WAIT, ticket.id()).unwrap(), [ticket.id()]);
    assert_eq!(inbox.verify(WAIT).unwrap().entries, 2);
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert!(!writes.is_finished(), "the writer waits");
    let_go(&other);
    writes.await.unwrap().unwrap();
    assert_eq!(story(&inbox), ["opened", "asked", "decided"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_asker_that_hangs_up_while_the_record_is_held_takes_its_request_along() {
    let folder = tempfile::tempdir().unwrap();
    let inbox = open(folder.path());
    inbox.affirm(WAIT, &[], me()).unwrap();
    let other = hold(folder.path());
    let asks = inbox.ask(ask("a"));
    assert!(tokio::time::timeout(Duration::from_millis(200), asks).await.is_err(), "it waits, and hangs up");
    let_go(&other);
    let end = Instant::now() + Duration::from_secs(60);
    while story(&inbox).last().unwrap() != "withdrawn" {
        assert!(Instant::now() < end, "{:?}", story(&inbox));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[test]
fn a_record_that_is_never_let_go_is_named_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let inbox = open(folder.path());
    inbox.affirm(WAIT, &[], me()).unwrap();
    let _held = hold(folder.path());
    let refused = inbox.within(WAIT, Duration::from_millis(50), |desk| desk.log(&Record::Suspended));
    let path = folder.path().join("inbox.db").display().to_string();
    let said = refused.unwrap_err().to_string();
    let words =
        format!("another program holds it and does not let go; end that one (`fuser {path}` lists who has it open)");
    assert_eq!(said, format!("{path}: {words} and try again"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_finds_the_record_held_takes_it_up_when_it_is_let_go() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(folder.path()).ask(ask("a")).await.unwrap());
    let other = hold(folder.path());
    let inbox = open(folder.path());
    let asks = tokio::spawn({
        let inbox = inbox.clone();
        async move { inbox.ask(ask("b")).await }
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!asks.is_finished(), "who asks waits");
    let_go(&other);
    asks.await.unwrap().unwrap();
    assert!(story(&inbox).contains(&"asked".to_owned()));
}
