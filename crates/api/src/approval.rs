//! `approval.*`, `rule.*` and `audit.*`: questions that wait for a person, standing answers, and the record of both.

use ostler_story::{Answers, By, Json, answers_from, unwrapped};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::device::SignedAnswer;
use crate::history::HistoryDiff;
use crate::schema::{wire, words};
use crate::time::Timestamp;

words! {
    /// What is being asked.
    pub enum ApprovalKind {
        /// May this command run?
        Command = "command",
        /// May the agent use this tool?
        ToolUse = "tool_use",
        /// A question of the agent to its user.
        Question = "question",
    }

    /// Where a request stands.
    pub enum ApprovalState {
        Pending = "pending",
        /// A yes is recorded; nothing has followed from it yet.
        Accepted = "accepted",
        /// It was carried out.
        Applied = "applied",
        /// A yes that could not be carried out.
        Failed = "failed",
        Denied = "denied",
        /// Nobody decided in time.
        Expired = "expired",
        /// The asker went away.
        Withdrawn = "withdrawn",
        /// A yes from before the machine was restarted: nobody knows whether anything followed.
        Unknown = "unknown",
    }

    /// What can be said to a request.
    pub enum Verdict {
        /// Yes, this time.
        Once = "once",
        /// Yes, and the same again in this session.
        Session = "session",
        /// Yes, and the same again always: becomes a rule.
        Always = "always",
        Deny = "deny",
        /// Yes, but with the input in `input`.
        Changed = "changed",
        /// The answers in `answers`.
        Answers = "answers",
    }

    /// What a rule answers.
    pub enum RuleEffect {
        Allow = "allow",
        Deny = "deny",
    }
}

