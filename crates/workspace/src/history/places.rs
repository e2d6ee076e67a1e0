//! Where agents keep their transcripts.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::Recorder;

/// The folders, and the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    claude: PathBuf,
    codex: PathBuf,
    gemini: PathBuf,
    opencode: PathBuf,
}

impl Places {
    /// Where they are for somebody with these variables.
    pub fn of(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let home = set("HOME").unwrap_or_else(|| PathBuf::from("/nonexistent"));
        let or =
            |name: &str, usual: &str| set(name).filter(|path| path.is_absolute()).unwrap_or_else(|| home.join(usual));
        Self {
            claude: or("CLAUDE_CONFIG_DIR", ".claude").join("projects"),
            codex: or("CODEX_HOME", ".codex").join("sessions"),
            gemini: home.join(".gemini/tmp"),
            opencode: or("XDG_DATA_HOME", ".local/share").join("opencode/opencode.db"),
        }
    }

    /// The folders with files.
    pub(super) fn folders(&self) -> [(Recorder, &Path); 3] {
        [Recorder::Claude, Recorder::Codex, Recorder::Gemini].map(|recorder| (recorder, self.root(recorder)))
    }

    /// The folder of a recorder.
    pub(super) fn root(&self, recorder: Recorder) -> &Path {
        match recorder {
            Recorder::Claude => &self.claude,
            Recorder::Codex => &self.codex,
            Recorder::Gemini => &self.gemini,
            Recorder::Opencode => self.opencode.parent().unwrap_or(&self.opencode),
        }
    }

    /// opencode's database.
    pub(super) fn database(&self) -> &Path {
        &self.opencode
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_move_them_and_only_to_absolute_places() {
        let usual = Places::of(|name| (name == "HOME").then(|| "/h".into()));
        assert_eq!(usual.root(Recorder::Claude), Path::new("/h/.claude/projects"));
        assert_eq!(usual.database(), Path::new("/h/.local/share/opencode/opencode.db"));
        let moved = Places::of(|name| match name {
            "HOME" => Some("/h".into()),
            "CODEX_HOME" => Some("/c".into()),
            "CLAUDE_CONFIG_DIR" => Some("odd".into()),
            _ => None,
        });
        assert_eq!(moved.root(Recorder::Codex), Path::new("/c/sessions"));
        assert_eq!(moved.root(Recorder::Claude), Path::new("/h/.claude/projects"));
    }
}
