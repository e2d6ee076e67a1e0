//! The bare streaming loop: splice a child's output into a file, write an index record, read the bytes back,
//! encode them, send them. One thread, no recovery, no second client.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};
use rustix::pipe::{SpliceFlags, splice};

use super::encode::{self, Encoder, FRAME};
use crate::args::Args;

/// The size of one index record.
const RECORD: usize = 32;

pub(crate) fn run(socket: &Path, mut args: Args) -> Result<()> {
    let dir: PathBuf = args.required("--dir")?;
    let bytes: u64 = args.required("--bytes")?;
    args.finish()?;
    let listener = super::listen(socket)?;
    let (mut stream, _) = listener.accept()?;
    let mut child = Command::new(std::env::current_exe()?)
        .args(["flood", "--bytes", &bytes.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let pipe = child.stdout.take().context("the child has a pipe")?;
    let data = File::options().create(true).truncate(true).read(true).write(true).open(dir.join("raw.out"))?;
    let mut index = File::create(dir.join("raw.idx"))?;
    let (mut end, mut seq) = (0_u64, 0_u64);
    let mut buffer = vec![0; FRAME];
    let mut encoder = Encoder::new();
    loop {
        let mut offset = end;
        let n = splice(&pipe, None, &data, Some(&mut offset), FRAME, SpliceFlags::MOVE)?;
        if n == 0 {
            break;
        }
        seq += 1;
        let mut record = [0; RECORD];
        for (to, from) in record.iter_mut().zip(offset.to_le_bytes()) {
            *to = from;
        }
        index.write_all(&record)?;
        let room = buffer.get_mut(..n).unwrap_or_default();
        data.read_exact_at(room, end)?;
        stream.write_all(encoder.frame(seq, room))?;
        end = offset;
    }
    child.wait()?;
    stream.write_all(encode::exit(seq + 1).as_bytes())?;
    // The client reads the CPU time of this process before it lets go of the connection.
    let mut nothing = [0];
    let _ = std::io::Read::read(&mut stream, &mut nothing);
    Ok(())
}
