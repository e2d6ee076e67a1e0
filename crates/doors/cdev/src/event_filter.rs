//! Which events a connection wants. Everything that the document has, unless it says otherwise; three kinds that only repeat an
//! answer go to who asks for them by name.

use std::collections::BTreeSet;

/// What is only sent to who names it: each repeats what an answer said already.
const ON_REQUEST: [&str; 3] = ["file_content", "status_response", "error"];
/// Kinds that one connection may name.
const NAMED_MAX: usize = 256;

/// What a connection wants.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct EventFilter {
    /// These kinds; all where nothing was said.
    kinds: Option<BTreeSet<String>>,
    /// Of these sessions; of all where none is named.
    pub(crate) sessions: BTreeSet<String>,
    /// Of these workspaces; of all where none is named.
    pub(crate) workspaces: BTreeSet<String>,
}

impl EventFilter {
    /// From now on these kinds, with or without `event/` before them. `*`, or none at all: every one.
    pub(crate) fn only<'a>(&mut self, kinds: impl IntoIterator<Item = &'a str>) {
        let named: BTreeSet<String> = kinds
            .into_iter()
            .take(NAMED_MAX)
            .map(|kind| kind.strip_prefix("event/").unwrap_or(kind))
            // The neutral names of the same things.
            .map(|kind| kind.strip_prefix("agent_").map_or(kind.to_owned(), |rest| format!("claude_{rest}")))
            .collect();
        self.kinds = (!named.is_empty() && !named.contains("*")).then_some(named);
    }

    /// Whether events of this kind are wanted.
    pub(crate) fn event(&self, kind: &str) -> bool {
        match &self.kinds {
            Some(kinds) => kinds.contains(kind),
            None => !ON_REQUEST.contains(&kind),
        }
    }

    /// Whether an event about these is wanted; what is about none is.
    pub(crate) fn about(&self, session: Option<&str>, workspace: Option<&str>) -> bool {
        let passes =
            |named: &BTreeSet<String>, one: Option<&str>| named.is_empty() || one.is_none_or(|one| named.contains(one));
        passes(&self.sessions, session) && passes(&self.workspaces, workspace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_comes_but_what_repeats_an_answer() {
        let wanted = EventFilter::default();
        assert!(wanted.event("heartbeat") && wanted.event("claude_log") && !wanted.event("file_content"));
    }

    #[test]
    fn who_names_kinds_gets_those() {
        let mut wanted = EventFilter::default();
        wanted.only(["event/heartbeat", "error", "agent_status"]);
        assert!(wanted.event("heartbeat") && wanted.event("error") && wanted.event("claude_status"));
        assert!(!wanted.event("file_changed"));
        wanted.only([]);
        assert!(wanted.event("file_changed") && !wanted.event("error"));
    }

    #[test]
    fn what_is_about_another_session_is_not_wanted_and_what_is_about_none_is() {
        let mut wanted = EventFilter::default();
        wanted.sessions.insert("s1".into());
        assert!(wanted.about(Some("s1"), Some("w")) && wanted.about(None, None) && !wanted.about(Some("s2"), None));
        wanted.workspaces.insert("w".into());
        assert!(wanted.about(Some("s1"), Some("w")) && wanted.about(Some("s1"), None));
        assert!(!wanted.about(Some("s1"), Some("v")) && !wanted.about(None, Some("v")));
    }
}
