//! Two spellings of every member: the document writes `sessionId`, the programs that are out there write `session_id`. Both
//! are understood, and both are sent.

use serde_json::{Map, Value};

/// What a client sent, in the programs' spelling. A member that comes in both spellings is taken from that one.
pub(crate) fn understood(params: Map<String, Value>) -> Map<String, Value> {
    let (snake, camel): (Map<_, _>, Map<_, _>) = params.into_iter().partition(|(name, _)| *name == snake_case(name));
    let mut all = snake;
    for (name, value) in camel {
        all.entry(snake_case(&name)).or_insert(value);
    }
    all
}

/// What a client is sent, each member of the outermost object in both spellings.
pub(crate) fn both(mut value: Value) -> Value {
    if let Value::Object(members) = &mut value {
        let twice = members.iter().filter(|(name, _)| name.contains('_'));
        let twice: Vec<_> = twice.map(|(name, value)| (camel_case(name), value.clone())).collect();
        members.extend(twice);
    }
    value
}

fn snake_case(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            out.push('_');
        }
        out.push(letter.to_ascii_lowercase());
    }
    out
}

fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let mut out = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        out.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        out.push_str(letters.as_str());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn either_spelling_is_understood_and_nothing_within_is_touched() {
        let Value::Object(params) =
            json!({"sessionId": "a", "cwd": {"someKey": 1}, "agentAlias": "b", "agent_alias": "c"})
        else {
            panic!()
        };
        let expected = json!({"session_id": "a", "cwd": {"someKey": 1}, "agent_alias": "c"});
        assert_eq!(Value::Object(understood(params)), expected);
    }

    #[test]
    fn both_spellings_are_sent() {
        let expected =
            json!({"type": "x", "tool_call_id": 1, "toolCallId": 1, "raw_input": {"a_b": 2}, "rawInput": {"a_b": 2}});
        assert_eq!(both(json!({"type": "x", "tool_call_id": 1, "raw_input": {"a_b": 2}})), expected);
    }
}
