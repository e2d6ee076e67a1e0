//! Tools: what an agent uses them for, on what, and what came of it.

use serde::{Deserialize, Serialize};

use crate::diff::path_in;
use crate::{Diff, Json};

/// A tool is to be used. Whether it may is another matter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ToolCall {
    /// The agent's id of the call.
    pub id: String,
    /// The tool, by the agent's name.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// What the tool is given.
    pub input: Json,
    /// What sort of thing it does.
    pub kind: ToolKind,
    /// The call of a sub-agent that this one belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Where it works.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locations: Vec<Location>,
    /// What it is to change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub diffs: Vec<Diff>,
}

impl ToolCall {
    /// A call, with the changes and places that its input tells.
    pub fn new(id: impl Into<String>, name: impl Into<String>, kind: ToolKind, input: Json) -> Self {
        let name = name.into();
        let diffs = Diff::all_in(&input);
        let (title, parent) = (name.clone(), None);
        let mut call = Self { id: id.into(), name, title, input, kind, parent, locations: Vec::new(), diffs };
        call.locate();
        call
    }

    /// The same call, under a title for people.
    pub fn titled(self, title: impl Into<String>) -> Self {
        Self { title: title.into(), ..self }
    }

    /// The same call, of a sub-agent.
    pub fn within(self, parent: Option<String>) -> Self {
        Self { parent, ..self }
    }

    /// The same call, with changes that its input does not tell.
    pub fn changing(mut self, diffs: Vec<Diff>) -> Self {
        if self.diffs.is_empty() {
            self.diffs = Diff::bounded(diffs);
            self.locate();
        }
        self
    }

    /// The same call, at places that its input does not tell.
    pub fn at(mut self, locations: Vec<Location>) -> Self {
        if !locations.is_empty() {
            self.locations = locations;
            self.locations.truncate(LOCATIONS_MAX);
        }
        self
    }

    /// A call of a journal that was written before changes were told apart.
    pub(crate) fn completed(mut self) -> Self {
        if self.diffs.is_empty() && self.locations.is_empty() {
            self.diffs = Diff::all_in(&self.input);
            self.locate();
        }
        self
    }

    fn locate(&mut self) {
        let files = [ToolKind::Read, ToolKind::Edit, ToolKind::Delete, ToolKind::Move];
        if let Some(path) = path_in(&self.input).filter(|_| self.diffs.is_empty() && files.contains(&self.kind)) {
            self.locations.push(Location { path: path.to_owned(), line: None });
        }
        for diff in &self.diffs {
            let location = Location { path: diff.path.clone(), line: diff.line };
            if self.locations.len() < LOCATIONS_MAX && !self.locations.contains(&location) {
                self.locations.push(location);
            }
        }
    }
}

/// Places of one call: more than anybody looks at.
const LOCATIONS_MAX: usize = 64;

/// A place in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Location {
    /// The file.
    pub path: String,
    /// The line, from 1, where the agent tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
}

/// What sort of thing a tool does: decides icons, and what `edits` covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ToolKind {
    /// Reads files or data.
    Read,
    /// Changes files.
    Edit,
    /// Removes files.
    Delete,
    /// Moves files.
    Move,
    /// Looks for something.
    Search,
    /// Runs a command.
    Execute,
    /// Thinks, plans, or starts a sub-agent.
    Think,
    /// Fetches from the network.
    Fetch,
    /// Anything else.
    Other,
}
