//! `ostler up`: starts the daemon, waits until it answers on every socket, and says in a few lines what to do next.

use std::env;
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use ostler_api::AgentInfo;

use super::Context;
use super::agents_here::{of_daemon, state};
use super::background::{self, Start};
use super::connect::DYING_WITHIN;
use crate::config::Config;
use crate::daemon;
use crate::instances::{Claim, Claimed, InstanceRecord, claim};
use crate::output::{CommandError, Kind, Paint, visible};

/// Start ostler in the background
#[derive(Debug, Args)]
#[command(after_help = "\
What runs in it survives `ostler restart`, a crash and `kill -9`. Running it again is safe. Agents get the environment it was started in. Sockets and ports: ostler status --connect.

Examples:
  ostler up
  ostler up --drop-in
  ostler service install            start it with the machine
  ostler up --instance lab          a second one, separate")]
pub(crate) struct Up {
    /// Stay in the foreground, log to stderr
    #[arg(short, long)]
    foreground: bool,

    /// Also listen where sudo-request, codecast and zerocode look
    #[arg(long)]
    drop_in: bool,

    /// Leave the caller's session; what `up` itself passes on
    #[arg(long, hide = true, requires = "foreground")]
    detached: bool,

    /// Started by the keeper
    #[arg(long, hide = true, requires = "foreground")]
    guarded: bool,

    /// Take the place of a living daemon; what `restart` passes on
    #[arg(long, hide = true, requires = "foreground")]
    take_over: bool,

    /// Started by a service manager; what the unit of `service install` says
    #[arg(long, hide = true, requires = "foreground", conflicts_with = "detached")]
    service: bool,
}

impl Up {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, CommandError> {
        if self.foreground {
            return self.stay(context);
        }
        // Mistakes in the settings are for the person who typed, not for a log.
        let config = Config::load(context.paths.config_file())?;
        if let Some(code) = settled(context, self.drop_in && !config.doors.drop_in)? {
            return Ok(code);
        }
        let start = Start { drop_in: self.drop_in || config.doors.drop_in, take_over: false };
        let record = match background::launch(context, &start) {
            Ok(record) => record,
            Err(error) => return overtaken(context, error),
        };
        report(context, &record, &format!("ostler is up (pid {})", record.pid), true)
    }

    fn stay(self, context: &Context) -> Result<ExitCode, CommandError> {
        let config = Config::load(context.paths.config_file())?;
        Ok(daemon::run(daemon::Options {
            paths: context.paths.clone(),
            drop_in: self.drop_in || config.doors.drop_in,
            config,
            instance: context.instance_name().to_owned(),
            detached: self.detached,
            guarded: self.guarded,
            take_over: self.take_over || self.service,
            service: self.service,
        }))
    }
}

/// The same as [`already`], once one that dies is gone. The one that its keeper brings back then is not waited for: a person
/// is here now.
fn settled(context: &Context, places: bool) -> Result<Option<ExitCode>, CommandError> {
    let deadline = Instant::now() + DYING_WITHIN;
    loop {
        match already(context, places) {
            Err(error) if error.kind == Kind::Failed && Instant::now() < deadline => {
                std::thread::sleep(background::POLL);
            }
            found => return found,
        }
    }
}

/// Says so if the instance has a daemon that answers. One that was to take the usual places and has not is told too: its
/// clients would look for it in vain.
fn already(context: &Context, places: bool) -> Result<Option<ExitCode>, CommandError> {
    let Some(found) = context.living()?.into_iter().find(|found| found.name == context.instance_name()) else {
        return Ok(None);
    };
    let reached = context.reach(found)?;
    let record = reached.found.record.unwrap_or_else(|| record_of(&reached.hello));
    if places && !background::is_drop_in(record.pid) {
        let message = format!("already running (pid {}), without --drop-in", record.pid);
        return Err(
            CommandError::new(Kind::Refused, message).hint("use: ostler restart --drop-in; everything keeps running")
        );
    }
    let code = report(context, &record, &format!("already running (pid {})", record.pid), true)?;
    if reached.hello.program != env!("CARGO_PKG_VERSION") {
        let (theirs, ours) = (&reached.hello.program, env!("CARGO_PKG_VERSION"));
        context.screen.note(&format!(
            "it is ostler {theirs}, this is {ours}; to upgrade: ostler restart (everything keeps running)"
        ));
    }
    Ok(Some(code))
}

/// A keeper brings back a daemon that died, and may be quicker than a person: then that one is waited for. Nobody else: why
/// ours did not start is the answer.
fn overtaken(context: &Context, error: CommandError) -> Result<ExitCode, CommandError> {
    let dir = context.paths.prepare_instance(context.instance_name())?;
    let deadline = Instant::now() + background::READY_WITHIN;
    while Instant::now() < deadline && matches!(claim(&dir, Claim::IfFree), Ok(Claimed::Held(_))) {
        if let Ok(Some(code)) = already(context, false) {
            return Ok(code);
        }
        std::thread::sleep(background::POLL);
    }
    Err(error)
}

/// A daemon that answers while its record has just been replaced: what it said of itself is enough.
fn record_of(hello: &ostler_api::Hello) -> InstanceRecord {
    InstanceRecord {
        version: crate::instances::RECORD_VERSION,
        name: hello.instance.clone(),
        door: "up".to_owned(),
        pid: hello.pid,
        start_ticks: 0,
        started: hello.started,
        program: hello.program.clone(),
        native: None,
        doors: Vec::new(),
    }
}

