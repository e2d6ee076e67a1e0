//! Answers that a notice carries along, where the settings want that: to a request whose whole text stands in the notice, allow
//! once or deny, each by a link that works once, for a while, and for exactly that content.
//!
//! Never to a question, never to what would run as another user, and never where anything of the request is not shown: whoever
//! has the link has the answer, so that the destination of a notice could use it. That is why it is off unless somebody wants it.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ostler_story::{By, Decision, Json, ToolContent, is_plain, words};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::access::device::{DeviceError, Secret, Visitor};
use crate::approval::{Approval, AskKind, CommandContent, DecideError, clock};
use crate::{Engine, MayWait};

/// How long a link works: about as long as somebody has a phone in hand.
const COUNTS_FOR_MS: u64 = 15 * 60_000;
/// Links that are open at once; the oldest go.
const OPEN_MAX: usize = 64;
/// Characters of a request that is answered without a look at the page: what a phone shows of a notice.
const WHOLE_MAX: usize = 240;

/// A request that can be answered from a notice about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answerable {
    /// The request.
    pub approval: String,
    /// The content that was shown.
    pub hash: String,
}

/// Links that answer; a cheap handle. Only their digests are here, and only in memory: none outlives the daemon.
#[derive(Clone, Default)]
pub(super) struct Links {
    open: Arc<Mutex<HashMap<[u8; 32], Link>>>,
}

#[derive(Debug, Clone)]
struct Link {
    of: Answerable,
    allow: bool,
    way: String,
    until_ms: u64,
}

impl Links {
    fn open(&self) -> MutexGuard<'_, HashMap<[u8; 32], Link>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Two secrets, for yes and for no.
    pub(super) fn issue(&self, of: &Answerable, way: &str, now_ms: u64) -> io::Result<(Secret, Secret)> {
        let secrets = (Secret::fresh()?, Secret::fresh()?);
        let mut open = self.open();
        open.retain(|_, link| link.until_ms > now_ms);
        while open.len() + 2 > OPEN_MAX {
            let oldest = open.iter().min_by_key(|(_, link)| link.until_ms).map(|(digest, _)| *digest);
            let Some(oldest) = oldest else { break };
            open.remove(&oldest);
        }
        for (secret, allow) in [(&secrets.0, true), (&secrets.1, false)] {
            let link = Link { of: of.clone(), allow, way: way.to_owned(), until_ms: now_ms + COUNTS_FOR_MS };
            open.insert(digest(secret.reveal()), link);
        }
        Ok(secrets)
    }

    /// What this secret answers. It is used up, and so is the other one of the two.
    fn take(&self, shown: &str, now_ms: u64) -> Option<Link> {
        let mut open = self.open();
        let link = open.remove(&digest(shown)).filter(|link| link.until_ms > now_ms)?;
        open.retain(|_, other| other.of != link.of || other.way != link.way);
        Some(link)
    }
}

