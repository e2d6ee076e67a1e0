//! Whether an agent is logged in, as far as that shows without a network: by the files and variables that it reads itself, in
//! the environment that it would get. Nothing in them is read further than needed, and none of it is shown.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ostler_story::Agent;

use crate::Environment;

/// What is known of an agent's login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Login {
    /// By this file or variable.
    Yes(String),
    /// Why not.
    No(&'static str),
    /// It may be, in ways that do not show.
    Unknown,
}

/// The variables that say where an agent's login is.
struct Variables<'a>(&'a dyn Fn(&str) -> Option<OsString>);

impl Variables<'_> {
    fn is_set(&self, name: &str) -> bool {
        (self.0)(name).is_some_and(|value| !value.is_empty())
    }

    fn folder(&self, variable: &str, below_home: &str) -> PathBuf {
        match (self.0)(variable).filter(|value| !value.is_empty()) {
            Some(folder) => folder.into(),
            None => PathBuf::from((self.0)("HOME").unwrap_or_default()).join(below_home),
        }
    }
}

impl Login {
    /// Looks in this environment.
    pub fn of(agent: &Agent, environment: &Environment) -> Self {
        let variables = Variables(&|name| environment.get(name));
        match agent {
            Agent::Claude => claude(&variables),
            Agent::Codex => codex(&variables),
            Agent::Gemini => gemini(&variables),
            Agent::Opencode => opencode(&variables),
            _ => Self::Unknown,
        }
    }
}

fn claude(variables: &Variables<'_>) -> Login {
    let home = variables.folder("CLAUDE_CONFIG_DIR", ".claude");
    let keys = ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"];
    let elsewhere = ["CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY"];
    let helper = std::fs::read_to_string(home.join("settings.json")).is_ok_and(|text| text.contains("apiKeyHelper"));
    let unknown = helper || elsewhere.iter().any(|name| variables.is_set(name));
    judge(&keys, &home.join(".credentials.json"), variables, unknown, "no credentials file, no key in the environment")
}

fn codex(variables: &Variables<'_>) -> Login {
    let home = variables.folder("CODEX_HOME", ".codex");
    // With a provider or a store of its own in the configuration, its own file says nothing.
    let config = std::fs::read_to_string(home.join("config.toml")).unwrap_or_default();
    let unknown = ["model_provider", "cli_auth_credentials_store"].iter().any(|name| config.contains(name));
    judge(&["CODEX_API_KEY"], &home.join("auth.json"), variables, unknown, "no auth.json, no key in the environment")
}

fn gemini(variables: &Variables<'_>) -> Login {
    let home = variables.folder("GEMINI_CLI_HOME", ".gemini");
    let keys = ["GEMINI_API_KEY", "GOOGLE_API_KEY"];
    let elsewhere = ["GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_GCA", "GOOGLE_APPLICATION_CREDENTIALS"];
    // A `.env` file or the system's keyring may hold a key, too.
    let chosen = home.join("settings.json").exists() || home.join(".env").exists();
    let unknown = chosen || elsewhere.iter().any(|name| variables.is_set(name));
    judge(&keys, &home.join("oauth_creds.json"), variables, unknown, "no credentials file, no key in the environment")
}

/// Its providers are many, and some need no login: only a yes can be told.
fn opencode(variables: &Variables<'_>) -> Login {
    let file = variables.folder("XDG_DATA_HOME", ".local/share").join("opencode/auth.json");
    judge(&[], &file, variables, true, "")
}

fn judge(keys: &[&str], file: &Path, variables: &Variables<'_>, unknown: bool, why: &'static str) -> Login {
    let key = keys.iter().find(|name| variables.is_set(name)).map(|name| (*name).to_owned());
    // `{}` is what logging out leaves behind.
    let stored = || file.metadata().is_ok_and(|meta| meta.len() > 4).then(|| file.display().to_string());
    match key.or_else(stored) {
        Some(by) => Login::Yes(by),
        None if unknown => Login::Unknown,
        None => Login::No(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(agent: Agent, variables: &[(&str, &Path)]) -> Login {
        let pair = |(name, value): &(&str, &Path)| (OsString::from(*name), value.as_os_str().to_owned());
        Login::of(&agent, &Environment::new(variables.iter().map(pair).collect()))
    }

    #[test]
    fn a_login_shows_by_its_file_or_its_key() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("auth.json");
        let here = ("CODEX_HOME", home.path());
        assert!(matches!(login(Agent::Codex, &[here]), Login::No(_)));
        let key = ("CODEX_API_KEY", Path::new("k"));
        assert_eq!(login(Agent::Codex, &[here, key]), Login::Yes("CODEX_API_KEY".into()));
        assert!(matches!(login(Agent::Codex, &[here, ("CODEX_API_KEY", Path::new(""))]), Login::No(_)), "empty");
        std::fs::write(&file, "{}\n").unwrap();
        assert!(matches!(login(Agent::Codex, &[here]), Login::No(_)), "logged out");
        std::fs::write(&file, "{\"tokens\":{}}").unwrap();
        assert_eq!(login(Agent::Codex, &[here]), Login::Yes(file.display().to_string()));
    }

    #[test]
    fn it_is_looked_for_in_the_home_of_that_environment() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join(".claude")).unwrap();
        std::fs::write(home.path().join(".claude/.credentials.json"), "{\"a\":\"b\"}").unwrap();
        assert!(matches!(login(Agent::Claude, &[("HOME", home.path())]), Login::Yes(_)));
        assert!(matches!(login(Agent::Claude, &[("HOME", Path::new("/nowhere"))]), Login::No(_)));
    }

    #[test]
    fn what_may_be_elsewhere_is_unknown_and_not_a_no() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(login(Agent::Opencode, &[("XDG_DATA_HOME", home.path())]), Login::Unknown);
        let here = ("CLAUDE_CONFIG_DIR", home.path());
        assert_eq!(login(Agent::Claude, &[here, ("CLAUDE_CODE_USE_BEDROCK", Path::new("1"))]), Login::Unknown);
        std::fs::write(home.path().join("settings.json"), "{\"apiKeyHelper\":\"x\"}").unwrap();
        assert_eq!(login(Agent::Claude, &[here]), Login::Unknown);
        std::fs::write(home.path().join("config.toml"), "model_provider = \"mine\"").unwrap();
        assert_eq!(login(Agent::Codex, &[("CODEX_HOME", home.path())]), Login::Unknown);
    }
}
