//! A command at the prompt of `sudo-proxy`, laid out as its users know it: what is asked, by whom, and which files would run.

use std::path::PathBuf;

use ostler_door_sudo_proxy::{Missing, Question, Stage, words};
use ostler_stages::NAMED_MAX;

use super::row::Row;
use crate::output::Paint;

/// Longer values are not shown whole; nobody can approve what nobody has read.
const SHOWN_MAX: usize = 16 * 1024;
/// What is shown of those: enough to know what it is, on one page.
const BEGINNING: usize = 1024;

/// What the prompt offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Offer {
    /// Seconds until it says no by itself.
    pub(crate) seconds: u64,
    /// A person may grant unprivileged commands for as long as this daemon lives.
    pub(crate) unattended: bool,
}

/// Whether all that decides what runs is shown.
pub(crate) fn is_shown_whole(question: &Question) -> bool {
    let fits = |text: String| text.chars().count() <= SHOWN_MAX;
    fits(words::pipeline(&question.request.pipeline)) && fits(variables(question))
}

/// The rows, and the question that stands below them, which ends in a blank.
pub(crate) fn privilege(question: &Question, offer: Offer) -> (Vec<Row>, String) {
    let request = &question.request;
    let plain = |text: String| Row::ours(Paint::Plain, text);
    let or = |text: &str, other: &str| if text.is_empty() { other.to_owned() } else { cut(&words::quoted(text)) };
    let mut rows = vec![
        plain(String::new()),
        Row::ours(Paint::Head, "━━━ Privilege Request ━━━"),
        plain(format!("From:    {} @ {}", cut(&words::quoted(&request.session)), or(&request.host, "local"))),
        plain(format!("Client:  sudo-proxy {}", or(&request.version, "(unknown)"))),
        plain(format!("Peer:    {}", peer(question))),
        plain(format!("Time:    {}", cut(&words::quoted(&request.time)))),
        plain(format!("ID:      {}", cut(&words::quoted(&request.id)))),
    ];
    if !request.reason.is_empty() {
        rows.push(Row::ours(Paint::Head, format!("Reason:  {}", cut(&words::sentence(&request.reason)))));
    }
    let agent = if request.forward_agent { " (agent forwarded)" } else { "" };
    let command = cut(&words::pipeline(&request.pipeline));
    rows.push(Row::ours(Paint::Head, format!("Command: {command}{agent}")));
    for (number, stage) in question.stages.iter().enumerate() {
        rows.extend(resolved(number, stage));
        rows.extend(writable(question, stage));
    }
    if !request.env.is_empty() {
        rows.push(plain(format!("Env:     {}", cut(&variables(question)))));
    }
    let (words, choices) = match (request.privileged, offer.unattended) {
        (true, _) => ("Execute as root?", "[y/N]"),
        (false, false) => ("Execute?", "[y/N]"),
        (false, true) => {
            let grant = "a = approve and allow unprivileged on this host for this session (not saved)";
            rows.push(Row::ours(Paint::Dim, grant));
            ("Execute?", "[y/N/a]")
        }
    };
    (rows, format!("{words} {choices} ({}s timeout, default=N) ", offer.seconds))
}

/// The client's own words are claims; this is what the system says.
fn peer(question: &Question) -> String {
    let peer = &question.peer;
    let pid = peer.pid.map_or(String::new(), |pid| format!(", pid {pid}"));
    let hosted = peer.hosted.as_ref().map_or(String::new(), |id| format!(", hosted as {}", words::quoted(id)));
    format!("uid {}{pid}{hosted}", peer.uid)
}

fn variables(question: &Question) -> String {
    let pairs: Vec<String> = question.request.env.iter().map(|(name, value)| words::variable(name, value)).collect();
    pairs.join(" ")
}

fn cut(text: &str) -> String {
    let length = text.chars().count();
    if length <= SHOWN_MAX {
        return text.to_owned();
    }
    let (shown, hidden) = (text.chars().take(BEGINNING).collect::<String>(), length - BEGINNING);
    format!("{shown}… [{hidden} more chars hidden — full command not shown]")
}

/// The file of a stage; nothing where the client named that very file.
fn resolved(number: usize, stage: &Stage) -> Option<Row> {
    let name = stage.argv.first().map(String::as_str).unwrap_or_default();
    let place = if number == 0 { String::new() } else { format!("[{number}] ") };
    let (paint, text) = match &stage.file {
        Err(Missing::NotFound) if number > 0 => {
            (Paint::Head, format!("Warning:  {} not found in PATH", cut(&words::quoted(name))))
        }
        Err(Missing::NotFound) => (Paint::Head, "Resolves: (not found in PATH)".to_owned()),
        Err(Missing::Unusable(why)) => (Paint::Head, format!("Resolves: {place}({})", cut(&words::sentence(why)))),
        Ok(file) if file.canonical != file.path => {
            let (path, canonical) = (words::path(&file.path), words::path(&file.canonical));
            (Paint::Plain, format!("Resolves: {place}{path} -> {canonical}"))
        }
        Ok(file) if file.path != std::path::Path::new(name) => {
            (Paint::Plain, format!("Resolves: {place}{}", words::path(&file.path)))
        }
        Ok(_) => return None,
    };
    Some(Row::ours(paint, text))
}

/// What the one who asks could change about a command that runs as root.
fn writable(question: &Question, stage: &Stage) -> Vec<Row> {
    let Ok(file) =
        stage.file.as_ref().map_err(drop).and_then(|file| question.request.privileged.then_some(file).ok_or(()))
    else {
        return Vec::new();
    };
    let uid = question.peer.uid;
    let warning = |words: String| Row::ours(Paint::Head, format!("Warning:  {words}"));
    let decides =
        |place: &PathBuf| warning(format!("uid {uid} can write {} and so decide what runs", words::path(place)));
    let mut rows: Vec<Row> = file.writable.iter().map(decides).collect();
    rows.extend(stage.behind.code.iter().map(|code| decides(&code.place)));
    // Of many the first are enough to know.
    let named = stage.behind.named.iter().take(NAMED_MAX);
    rows.extend(named.map(|named| warning(format!("uid {uid} can change {}", words::path(&named.file)))));
    if stage.behind.named.len() > NAMED_MAX {
        rows.push(warning(format!(
            "uid {uid} can change {} more of these files",
            stage.behind.named.len() - NAMED_MAX
        )));
    }
    rows
}

#[cfg(test)]
#[path = "privilege_tests.rs"]
mod tests;