fn digest(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

/// Why an answer by a link did not count.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// Whoever shows it may not.
    #[error(transparent)]
    Visitor(#[from] DeviceError),
    /// Nothing is answered by it.
    #[error("this answer was used before, or its time is over")]
    Unknown,
    /// The inbox says no.
    #[error(transparent)]
    Decide(#[from] DecideError),
}

impl Engine {
    /// Answers a request by the link of a notice; `true` if that allowed it. May wait for the disk.
    pub fn answer_by_link(&self, wait: &MayWait, shown: &str, visitor: &Visitor) -> Result<bool, LinkError> {
        self.check_visitor(wait, visitor, "notices")?;
        if let Some(why) = self.locked() {
            let error = DeviceError::Locked(why);
            self.turned_away(wait, visitor, "notices", &error);
            return Err(error.into());
        }
        let Some(link) = self.notices().shared.links.take(shown, clock::wall_ms()) else {
            self.turned_away(wait, visitor, "notices", &LinkError::Unknown);
            return Err(LinkError::Unknown);
        };
        let decision = if link.allow { Decision::Once } else { Decision::no(String::new()) };
        let by = By::Notice { way: link.way };
        self.inbox().decide_here(wait, &link.of.approval, &link.of.hash, decision, by)?;
        Ok(link.allow)
    }
}

/// The one request that this subject waits for, with all of its text; nothing where a person has to look at it.
pub(super) fn answerable(wait: &MayWait, engine: &Engine, id: &str) -> Option<(Answerable, String)> {
    let approval = match id.chars().next()? {
        's' => match engine.sessions().get(id)?.asked().as_slice() {
            [(approval, _)] => engine.inbox().peek(approval)?,
            _ => return None,
        },
        'p' => return None,
        _ => engine.inbox().peek(id)?,
    };
    if !approval.state.is_pending() || approval.ask.privileged {
        return None;
    }
    let whole = whole(wait, &approval)?;
    Some((Answerable { approval: approval.id, hash: approval.hash }, whole))
}

/// Everything that a yes would be about, on one line; nothing if that is too much for one, or could be misread.
fn whole(wait: &MayWait, approval: &Approval) -> Option<String> {
    let ask = &approval.ask;
    let said = match ask.kind {
        AskKind::Question => return None,
        AskKind::Command => {
            let command = CommandContent::parse(&ask.content)?;
            if command.forward_agent || !command.warnings(wait, ask.asker.uid).is_empty() {
                return None;
            }
            let variables = command.env.iter().map(|(name, value)| words::variable(name, value) + " ");
            let stages: Vec<Vec<String>> = command.stages.into_iter().map(|stage| stage.argv).collect();
            variables.collect::<String>() + &words::pipeline(&stages)
        }
        AskKind::ToolUse => {
            let ToolContent { tool, input, questions, .. } = serde_json::from_str(&ask.content).ok()?;
            if !questions.is_empty() {
                return None;
            }
            format!("{tool}: {}", given(&input)?)
        }
    };
    let folder = ask.workspace.as_ref().map(|folder| format!(" in {folder}")).unwrap_or_default();
    let whole = said + &folder;
    (whole.chars().all(is_plain) && whole.chars().count() <= WHOLE_MAX).then_some(whole)
}

/// What a tool is given, where that is a few plain values. Where nothing is to be seen of it there would only be the agent's own
/// words for what it does.
fn given(input: &Json) -> Option<String> {
    let plain = |value: &Json| match value {
        Json::String(text) => Some(text.clone()).filter(|text| !text.trim().is_empty()),
        Json::Number(_) | Json::Bool(_) => Some(value.to_string()),
        Json::Null | Json::Array(_) | Json::Object(_) => None,
    };
    match input {
        Json::Object(members) => {
            let there = members.iter().filter(|(_, value)| !value.is_null());
            let there = there.map(|(name, value)| Some((name, plain(value)?))).collect::<Option<Vec<_>>>()?;
            Some(match there.as_slice() {
                [] => return None,
                [(_, only)] => only.clone(),
                several => several.iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", "),
            })
        }
        value => plain(value),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request() -> Answerable {
        Answerable { approval: "a1".into(), hash: "h".into() }
    }

    #[test]
    fn a_link_answers_once_and_takes_the_other_along() {
        let links = Links::default();
        let (yes, no) = links.issue(&request(), "webhook", 10).unwrap();
        assert!(links.take("guessed", 11).is_none());
        let taken = links.take(yes.reveal(), 11).unwrap();
        assert_eq!((taken.of, taken.allow, taken.way.as_str()), (request(), true, "webhook"));
        assert!(links.take(yes.reveal(), 11).is_none() && links.take(no.reveal(), 11).is_none());
    }

    #[test]
    fn a_link_that_is_too_old_answers_nothing() {
        let links = Links::default();
        let (yes, no) = links.issue(&request(), "webhook", 10).unwrap();
        assert!(links.take(yes.reveal(), 10 + COUNTS_FOR_MS).is_none());
        assert!(!links.take(no.reveal(), 9 + COUNTS_FOR_MS).unwrap().allow);
    }

    #[test]
    fn there_are_only_so_many_links() {
        let links = Links::default();
        let (first, _) = links.issue(&request(), "webhook", 1).unwrap();
        for now in 0..OPEN_MAX as u64 {
            links.issue(&request(), "webhook", 2 + now).unwrap();
        }
        assert_eq!(links.open().len(), OPEN_MAX);
        assert!(links.take(first.reveal(), 100).is_none());
    }

    #[test]
    fn only_a_few_plain_values_are_answered_from_a_line() {
        assert_eq!(given(&json!({"command": "ls -l", "x": null})), Some("ls -l".into()));
        assert_eq!(given(&json!({"command": "ls", "timeout": 5})), Some("command ls, timeout 5".into()));
        for nothing in [json!({}), json!({"x": null}), json!(null), json!(""), json!({"path": "a", "content": " "})] {
            assert_eq!(given(&nothing), None, "{nothing}");
        }
        assert_eq!(given(&json!({"edits": [{"old": "a"}]})), None);
    }
}
