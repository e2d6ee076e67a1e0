use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value, json};

use super::*;

const NOW: u64 = 1_770_993_000;
const FRESH: &str = "2026-02-13T14:30:00Z";

fn judge(changes: Value) -> Result<Checked, String> {
    let mut request = json!({
        "id": "i", "host": "h", "session": "s", "time": FRESH, "pipeline": [["echo", "x"]], "env": {}, "reason": "r",
        "privileged": false, "forward_agent": false, "version": "1.2.0",
    });
    for (name, value) in changes.as_object().unwrap() {
        request[name] = value.clone();
    }
    let wire = wire::Request::read(request.to_string().as_bytes()).unwrap();
    check(wire, UNIX_EPOCH + Duration::from_secs(NOW)).map_err(|refusal| refusal.to_string())
}

fn refused(changes: Value) -> String {
    judge(changes).unwrap_err()
}

#[test]
fn a_sound_request_passes_unchanged() {
    let Ok(Checked::Run(request)) = judge(json!({"env": {"LANG": "C", "LC_ALL": "C"}})) else { panic!("refused") };
    assert_eq!(request.pipeline, [["echo", "x"]]);
    assert_eq!(request.env.len(), 2);
}

#[test]
fn an_empty_pipeline_or_stage_is_refused() {
    assert_eq!(refused(json!({"pipeline": []})), "pipeline must not be empty");
    assert_eq!(refused(json!({"pipeline": [["a"], []]})), "pipeline stage 1 must not be empty");
}

#[test]
fn a_pipeline_has_a_greatest_length() {
    let stages = |count: usize| Value::from(vec![json!(["true"]); count]);
    assert!(judge(json!({"pipeline": stages(STAGES_MAX)})).is_ok());
    assert_eq!(refused(json!({"pipeline": stages(STAGES_MAX + 1)})), "pipeline has 129 stages (max 128)");
}

#[test]
fn a_treacherous_argument_is_named_by_its_place() {
    let message = "pipeline[1][2] contains forbidden control/bidi characters";
    for bad in ["a\u{1b}[2Jb", "\u{9b}2J", "\u{7f}", "\u{2028}", "\u{61c}", "\u{feff}", "\u{2060}", "\u{202e}"] {
        assert_eq!(refused(json!({"pipeline": [["echo"], ["cat", "ok", bad]]})), message);
    }
}

#[test]
fn every_text_that_is_shown_is_checked_and_named_in_order() {
    let fields = ["reason", "session", "host", "version", "id", "time"];
    for (place, field) in fields.iter().enumerate() {
        let changes: serde_json::Map<_, _> =
            fields[place..].iter().map(|name| ((*name).to_owned(), json!("x\u{202e}"))).collect();
        assert_eq!(refused(changes.into()), format!("{field} contains forbidden control/bidi characters"));
    }
}

#[test]
fn a_time_cannot_carry_an_escape() {
    let message = "time contains forbidden control/bidi characters";
    assert_eq!(refused(json!({"time": format!("\u{1b}[8m-{FRESH}")})), message);
}

#[test]
fn a_variable_is_checked_by_name_and_value_and_its_name_is_shown_escaped() {
    assert_eq!(refused(json!({"env": {"LC_\u{1b}": "x"}})), "env key 'LC_\\u{1b}' contains forbidden characters");
    assert_eq!(refused(json!({"env": {"LANG": "x\ny"}})), "env value contains forbidden characters");
}

#[test]
fn only_harmless_variables_may_be_set() {
    for good in ["LANG", "TZ", "HOME", "DEBIAN_FRONTEND", "TERM", "LC_TIME", "LC_"] {
        assert!(judge(json!({"env": {good: "x"}})).is_ok(), "{good}");
    }
    for bad in ["LD_PRELOAD", "PATH", "IFS", "USER", "lang", "LANGUAGE", "LC", "", "ENV"] {
        assert_eq!(
            refused(json!({"env": {"LANG": "C", bad: "x"}})),
            format!("environment variable not allowed: {bad}")
        );
    }
    for name in ["LC_A=B", "LC_A B", "LC_é", "LC_-"] {
        let message = format!("environment variable not allowed: {name} (no variable can have this name)");
        assert_eq!(refused(json!({"env": {name: "x"}})), message);
    }
    let message = "SSH_AUTH_SOCK cannot be set in request env; use forward_agent instead";
    assert_eq!(refused(json!({"env": {"SSH_AUTH_SOCK": "/x", "LD_PRELOAD": "y"}})), message);
}

#[test]
fn the_agent_is_for_unprivileged_commands_only() {
    let message = "forward_agent is only allowed for unprivileged commands";
    assert_eq!(refused(json!({"forward_agent": true, "privileged": true})), message);
    assert!(judge(json!({"forward_agent": true})).is_ok());
}

#[test]
fn checks_come_in_the_order_of_the_contract() {
    // Each line repairs the first mistake of the line before; the next one is then found.
    let mut bad = json!({
        "pipeline": [["a\n"], []], "env": {"LC_\n": "v\n", "SSH_AUTH_SOCK": "x"}, "reason": "\n", "time": "",
        "privileged": true, "forward_agent": true,
    });
    let mut expect = |changes: Value, message: &str| {
        for (name, value) in changes.as_object().unwrap() {
            bad[name] = value.clone();
        }
        assert_eq!(refused(bad.clone()), message);
    };
    expect(json!({}), "pipeline[0][0] contains forbidden control/bidi characters");
    expect(json!({"pipeline": [["a"], []]}), "pipeline stage 1 must not be empty");
    expect(json!({"pipeline": [["a"]]}), "env key 'LC_\\n' contains forbidden characters");
    expect(json!({"env": {"LANG": "v\n", "SSH_AUTH_SOCK": "x"}}), "env value contains forbidden characters");
    expect(json!({"env": {"SSH_AUTH_SOCK": "x", "A": "b"}}), "reason contains forbidden control/bidi characters");
    expect(json!({"reason": ""}), "forward_agent is only allowed for unprivileged commands");
    expect(json!({"forward_agent": false}), "missing time field");
    expect(json!({"time": "x"}), "malformed time field");
    expect(json!({"time": FRESH}), "SSH_AUTH_SOCK cannot be set in request env; use forward_agent instead");
    expect(json!({"env": {"A": "b"}}), "environment variable not allowed: A");
}

#[test]
fn ping_and_stop_pass_the_same_checks_without_a_pipeline() {
    assert!(matches!(judge(json!({"action": "ping", "pipeline": []})), Ok(Checked::Ping(_))));
    assert!(matches!(judge(json!({"action": "stop", "pipeline": []})), Ok(Checked::Stop(_))));
    assert_eq!(refused(json!({"action": "stop", "pipeline": [], "time": ""})), "missing time field");
    let message = "session contains forbidden control/bidi characters";
    assert_eq!(refused(json!({"action": "ping", "pipeline": [], "session": "a\u{1b}b"})), message);
}
