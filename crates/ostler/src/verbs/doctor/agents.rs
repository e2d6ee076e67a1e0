//! Which coding agents are here, how each would be driven, and whether it is logged in as far as that shows without a
//! network: by the files and variables that it reads itself. Nothing in them is read further than needed or shown.

use std::env;
use std::path::{Path, PathBuf};

use ostler_engine::Forker;
use ostler_engine::session::{Agent, Drive, Finder};

use super::{Check, Context};
use crate::config::{Config, OwnAgent};

/// What is known of an agent's login.
#[derive(Debug, PartialEq, Eq)]
enum Login {
    /// By this file or variable.
    Yes(String),
    No(&'static str),
    /// It may be, in ways that do not show.
    Unknown,
}

pub(super) fn checks(context: &Context) -> Vec<Check> {
    let (config, _) = Config::load_all(context.paths.config_file(), |name| env::var(name).ok());
    known().into_iter().chain(config.agents.iter().map(own)).collect()
}

fn known() -> Vec<Check> {
    let agents = [
        ("claude", Agent::Claude, "log in with: claude auth login"),
        ("codex", Agent::Codex, "log in with: codex login"),
        ("gemini", Agent::Gemini, "log in by starting gemini once, or set GEMINI_API_KEY"),
        ("opencode", Agent::Opencode, "log in with: opencode auth login"),
    ];
    // Each may take seconds to say its version: side by side.
    std::thread::scope(|scope| {
        let asked = agents.map(|(name, agent, hint)| scope.spawn(move || check(name, &agent, hint)));
        asked.into_iter().filter_map(|one| one.join().ok()).collect()
    })
}

fn check(name: &'static str, agent: &Agent, hint: &'static str) -> Check {
    let oneshot = env::var_os("OSTLER_AGENT_DRIVE").is_some_and(|drive| drive == "oneshot");
    let path = env::var_os("PATH").unwrap_or_default();
    let found = Finder::new(None, oneshot, Forker::here()).find_version(agent, None, &path);
    let Some(program) = found.program else {
        return Check::good(name, "not found in PATH: sessions with it can not be made here");
    };
    let version = found.version.unwrap_or_else(|| "version unknown".to_owned());
    let way = match found.drive {
        Drive::Stream => "kept running, asks by itself",
        Drive::AppServer => "kept running as an app server, asks by itself",
        Drive::Acp => "kept running, asks by the Agent Client Protocol",
        Drive::Oneshot => "one process for each prompt: it can not ask",
        Drive::Echo => "built in",
    };
    let at = format!("{} ({version}); {way}", program.display());
    match login(agent) {
        Login::Yes(by) => Check::good(name, format!("{at}; logged in by {by}")),
        Login::No(why) => Check::weak(name, format!("{at}; not logged in ({why}): prompts will fail; {hint}")),
        Login::Unknown => Check::good(name, format!("{at}; login unknown")),
    }
}

/// An agent of the settings. It is not asked for a version: nobody knows what its program does with such a word.
fn own(own: &OwnAgent) -> Check {
    let path = env::var_os("PATH").unwrap_or_default();
    let found = Finder::new(None, false, Forker::here()).find(&Agent::acp(own.command.clone()), None, &path);
    let command = own.command.join(" ");
    match found.program {
        Some(program) => {
            let way = "kept running, asks by the Agent Client Protocol";
            Check::good(own.name.clone(), format!("{} ({command}, {}); {way}", program.display(), own.origin))
        }
        None => Check::weak(own.name.clone(), format!("not found: {command} ({}); its sessions will fail", own.origin)),
    }
}

fn login(agent: &Agent) -> Login {
    match agent {
        Agent::Claude => claude(&folder("CLAUDE_CONFIG_DIR", ".claude"), &set),
        Agent::Codex => codex(&folder("CODEX_HOME", ".codex"), &set),
        Agent::Gemini => gemini(&folder("GEMINI_CLI_HOME", ".gemini"), &set),
        Agent::Opencode => opencode(&folder("XDG_DATA_HOME", ".local/share").join("opencode"), &set),
        _ => Login::Unknown,
    }
}

fn claude(home: &Path, set: &dyn Fn(&str) -> bool) -> Login {
    let keys = ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"];
    let elsewhere = ["CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY"];
    let helper = std::fs::read_to_string(home.join("settings.json")).is_ok_and(|text| text.contains("apiKeyHelper"));
    by_key_or_file(&keys, &home.join(".credentials.json"), set).unwrap_or(
        if helper || elsewhere.iter().any(|name| set(name)) {
            Login::Unknown
        } else {
            Login::No("no credentials file, no key in the environment")
        },
    )
}

fn codex(home: &Path, set: &dyn Fn(&str) -> bool) -> Login {
    // With a provider or a store of its own in the configuration, its own file says nothing.
    let config = std::fs::read_to_string(home.join("config.toml")).unwrap_or_default();
    let elsewhere = ["model_provider", "cli_auth_credentials_store"].iter().any(|name| config.contains(name));
    by_key_or_file(&["CODEX_API_KEY"], &home.join("auth.json"), set).unwrap_or(if elsewhere {
        Login::Unknown
    } else {
        Login::No("no auth.json, no key in the environment")
    })
}

fn gemini(home: &Path, set: &dyn Fn(&str) -> bool) -> Login {
    let keys = ["GEMINI_API_KEY", "GOOGLE_API_KEY"];
    let elsewhere = ["GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_GCA", "GOOGLE_APPLICATION_CREDENTIALS"];
    // A `.env` file or the system's keyring may hold a key, too.
    let chosen = home.join("settings.json").exists() || home.join(".env").exists();
    by_key_or_file(&keys, &home.join("oauth_creds.json"), set).unwrap_or(
        if chosen || elsewhere.iter().any(|name| set(name)) {
            Login::Unknown
        } else {
            Login::No("no credentials file, no key in the environment")
        },
    )
}

/// Its providers are many, and some need no login: only a yes can be told.
fn opencode(data: &Path, set: &dyn Fn(&str) -> bool) -> Login {
    by_key_or_file(&[], &data.join("auth.json"), set).unwrap_or(Login::Unknown)
}

fn by_key_or_file(keys: &[&str], file: &Path, set: &dyn Fn(&str) -> bool) -> Option<Login> {
    let key = keys.iter().find(|name| set(name)).map(|name| (*name).to_owned());
    // `{}` is what logging out leaves behind.
    let stored = || file.metadata().is_ok_and(|meta| meta.len() > 4).then(|| file.display().to_string());
    key.or_else(stored).map(Login::Yes)
}

fn set(name: &str) -> bool {
    env::var_os(name).is_some_and(|value| !value.is_empty())
}

fn folder(variable: &str, below_home: &str) -> PathBuf {
    match env::var_os(variable).filter(|value| !value.is_empty()) {
        Some(folder) => folder.into(),
        None => PathBuf::from(env::var_os("HOME").unwrap_or_default()).join(below_home),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_shows_by_its_file_or_its_key() {
        let home = tempfile::tempdir().unwrap();
        let (none, file) = (|_: &str| false, home.path().join("auth.json"));
        assert!(matches!(codex(home.path(), &none), Login::No(_)));
        assert_eq!(codex(home.path(), &|name| name == "CODEX_API_KEY"), Login::Yes("CODEX_API_KEY".into()));
        std::fs::write(&file, "{}\n").unwrap();
        assert!(matches!(codex(home.path(), &none), Login::No(_)), "logged out");
        std::fs::write(&file, "{\"tokens\":{}}").unwrap();
        assert_eq!(codex(home.path(), &none), Login::Yes(file.display().to_string()));
    }

    #[test]
    fn what_may_be_elsewhere_is_unknown_and_not_a_no() {
        let home = tempfile::tempdir().unwrap();
        let none = |_: &str| false;
        assert_eq!(opencode(home.path(), &none), Login::Unknown);
        assert_eq!(claude(home.path(), &|name| name == "CLAUDE_CODE_USE_BEDROCK"), Login::Unknown);
        std::fs::write(home.path().join("settings.json"), "{\"apiKeyHelper\":\"x\"}").unwrap();
        assert_eq!(claude(home.path(), &none), Login::Unknown);
        std::fs::write(home.path().join("config.toml"), "model_provider = \"mine\"").unwrap();
        assert_eq!(codex(home.path(), &none), Login::Unknown);
    }
}
