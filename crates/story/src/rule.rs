//! What a standing answer is about. Whether a request is that, only the engine says.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What one argument must be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArgPattern {
    /// This text.
    Is(String),
    /// Text where each `*` stands for any number of any characters.
    Like(String),
}

/// What a request must be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "about")]
pub enum Pattern {
    /// A command with these arguments, this environment and these rights.
    Command {
        /// One list per stage.
        stages: Vec<Vec<ArgPattern>>,
        /// Exactly these variables.
        #[serde(default)]
        env: BTreeMap<String, String>,
        /// Whether it runs as root.
        privileged: bool,
        /// Whether it may use the user's ssh agent.
        #[serde(default)]
        forward_agent: bool,
    },
    /// Exactly this content.
    Content {
        /// Its hash.
        hash: String,
    },
}
