//! What a content is known by: whoever writes a file says which one they have seen.

use std::io::{self, Read};

use sha2::{Digest, Sha256};

/// SHA-256, in hexadecimal.
pub fn content_hash(content: &[u8]) -> String {
    hexadecimal(&Sha256::digest(content))
}

/// The same of all that can be read.
pub(crate) fn hash_of(mut file: impl Read) -> io::Result<String> {
    let mut hash = Sha256::new();
    let mut chunk = vec![0; 64 << 10];
    loop {
        match file.read(&mut chunk) {
            Ok(0) => return Ok(hexadecimal(&hash.finalize())),
            Ok(count) => hash.update(chunk.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn hexadecimal(hash: &[u8]) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}
