//! The bare replay: read a file, encode it, send it; once per connection.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::encode::{self, Encoder, FRAME};
use crate::args::Args;

pub(crate) fn run(socket: &Path, mut args: Args) -> Result<()> {
    let path: PathBuf = args.required("--file")?;
    args.finish()?;
    let file = File::open(path)?;
    let listener = super::listen(socket)?;
    let mut buffer = vec![0; FRAME];
    let mut encoder = Encoder::new();
    loop {
        let (mut stream, _) = listener.accept()?;
        let (mut offset, mut seq) = (0, 0);
        loop {
            let n = file.read_at(&mut buffer, offset)?;
            seq += 1;
            if n == 0 {
                break;
            }
            stream.write_all(encoder.frame(seq, buffer.get(..n).unwrap_or_default()))?;
            offset += n as u64;
        }
        stream.write_all(encode::exit(seq).as_bytes())?;
        // Until the client has let go.
        let _ = stream.read(&mut [0])?;
    }
}
