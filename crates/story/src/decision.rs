//! What was decided about a request, and by whom.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Json;

/// Answers to questions, by the ids of these: one or several labels, or free text, for each.
pub type Answers = BTreeMap<String, Vec<String>>;

/// What can be said to a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Decision {
    /// Yes, this time.
    Once,
    /// Yes, and the same again in this session.
    Session,
    /// Yes, and the same again always.
    Always,
    /// No.
    Deny {
        /// Told to the asker, where it listens.
        message: String,
        /// Whether the asker's turn ends too.
        interrupt: bool,
    },
    /// Yes, with this input instead.
    Changed {
        /// The input.
        input: Json,
    },
    /// The answers to its questions.
    Answers {
        /// For each.
        answers: Answers,
    },
}

impl Decision {
    /// A plain no.
    pub fn deny() -> Self {
        Self::no("")
    }

    /// A no with a word for the asker, whose turn goes on.
    pub fn no(message: impl Into<String>) -> Self {
        Self::Deny { message: message.into(), interrupt: false }
    }

    /// Whether something follows from it.
    pub fn is_yes(&self) -> bool {
        !matches!(self, Self::Deny { .. })
    }

    /// One word for people.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Once => "approved",
            Self::Session => "approved for this session",
            Self::Always => "approved for 30 days",
            Self::Deny { .. } => "denied",
            Self::Changed { .. } => "approved with changes",
            Self::Answers { .. } => "answered",
        }
    }
}

/// Answers from JSON, also as earlier versions wrote them: as text, or with one label by itself. Nothing if they are none.
pub fn answers_from(json: Json) -> Option<Answers> {
    let labels = |labels: Json| match labels {
        Json::String(label) => Some(vec![label]),
        several => serde_json::from_value(several).ok(),
    };
    match unwrapped(json) {
        Json::Object(answers) => {
            answers.into_iter().map(|(question, given)| Some((question, labels(given)?))).collect()
        }
        _ => None,
    }
}

/// What a text says: JSON, or itself where it is none.
pub fn json_of(text: String) -> Json {
    serde_json::from_str(&text).unwrap_or(Json::String(text))
}

/// What JSON text says that stands where an object is expected, as earlier versions wrote it; anything else as it is.
pub fn unwrapped(json: Json) -> Json {
    let object = json.as_str().and_then(|text| serde_json::from_str(text).ok()).filter(Json::is_object);
    object.unwrap_or(json)
}

/// Who decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "from")]
pub enum By {
    /// A person at a terminal.
    Terminal {
        /// Their user.
        uid: u32,
        /// The process that took the key; what is said in words leaves it out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pid: Option<u32>,
        /// The terminal's device.
        tty: String,
    },
    /// A rule that a person made earlier.
    Rule {
        /// The rule's name.
        name: String,
    },
    /// A paired device.
    Device {
        /// The device's name.
        name: String,
        /// What its key signed, where it has one; what is said in words leaves it out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signed: Option<Signed>,
    },
    /// A client of a door whose protocol has words for an answer: to questions, and once to what an agent of that door asks.
    Client {
        /// The door.
        door: String,
        /// The client's user.
        uid: u32,
    },
    /// Whoever had the link of a notice that said all of it.
    Notice {
        /// The way that it went.
        way: String,
    },
    /// Nobody: its time was over, or it could not be asked.
    Ostler,
}

/// An answer as a device's key signed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signed {
    /// What was signed: which request, the hash of its content, the answer, and until when it counts.
    pub text: String,
    /// ECDSA over P-256 with SHA-256: `r` and `s`, in base64url.
    pub signature: String,
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Terminal { uid, tty, .. } => write!(f, "uid {uid} at {tty}"),
            Self::Rule { name } => write!(f, "rule {name}"),
            Self::Device { name, .. } => write!(f, "device {name}"),
            Self::Client { door, uid } => write!(f, "uid {uid} through {door}"),
            Self::Notice { way } => write!(f, "notice by {way}"),
            Self::Ostler => f.write_str("ostler"),
        }
    }
}

/// Words that name nobody who decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nobody;

impl fmt::Display for Nobody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nobody who decides is called so")
    }
}

impl std::error::Error for Nobody {}

impl FromStr for By {
    type Err = Nobody;

    /// What [`Display`](fmt::Display) made of it.
    fn from_str(words: &str) -> Result<Self, Nobody> {
        let Some((kind, rest)) = words.split_once(' ') else {
            return if words == "ostler" { Ok(Self::Ostler) } else { Err(Nobody) };
        };
        let user = || {
            let (uid, place) = rest.split_once(' ')?;
            Some((uid.parse().ok()?, place.split_once(' ')?))
        };
        match (kind, user()) {
            ("rule", _) => Ok(Self::Rule { name: rest.to_owned() }),
            ("notice", _) => rest.strip_prefix("by ").map(|way| Self::Notice { way: way.to_owned() }).ok_or(Nobody),
            ("device", _) => Ok(Self::Device { name: rest.to_owned(), signed: None }),
            ("uid", Some((uid, ("at", tty)))) => Ok(Self::Terminal { uid, pid: None, tty: tty.to_owned() }),
            ("uid", Some((uid, ("through", door)))) => Ok(Self::Client { door: door.to_owned(), uid }),
            _ => Err(Nobody),
        }
    }
}

/// For `#[serde(with)]`: who decided, in words, as a session's journal and the native protocol have it.
pub mod by_in_words {
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};

    use super::By;

    pub fn serialize<S: Serializer>(by: &By, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(by)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<By, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }

    /// The same where nobody may have decided yet.
    pub mod option {
        use super::*;

        pub fn serialize<S: Serializer>(by: &Option<By>, to: S) -> Result<S::Ok, S::Error> {
            match by {
                Some(by) => to.collect_str(by),
                None => to.serialize_none(),
            }
        }

        pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<By>, D::Error> {
            let words = Option::<String>::deserialize(from)?;
            words.map(|words| words.parse().map_err(D::Error::custom)).transpose()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answers_and_input_are_read_also_from_text() {
        let answers: Answers = [("q".to_owned(), vec!["red".to_owned()])].into();
        for json in [json!({"q": ["red"]}), json!({"q": "red"}), json!(r#"{"q":"red"}"#), json!(r#"{"q":["red"]}"#)] {
            assert_eq!(answers_from(json), Some(answers.clone()));
        }
        for json in [json!(null), json!("red"), json!({"q": 1}), json!([])] {
            assert_eq!(answers_from(json), None);
        }
        assert_eq!(unwrapped(json!(r#"{"a":1}"#)), json!({"a": 1}));
        assert_eq!((unwrapped(json!("5")), unwrapped(json!({"a": 1}))), (json!("5"), json!({"a": 1})));
    }

    #[test]
    fn who_decided_is_read_from_the_words_about_it() {
        let all = [
            By::Terminal { uid: 7, pid: None, tty: "/dev/pts/1".into() },
            By::Rule { name: "unattended for this session".into() },
            By::Device { name: "phone".into(), signed: None },
            By::Client { door: "codecast".into(), uid: 0 },
            By::Notice { way: "webhook".into() },
            By::Ostler,
        ];
        for by in all {
            assert_eq!(by.to_string().parse(), Ok(by));
        }
        for words in ["", "uid", "uid x at y", "uid 7 y", "somebody"] {
            assert_eq!(words.parse::<By>(), Err(Nobody), "{words}");
        }
    }
}
