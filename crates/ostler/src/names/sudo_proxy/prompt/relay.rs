//! Between the terminal of a person and the one on which sudo asks for a password. What is typed passes through memory that
//! is wiped after use, and is never logged; what comes back is made safe to show first.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use ostler_engine::{MayWait, Terminal};
use signal_hook::consts::SIGCONT;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::reader::Reader;
use super::tty::{Keys, Pressed, STOPPED_WITHIN, Tty, stop_program};
use crate::output::visible;

/// Ctrl-U: what was typed of a password before the daemon was stopped is not part of it.
const ERASE_KEY: u8 = 0x15;
/// A question is shorter.
const LINE_MAX: usize = 1024;
/// A terminal that takes no keys for so long is not asking for any.
const TYPE_WITHIN: Duration = Duration::from_secs(1);

/// Passes both ways until the other terminal is closed. Dropping it ends it as well.
pub(super) async fn relay(tty: &Tty, terminal: &Arc<Terminal>) -> io::Result<()> {
    tty.foreground().await;
    let mut typed = tty.hold(Keys::PassedOn)?.listen()?;
    let mut said = Reader::start(terminal.as_fd().try_clone_to_owned()?)?;
    let mut line = String::new();
    loop {
        tokio::select! {
            pressed = typed.next() => match pressed {
                Some(Pressed::Keys(keys)) => pass_on(terminal, keys).await?,
                Some(Pressed::Stop) => {
                    drop(typed);
                    let continued = signal(SignalKind::from_raw(SIGCONT))?;
                    stop_program();
                    stopped(continued).await;
                    tty.foreground().await;
                    typed = tty.hold(Keys::PassedOn)?.listen()?;
                    pass_on(terminal, vec![ERASE_KEY]).await?;
                    tty.write(line.clone()).await?;
                }
                None => return Ok(()),
            },
            words = said.next() => match words {
                Some(words) => {
                    let words = safe(&words);
                    note(&mut line, &words);
                    tty.write(words).await?;
                }
                None => return Ok(()),
            },
        }
    }
}

/// Returns when the daemon goes on.
async fn stopped(mut continued: Signal) {
    let _ = tokio::time::timeout(STOPPED_WITHIN, continued.recv()).await;
}

/// Keeps the line that is being shown, to show it again to somebody who was away.
fn note(line: &mut String, words: &str) {
    match words.rsplit_once('\n') {
        Some((_, last)) => last.clone_into(line),
        None if line.len() + words.len() <= LINE_MAX => line.push_str(words),
        None => {}
    }
}

async fn pass_on(terminal: &Arc<Terminal>, mut keys: Vec<u8>) -> io::Result<()> {
    let terminal = Arc::clone(terminal);
    let typed = MayWait::pool(move |_| {
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

    #[test]
    fn the_line_that_is_asked_on_is_remembered() {
        let mut line = String::new();
        for words in ["\n[sudo] pass", "word for ada: "] {
            note(&mut line, words);
        }
        assert_eq!(line, "[sudo] password for ada: ");
        note(&mut line, "\nSorry, try again.\n");
        assert_eq!(line, "");
    }
}
