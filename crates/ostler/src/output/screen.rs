//! Standard output: text or JSON, coloured only where somebody sees it.

use std::io::{self, IsTerminal, Write};

use serde::Serialize;

use super::{has_cursor, visible_json};

/// What a colour means; the palette is in one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paint {
    Plain,
    Head,
    Good,
    Warn,
    Bad,
    Dim,
}

/// Where results go.
pub(crate) struct Screen {
    colour: bool,
    json: bool,
}

impl Screen {
    pub(crate) fn new(json: bool) -> Self {
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { colour: io::stdout().is_terminal() && !unwanted && has_cursor(), json }
    }

    /// Without colour, wherever the tests run.
    #[cfg(test)]
    pub(crate) fn plain() -> Self {
        Self { colour: false, json: false }
    }

    /// With colour, for tests of it.
    #[cfg(test)]
    pub(crate) fn coloured() -> Self {
        Self { colour: true, json: false }
    }

    /// Whether somebody sees colours.
    pub(crate) fn has_colour(&self) -> bool {
        self.colour
    }

    /// Whether results are for a program.
    pub(crate) fn json(&self) -> bool {
        self.json
    }

    /// One line of result.
    pub(crate) fn line(&self, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        let written = out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n"));
        written.map_err(|error| io::Error::new(error.kind(), format!("cannot write to stdout: {error}")))
    }

    /// A result for a program: indented when a person looks, one line otherwise.
    pub(crate) fn value(&self, value: &impl Serialize) -> io::Result<()> {
        let text = if io::stdout().is_terminal() {
            serde_json::to_string_pretty(value)?
        } else {
            serde_json::to_string(value)?
        };
        self.line(&visible_json(&text))
    }

    /// Something for the person beside the result; never mixed into what a pipe carries.
    pub(crate) fn note(&self, text: &str) {
        let _ = writeln!(io::stderr(), "{text}");
    }

    pub(crate) fn paint(&self, paint: Paint, text: &str) -> String {
        let code = match paint {
            Paint::Plain => "",
            Paint::Head => "1",
            Paint::Good => "32",
            Paint::Warn => "33",
            Paint::Bad => "31",
            Paint::Dim => "2",
        };
        if self.colour && !code.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}
