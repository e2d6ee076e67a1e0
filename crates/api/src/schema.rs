//! JSON Schema of the wire types, derived from the types themselves, so that the description cannot drift.

use std::collections::BTreeMap;

use ostler_story::{Autonomy, By, FeedKind, Lifetime, LimitState, Right, Rights};
use serde_json::{Map, Value, json};

use crate::time::Timestamp;

/// A type that can describe its JSON form.
pub trait Schema {
    /// Whether a field of this type may be left out.
    const OPTIONAL: bool = false;

    fn schema() -> Value;
}

macro_rules! plain {
    ($($type:ty => $schema:expr),* $(,)?) => {
        $(impl Schema for $type {
            fn schema() -> Value {
                $schema
            }
        })*
    };
}

plain! {
    bool => json!({"type": "boolean"}),
    String => json!({"type": "string"}),
    u16 => json!({"type": "integer", "minimum": 0, "maximum": u16::MAX}),
    u32 => json!({"type": "integer", "minimum": 0, "maximum": u32::MAX}),
    u64 => json!({"type": "integer", "minimum": 0}),
    i32 => json!({"type": "integer"}),
    i64 => json!({"type": "integer"}),
    f64 => json!({"type": "number"}),
    By => json!({"type": "string"}),
    FeedKind => json!({"type": "string", "enum": FeedKind::ALL}),
    Autonomy => json!({"type": "string", "enum": [Autonomy::All, Autonomy::Edits, Autonomy::Plan, Autonomy::Ask]}),
    Lifetime => json!({"type": "string", "enum": [Lifetime::Turn, Lifetime::Session]}),
    LimitState => json!({"type": "string", "enum": [LimitState::Far, LimitState::Near, LimitState::Reached]}),
    Right => json!({"type": "string", "enum": Right::ALL}),
    Timestamp => json!({"type": "string", "format": "date-time"}),
}

impl<T: Schema> Schema for Option<T> {
    const OPTIONAL: bool = true;

    fn schema() -> Value {
        T::schema()
    }
}

impl Schema for Rights {
    const OPTIONAL: bool = <Vec<Right> as Schema>::OPTIONAL;

    fn schema() -> Value {
        <Vec<Right> as Schema>::schema()
    }
}

impl<T: Schema> Schema for Vec<T> {
    // An absent list is an empty one.
    const OPTIONAL: bool = true;

    fn schema() -> Value {
        json!({"type": "array", "items": T::schema()})
    }
}

impl<T: Schema> Schema for BTreeMap<String, T> {
    fn schema() -> Value {
        json!({"type": "object", "additionalProperties": T::schema()})
    }
}

/// Anything.
impl Schema for Value {
    fn schema() -> Value {
        json!({})
    }
}

impl<T: Schema, U: Schema> Schema for (T, U) {
    fn schema() -> Value {
        json!({"type": "array", "prefixItems": [T::schema(), U::schema()], "minItems": 2, "maxItems": 2})
    }
}

/// The schema of an object: its fields as `(name, schema, optional, doc)`.
pub(crate) fn object(doc: &str, fields: &[(&str, Value, bool, String)]) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for (name, schema, optional, doc) in fields {
        let mut schema = schema.clone();
        if let (Some(object), false) = (schema.as_object_mut(), doc.is_empty()) {
            object.insert("description".into(), Value::from(doc.as_str()));
        }
        if !optional {
            required.push(Value::from(*name));
        }
        properties.insert((*name).to_owned(), schema);
    }
    let mut schema = json!({"type": "object", "properties": properties, "required": required});
    if let (Some(object), false) = (schema.as_object_mut(), doc.is_empty()) {
        object.insert("description".into(), Value::from(doc));
    }
    schema
}

/// Joins the lines of a doc comment.
pub(crate) fn doc(lines: &[&str]) -> String {
    lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
}

/// Declares wire structs: serde both ways, unknown fields ignored (newer reads older), and a schema that carries the doc comments.
/// An `Option` may be left out; whatever else may be says `default`.
macro_rules! wire {
    ($(
        $(#[doc = $doc:literal])*
        pub struct $name:ident {
            $( $(#[doc = $field_doc:literal])* $(#[serde($($serde:tt)*)])? pub $field:ident : $type:ty ),* $(,)?
        }
    )*) => {
        $(
            $(#[doc = $doc])*
            #[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
            pub struct $name {
                $(
                    $(#[doc = $field_doc])*
                    $(#[serde($($serde)*)])?
                    pub $field: $type
                ),*
            }

            impl crate::schema::Schema for $name {
                fn schema() -> serde_json::Value {
                    crate::schema::object(&crate::schema::doc(&[$($doc),*]), &[
                        $((
                            stringify!($field),
                            <$type as crate::schema::Schema>::schema(),
                            <$type as crate::schema::Schema>::OPTIONAL
                                || stringify!($($($serde)*)?).contains("default"),
                            crate::schema::doc(&[$($field_doc),*]),
                        )),*
                    ])
                }
            }
        )*
    };
}

/// Declares wire enums of plain words.
macro_rules! words {
    ($(
        $(#[doc = $doc:literal])*
        pub enum $name:ident {
            $( $(#[doc = $word_doc:literal])* $word:ident = $text:literal ),* $(,)?
        }
    )*) => {
        $(
            $(#[doc = $doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
            pub enum $name {
                $( $(#[doc = $word_doc])* #[serde(rename = $text)] $word ),*
            }

            impl $name {
                /// Each of them.
                pub const ALL: &'static [Self] = &[$( Self::$word ),*];

                /// The word on the wire.
                pub const fn as_str(self) -> &'static str {
                    match self {
                        $( Self::$word => $text ),*
                    }
                }
            }

            impl crate::schema::Schema for $name {
                fn schema() -> serde_json::Value {
                    serde_json::json!({"type": "string", "enum": [$($text),*]})
                }
            }
        )*
    };
}
pub(crate) use {wire, words};