/// How it stands, what to try, and which agents are here: at most twelve lines. Sockets are for `status --connect`, and in the JSON.
pub(super) fn report(
    context: &Context,
    record: &InstanceRecord,
    headline: &str,
    begins: bool,
) -> Result<ExitCode, CommandError> {
    if context.json() {
        context.screen.value(record)?;
        return Ok(ExitCode::SUCCESS);
    }
    let other = match record.name.as_str() {
        crate::paths::DEFAULT_INSTANCE => String::new(),
        name => format!(", instance {name}"),
    };
    context.screen.line(&context.screen.paint(Paint::Head, &format!("{headline}{other}")))?;
    if begins {
        let ports = record.doors.iter().filter_map(|door| port(&door.address));
        for line in next(&record.name, &agents(context, &record.name), over_ssh(ports, |name| env::var(name).ok())) {
            context.screen.line(&line)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Beyond these, agents are counted: there is room for so many lines.
const AGENTS_MAX: usize = 4;

/// What to do next.
fn next(instance: &str, agents: &[AgentInfo], ssh: Option<String>) -> Vec<String> {
    let flag = crate::instances::flag(instance);
    let mut lines = vec![
        format!("  ostler new echo -m hello{flag}    a built-in agent"),
        format!("  ostler run -t{flag} -- bash       a terminal; Ctrl-] leaves, ostler attach goes back"),
        format!("  ostler{flag}                      what needs you, what runs, what ended"),
    ];
    if !agents.is_empty() {
        lines.push("agents:".to_owned());
    }
    // Who can be talked to comes first.
    let mut sorted: Vec<&AgentInfo> = agents.iter().collect();
    sorted.sort_by_key(|agent| agent.program.is_none());
    let width = sorted.iter().map(|agent| agent.name.len()).max().unwrap_or(0);
    let named = sorted.iter().take(AGENTS_MAX);
    lines.extend(named.map(|agent| visible(&format!("  {:width$}  {}", agent.name, state(agent)))));
    if sorted.len() > AGENTS_MAX {
        lines.push(format!("  and {} more: ostler doctor", sorted.len() - AGENTS_MAX));
    }
    lines.extend(ssh.map(|line| format!("from your own machine: {line}")));
    lines.push(format!("sockets and ports for other programs: ostler status --connect{flag}"));
    lines
}

/// The agents as the daemon finds them; none if it does not say so soon.
fn agents(context: &Context, instance: &str) -> Vec<AgentInfo> {
    let found = crate::instances::find(&context.paths, Some(instance)).unwrap_or_default();
    let reached = found.into_iter().find(|found| found.alive).and_then(|found| context.reach(found).ok());
    reached.and_then(|mut reached| of_daemon(&mut reached, false)).unwrap_or_default()
}

fn port(address: &str) -> Option<u16> {
    let (host, port) = address.rsplit_once(':')?;
    let local = matches!(host, "127.0.0.1" | "localhost" | "[::1]");
    port.parse().ok().filter(|_| local)
}

/// How to reach the ports of this machine from where the person sits, if that is at the other end of an ssh connection.
fn over_ssh(ports: impl Iterator<Item = u16>, variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let connection = variable("SSH_CONNECTION")?;
    let host = connection.split_whitespace().nth(2)?;
    let user = variable("USER").or_else(|| variable("LOGNAME")).map(|user| format!("{user}@")).unwrap_or_default();
    let forwards: Vec<String> = ports.map(|port| format!("-L {port}:127.0.0.1:{port}")).collect();
    (!forwards.is_empty()).then(|| visible(&format!("ssh {} {user}{host}", forwards.join(" "))))
}

#[cfg(test)]
mod tests {
    use ostler_api::LoginState;

    use super::*;

    fn agent(name: &str, program: Option<&str>, login: LoginState) -> AgentInfo {
        AgentInfo {
            name: name.into(),
            command: Vec::new(),
            program: program.map(str::to_owned),
            version: None,
            drive: "acp".into(),
            login,
            login_by: None,
        }
    }

    #[test]
    fn twelve_lines_are_enough_however_many_agents_there_are() {
        let names = ["claude", "codex", "gemini", "opencode", "mine", "yours", "theirs"];
        let agents: Vec<AgentInfo> = names.iter().map(|name| agent(name, None, LoginState::Unknown)).collect();
        let lines = next("lab", &agents, Some("ssh -L 1:127.0.0.1:1 x".into()));
        // And the headline.
        assert!(lines.len() < 12, "{lines:#?}");
        assert!(lines.iter().any(|line| line.contains("and 3 more")), "{lines:#?}");
    }

    #[test]
    fn who_can_be_talked_to_comes_first_and_how_to_log_in_is_said() {
        let agents = [agent("claude", None, LoginState::No), agent("codex", Some("/bin/codex"), LoginState::No)];
        let lines = next("main", &agents, None).join("\n");
        assert!(lines.contains("codex   not logged in: codex login\n  claude  not installed"), "{lines}");
    }

    #[test]
    fn a_tunnel_is_told_to_whoever_came_through_ssh_where_there_is_a_port() {
        let ssh = |name: &str| match name {
            "SSH_CONNECTION" => Some("10.0.0.2 5000 10.0.0.1 22".to_owned()),
            "USER" => Some("ada".to_owned()),
            _ => None,
        };
        let line = over_ssh([9100].into_iter(), ssh);
        assert_eq!(line.as_deref(), Some("ssh -L 9100:127.0.0.1:9100 ada@10.0.0.1"));
        assert_eq!(over_ssh(std::iter::empty(), ssh), None);
        assert_eq!(over_ssh([9100].into_iter(), |_| None), None);
        assert_eq!((port("127.0.0.1:9100"), port("/run/x:1"), port("0.0.0.0:1")), (Some(9100), None, None));
    }
}
