use std::time::Instant;

use ostler_api::{Claim, ClaimState, HostedKind, ProcessInfo, ProcessState, SessionInfo};

use super::*;
use crate::request::sample;

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_micros(seconds * 1_000_000)
}

pub(in crate::verbs::now) fn process(id: &str, tty: bool, began: u64) -> ProcessInfo {
    ProcessInfo {
        id: id.into(),
        name: None,
        program: "/usr/bin/make".into(),
        args: vec!["-j8".into()],
        cwd: Some("/home/dev/api/".into()),
        state: ProcessState::Running,
        pid: 7,
        started: at(began),
        exit: None,
        tty,
        private: false,
        alias: None,
        first_seq: 1,
        last_seq: 1,
        stdout_bytes: 0,
        stderr_bytes: 0,
        stdin_applied: 0,
        held_back: None,
        damaged_from: None,
        attached: Vec::new(),
        lost_after: None,
        rebooted: false,
        seen: false,
        claim: None,
        size: None,
    }
}

pub(in crate::verbs::now) fn session(id: &str, status: &str, began: u64) -> SessionInfo {
    let time = at(began).to_string();
    let value = serde_json::json!({
        "id": id, "uuid": "u", "name": "fix", "agent": "claude", "workspace": "/home/dev/web", "autonomy": "ask",
        "lifetime": "session", "door": "native", "status": status, "queued": 0, "created": time, "activity": time, "last": 1,
        "usage": {"cost_usd": 0.25},
    });
    serde_json::from_value(value).unwrap()
}

pub(in crate::verbs::now) fn listed(hosted: impl Into<Hosted>) -> Listed {
    Listed { instance: "main".into(), hosted: hosted.into() }
}

fn names(rows: &[Row]) -> Vec<(Section, &str)> {
    rows.iter().map(|row| (row.section, row.name.as_str())).collect()
}

#[test]
fn three_kinds_stand_in_three_sections_in_an_order_that_stays() {
    let mut over = process("p3", false, 3);
    over.exit = Some(ostler_api::Exit { code: Some(1), signal: None, time: Some(at(90)) });
    let mut newer = process("p4", false, 4);
    newer.exit = Some(ostler_api::Exit { code: Some(0), signal: None, time: Some(at(99)) });
    let all = [listed(process("p2", true, 2)), listed(over), listed(newer), listed(session("s1", "running", 1))];
    assert_eq!(all.each_ref().map(|one| one.hosted.kind.as_str())[..2], ["terminal", "command"]);
    assert_eq!(all[3].hosted.kind, HostedKind::Session);
    let rows = rows(&Inbox::new(Instant::now()), &all, "");
    use Section::{Ended, Open};
    assert_eq!(names(&rows), [(Open, "fix"), (Open, "p2"), (Ended, "p4"), (Ended, "p3")]);
    let row = &rows[0];
    assert_eq!((row.what.as_str(), row.folder.as_str(), row.cost), ("claude", "web", Some(0.25)));
    assert_eq!((rows[1].what.as_str(), rows[1].folder.as_str(), rows[1].line.as_str()), ("make", "api", "make -j8"));
    assert_eq!((rows[2].state.as_str(), rows[3].state.as_str()), ("exited 0", "exited 1"));
}

#[test]
fn a_session_that_asks_is_seen_as_its_request_and_an_agents_process_as_its_session() {
    let mut asks = session("s1", "waiting", 1);
    asks.approvals = vec!["a1".into()];
    let mut agent = listed(process("p1", false, 1));
    agent.hosted.part_of = Some("s1".into());
    let mut info = sample("a1", &[&["id"]]);
    info.asker.verified_session = Some("p1".into());
    let mut inbox = Inbox::new(Instant::now());
    inbox.update("main", vec![info], Instant::now());
    let rows = rows(&inbox, &[listed(asks), agent], "");
    assert_eq!(names(&rows), [(Section::NeedsYou, "fix")]);
    assert_eq!((rows[0].line.as_str(), rows[0].folder.as_str()), ("a title", "web"));
}

#[test]
fn what_a_terminal_program_claims_is_marked_and_only_that_it_waits_needs_somebody() {
    let claims = |state| {
        let mut info = process("p1", true, 1);
        let (title, message) = (Some("t".to_owned()), Some("may I?".to_owned()));
        info.claim =
            Some(Claim { state, kind: None, title, message, since: None, app: None, progress: None, reported: true });
        rows(&Inbox::new(Instant::now()), &[listed(info)], "").remove(0)
    };
    let row = claims(ClaimState::NeedsYou);
    assert_eq!((row.section, row.state.as_str(), row.line.as_str()), (Section::NeedsYou, "needs you?", "may I?"));
    assert_eq!(claims(ClaimState::Working).section, Section::Open);
    assert_eq!((claims(ClaimState::Done).section, claims(ClaimState::Done).state), (Section::Open, "done?".into()));
}

#[test]
fn where_there_are_several_instances_each_row_says_which() {
    let other = Listed { instance: "second".into(), ..listed(process("p3", false, 3)) };
    let rows = rows(&Inbox::new(Instant::now()), &[listed(process("p2", true, 2)), other], "");
    assert_eq!(rows.iter().map(|row| row.folder.as_str()).collect::<Vec<_>>(), ["main:api", "second:api"]);
}

#[test]
fn a_filter_wants_all_of_its_words_wherever_they_are() {
    let all = [listed(process("p2", true, 2)), listed(session("s1", "running", 1))];
    let inbox = Inbox::new(Instant::now());
    for (filter, count) in [("", 2), ("MAKE", 1), ("claude web", 1), ("claude api", 0), ("  ", 2)] {
        assert_eq!(rows(&inbox, &all, filter).len(), count, "{filter}");
    }
}

#[test]
fn only_agents_that_are_installed_can_be_chosen_and_the_built_in_one_comes_last() {
    let agent = |name: &str, program: Option<&str>| AgentInfo {
        name: name.to_owned(),
        command: Vec::new(),
        program: program.map(str::to_owned),
        version: None,
        drive: String::new(),
        login: ostler_api::LoginState::Unknown,
        login_by: None,
    };
    let found = [agent("claude", None), agent("codex", Some("/bin/codex")), agent("mine", Some("/bin/mine"))];
    let (here, absent) = agents(&found);
    assert_eq!((here, absent), (vec!["codex".to_owned(), "mine".into(), "echo".into()], vec!["claude".to_owned()]));
}

#[test]
fn what_failed_and_what_cannot_go_on_stands_first_as_it_does_on_the_page() {
    let said = |more: serde_json::Value, status: &str| {
        let mut value = serde_json::to_value(session("s1", status, 1)).unwrap();
        value.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let row =
            rows(&Inbox::new(Instant::now()), &[listed(serde_json::from_value::<SessionInfo>(value).unwrap())], "");
        (row[0].section, row[0].state.clone())
    };
    let limits = serde_json::json!({"limits": [{"name": "five hours", "state": "reached", "resets": null}]});
    assert_eq!(said(serde_json::json!({}), "failed"), (Section::NeedsYou, "failed".into()));
    assert_eq!(said(serde_json::json!({"logged_out": true}), "failed"), (Section::NeedsYou, "logged out".into()));
    assert_eq!(said(limits, "idle"), (Section::NeedsYou, "limit reached".into()));
    assert_eq!(said(serde_json::json!({}), "idle"), (Section::Open, "idle".into()));
}
