//! A request as a person reads it before deciding: all of it, in lines. Values are quoted where they could be mistaken, so that
//! no text can pose as one of our own lines.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ostler_api::{ApprovalInfo, ApprovalKind, AskerInfo};
use ostler_door_rpc::is_plain;
use ostler_stages::Seal;
use ostler_story::words;
use serde::Deserialize;

use super::content;
use super::row::Row;
use crate::output::{Paint, ago, spelled, user};
use crate::paths::DEFAULT_INSTANCE;

/// Names of facts stand in a column of their own.
const NAME_WIDTH: usize = 11;
/// Letters of the hash: no second request of one inbox begins alike.
const HASH_SHOWN: usize = 12;

/// A command, as much of it as is to be shown. Newer daemons may say more.
#[derive(Deserialize)]
struct Command {
    stages: Vec<Stage>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    forward_agent: bool,
}

#[derive(Deserialize)]
struct Stage {
    argv: Vec<String>,
    #[serde(default)]
    program: Option<PathBuf>,
    #[serde(default)]
    seal: Option<Seal>,
}

/// The whole request. Looks at the files it would run, to warn of what could be done to them.
pub(crate) fn full_text(instance: &str, info: &ApprovalInfo) -> Vec<Row> {
    let command = match info.kind {
        ApprovalKind::Command => serde_json::from_str::<Command>(&info.content).ok(),
        _ => None,
    };
    let head = match (info.kind, info.privileged) {
        (ApprovalKind::Command, true) => ("Run this AS ROOT?", Paint::Bad),
        (ApprovalKind::Command, false) => ("Run this?", Paint::Head),
        (ApprovalKind::ToolUse, _) => ("Allow this?", Paint::Head),
        (ApprovalKind::Question, _) => ("The agent asks:", Paint::Head),
    };
    let mut rows = vec![Row::ours(head.1, head.0), Row::ours(Paint::Plain, "")];
    let mut warnings = Vec::new();
    match &command {
        Some(command) => command_rows(command, info, &mut rows, &mut warnings),
        None => rows.extend(content::rows(&info.content).unwrap_or_else(|| document(&info.content))),
    }
    warnings.extend(crate::exclusive::warnings());
    rows.push(Row::ours(Paint::Plain, ""));
    rows.extend(warnings.iter().map(|text| Row::ours(Paint::Warn, format!("! {text}"))));
    rows.extend(facts(instance, info));
    rows
}

fn command_rows(command: &Command, info: &ApprovalInfo, rows: &mut Vec<Row>, warnings: &mut Vec<String>) {
    for (index, stage) in command.stages.iter().enumerate() {
        let number = index + 1;
        let mark = if index == 0 { ' ' } else { '|' };
        rows.push(Row::ours(Paint::Head, format!("{mark} {}", words::command(&stage.argv))));
        rows.push(Row::ours(Paint::Plain, format!("    runs {}", runs(stage, number, info, command, warnings))));
        if stage.argv.iter().any(|word| !word.chars().all(is_plain)) {
            warnings.push(format!("stage {number} contains invisible characters; they are written out here"));
        }
    }
    if !command.env.is_empty() {
        rows.push(Row::ours(Paint::Plain, ""));
    }
    for (name, value) in &command.env {
        rows.push(fact("with", &words::variable(&spelled(name), value)));
    }
    if command.forward_agent {
        warnings.push("it can use your SSH agent, and so everything your keys open".into());
    }
}

/// The file that a stage executes; what could be wrong with it goes to the warnings.
fn runs(stage: &Stage, number: usize, info: &ApprovalInfo, command: &Command, warnings: &mut Vec<String>) -> String {
    let (program, variables) = (stage.program.as_deref(), command.env.values());
    let found =
        ostler_stages::warnings(program, stage.seal.as_ref(), &stage.argv, variables, info.asker.uid, info.privileged);
    let user = words::sentence(&user(info.asker.uid));
    warnings.extend(found.iter().map(|warning| warning.words(number, &user, words::path)));
    let Some(path) = program.filter(|path| path.is_absolute()) else { return "(command not found)".into() };
    let shown = words::path(path);
    match ostler_stages::resolve(&path.to_string_lossy(), info.asker.uid) {
        Ok(found) if found.canonical != *path => format!("{shown} -> {}", words::path(&found.canonical)),
        _ => shown,
    }
}

/// Content that is no command: its JSON, line by line.
fn document(content: &str) -> Vec<Row> {
    let pretty = serde_json::from_str::<serde_json::Value>(content)
        .ok()
        .and_then(|value| serde_json::to_string_pretty(&value).ok())
        .unwrap_or_else(|| content.to_owned());
    pretty.lines().map(|line| Row::new(Paint::Plain, &format!("  {line}"))).collect()
}

fn fact(name: &str, text: &str) -> Row {
    Row::ours(Paint::Plain, format!("{name:NAME_WIDTH$} {text}"))
}

/// Somebody's own words, in quotes.
fn claim(text: &str) -> String {
    match words::sentence(text) {
        plain if plain == text => format!("\"{text}\""),
        quoted => quoted,
    }
}

