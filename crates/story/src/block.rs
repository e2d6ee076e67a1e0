//! What a prompt is made of.

use serde::{Deserialize, Serialize};

/// A piece of a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    /// Words.
    Text {
        /// The words.
        text: String,
    },
    /// A picture.
    Image {
        /// Its media type.
        mime: String,
        /// Its bytes in base64.
        data: String,
    },
    /// A file of the workspace to look at.
    File {
        /// Its path.
        path: String,
    },
}
