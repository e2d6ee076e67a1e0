//! What the audit says: one record per thing that happened, exactly once, in the words it is stored with.
//! Records are the only truth about requests and rules; what the inbox holds in memory is their sum.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{AskKind, Asker, Bound, By, Decision, Rule, State, machine};
use crate::access::device::{Device, Tokens};

/// The words of the log. Newer reads older; an older program refuses a newer log by name. 2: what was changed or answered is
/// JSON, and no text of it. 3: devices. 4: where devices are pushed to.
pub(super) const VERSION: u32 = 5;

/// How a stream of output went by: never what was in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stream {
    /// Bytes that were kept.
    pub length: u64,
    /// SHA-256 of them, in hex.
    pub sha256: String,
    /// Whether there was more than is kept.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// What came of something that was carried out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "result")]
pub enum Outcome {
    /// A command ran to its end.
    Ran {
        /// The exit code of each stage; -1 for a signal.
        exit_codes: Vec<i32>,
        /// Output of the last stage.
        stdout: Stream,
        /// Errors of each stage.
        stderr: Vec<Stream>,
    },
    /// It began, and did not come to its end.
    Broke {
        /// Why.
        why: String,
    },
    /// It began, and nobody was there to see how it ended.
    NobodySaw,
    /// An answer reached the one who asked.
    Delivered,
}

/// A decision as the log has it: which one it is stands under `verdict`. Earlier versions wrote a changed input and answers as
/// JSON text.
mod decided {
    use ostler_story::{Decision, Json, answers_from, unwrapped};
    use serde::de::Error as _;
    use serde::ser::Error as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    type Members = serde_json::Map<String, Json>;

    pub(super) fn serialize<S: Serializer>(decision: &Decision, to: S) -> Result<S::Ok, S::Error> {
        let Json::Object(members) = serde_json::to_value(decision).map_err(S::Error::custom)? else {
            return Err(S::Error::custom("a decision has members"));
        };
        named(members, "answer", "verdict").serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Decision, D::Error> {
        let mut members = named(Members::deserialize(from)?, "verdict", "answer");
        if let Some(input) = members.get_mut("input") {
            *input = unwrapped(input.take());
        }
        if let Some(answers) = members.get_mut("answers") {
            // What could not be read reached nobody: who asked was told no.
            let read = answers_from(answers.take()).unwrap_or_default();
            *answers = serde_json::to_value(read).map_err(D::Error::custom)?;
        }
        Decision::deserialize(Json::Object(members)).map_err(D::Error::custom)
    }

    fn named(members: Members, from: &str, to: &str) -> Members {
        let name = |name: String| if name == from { to.to_owned() } else { name };
        members.into_iter().map(|(key, value)| (name(key), value)).collect()
    }
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "what")]
pub enum Record {
    /// A daemon began to answer for this inbox.
    Opened {
        /// Its process.
        pid: u32,
        /// The machine's boot, so that what is from another one is known.
        boot: String,
        /// Which [`VERSION`] of the records it writes; 1 where nothing is said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        version: Option<u32>,
    },
    /// Somebody asks. The content is kept beside, under its hash.
    Asked {
        kind: AskKind,
        content: String,
        title: String,
        privileged: bool,
        asker: Asker,
        reason: String,
        bound: Bound,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        workspace: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after_shown_ms: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after_asked_ms: Option<u64>,
        /// Milliseconds since this boot: deadlines count them, asleep or not.
        boot_ms: u64,
    },
    /// Somebody asks for what may not even be asked.
    Refused { asker: Asker, title: String, why: String },
    /// A surface shows it for the first time.
    Shown { surface: String, boot_ms: u64 },
    /// Somebody decided.
    Decided {
        #[serde(with = "decided")]
        decision: Decision,
        content: String,
        by: By,
    },
    /// Somebody who may not decide tried to.
    Attempted { who: String, why: String },
    /// A person opened everything to a hosted process, or only what is its own again.
    Access { process: String, all: bool, by: By },
    /// Nobody decided in time.
    Expired,
    /// The asker is gone.
    Withdrawn { why: String },
    /// A yes is being carried out.
    Applied {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        process: Option<String>,
    },
    /// A yes could not be carried out.
    Failed { why: String },
    /// It is over.
    Finished { outcome: Outcome },
    /// The machine was restarted between a yes and what would have followed.
    Rebooted,
    /// The same asker came back after the daemon died.
    Reattached,
    /// Nobody vouches for what was recorded before: keeper and daemon were lost together. Of the log: every rule is suspended.
    /// Of a request: its yes is, and it waits again.
    Suspended,
    /// A person affirmed these rules.
    Affirmed { rules: Vec<String>, by: By },
    /// Entries that somebody else wrote into the file were put aside.
    Quarantined { entries: u64 },
    /// The file was gone; it had so many entries.
    Lost { entries: u64 },
    /// The keeper was lost, and another took over. `closed`: nobody can tell any more who was hosted, so nobody decides.
    KeeperLost { closed: bool },
    /// A person proved to be one.
    Proved { by: By },
    /// The sum of all that was before; what it is is kept beside, under its hash.
    Checkpoint { sha256: String },
    /// A rule was made.
    RuleAdded { rule: Rule },
    /// A rule was taken back.
    RuleRevoked { name: String, by: By },
    /// A person wants a setting that loosens something to count.
    SettingConfirmed { setting: String, value: String, by: By },
    /// A setting that was confirmed is not asked for any more.
    SettingLapsed { setting: String },
    /// A device was paired. Of its tokens only hashes are kept.
    DevicePaired {
        device: Device,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tokens: Option<Tokens>,
        address: String,
    },
    /// It has new tokens.
    DeviceRenewed { device: String, tokens: Tokens, address: String },
    /// One with a key was here; noted now and then.
    DeviceSeen { device: String, address: String },
    /// Notices are pushed to it there; or nowhere any more.
    DeviceSubscribed {
        device: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        endpoint: Option<String>,
    },
    /// It is not let in any more.
    DeviceRevoked { device: String, name: String, why: String, by: By },
    /// A person affirmed these devices.
    DevicesAffirmed { devices: Vec<String>, by: By },
}

