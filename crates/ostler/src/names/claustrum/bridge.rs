//! `-bridge`: a relay between this terminal or SSH session and the daemon. It adds nothing and reads nothing.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;

use super::{dial_error, fail};

/// One frame's worth at a time: bigger reads would hold small replies back for nothing.
const CHUNK: usize = 64 * 1024;

pub(crate) fn run(socket: &Path) -> ExitCode {
    let stream = match ostler_door_rpc::connect(socket) {
        Ok(stream) => stream,
        Err(error) => return fail(&format!("dial server: {}", dial_error(socket, &error))),
    };
    match stream.try_clone() {
        Ok(upstream) => std::thread::spawn(move || {
            // Whoever speaks through us has finished, or gone: the daemon answers what it has, then closes.
            let _ = relay(&mut io::stdin().lock(), &mut &upstream);
            let _ = upstream.shutdown(Shutdown::Write);
        }),
        Err(error) => return fail(&format!("dial server: {error}")),
    };
    // Ends when the daemon closes, or when nobody reads any more.
    let _ = relay(&mut &stream as &mut &UnixStream, &mut io::stdout().lock());
    ExitCode::SUCCESS
}

fn relay(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK];
    loop {
        let count = match from.read(&mut chunk) {
            Ok(0) => return Ok(()),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        to.write_all(chunk.get(..count).unwrap_or_default())?;
        to.flush()?;
    }
}
