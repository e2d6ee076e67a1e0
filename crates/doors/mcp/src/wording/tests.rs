use super::*;

fn me() -> Identity {
    Identity { name: "sudo-proxy", client: "sudo-proxy-mcp", version: "1.2.0" }
}

/// The parts of the result, and whether it is an error.
fn told(line: &str) -> (Vec<String>, bool) {
    let result = answer(Response::parse(line.as_bytes()).unwrap(), &me());
    let texts = result.content.iter().map(|part| part.as_text().unwrap().text.clone()).collect();
    (texts, result.is_error.unwrap())
}

fn texts(parts: &[&str]) -> Vec<String> {
    parts.iter().map(|part| (*part).to_owned()).collect()
}

#[test]
fn output_stands_alone_when_the_command_succeeded() {
    let line = r#"{"id":"1","status":"ok","stages":[{"exit_code":0,"stderr":""}],"stdout":"aGkK"}"#;
    assert_eq!(told(line), (texts(&["hi\n"]), false));
}

#[test]
fn a_silent_success_says_its_code() {
    let line = r#"{"id":"1","status":"ok","stages":[{"exit_code":0,"stderr":""}],"stdout":""}"#;
    assert_eq!(told(line), (texts(&["[exit code: 0]"]), false));
}

#[test]
fn a_failure_says_stderr_and_code() {
    let line = r#"{"id":"1","status":"ok","stages":[{"exit_code":-1,"stderr":"b29wcw=="}],"stdout":"aGkK"}"#;
    assert_eq!(told(line), (texts(&["hi\n", "[stderr]\noops", "[exit code: -1]"]), true));
}

#[test]
fn stages_of_a_pipeline_are_numbered_and_the_last_one_decides() {
    let ok = r#"{"id":"1","status":"ok","stages":[{"exit_code":1,"stderr":"b29wcw=="},{"exit_code":0,"stderr":""}],"stdout":""}"#;
    assert_eq!(told(ok), (texts(&["[stderr stage 0]\noops"]), false));
    let bad = r#"{"id":"1","status":"ok","stages":[{"exit_code":0,"stderr":""},{"exit_code":2,"stderr":"b29wcw=="}],"stdout":""}"#;
    assert_eq!(told(bad), (texts(&["[stderr stage 1]\noops", "[exit codes: 0, 2]"]), true));
}

#[test]
fn refusals_and_errors_are_worded_as_clients_know_them() {
    assert_eq!(told(r#"{"id":"1","status":"denied"}"#), (texts(&["Request denied by user."]), true));
    assert_eq!(
        told(r#"{"id":"1","status":"timeout"}"#),
        (texts(&["Request timed out waiting for user approval."]), true)
    );
    assert_eq!(
        told(r#"{"id":"1","status":"error","message":"no","version":"1.1.0"}"#),
        (texts(&["Error from sudo-proxy 1.1.0 (client sudo-proxy-mcp 1.2.0): no"]), true)
    );
    assert_eq!(
        told(r#"{"id":"1","status":"error"}"#),
        (texts(&["Error from sudo-proxy unknown (client sudo-proxy-mcp 1.2.0): unknown error"]), true)
    );
}

#[test]
fn output_that_was_cut_is_not_passed_off_as_whole() {
    let line = r#"{"id":"1","status":"ok","stages":[{"exit_code":0,"stderr":"eA==","stderr_truncated":true}],"stdout":"aGkK","stdout_truncated":true}"#;
    let (parts, _) = told(line);
    assert_eq!(parts[2..], texts(&["[stdout truncated at 16 MiB]", "[stderr truncated at 16 MiB]"]));
}

#[test]
fn bytes_that_are_no_text_do_not_break_the_result() {
    let line = r#"{"id":"1","status":"ok","stages":[{"exit_code":0,"stderr":""}],"stdout":"/w=="}"#;
    assert_eq!(told(line), (texts(&["\u{fffd}"]), false));
}

#[test]
fn instructions_list_what_is_known_of_each_host() {
    let mut hosts = Hosts::default();
    assert!(!instructions(&me(), &hosts).contains("Known hosts"));
    hosts.host("zoo").os = "Debian 13".into();
    let box_ = hosts.host("box");
    (box_.description, box_.version, box_.last_connected) =
        ("CI".into(), "1.2.0".into(), "2026-01-01T00:00:00Z".into());
    let text = instructions(&me(), &hosts);
    assert!(
        text.ends_with(
            "\n\nKnown hosts:\n- box: CI [sudo-proxy 1.2.0] [last: 2026-01-01T00:00:00Z]\n- zoo (Debian 13)"
        ),
        "{text}"
    );
}
