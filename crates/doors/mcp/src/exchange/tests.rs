use super::*;
use crate::wire::Status;
use tokio::net::UnixListener;

/// A daemon that handles each connection as its script says and returns the lines it was sent.
fn daemon(script: Vec<Option<Vec<u8>>>) -> (tempfile::TempDir, PathBuf, tokio::task::JoinHandle<Vec<String>>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let listener = UnixListener::bind(&path).unwrap();
    let task = tokio::spawn(async move {
        let mut heard = Vec::new();
        for answer in script {
            let (stream, _) = listener.accept().await.unwrap();
            let mut stream = BufReader::new(stream);
            let mut line = String::new();
            stream.read_line(&mut line).await.unwrap();
            heard.push(line);
            if let Some(answer) = answer {
                stream.write_all(&answer).await.unwrap();
            }
        }
        heard
    });
    (folder, path, task)
}

fn request() -> Request {
    Request::exec("tester", vec![vec!["true".into()]]).unwrap()
}

fn answer_to(id: &str) -> Vec<u8> {
    let answer = r#"{"id":"ID","status":"ok","stages":[{"exit_code":7,"stderr":""}],"stdout":""}"#;
    format!("{}\n", answer.replace("ID", id)).into_bytes()
}

#[tokio::test]
async fn an_answer_to_another_request_is_refused() {
    let (_folder, path, _task) = daemon(vec![Some(answer_to("another"))]);
    let error = send(&path, &request(), None).await.unwrap_err();
    assert!(matches!(&error, SendError::NotOurs { id } if id == "another"), "{error}");
}

#[tokio::test]
async fn a_connection_that_ends_early_is_tried_again_with_the_same_request() {
    let request = request();
    let ok = answer_to(&request.id);
    let (_folder, path, task) = daemon(vec![None, None, Some(ok)]);
    let answer = send(&path, &request, None).await.unwrap();
    assert_eq!((answer.status, answer.exit_code()), (Status::Ok, 7));
    let heard = task.await.unwrap();
    assert_eq!(heard.len(), 3);
    assert!(heard.iter().all(|line| *line == heard[0]), "{heard:?}");
}

#[tokio::test]
async fn trying_again_ends() {
    let (_folder, path, task) = daemon(vec![None; 100]);
    let error = send(&path, &request(), None).await.unwrap_err();
    assert!(matches!(error, SendError::Closed(n) if n > 0), "{error}");
    assert!(error.to_string().starts_with("server closed connection without response (after "), "{error}");
    task.abort();
}

#[tokio::test]
async fn an_answer_of_unknown_shape_names_the_release_it_came_from() {
    let (_folder, path, _task) = daemon(vec![Some(b"{\"status\":\"maybe\",\"version\":\"9.9\"}\n".to_vec())]);
    let error = send(&path, &request(), None).await.unwrap_err().to_string();
    assert!(error.starts_with("parse response from sudo-proxy 9.9 (client tester 1.2.0): "), "{error}");
}

#[tokio::test]
async fn a_daemon_that_answers_without_end_is_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let listener = UnixListener::bind(&path).unwrap();
    let endless = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        while stream.write_all(&[b'x'; 65_536]).await.is_ok() {}
    });
    let ping = Request::control("tester", "", crate::wire::Action::Ping).unwrap();
    let error = send(&path, &ping, None).await.unwrap_err();
    assert!(matches!(error, SendError::TooLong(most) if most == most_answer_bytes(0)), "{error}");
    endless.await.unwrap();
}

#[tokio::test]
async fn a_silent_daemon_is_waited_for_as_long_as_asked_and_then_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let _listener = UnixListener::bind(&path).unwrap();
    let error = send(&path, &request(), Some(Duration::from_millis(1))).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "server did not respond within 1s — it may be busy with another command or waiting for user approval"
    );
}

#[tokio::test]
async fn a_socket_that_is_not_there_is_named() {
    let error = send(Path::new("/nonexistent/s"), &request(), None).await.unwrap_err();
    assert!(error.to_string().starts_with("connect to /nonexistent/s: No such file or directory"), "{error}");
}
