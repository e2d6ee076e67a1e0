//! A question on the terminal until a key, or somebody else, settles it. What is on the screen and what a key may do is
//! [`Asked`]'s to say; here it is drawn, again after a change of size or a stop, and keys are taken once they may count.

use std::io;
use std::time::{Duration, Instant};

use ostler_door_sudo_proxy::Question;
use signal_hook::consts::SIGCONT;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::style::Style;
use super::tty::{self, Held, Keys, LOOK_EVERY, STOPPED_WITHIN, Tty, Typed};
use crate::output::Paint;
use crate::request::{Asked, NARROWEST, Offer, Pages, Pressed, Row, STANDS_FOR, privilege, wrap};

/// Who hears the keys.
enum Hands {
    /// Nobody yet: what is on the screen took the place of something else.
    Standing(Held),
    Listening(Typed),
    /// The shell: the daemon was stopped, or runs in the background.
    Away,
}

/// What [`Asking`] waits for.
pub(super) enum Input {
    Pressed(Option<tty::Pressed>),
    Look,
    Resized,
    Continued,
}

/// A question that is being asked.
pub(super) struct Asking<'a> {
    tty: &'a Tty,
    style: Style,
    which: (String, String),
    rows: Vec<Row>,
    question: String,
    /// `None` while the terminal is too small for it.
    asked: Option<Asked>,
    size: (usize, usize),
    hands: Hands,
    /// When to look whether more can be done than to wait.
    look: Instant,
    resized: Signal,
    continued: Signal,
}

impl<'a> Asking<'a> {
    /// Shows the question. `replaces` says that another one was there until just now.
    pub(super) async fn show(
        tty: &'a Tty,
        question: &Question,
        offer: Offer,
        style: Style,
        replaces: bool,
    ) -> io::Result<Self> {
        let (mut rows, line) = privilege(question, offer);
        rows.extend(crate::exclusive::warnings().into_iter().map(|words| Row::ours(Paint::Warn, words)));
        let held = tty.hold(if replaces { Keys::Unheard } else { Keys::Single })?;
        let size = tty.size();
        let which = (question.approval.clone(), question.hash.clone());
        let pages = Pages::of(&rows, &line, size);
        let asked = pages.map(|pages| Asked::new(&which.0, &which.1, pages, replaces, Instant::now()));
        let mut asking = Self {
            tty,
            style,
            which,
            rows,
            question: line,
            asked,
            size,
            hands: Hands::Away,
            look: Instant::now(),
            resized: signal(SignalKind::window_change())?,
            continued: signal(SignalKind::from_raw(SIGCONT))?,
        };
        asking.draw().await?;
        asking.hands = match replaces {
            true => Hands::Standing(held),
            false => Hands::Listening(held.listen()?),
        };
        Ok(asking)
    }

    /// Waits until there is something to do. Nothing is lost when this is dropped and called again.
    pub(super) async fn wait(&mut self) -> Input {
        let look = tokio::time::Instant::from_std(self.look);
        tokio::select! {
            pressed = listen(&mut self.hands) => Input::Pressed(pressed),
            () = tokio::time::sleep_until(look), if !matches!(self.hands, Hands::Listening(_)) => Input::Look,
            _ = self.resized.recv() => Input::Resized,
            _ = self.continued.recv() => Input::Continued,
        }
    }

    /// Does it. Gives back the key that answers the question.
    pub(super) async fn take(&mut self, input: Input) -> io::Result<Option<u8>> {
        match input {
            // Of several keys at once the first counts; the others were not meant for the next question.
            Input::Pressed(Some(tty::Pressed::Keys(keys))) => return self.press(keys.first().copied()).await,
            Input::Pressed(Some(tty::Pressed::Stop)) => {
                self.leave(STOPPED_WITHIN);
                tty::stop_program();
            }
            Input::Pressed(None) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Input::Look => self.look().await?,
            Input::Resized => self.fit().await?,
            Input::Continued => self.leave(Duration::ZERO),
        }
        Ok(None)
    }

    async fn press(&mut self, key: Option<u8>) -> io::Result<Option<u8>> {
        let Some(key) = key else { return Err(io::ErrorKind::UnexpectedEof.into()) };
        if self.tty.size() != self.size {
            self.fit().await?;
            return Ok(None);
        }
        let Some(asked) = &mut self.asked else { return Ok(None) };
        match asked.press(key, Instant::now()) {
            Pressed::Answer(key) => Ok(Some(key)),
            Pressed::NotNow(_) => Ok(None),
            Pressed::Turned => self.draw().await.map(|()| None),
        }
    }

    /// The terminal is the shell's for at least this long.
    fn leave(&mut self, at_least: Duration) {
        self.hands = Hands::Away;
        self.look = Instant::now() + at_least;
    }

    /// What stood for long enough is listened for; whoever is back in the foreground begins anew.
    async fn look(&mut self) -> io::Result<()> {
        match std::mem::replace(&mut self.hands, Hands::Away) {
            Hands::Standing(held) => {
                held.set(Keys::Single)?;
                self.hands = Hands::Listening(held.listen()?);
            }
            Hands::Away if !self.tty.is_foreground() => self.look = Instant::now() + LOOK_EVERY,
            Hands::Away => {
                let held = self.tty.hold(Keys::Single)?;
                self.again().await?;
                self.hands = Hands::Listening(held.listen()?);
            }
            listening @ Hands::Listening(_) => self.hands = listening,
        }
        Ok(())
    }

    /// Draws for another size, if it is one. In the background that waits.
    async fn fit(&mut self) -> io::Result<()> {
        match self.tty.size() != self.size && !matches!(self.hands, Hands::Away) {
            true => self.again().await,
            false => Ok(()),
        }
    }

    /// Draws all of it anew: it is read from its beginning.
    async fn again(&mut self) -> io::Result<()> {
        self.size = self.tty.size();
        match (Pages::of(&self.rows, &self.question, self.size), &mut self.asked) {
            (Some(pages), Some(asked)) => asked.lay_out(pages),
            (Some(pages), none) => {
                *none = Some(Asked::new(&self.which.0, &self.which.1, pages, true, Instant::now()));
            }
            (None, asked) => *asked = None,
        }
        self.tty.write("\r\n".to_owned()).await?;
        self.draw().await
    }

    async fn draw(&mut self) -> io::Result<()> {
        let Some(asked) = &mut self.asked else {
            let (width, height) = self.size;
            let words = format!("this terminal is too small for a question: {width}x{height}");
            let rows = wrap(&[Row::ours(Paint::Plain, words)], width.saturating_sub(1).max(NARROWEST));
            let lines: Vec<String> = rows.into_iter().map(|row| row.text).collect();
            return self.tty.write(lines.join("\r\n")).await;
        };
        let (body, foot) = asked.page(|paint, text| self.style.paint(paint, text));
        self.tty.write(body).await?;
        if !matches!(self.hands, Hands::Listening(_)) {
            // What was typed while nobody could see the question was not meant for it.
            self.tty.forget_typed()?;
        }
        self.tty.write(foot).await?;
        let now = Instant::now();
        asked.drawn(now);
        self.look = now + STANDS_FOR;
        Ok(())
    }
}

/// The next key, where somebody listens.
async fn listen(hands: &mut Hands) -> Option<tty::Pressed> {
    match hands {
        Hands::Listening(typed) => typed.next().await,
        _ => std::future::pending().await,
    }
}
