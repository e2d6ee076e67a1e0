//! One event of a session as the native protocol carries it: what `ostler_story` has words for, and what a newer daemon says
//! beyond that, untouched.
//!
//! Its description is `session_event.json`, which a test makes from the types of `ostler_story` and compares: the program
//! carries the text, and not what makes it.

use ostler_story::Said;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::schema::Schema;

/// What describes [`SessionEvent`] and every type within it, by name.
const DESCRIBED: &str = include_str!("session_event.json");

/// A fact of the daemon's own or something that an agent said, told apart by its `type`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionEvent(Value);

impl SessionEvent {
    /// What it says; nothing, where this version has no word for it.
    pub fn said(&self) -> Option<Said> {
        Said::read(&self.0)
    }

    /// All of it, as it came.
    pub fn json(&self) -> &Value {
        &self.0
    }
}

impl Schema for SessionEvent {
    fn schema() -> Value {
        json!({"$ref": "#/components/schemas/SessionEvent"})
    }
}

/// The schemas that `$ref`s of the description name.
pub(crate) fn schemas() -> Map<String, Value> {
    serde_json::from_str(DESCRIBED).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use ostler_story::{Event, Fact};
    use schemars::generate::SchemaSettings;

    use super::*;

    fn generated() -> String {
        let settings = SchemaSettings::draft07().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        });
        let mut generator = settings.into_generator();
        let event = json!({"anyOf": [generator.subschema_for::<Fact>(), generator.subschema_for::<Event>()]});
        let mut schemas = generator.take_definitions(true);
        schemas.insert("SessionEvent".into(), event);
        // One on a line: it is part of the program, and blanks weigh as much as words.
        let lines: Vec<String> = schemas.iter().map(|(name, schema)| format!("{name:?}:{schema}")).collect();
        format!("{{\n{}\n}}\n", lines.join(",\n"))
    }

    /// After a change of those types: `OSTLER_DESCRIBE=1 cargo test -p ostler-api events_are_described`.
    #[test]
    fn events_are_described_as_the_types_have_them() {
        if std::env::var_os("OSTLER_DESCRIBE").is_some() {
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/session_event.json");
            return std::fs::write(path, generated()).unwrap();
        }
        assert!(DESCRIBED == generated(), "session_event.json is not what the types say: see above this test");
    }

    #[test]
    fn every_reference_of_the_description_leads_somewhere() {
        fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
            match value {
                Value::Object(members) => {
                    found.extend(members.get("$ref").and_then(Value::as_str));
                    members.values().for_each(|value| references(value, found));
                }
                Value::Array(values) => values.iter().for_each(|value| references(value, found)),
                _ => {}
            }
        }
        let document = crate::document("0");
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(found.len() > 10, "{found:?}");
        for reference in found {
            let place = reference.strip_prefix('#').and_then(|place| document.pointer(place));
            assert!(place.is_some(), "{reference}");
        }
    }

    #[test]
    fn an_event_that_nobody_knows_yet_is_carried_and_says_nothing() {
        let event: SessionEvent = serde_json::from_str(r#"{"type":"dreamt","of":"sheep"}"#).unwrap();
        assert!(event.said().is_none());
        assert_eq!(serde_json::to_string(&event).unwrap(), r#"{"type":"dreamt","of":"sheep"}"#);
    }
}
