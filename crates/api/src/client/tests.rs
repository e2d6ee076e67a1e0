use super::*;
use std::io::BufRead;
use std::os::unix::net::UnixListener;

/// Answers every request with the given lines.
fn door(answers: Vec<String>) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut requests = io::BufReader::new(stream.try_clone().unwrap()).lines();
        let _request = requests.next();
        for line in answers {
            (&stream).write_all(line.as_bytes()).unwrap();
        }
    });
    (dir, path)
}

const HELLO: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"version":1,"program":"0","instance":"main","pid":1,"started":"1970-01-01T00:00:00Z"}}"#;
const GAP: &str = r#"{"jsonrpc":"2.0","method":"process.gap","params":{"watch":1,"first_seq":9}}"#;

#[test]
fn notifications_that_overtake_an_answer_are_kept() {
    let (_dir, path) = door(vec![format!("{GAP}\n{HELLO}\n")]);
    let mut client = Client::connect(&path).unwrap();
    assert_eq!(client.hello("test").unwrap().instance, "main");
    assert!(matches!(client.next_notification().unwrap(), Notification::Gap(gap) if gap.first_seq == 9));
}

#[test]
fn whoever_waits_for_a_notification_waits_no_longer_than_they_want() {
    let (_dir, path) = door(vec![format!("{GAP}\n{HELLO}\n{GAP}\n{GAP}\n")]);
    let mut client = Client::connect(&path).unwrap();
    client.hello("test").unwrap();
    let next = |client: &mut Client| client.next_notification_within(ANSWER_TIMEOUT).unwrap().is_some();
    assert!(next(&mut client) && next(&mut client));
    assert!(client.arrived().unwrap().is_some() || next(&mut client));
    // The other end is gone, which is not the same as silent.
    assert!(matches!(client.next_notification_within(ANSWER_TIMEOUT), Err(ClientError::Closed)));
    let (ours, _theirs) = UnixStream::pair().unwrap();
    client.stream = ours;
    assert!(client.next_notification_within(Duration::from_millis(1)).unwrap().is_none());
    assert!(client.arrived().unwrap().is_none());
}

#[test]
fn notifications_without_end_are_no_answer() {
    let (_dir, path) = door(vec![format!("{GAP}\n").repeat(EARLY_MAX + 1)]);
    let said = Client::connect(&path).unwrap().hello("test");
    assert!(matches!(&said, Err(ClientError::Garbled(why)) if why.contains("without end")), "{said:?}");
}

#[test]
fn words_of_a_newer_daemon_are_passed_over() {
    let (_dir, path) = door(vec![format!("{{\"method\":\"process.sings\",\"params\":{{}}}}\n{HELLO}\n")]);
    assert!(Client::connect(&path).unwrap().hello("test").is_ok());
}

#[test]
fn an_error_keeps_its_kind_and_hint() {
    let line = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32004,"message":"no process x","data":{"kind":"not_found","hint":"ostler ps"}}}"#;
    let (_dir, path) = door(vec![format!("{line}\n")]);
    let Err(ClientError::Rpc(error)) = Client::connect(&path).unwrap().hello("test") else { panic!() };
    assert_eq!(error.kind(), crate::ErrorKind::NotFound);
    assert_eq!(error.data.unwrap().hint.as_deref(), Some("ostler ps"));
}

#[test]
fn a_daemon_that_goes_away_or_says_nothing_is_told_apart() {
    let (_dir, path) = door(vec![]);
    assert!(matches!(Client::connect(&path).unwrap().hello("test"), Err(ClientError::Closed)));
    let dir = tempfile::tempdir().unwrap();
    let mute = dir.path().join("s");
    let _listener = UnixListener::bind(&mute).unwrap();
    let mut client = Client::connect(&mute).unwrap();
    client.answer_within(Some(Duration::from_millis(20))).unwrap();
    assert!(matches!(client.hello("test"), Err(ClientError::TimedOut(_))));
}
