//! Which agents are here: where the program of each is, how it would be driven, and whether it is logged in where it would run.

use std::path::PathBuf;

use ostler_story::{Agent, Drive};

use super::SessionConfig;
use super::found::{Finder, Found};
use super::logged_in::Login;
use super::new::usual;
use crate::{Environment, lookup};

/// An agent, as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentHere {
    /// What people call it.
    pub name: String,
    /// The command, of an agent of the user's own.
    pub command: Vec<String>,
    /// Its program; none when it is not installed.
    pub program: Option<PathBuf>,
    /// What it says of its version, if it was asked.
    pub version: Option<String>,
    /// The way it is driven; the usual one, if it was not asked.
    pub drive: Drive,
    /// Whether somebody is logged in.
    pub login: Login,
}

/// Looks for every agent but the built-in one, in this environment. `ask`: also asks each program what it can and which version
/// it is, which may take a minute the first time.
pub fn agents_here(finder: &Finder, environment: &Environment, config: &SessionConfig, ask: bool) -> Vec<AgentHere> {
    let path = environment.wide_path();
    let look = |name: &str, command: &[String], agent: Agent| {
        let program = command.first().map_or(name, String::as_str);
        let found = match ask {
            // Nobody knows what a program of somebody's own does with a question about its version.
            true if command.is_empty() => finder.find_version(&agent, None, &path),
            true => finder.find(&agent, None, &path),
            false => Found {
                program: lookup::executable(program.as_ref(), &path).ok().filter(|file| file.exists()),
                drive: usual(&agent, config.oneshot),
                version: None,
            },
        };
        let Found { program, drive, version } = found;
        let login = Login::of(&agent, environment);
        AgentHere { name: name.to_owned(), command: command.to_vec(), program, version, drive, login }
    };
    let built_in = |name: &&str| Agent::known(name).is_none_or(|agent| agent == Agent::Echo);
    let known = Agent::KNOWN.into_iter().filter(|name| !built_in(name));
    let known = known.filter_map(|name| Some((name, Vec::new(), Agent::known(name)?)));
    let own = config.agents.iter().map(|(name, command)| (name.as_str(), command.clone(), Agent::acp(command.clone())));
    // Each may take seconds to say its version: side by side.
    std::thread::scope(|scope| {
        let look = &look;
        let asked: Vec<_> =
            known.chain(own).map(|(name, command, agent)| scope.spawn(move || look(name, &command, agent))).collect();
        asked.into_iter().filter_map(|one| one.join().ok()).collect()
    })
}
