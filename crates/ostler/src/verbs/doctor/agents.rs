//! Which coding agents are here, how each would be driven, and whether it is logged in: as the daemon sees it, which gives them
//! its environment.

use ostler_api::{AgentInfo, LoginState};

use super::{Check, Context};
use crate::config::Config;
use crate::verbs::agents_here::{how_to_log_in, of_daemon, of_this_terminal};

pub(super) fn checks(context: &Context) -> Vec<Check> {
    let (config, _) = Config::load_all(context.paths.config_file(), |name| std::env::var(name).ok());
    let asked = context.reach_one().ok().and_then(|mut reached| of_daemon(&mut reached, true));
    let (agents, place) = match asked {
        Some(mut agents) => {
            // Those that the settings have got since it was started.
            let new = |agent: &AgentInfo| agents.iter().all(|known| known.name != agent.name);
            let new: Vec<AgentInfo> = of_this_terminal(&config, false).into_iter().filter(new).collect();
            agents.extend(new);
            (agents, "where ostler runs it")
        }
        None => (of_this_terminal(&config, true), "in this terminal, as ostler is not running"),
    };
    agents.iter().map(|agent| check(agent, place)).collect()
}

fn check(agent: &AgentInfo, place: &str) -> Check {
    let (name, own) = (agent.name.clone(), !agent.command.is_empty());
    let command = agent.command.join(" ");
    let Some(program) = &agent.program else {
        return match own {
            true => Check::weak(name, format!("not found: {command} (from the settings)")),
            false => Check::absent(name, "not installed"),
        };
    };
    let version = match (own, &agent.version) {
        (true, _) => command,
        (false, Some(version)) => version.clone(),
        (false, None) => "version unknown".to_owned(),
    };
    let way = match agent.drive.as_str() {
        "stream" => "asks for approval",
        "app_server" => "asks for approval",
        "acp" => "asks for approval (ACP)",
        _ => "one process per prompt, cannot ask for approval",
    };
    let at = format!("{program} ({version}); {way}");
    let by = agent.login_by.as_deref().unwrap_or_default();
    match agent.login {
        LoginState::Yes => Check::good(name, format!("{at}; logged in by {by}")),
        LoginState::Unknown if own => Check::good(name, at),
        LoginState::Unknown => Check::good(name, format!("{at}; login unknown")),
        LoginState::No => {
            let how = how_to_log_in(&agent.name).map(|how| format!("; log in: {how}")).unwrap_or_default();
            Check::weak(name, format!("{at}; not logged in {place} ({by}){how}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    fn agent(program: Option<&str>, login: LoginState) -> AgentInfo {
        AgentInfo {
            name: "codex".into(),
            command: Vec::new(),
            program: program.map(str::to_owned),
            version: None,
            drive: "app_server".into(),
            login,
            login_by: Some("no auth.json".into()),
        }
    }

    #[test]
    fn what_is_not_installed_is_neither_good_nor_bad() {
        let verdict = |program, login| check(&agent(program, login), "here").verdict;
        assert_eq!(verdict(None, LoginState::No), Verdict::Absent);
        assert_eq!(verdict(Some("/bin/codex"), LoginState::No), Verdict::Weak);
        assert_eq!(verdict(Some("/bin/codex"), LoginState::Yes), Verdict::Good);
    }

    #[test]
    fn who_is_not_logged_in_is_told_where_and_what_to_do() {
        let told = check(&agent(Some("/bin/codex"), LoginState::No), "where ostler runs it").text;
        assert!(told.contains("not logged in where ostler runs it (no auth.json)"), "{told}");
        assert!(told.contains("codex login"), "{told}");
    }
}
