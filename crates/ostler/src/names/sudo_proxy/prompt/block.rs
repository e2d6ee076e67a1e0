//! The prompt as text: what is asked, by whom, and which files would run. Pure: what is shown is decided here and nowhere
//! else, and every word of a client passes through `visible`.

use std::path::Path;

use ostler_door_sudo_proxy::{Missing, Question, Stage, words};

use super::style::Style;
use crate::output::visible;

/// Longer command lines are not shown whole; nobody can approve what nobody has read.
const SHOWN_MAX: usize = 16 * 1024;

pub(super) const RULE: &str = "━━━━━━━━━━━━━━━━━━━━━━━━━";

/// What the prompt offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Offer {
    /// Seconds until it says no by itself.
    pub(super) seconds: u64,
    /// A person may grant unprivileged commands for as long as this daemon lives.
    pub(super) unattended: bool,
}

/// Whether the whole command is on the screen.
pub(super) fn is_shown_whole(question: &Question) -> bool {
    command(question).chars().count() <= SHOWN_MAX
}

/// The whole block up to the question, which ends in a space.
pub(super) fn block(question: &Question, offer: Offer, style: &Style) -> String {
    let request = &question.request;
    let or = |text: &str, other: &str| visible(if text.is_empty() { other } else { text });
    let mut lines = vec![
        String::new(),
        style.bold("━━━ Privilege Request ━━━"),
        format!("From:    {} @ {}", visible(&request.session), or(&request.host, "local")),
        format!("Client:  sudo-proxy {}", or(&request.version, "(unknown)")),
        format!("Peer:    {}", peer(question)),
        format!("Time:    {}", visible(&request.time)),
        format!("ID:      {}", visible(&request.id)),
    ];
    if !request.reason.is_empty() {
        lines.push(format!("Reason:  {}", style.bold(&visible(&request.reason))));
    }
    let agent = if request.forward_agent { format!(" {}", style.dim("(agent forwarded)")) } else { String::new() };
    lines.push(format!("Command: {}{agent}", style.bold(&cut(&command(question)))));
    for (number, stage) in question.stages.iter().enumerate() {
        lines.extend(resolved(number, stage, style));
        lines.extend(writable(question, stage, style));
    }
    if !request.env.is_empty() {
        let pairs: Vec<String> = request.env.iter().map(|(name, value)| visible(&format!("{name}={value}"))).collect();
        lines.push(format!("Env:     {}", pairs.join(" ")));
    }
    let (words, choices) = match (request.privileged, offer.unattended) {
        (true, _) => ("Execute as root?", "[y/N]"),
        (false, false) => ("Execute?", "[y/N]"),
        (false, true) => {
            let grant = "a = approve and allow unprivileged on this host for this session (not saved)";
            lines.push(style.dim(grant));
            ("Execute?", "[y/N/a]")
        }
    };
    lines.push(format!("{words} {choices} ({}s timeout, default=N) ", offer.seconds));
    lines.join("\n")
}

/// The client's own words are claims; this is what the system says.
fn peer(question: &Question) -> String {
    let peer = &question.peer;
    let pid = peer.pid.map_or(String::new(), |pid| format!(", pid {pid}"));
    let hosted = peer.hosted.as_ref().map_or(String::new(), |id| format!(", hosted as {}", visible(id)));
    format!("uid {}{pid}{hosted}", peer.uid)
}

fn command(question: &Question) -> String {
    visible(&words::pipeline(&question.request.pipeline))
}

fn cut(text: &str) -> String {
    let hidden = text.chars().count().saturating_sub(SHOWN_MAX);
    if hidden == 0 {
        return text.to_owned();
    }
    let shown: String = text.chars().take(SHOWN_MAX).collect();
    format!("{shown}… [{hidden} more chars hidden — full command not shown]")
}

/// The file of a stage; nothing where the client named that very file.
fn resolved(number: usize, stage: &Stage, style: &Style) -> Option<String> {
    let name = stage.argv.first().map(String::as_str).unwrap_or_default();
    let place = if number == 0 { String::new() } else { format!("[{number}] ") };
    let show = |path: &Path| visible(&path.to_string_lossy());
    match &stage.file {
        Err(Missing::NotFound) if number > 0 => {
            Some(format!("Warning:  {} not found in PATH", style.bold(&visible(name))))
        }
        Err(Missing::NotFound) => Some(format!("Resolves: {}", style.bold("(not found in PATH)"))),
        Err(Missing::Unusable(why)) => Some(format!("Resolves: {place}{}", style.bold(&format!("({})", visible(why))))),
        Ok(file) if file.canonical != file.path => {
            Some(format!("Resolves: {place}{} {} {}", show(&file.path), style.bold("->"), show(&file.canonical)))
        }
        Ok(file) if file.path != Path::new(name) => Some(format!("Resolves: {place}{}", show(&file.path))),
        Ok(_) => None,
    }
}

fn writable(question: &Question, stage: &Stage, style: &Style) -> Option<String> {
    let place = stage.file.as_ref().ok()?.writable.as_ref().filter(|_| question.request.privileged)?;
    let words =
        format!("uid {} can write {} and so decide what runs", question.peer.uid, visible(&place.to_string_lossy()));
    Some(format!("Warning:  {}", style.bold(&words)))
}

#[cfg(test)]
#[path = "block_tests.rs"]
mod tests;
