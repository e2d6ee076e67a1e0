//! A blocking server that answers every line with the same bytes the product answers: no parsing, no threads.

use std::io::{Read as _, Write as _};
use std::path::Path;

use anyhow::Result;

use crate::args::Args;

/// What the product answers to `server.ping` with id 1.
pub(crate) const PONG: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"pong\":true}}\n";

pub(crate) fn run(socket: &Path, args: Args) -> Result<()> {
    args.finish()?;
    let listener = super::listen(socket)?;
    let mut buffer = vec![0; 64 << 10];
    let mut answers = Vec::new();
    loop {
        let (mut stream, _) = listener.accept()?;
        loop {
            let n = stream.read(&mut buffer)?;
            if n == 0 {
                break;
            }
            answers.clear();
            for _ in buffer.iter().take(n).filter(|byte| **byte == b'\n') {
                answers.extend_from_slice(PONG);
            }
            stream.write_all(&answers)?;
        }
    }
}
