//! How a process ended.

use serde::{Deserialize, Serialize};

/// SIGHUP, SIGINT and SIGTERM: somebody wanted it to end. SIGKILL may also be the system, short of memory.
const END_SIGNALS: [i32; 3] = [1, 2, 15];

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// It returned this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
    /// It is gone, and nobody was there to see how.
    Unknown,
}

impl Exit {
    /// What it returned, if it did.
    pub fn code(self) -> Option<i32> {
        match self {
            Self::Code(code) => Some(code),
            Self::Signal(_) | Self::Unknown => None,
        }
    }

    /// The signal that ended it, if one did.
    pub fn signal(self) -> Option<i32> {
        match self {
            Self::Signal(signal) => Some(signal),
            Self::Code(_) | Self::Unknown => None,
        }
    }

    /// Whether it did not end well, and nobody outside told it to end.
    pub fn is_failure(self) -> bool {
        match self {
            Self::Code(code) => code != 0,
            Self::Signal(signal) => !END_SIGNALS.contains(&signal),
            Self::Unknown => true,
        }
    }

    /// From what one has of the two.
    pub fn of(code: Option<i32>, signal: Option<i32>) -> Self {
        code.map(Self::Code).or(signal.map(Self::Signal)).unwrap_or(Self::Unknown)
    }
}

/// For `#[serde(flatten, with)]`: `code` or `signal` among the members of what has ended, or neither.
pub(crate) mod exit_as_members {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Exit;

    #[derive(Serialize, Deserialize)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
    pub(crate) struct Members {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<i32>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<i32>,
    }

    pub(crate) fn serialize<S: Serializer>(exit: &Exit, to: S) -> Result<S::Ok, S::Error> {
        Members { code: exit.code(), signal: exit.signal() }.serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Exit, D::Error> {
        let Members { code, signal } = Members::deserialize(from)?;
        Ok(Exit::of(code, signal))
    }
}

#[cfg(test)]
mod tests {
    use crate::{Exit, Fact};

    #[test]
    fn who_was_told_to_end_has_not_failed() {
        assert!(
            [Exit::Code(0), Exit::Signal(1), Exit::Signal(2), Exit::Signal(15)].iter().all(|exit| !exit.is_failure())
        );
        assert!([Exit::Code(3), Exit::Signal(9), Exit::Signal(11), Exit::Unknown].iter().all(|exit| exit.is_failure()));
    }

    #[test]
    fn an_exit_is_a_member_of_what_has_ended() {
        for (exit, member) in
            [(Exit::Code(3), r#","code":3"#), (Exit::Signal(9), r#","signal":9"#), (Exit::Unknown, "")]
        {
            let fact = Fact::Exited { source: 1, exit, stderr: "s".into() };
            let text = format!(r#"{{"type":"exited","source":1{member},"stderr":"s"}}"#);
            assert_eq!(serde_json::to_string(&fact).unwrap(), text);
            assert_eq!(serde_json::from_str::<Fact>(&text).unwrap(), fact);
        }
    }
}
