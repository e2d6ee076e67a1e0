//! One key on the person's own terminal, to a question that was on the screen, whole, before the key was pressed.

use std::time::{Duration, Instant};

use super::approvals::Tty;
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
        let Some(key) = key(tty, &mut still)? else { break false };
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

/// Shows a page. What was typed before it was there was not meant for it.
pub(super) fn put(screen: &Screen, tty: &Tty, asked: &mut Asked) -> Result<(), CommandError> {
    let (body, foot) = asked.page(|paint, text| screen.paint(paint, text));
    tty.write(body.as_bytes())?;
    tty.forget_typed()?;
    tty.write(foot.as_bytes())?;
    asked.drawn(Instant::now());
    Ok(())
}

/// The next key; nothing once nobody waits for the answer any more.
pub(super) fn key(
    tty: &Tty,
    mut still: impl FnMut() -> Result<bool, CommandError>,
) -> Result<Option<u8>, CommandError> {
    while !tty.typed(LOOK_EVERY)? {
        if !still()? {
            return Ok(None);
        }
    }
    let mut buffer = [0; 64];
    match tty.read(&mut buffer)? {
        [key] => Ok(Some(*key)),
        [] => Err(CommandError::failed("the terminal was closed")),
        // A sequence or a paste: nobody's single key.
        _ => Ok(Some(0)),
    }
}
