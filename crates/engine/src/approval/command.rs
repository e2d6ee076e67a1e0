//! The content of a request to run a command: everything that decides what will run, and nothing else.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ostler_stages::{Seal, Warning};
use serde::{Deserialize, Serialize};

use crate::MayWait;

/// One stage of a pipeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageContent {
    /// The arguments as asked for, the command's name first.
    pub argv: Vec<String>,
    /// The very file that will be executed.
    pub program: PathBuf,
    /// What that file was when it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seal: Option<Seal>,
}

/// A command as it is asked for, shown, decided and run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandContent {
    /// Each stage's output is the next one's input.
    pub stages: Vec<StageContent>,
    /// Variables on top of the few that every command gets.
    pub env: BTreeMap<String, String>,
    /// Whether it runs as root.
    pub privileged: bool,
    /// Whether it may use the user's ssh agent.
    pub forward_agent: bool,
}

impl CommandContent {
    /// The text that is hashed, stored and decided about.
    pub fn canonical(&self) -> String {
        // Structs and sorted maps of text: there is nothing that could fail.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// What a person has to know of its files before they say yes, with the number of the stage. Looks at the files.
    pub fn warnings(&self, _wait: &MayWait, asker: u32) -> Vec<(usize, Warning)> {
        let of = |(at, stage): (usize, &StageContent)| {
            let (program, seal) = (Some(stage.program.as_path()), stage.seal.as_ref());
            let found = ostler_stages::warnings(program, seal, &stage.argv, self.env.values(), asker, self.privileged);
            found.into_iter().map(move |warning| (at + 1, warning)).collect::<Vec<_>>()
        };
        self.stages.iter().enumerate().flat_map(of).collect()
    }

    /// Reads it back.
    pub fn parse(content: &str) -> Option<Self> {
        serde_json::from_str(content).ok()
    }
}
