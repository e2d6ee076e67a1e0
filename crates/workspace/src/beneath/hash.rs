//! What a content is known by: whoever writes a file says which one they have seen.

use sha2::{Digest, Sha256};

/// SHA-256, in hexadecimal.
pub fn content_hash(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}
