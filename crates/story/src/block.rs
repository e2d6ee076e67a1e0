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

impl Block {
    /// These with other words: they stand where the first words stood, and everything else stays.
    pub fn reworded(blocks: Vec<Self>, text: String) -> Vec<Self> {
        let is_text = |block: &Self| matches!(block, Self::Text { .. });
        let at = blocks.iter().position(is_text).unwrap_or(0);
        let mut blocks: Vec<Self> = blocks.into_iter().filter(|block| !is_text(block)).collect();
        blocks.insert(at, Self::Text { text });
        blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_words_leave_pictures_where_they_are() {
        let words = |text: &str| Block::Text { text: text.into() };
        let picture = || Block::Image { mime: "image/png".into(), data: "x".into() };
        let reworded = |blocks| Block::reworded(blocks, "b".into());
        assert_eq!(reworded(vec![picture(), words("a"), words("c"), picture()]), [picture(), words("b"), picture()]);
        assert_eq!(reworded(vec![picture()]), [words("b"), picture()]);
        assert_eq!(reworded(vec![]), [words("b")]);
    }
}
