//! The shape of a path on the wire: text, or its bytes where it is none.

use serde_json::{Value, json};

pub use ostler_story::FilePath;

use crate::schema::Schema;

impl Schema for FilePath {
    fn schema() -> Value {
        let bytes = json!({"type": "object", "properties": {"base64": {"type": "string"}}, "required": ["base64"]});
        json!({"oneOf": [{"type": "string"}, bytes]})
    }
}
