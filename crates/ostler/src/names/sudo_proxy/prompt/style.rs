//! The few attributes that a prompt uses, or none.

/// Escape sequences, empty where colours are not wanted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Style {
    pub(super) bold: &'static str,
    pub(super) dim: &'static str,
    pub(super) reset: &'static str,
}

impl Style {
    pub(super) const PLAIN: Self = Self { bold: "", dim: "", reset: "" };
    const COLOURED: Self = Self { bold: "\x1b[1m", dim: "\x1b[2m", reset: "\x1b[0m" };

    pub(super) fn from_env() -> Self {
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        if unwanted { Self::PLAIN } else { Self::COLOURED }
    }

    pub(super) fn bold(&self, text: &str) -> String {
        format!("{}{text}{}", self.bold, self.reset)
    }

    pub(super) fn dim(&self, text: &str) -> String {
        format!("{}{text}{}", self.dim, self.reset)
    }
}
