//! Between the terminal of a person and the one on which sudo asks for a password. What is typed passes through memory that
//! is wiped after use, and is never logged; what comes back is made safe to show first.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use ostler_engine::Terminal;

use super::reader::Reader;
use super::tty::{Keys, Tty};
use crate::output::visible;

/// A terminal that takes no keys for so long is not asking for any.
const TYPE_WITHIN: Duration = Duration::from_secs(1);

/// Passes both ways until the other terminal is closed. Dropping it ends it as well.
pub(super) async fn relay(tty: &Tty, terminal: &Arc<Terminal>) -> io::Result<()> {
    let mut typed = tty.keys(Keys::PassedOn)?;
    let mut said = Reader::start(terminal.as_fd().try_clone_to_owned()?)?;
    loop {
        tokio::select! {
            keys = typed.next() => match keys {
                Some(keys) => pass_on(terminal, keys).await?,
                None => return Ok(()),
            },
            words = said.next() => match words {
                Some(words) => tty.write(safe(&words)).await?,
                None => return Ok(()),
            },
        }
    }
}

async fn pass_on(terminal: &Arc<Terminal>, mut keys: Vec<u8>) -> io::Result<()> {
    let terminal = Arc::clone(terminal);
    let typed = tokio::task::spawn_blocking(move || {
        let written = terminal.write(&keys, TYPE_WITHIN);
        keys.fill(0);
        written
    });
    typed.await.unwrap_or_else(|lost| Err(io::Error::other(lost)))
}

/// Lines stay lines; everything else that would steer the terminal is written out.
fn safe(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes).replace("\r\n", "\n");
    let lines: Vec<String> = text.split('\n').map(|line| visible(line.trim_matches('\r'))).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_keeps_its_lines_and_nothing_else() {
        assert_eq!(safe(b"[sudo] password for ada: "), "[sudo] password for ada: ");
        assert_eq!(safe(b"\r\nSorry, try again.\r\n"), "\nSorry, try again.\n");
        assert_eq!(safe(b"a\x1b[2J\rb\x07"), "a^[[2J^Mb^G");
    }
}
