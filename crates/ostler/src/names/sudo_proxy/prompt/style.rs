//! The few attributes that a prompt uses, or none.

use crate::output::Paint;

/// Whether attributes are wanted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Style {
    attributes: bool,
}

impl Style {
    pub(super) fn from_env() -> Self {
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { attributes: !unwanted }
    }

    pub(super) fn paint(self, paint: Paint, text: &str) -> String {
        let code = match paint {
            Paint::Head | Paint::Bad | Paint::Warn => "1",
            Paint::Dim => "2",
            Paint::Plain | Paint::Good => "",
        };
        match self.attributes && !code.is_empty() {
            true => format!("\x1b[{code}m{text}\x1b[0m"),
            false => text.to_owned(),
        }
    }
}
