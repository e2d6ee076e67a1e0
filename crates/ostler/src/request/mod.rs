//! How a request is put to a person, in one way wherever that is: at a prompt, in the inbox, in the middle of a session.
//!
//! A request becomes rows ([`full_text`], [`privilege`]), rows become pages of a screen ([`Pages`]), and a key counts only for
//! what a person has seen to its end ([`Attention`], [`Asked`]). All of it is pure: nothing here reads a key or writes to a
//! terminal, so that what may be decided does not depend on who draws.
//!
//! On every surface: what could be mistaken is quoted, a line that is broken is marked, what is not a visible letter, digit or
//! sign of ASCII is written out, and nothing stands below the question.

mod asked;
mod attention;
mod content;
mod full_text;
mod pages;
mod privilege;
mod row;

pub(crate) use asked::{Asked, Pressed};
pub(crate) use attention::{Attention, NotNow, STANDS_FOR, Sight};
pub(crate) use content::question;
pub(crate) use full_text::{full_text, hosted};
pub(crate) use pages::{NARROWEST, Pages};
pub(crate) use privilege::{Offer, is_shown_whole, privilege};
pub(crate) use row::{Row, wrap};

/// A request to run these stages, for tests.
#[cfg(test)]
pub(crate) fn sample(id: &str, stages: &[&[&str]]) -> ostler_api::ApprovalInfo {
    let stages: Vec<_> = stages
        .iter()
        .map(|argv| serde_json::json!({"argv": argv, "program": format!("/usr/bin/{}", argv[0])}))
        .collect();
    let content = serde_json::json!({"stages": stages, "env": {}, "privileged": false, "forward_agent": false});
    let content = content.to_string();
    ostler_api::ApprovalInfo {
        id: id.to_owned(),
        kind: ostler_api::ApprovalKind::Command,
        title: "a title".into(),
        privileged: false,
        warnings: Vec::new(),
        reason: "because".into(),
        hash: ostler_engine::approval::content_hash(&content),
        content,
        diffs: Vec::new(),
        rest: None,
        asker: ostler_api::AskerInfo {
            door: "sudo-proxy".into(),
            uid: 4242,
            pid: Some(77),
            claimed_session: "mine".into(),
            claimed_host: "here".into(),
            client: "1.2.0".into(),
            verified_session: None,
            session_name: None,
        },
        workspace: None,
        asked: ostler_api::Timestamp::from_micros(0),
        state: ostler_api::ApprovalState::Pending,
        detail: None,
        decided: None,
        decided_by: None,
        decided_by_name: None,
        expires_in_ms: Some(60_000),
    }
}