wire! {
    /// Who asks: what the system says (uid, pid, verified session), and what they say of themselves.
    pub struct AskerInfo {
        /// The door it came through.
        pub door: String,
        pub uid: u32,
        pub pid: Option<u32>,
        /// The session that the client claims to be.
        pub claimed_session: String,
        /// The machine that the client claims to be on.
        pub claimed_host: String,
        /// The client program and version, as it says.
        pub client: String,
        /// What hosts the asker, as the system tells it: its session (`s…`), or else its process (`p…`).
        pub verified_session: Option<String>,
        /// What people call that session, where it has a name.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub session_name: Option<String>,
    }

    /// All there is to say about a request.
    pub struct ApprovalInfo {
        /// `a…`
        pub id: String,
        pub kind: ApprovalKind,
        /// One line.
        pub title: String,
        /// Whether a yes lets something run as another user.
        pub privileged: bool,
        /// What is to be known of the files of a command that waits, before anybody says yes to it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub warnings: Vec<String>,
        /// Why, in the asker's words.
        pub reason: String,
        /// The whole of it, as JSON text: these very bytes have the hash, and a decision is about exactly this.
        pub content: String,
        /// What a tool would change, as the content tells it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub diffs: Vec<HistoryDiff>,
        /// With `diffs`: what the tool is given besides. Who shows both, and the title, shows all of it.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub rest: Option<Json>,
        /// SHA-256 of the content: what a decision must name.
        pub hash: String,
        pub asker: AskerInfo,
        pub workspace: Option<String>,
        pub asked: Timestamp,
        pub state: ApprovalState,
        /// What was said to the asker, why it failed, or what came of it.
        pub detail: Option<String>,
        pub decided: Option<Timestamp>,
        /// In words.
        #[serde(default, with = "ostler_story::by_in_words::option")]
        pub decided_by: Option<By>,
        /// The same for people: a user by name, by number only where no name is known.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub decided_by_name: Option<String>,
        /// Milliseconds left to decide.
        pub expires_in_ms: Option<u64>,
    }

    pub struct ApprovalListParams {
        /// Also those that were settled lately.
        #[serde(default)]
        pub all: bool,
    }

    pub struct ApprovalList {
        pub approvals: Vec<ApprovalInfo>,
        /// Rules that answer nothing until a person affirms them.
        #[serde(default)]
        pub rules_suspended: u64,
        /// Nobody decides until somebody has shown by a password to be a person.
        #[serde(default)]
        pub locked: bool,
    }

    /// Which request: its id or a unique prefix of it.
    pub struct ApprovalIdParams {
        pub id: String,
    }

    pub struct ShownParams {
        pub id: String,
        /// What shows it, for the audit.
        pub surface: String,
    }

    /// A decision. Only the first counts, only about the content with this hash, and only from a person's place: a process
    /// with a terminal that ostler does not host.
    pub struct DecideParams {
        pub id: String,
        pub hash: String,
        pub verdict: Verdict,
        /// The caller goes on with `approval.terminal`, so that an approved command may ask for a password.
        #[serde(default)]
        pub relays: bool,
        /// With `deny`: a word for the asker.
        #[serde(default)]
        pub message: String,
        /// With `deny`: the asker's turn ends.
        #[serde(default)]
        pub interrupt: bool,
        /// With `changed`: the input. Text that is JSON is read too.
        #[serde(default, deserialize_with = "input")]
        pub input: Option<Json>,
        /// With `answers`: one or several answers to each question, by its id. Text that is JSON is read too.
        #[serde(default, deserialize_with = "answers")]
        pub answers: Option<Answers>,
        /// From a device that has a key: what it signed, which counts instead of everything else here.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub signed: Option<SignedAnswer>,
    }

    /// Keys for the terminal on which an approved command may ask for a password. They are passed on and kept nowhere.
    pub struct TerminalParams {
        pub id: String,
        /// Base64.
        #[serde(default)]
        pub keys: String,
        /// How long to wait for output; at most ten seconds.
        #[serde(default)]
        pub wait_ms: u64,
    }

    pub struct TerminalOutput {
        /// Base64.
        pub output: String,
        /// The command is over, or never had a terminal.
        pub ended: bool,
    }

    /// What one argument must be: exactly `is`, or like `like`, where each `*` stands for anything.
    pub struct ArgPattern {
        pub is: Option<String>,
        pub like: Option<String>,
    }

    pub struct RuleInfo {
        pub name: String,
        pub effect: RuleEffect,
        /// `session NAME`, `workspace PATH` or `host`.
        pub scope: String,
        /// One line.
        pub title: String,
        /// The whole pattern.
        #[serde(deserialize_with = "unwrapped_from")]
        pub pattern: Json,
        pub made: Timestamp,
        /// In words.
        #[serde(with = "ostler_story::by_in_words")]
        pub made_by: By,
        pub expires: Option<Timestamp>,
        /// It answers nothing until a person affirms it: nobody vouches for the record that has it.
        #[serde(default)]
        pub suspended: bool,
        /// SHA-256 of the whole rule, in hex: what an affirmation names.
        #[serde(default)]
        pub digest: String,
        /// What a suspended rule about one content is about, as JSON text: these very bytes have the hash in the pattern. Nothing
        /// if that is not kept.
        pub content: Option<String>,
    }

    pub struct RuleList {
        pub rules: Vec<RuleInfo>,
    }

    /// A standing answer about commands; only from a person's place.
    pub struct RuleAddParams {
        pub effect: RuleEffect,
        /// One list of arguments per stage; the first is the absolute path of the program.
        pub stages: Vec<Vec<ArgPattern>>,
        pub privileged: bool,
        /// Only for this session.
        pub session: Option<String>,
        /// Only in this folder.
        pub workspace: Option<String>,
        /// Seconds until it ends; for good when left out.
        pub expires_in: Option<u64>,
    }

    pub struct RuleNameParams {
        pub name: String,
    }

    /// Rules that a person has seen and wants to count again; only from a person's place.
    pub struct RuleAffirmParams {
        /// The digests of the rules, as they were listed.
        pub digests: Vec<String>,
    }

    pub struct RuleNames {
        pub names: Vec<String>,
    }

    /// How deciding is opened again after the loss of a keeper.
    pub struct Unlock {
        /// It is open.
        pub open: bool,
        /// The file that root makes to show that somebody knows the password.
        pub file: Option<String>,
        /// Why there is no way but to restart the machine.
        pub why_not: Option<String>,
    }

    /// One entry of the audit.
    pub struct AuditEntry {
        pub seq: u64,
        pub time: Timestamp,
        /// The request it is about.
        pub about: Option<String>,
        /// The record; a text where somebody else wrote what is no JSON.
        #[serde(deserialize_with = "unwrapped_from")]
        pub record: Json,
    }

    pub struct AuditReadParams {
        /// Entries after this position.
        #[serde(default)]
        pub after: u64,
        /// At most this many; 1000 when left out.
        #[serde(default)]
        pub limit: u64,
    }

    pub struct AuditPage {
        pub entries: Vec<AuditEntry>,
    }

    /// The whole audit was walked and holds.
    pub struct AuditVerified {
        pub entries: u64,
        /// The hash of the last entry. Noted elsewhere, it tells later whether the log was written anew.
        pub head: String,
        /// Entries that somebody else wrote into the file. They were put aside and count for nothing.
        #[serde(default)]
        pub foreign: Vec<AuditEntry>,
    }
}

fn unwrapped_from<'de, D: Deserializer<'de>>(from: D) -> Result<Json, D::Error> {
    Json::deserialize(from).map(unwrapped)
}

fn input<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Json>, D::Error> {
    Ok(Option::<Json>::deserialize(from)?.map(unwrapped))
}

fn answers<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Answers>, D::Error> {
    let given = Option::<Json>::deserialize(from)?;
    given
        .map(|given| {
            answers_from(given).ok_or_else(|| D::Error::custom("answers are texts by the id of their question"))
        })
        .transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_and_patterns_are_json_and_those_of_an_older_daemon_are_read() {
        let entry = |record: &str| {
            let text = format!(r#"{{"seq":1,"time":"2026-01-31T14:30:00.000000Z","about":null,"record":{record}}}"#);
            serde_json::from_str::<AuditEntry>(&text).unwrap()
        };
        let told = serde_json::json!({"what": "expired"});
        let written = serde_json::to_string(&entry(r#"{"what":"expired"}"#)).unwrap();
        assert!(written.contains(r#""record":{"what":"expired"}"#), "{written}");
        assert_eq!(entry(r#""{\"what\":\"expired\"}""#).record, told);
        assert_eq!(entry(r#""no JSON""#).record, "no JSON");
    }
}