impl Record {
    /// What this record does to the request it is about; nothing for records that only tell.
    pub(crate) fn step(&self) -> Option<machine::Step<'_>> {
        use machine::Step;
        Some(match self {
            Self::Shown { .. } => Step::Shown,
            Self::Decided { decision, content, .. } => Step::Decided(decision, content),
            Self::Expired => Step::Expired,
            Self::Withdrawn { why } => Step::Withdrawn(why),
            Self::Applied { .. } => Step::Applied,
            Self::Failed { why } => Step::Failed(why),
            Self::Finished { outcome } => Step::Finished(outcome),
            Self::Rebooted => Step::Rebooted,
            Self::Suspended => Step::Suspended,
            _ => return None,
        })
    }

    /// Whether something may follow from it that could not without.
    pub(super) fn grants(&self) -> bool {
        match self {
            Self::Decided { decision, .. } => decision.is_yes(),
            Self::RuleAdded { .. } | Self::Affirmed { .. } | Self::Proved { .. } | Self::SettingConfirmed { .. } => {
                true
            }
            Self::DevicePaired { .. } | Self::DevicesAffirmed { .. } => true,
            Self::DeviceSubscribed { endpoint, .. } => endpoint.is_some(),
            _ => false,
        }
    }

    /// The state after this record, or why it can not be.
    pub(crate) fn apply(&self, state: &State, hash: &str) -> Result<State, machine::Refusal> {
        match self.step() {
            Some(step) => machine::next(state, &step, hash),
            None => Ok(state.clone()),
        }
    }
}

impl Record {
    /// The request that was asked; its content is kept elsewhere.
    pub(super) fn ask(&self) -> Option<super::Ask> {
        let Self::Asked {
            kind,
            title,
            privileged,
            asker,
            reason,
            bound,
            key,
            workspace,
            after_shown_ms,
            after_asked_ms,
            ..
        } = self
        else {
            return None;
        };
        Some(super::Ask {
            kind: *kind,
            content: String::new(),
            title: title.clone(),
            privileged: *privileged,
            asker: asker.clone(),
            reason: reason.clone(),
            after_shown: after_shown_ms.map(Duration::from_millis),
            after_asked: after_asked_ms.map(Duration::from_millis),
            bound: *bound,
            key: key.clone(),
            workspace: workspace.clone(),
            tires: true,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decided(decision: &str) -> Decision {
        let body =
            format!(r#"{{"what":"decided","decision":{decision},"content":"c","by":{{"from":"rule","name":"r"}}}}"#);
        match serde_json::from_str(&body).unwrap() {
            Record::Decided { decision, .. } => decision,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_decision_of_an_earlier_version_says_the_same_in_text() {
        let changed = Decision::Changed { input: serde_json::json!({"a": 1}) };
        assert_eq!(decided(r#"{"verdict":"changed","input":"{\"a\":1}"}"#), changed);
        assert_eq!(decided(r#"{"verdict":"changed","input":{"a":1}}"#), changed);
        let answers = Decision::Answers { answers: [("q".to_owned(), vec!["red".to_owned()])].into() };
        for text in [r#""{\"q\":\"red\"}""#, r#""{\"q\":[\"red\"]}""#, r#"{"q":["red"]}"#] {
            assert_eq!(decided(&format!(r#"{{"verdict":"answers","answers":{text}}}"#)), answers);
        }
    }

    #[test]
    fn a_decision_is_written_with_its_verdict_first() {
        let by = By::Rule { name: "r".into() };
        let record = |decision| Record::Decided { decision, content: "c".into(), by: by.clone() };
        let body = serde_json::to_string(&record(Decision::no("why"))).unwrap();
        let expected = r#"{"what":"decided","decision":{"verdict":"deny","message":"why","interrupt":false},"content":"c","by":{"from":"rule","name":"r"}}"#;
        assert_eq!(body, expected);
        let answers = Decision::Answers { answers: [("q".to_owned(), vec!["red".to_owned()])].into() };
        let body = serde_json::to_string(&record(answers)).unwrap();
        assert!(body.contains(r#"{"verdict":"answers","answers":{"q":["red"]}}"#), "{body}");
    }
}
