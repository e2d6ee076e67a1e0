//! One key on the person's own terminal, to a question that was on the screen, whole, before the key was pressed.

use std::time::{Duration, Instant};

use super::approvals::Tty;
use super::approve::put;
use crate::output::{CommandError, Screen};
use crate::request::{Asked, Pages, Pressed, Row};

/// How often to look whether there is still somebody to answer to.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Shows rows and a question, and waits for `y` or anything else. `still` is asked again and again; when it says that nobody waits
/// for the answer any more, the answer is no.
pub(super) fn confirmed(
    screen: &Screen,
    tty: &Tty,
    rows: &[Row],
    question: &str,
    mut still: impl FnMut() -> Result<bool, CommandError>,
) -> Result<bool, CommandError> {
    let pages = || {
        Pages::of(rows, question, tty.size())
            .ok_or_else(|| CommandError::failed("the terminal is too small to show all of it"))
    };
    let raw = tty.raw()?;
    let mut asked = Asked::new("question", "", pages()?, true, Instant::now());
    put(screen, tty, &mut asked)?;
    let yes = loop {
        if !tty.typed(LOOK_EVERY)? {
            if still()? {
                continue;
            }
            break false;
        }
        let mut buffer = [0; 64];
        let key = match tty.read(&mut buffer)? {
            [key] => *key,
            [] => return Err(CommandError::failed("the terminal was closed")),
            // A sequence or a paste: nobody's single key.
            _ => 0,
        };
        if tty.size() != asked.size() {
            asked.lay_out(pages()?);
            tty.write(b"\r\n")?;
            put(screen, tty, &mut asked)?;
            continue;
        }
        match asked.press(key, Instant::now()) {
            Pressed::Turned => put(screen, tty, &mut asked)?,
            Pressed::NotNow(_) => {}
            Pressed::Answer(key) => break key == b'y',
        }
    };
    tty.write(b"\r\n")?;
    drop(raw);
    Ok(yes)
}
