//! What an agent tells about itself beside the conversation: what it offers, and how much of a limit is used up.
//!
//! Lists and names are an agent's own, so both are bounded; whoever draws them makes them safe to draw.

use serde::{Deserialize, Serialize};

/// Entries of a list: some agents know hundreds of models, and nobody looks at more.
const ENTRIES_MAX: usize = 512;
/// Characters of a name, and of what is said about it.
const NAME_MAX: usize = 128;
const ABOUT_MAX: usize = 512;

/// What an agent offers. A list that is there is whole and takes the place of the one before; one that the agent did not tell
/// is not there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Offers {
    /// Commands that a prompt may begin with, after a `/`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commands: Option<Vec<Offer>>,
    /// The modes that it can be in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modes: Option<Vec<Offer>>,
    /// The models that it can run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub models: Option<Vec<Offer>>,
    /// What else can be chosen, and what is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<Vec<Choice>>,
    /// Its tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<Offer>>,
    /// Agents that it can start for a part of the work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sub_agents: Option<Vec<Offer>>,
    /// The MCP servers that it uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcp_servers: Option<Vec<McpServer>>,
}

/// One thing of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Offer {
    /// What it is called by.
    pub name: String,
    /// What it is, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// Whether it is chosen now.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub chosen: bool,
}

impl Offer {
    /// An entry that nothing is said about.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), about: String::new(), chosen: false }
    }

    /// The same entry, with what is said about it.
    pub fn about(self, about: impl Into<String>) -> Self {
        Self { about: about.into(), ..self }
    }

    /// The same entry, chosen or not.
    pub fn chosen(self, chosen: bool) -> Self {
        Self { chosen, ..self }
    }
}

/// A setting of an agent's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Choice {
    /// What it is called by.
    pub name: String,
    /// What can be chosen.
    pub values: Vec<Offer>,
}

/// An MCP server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct McpServer {
    /// Its name.
    pub name: String,
    /// How it is doing, in the agent's word.
    pub status: String,
}

impl McpServer {
    /// Whether its tools are missing: somebody has to do something about it.
    pub fn is_missing(&self) -> bool {
        matches!(self.status.as_str(), "failed" | "needs-auth" | "cancelled")
    }
}

impl Offers {
    /// What is new in it: the lists that are not those told before. Remembers them.
    pub fn news(&mut self, told: Offers) -> Option<Offers> {
        let told = told.bounded();
        let news = Offers {
            commands: fresh(&mut self.commands, told.commands),
            modes: fresh(&mut self.modes, told.modes),
            models: fresh(&mut self.models, told.models),
            options: fresh(&mut self.options, told.options),
            tools: fresh(&mut self.tools, told.tools),
            sub_agents: fresh(&mut self.sub_agents, told.sub_agents),
            mcp_servers: fresh(&mut self.mcp_servers, told.mcp_servers),
        };
        (news != Offers::default()).then_some(news)
    }

    fn bounded(mut self) -> Self {
        for list in [&mut self.commands, &mut self.modes, &mut self.models, &mut self.tools, &mut self.sub_agents] {
            list.iter_mut().for_each(bound);
        }
        if let Some(choices) = &mut self.options {
            choices.truncate(ENTRIES_MAX);
            choices.iter_mut().for_each(|choice| {
                cut(&mut choice.name, NAME_MAX);
                bound(&mut choice.values);
            });
        }
        if let Some(servers) = &mut self.mcp_servers {
            servers.truncate(ENTRIES_MAX);
            servers.iter_mut().for_each(|server| {
                cut(&mut server.name, NAME_MAX);
                cut(&mut server.status, NAME_MAX);
            });
        }
        self
    }
}

/// An empty list is news only where one was told before that was not.
fn fresh<T: Clone + PartialEq>(known: &mut Option<Vec<T>>, told: Option<Vec<T>>) -> Option<Vec<T>> {
    let news = told.filter(|told| known.as_deref().unwrap_or_default() != told.as_slice());
    if news.is_some() {
        known.clone_from(&news);
    }
    news
}

fn bound(list: &mut Vec<Offer>) {
    list.truncate(ENTRIES_MAX);
    for offer in list {
        cut(&mut offer.name, NAME_MAX);
        cut(&mut offer.about, ABOUT_MAX);
    }
}

fn cut(text: &mut String, max: usize) {
    if let Some((end, _)) = text.char_indices().nth(max) {
        text.truncate(end);
    }
}

/// How much of a limit of use is used up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Limit {
    /// Which limit, in the agent's word.
    pub name: String,
    /// How much of it is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_percent: Option<f64>,
    /// When it begins anew, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resets: Option<u64>,
    /// How close it is.
    pub state: LimitState,
}

/// How close a limit is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LimitState {
    /// Far off.
    Far,
    /// Close, by the agent's word.
    Near,
    /// Nothing is answered before it begins anew.
    Reached,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_told_once_and_again_only_when_it_is_another() {
        let mut known = Offers::default();
        let commands = |name: &str| Offers { commands: Some(vec![Offer::named(name)]), ..Offers::default() };
        assert_eq!(known.news(commands("init")), Some(commands("init")));
        let both = Offers { tools: Some(vec![Offer::named("Bash")]), ..commands("init") };
        assert_eq!(known.news(both), Some(Offers { tools: Some(vec![Offer::named("Bash")]), ..Offers::default() }));
        assert_eq!(known.news(commands("init")), None);
        assert_eq!(known.news(commands("review")), Some(commands("review")));
        let none = Offers { commands: Some(Vec::new()), modes: Some(Vec::new()), ..Offers::default() };
        assert_eq!(known.news(none), Some(Offers { commands: Some(Vec::new()), ..Offers::default() }));
    }

    #[test]
    fn lists_and_names_have_an_end() {
        let many = vec![Offer::named("ü".repeat(1000)).about("x".repeat(1000)); 1000];
        let told = Offers { commands: Some(many.clone()), models: Some(many), ..Offers::default() };
        let news = Offers::default().news(told).unwrap();
        let commands = news.commands.unwrap();
        assert_eq!((commands.len(), news.models.unwrap().len()), (ENTRIES_MAX, ENTRIES_MAX));
        assert_eq!((commands[0].name.chars().count(), commands[0].about.len()), (NAME_MAX, ABOUT_MAX));
    }
}
