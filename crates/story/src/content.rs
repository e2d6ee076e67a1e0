//! What a person is shown of an agent's request.

use serde::{Deserialize, Serialize};

use crate::{Can, Json, Question};

/// What a person decides about when an agent asks: all that matters and nothing that changes from one time to the next, so
/// that the same again is known to be the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolContent {
    /// The agent.
    pub agent: String,
    /// The tool, by the agent's name.
    pub tool: String,
    /// One line for people.
    pub title: String,
    /// What the tool is given, or the whole of the question.
    pub input: Json,
    /// The questions, if these are questions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<Question>,
    /// What an answer can say beyond yes and no.
    pub can: Can,
    /// What the agent would no longer ask about after a yes that lasts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<String>,
}

impl ToolContent {
    /// What a decision is bound to: the same members in another order are the same.
    pub fn text(mut self) -> String {
        self.input.sort_all_objects();
        serde_json::to_string(&self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_is_bound_to_what_is_asked_and_not_to_the_order_of_its_members() {
        let content = |input: &str| ToolContent {
            agent: "a".into(),
            tool: "t".into(),
            title: String::new(),
            input: serde_json::from_str(input).unwrap(),
            questions: Vec::new(),
            can: Can::default(),
            grants: Vec::new(),
        };
        let (one, other) = (r#"{"b":1,"a":[{"d":2,"c":3}]}"#, r#"{"a":[{"c":3,"d":2}],"b":1}"#);
        assert_eq!(content(one).text(), content(other).text());
        assert_ne!(content(one).text(), content(r#"{"b":2,"a":[{"d":2,"c":3}]}"#).text());
    }
}