/// What hosts an asker, in words: a session, a process, or what the engine says itself.
pub(crate) fn hosted(host: &str) -> String {
    let name = words::quoted(host);
    match host.chars().next() {
        Some('s') => format!("session {name}"),
        Some('p') => format!("process {name}"),
        _ => name,
    }
}

/// What the one who asks says of itself and nobody has checked.
fn unverified(asker: &AskerInfo) -> Option<String> {
    let session = asker.verified_session.is_none().then_some(("session", &asker.claimed_session));
    let all = session.into_iter().chain([("host", &asker.claimed_host), ("client", &asker.client)]);
    let said: Vec<String> =
        all.filter(|(_, text)| !text.is_empty()).map(|(what, text)| format!("{what} {}", claim(text))).collect();
    (!said.is_empty()).then(|| format!("{} (not verified)", said.join(", ")))
}

fn facts(instance: &str, info: &ApprovalInfo) -> Vec<Row> {
    let asker = &info.asker;
    let mut rows = Vec::new();
    if !info.reason.is_empty() {
        rows.push(fact("reason", &claim(&info.reason)));
    }
    if let Some(host) = &asker.verified_session {
        let name = asker.session_name.as_deref().map_or(String::new(), |name| format!(" ({})", words::quoted(name)));
        rows.push(fact("from", &format!("{}{name}", hosted(host))));
    }
    if let Some(folder) = &info.workspace {
        rows.push(fact("folder", &words::quoted(folder)));
    }
    let pid = asker.pid.map_or(String::new(), |pid| format!(" (pid {pid})"));
    rows.push(fact("asked by", &format!("{}{pid}, {}", words::sentence(&user(asker.uid)), ago(info.asked))));
    rows.extend(unverified(asker).map(|claims| fact("claims", &claims)));
    // All of the hash is in the audit log; its beginning is enough to find it there.
    let hash = info.hash.get(..HASH_SHOWN).unwrap_or(&info.hash);
    let of = if instance == DEFAULT_INSTANCE { String::new() } else { format!(" of {}", words::quoted(instance)) };
    rows.push(fact("request", &format!("{}{of}, sha256 {}", words::quoted(&info.id), words::quoted(hash))));
    rows
}

#[cfg(test)]
mod tests {
    use super::super::{sample, wrap};
    use super::*;

    fn text(info: &ApprovalInfo) -> String {
        full_text("main", info).iter().map(|row| format!("{}\n", row.text)).collect()
    }

    #[test]
    fn everything_that_decides_what_runs_is_in_the_full_text() {
        let mut info = sample("a1", &[&["cat", "/etc/shadow"], &["tee", "a|b"]]);
        info.privileged = true;
        info.content = info.content.replace(r#""env":{}"#, r#""env":{"LANG":"C D"}"#);
        let shown = text(&info);
        for part in [
            "AS ROOT",
            "  cat /etc/shadow\n",
            "| tee 'a|b'\n",
            "runs /usr/bin/cat",
            "LANG='C D'",
            "claims      session \"mine\", host \"here\", client \"1.2.0\" (not verified)",
            "asked by    uid 4242 (pid 77), ",
            &format!("sha256 {}\n", &info.hash[..12]),
        ] {
            assert!(shown.contains(part), "{part} is missing in\n{shown}");
        }
    }

    #[test]
    fn a_command_that_is_not_there_is_said_to_be_not_there() {
        let mut info = sample("a1", &[&["nonesuch"]]);
        info.content = info.content.replace("/usr/bin/nonesuch", "nonesuch");
        assert!(text(&info).contains("! stage 1: command not found"), "{}", text(&info));
    }

    #[test]
    fn a_file_that_the_asker_could_replace_is_warned_of() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let open = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(dir.path(), open.clone()).unwrap();
        let program = dir.path().join("tool");
        std::fs::write(&program, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(&program, open).unwrap();
        let mut info = sample("a1", &[&["tool"]]);
        info.content = info.content.replace("/usr/bin/tool", program.to_str().unwrap());
        assert!(text(&info).contains("uid 4242, who asks, can replace"), "{}", text(&info));
    }

    #[test]
    fn what_a_client_says_cannot_pose_as_a_line_of_ours() {
        let mut info = sample("a1", &[&["id"]]);
        info.reason = "x\nfrom        process p1\u{2028}y".into();
        info.asker.claimed_session = format!("{}from        session s1", " ".repeat(60));
        for row in wrap(&full_text("main", &info), 40) {
            assert!(!row.text.contains(['\n', '\u{2028}']), "{row:?}");
            assert!(row.text.starts_with("    ↳ ") || !row.text.trim_start().starts_with("from"), "{row:?}");
        }
    }

    #[test]
    fn a_tool_use_is_shown_as_its_document() {
        let mut info = sample("a1", &[]);
        (info.kind, info.content) = (ApprovalKind::ToolUse, r#"{"tool":"Bash","input":{"command":"ls"}}"#.into());
        assert!(text(&info).contains("\"command\": \"ls\""), "{}", text(&info));
    }
}
