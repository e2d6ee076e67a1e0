//! `ostler new`: begins a conversation with an agent.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use ostler_api::{Autonomy, Lifetime, PromptBlock, SessionCreateParams, SessionInfo, methods};
use ostler_story::{Agent, words};

use super::Context;
use super::connect::Reached;
use super::run::variables;
use super::session::{Free, Order, deliver};
use crate::config::Config;
use crate::output::{Called, CommandError, Kind, Paint, Screen, nearest, visible};

/// Checking out a large work tree takes as long as git may take.
const MADE_WITHIN: Duration = Duration::from_secs(90);

const HELP: &str = "\
AGENT is claude, codex, gemini or opencode; echo is built in and repeats what you say. `acp` runs any command that \
speaks the Agent Client Protocol; section [agents] of the settings can give it a name.

Permissions:
  ask      ask before changing or running anything (default)
  edits    edit files in the workspace without asking
  plan     plan only, change nothing
  all      never ask; every approval is recorded

Environment: agents get the environment `ostler up` was started in, with the PATH of your login shell, not that of this \
terminal. --env adds to it, in memory only: after a restart of ostler it is gone. `ostler doctor` shows who is logged in.

Examples:
  ostler new echo -m hello
  ostler new claude --env ANTHROPIC_API_KEY    with the key that this terminal has
  ostler new claude ~/project --name fix --permissions edits -m 'make the tests pass'
  ostler new codex --worktree        on its own branch, in its own folder, made ready as
                                     .ostler.toml of the repository says once you said yes
  ostler new claude --resume 7c1e4f0a-…        resume a conversation of claude";

/// Start a session with an agent
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct New {
    /// claude, codex, gemini, opencode, echo or acp
    agent: String,

    /// Folder to work in [default: this one]
    path: Option<PathBuf>,

    /// Give it a name
    #[arg(short, long, value_name = "NAME")]
    name: Option<String>,

    /// What the agent may do without asking
    #[arg(short = 'p', short_alias = 'a', long = "permissions", alias = "autonomy", value_name = "WHAT")]
    #[arg(value_enum, default_value = "ask", hide_default_value = true, hide_possible_values = true)]
    autonomy: Free,

    /// Model to use [default: the agent's own]
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,

    /// A mode of the agent's own, instead of --permissions
    #[arg(long, value_name = "MODE")]
    mode: Option<String>,

    /// Resume a conversation of the agent, by the agent's own id
    #[arg(long, value_name = "AGENT_ID")]
    resume: Option<String>,

    /// Work in a new git worktree, on branch BRANCH or a new `ostler/…`
    #[arg(long, value_name = "BRANCH", num_args = 0..=1, default_missing_value = "")]
    worktree: Option<String>,

    /// Set a variable for the agent; KEY alone takes yours
    #[arg(short, long, value_name = "KEY=VALUE")]
    env: Vec<String>,

    /// Start the agent anew for each prompt
    #[arg(long)]
    once: bool,

    /// Send this prompt and follow the answer
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,

    /// Return the same session when called again with this key
    #[arg(long, value_name = "KEY")]
    key: Option<String>,

    /// The command to start (agent acp)
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl New {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, CommandError> {
        self.check_agent(context)?;
        let message = self.message.clone();
        // Before the session is made: nobody wants one that was never spoken to.
        if message.as_ref().is_some_and(|text| text.trim().is_empty()) {
            return Err(CommandError::usage("the prompt is empty").hint("leave out -m, or write a prompt"));
        }
        let (mut reached, info) = self.begin(context)?;
        report(context, &info, message.is_some())?;
        if info.worktree.is_some() {
            super::setup::make_ready(context, &info, false)?;
            // A setup may take long: this connection may be gone.
            reached = context.find_session(&info.id)?.0;
        }
        match message {
            None => Ok(ExitCode::SUCCESS),
            Some(text) => {
                let blocks = vec![PromptBlock::Text { text }];
                deliver(context, reached, Order { session: info, blocks, key: None, wait: true })
            }
        }
    }

    /// An agent in a folder, and nothing else said about it.
    pub(super) fn plain(agent: String, path: PathBuf) -> Self {
        Self {
            agent,
            path: Some(path),
            name: None,
            autonomy: Free::Ask,
            model: None,
            mode: None,
            resume: None,
            worktree: None,
            once: false,
            message: None,
            key: None,
            env: Vec::new(),
            command: Vec::new(),
        }
    }

    /// A conversation of an agent that goes on here.
    pub(super) fn resuming(
        agent: String,
        path: PathBuf,
        conversation: String,
        name: Option<String>,
        autonomy: Free,
        message: Option<String>,
    ) -> Self {
        Self { resume: Some(conversation), name, autonomy, message, ..Self::plain(agent, path) }
    }

    /// Makes the session.
    pub(super) fn begin(self, context: &Context) -> Result<(Reached, SessionInfo), CommandError> {
        let params = self.params(&context.screen)?;
        let mut reached = context.reach_one()?;
        reached.client.answer_within(Some(MADE_WITHIN))?;
        let info = reached.client.call::<methods::SessionCreate>(&params)?;
        reached.client.answer_within(Some(ostler_api::client::ANSWER_TIMEOUT))?;
        Ok((reached, info))
    }

    /// Refuses a slip. Whether there is such an agent is for the daemon to say, whose settings may be others.
    fn check_agent(&self, context: &Context) -> Result<(), CommandError> {
        let (config, _) = Config::load_all(context.paths.config_file(), |name| std::env::var(name).ok());
        let own = config.agents.iter().map(|own| own.name.as_str());
        let known: Vec<&str> = Agent::KNOWN.into_iter().chain(["acp"]).chain(own).collect();
        match nearest(&self.agent, known) {
            Some(near) if near != self.agent => {
                let error = CommandError::usage(format!("no agent `{}`", self.agent));
                Err(error.hint(format!("did you mean `{near}`?")))
            }
            _ => Ok(()),
        }
    }

    fn params(self, screen: &Screen) -> Result<SessionCreateParams, CommandError> {
        let path = self.path.clone().unwrap_or_else(|| PathBuf::from("."));
        let workspace = path.canonicalize().map_err(|error| {
            let at = path.display();
            match error.kind() {
                ErrorKind::NotFound => CommandError::new(Kind::NotFound, format!("there is no folder {at}"))
                    .hint(format!("create it: mkdir -p {}", words::path(&path))),
                _ => CommandError::new(Kind::NotFound, format!("cannot use {at}: {error}")),
            }
        })?;
        if let Some(branch) = self.worktree.as_deref().filter(|branch| !branch.is_empty())
            && self.path.is_none()
            && std::path::Path::new(branch).is_dir()
        {
            return Err(CommandError::usage(format!("--worktree takes a branch; `{branch}` is a folder"))
                .hint(format!("ostler new {} {} --worktree", self.agent, words::quoted(branch))));
        }
        let workspace = workspace
            .into_os_string()
            .into_string()
            .map_err(|path| CommandError::usage(format!("{}: the path is not UTF-8", PathBuf::from(path).display())))?;
        Ok(SessionCreateParams {
            agent: self.agent,
            command: self.command,
            program: None,
            workspace,
            name: self.name,
            autonomy: Some(Autonomy::from(self.autonomy)),
            raw_mode: self.mode,
            model: self.model,
            lifetime: Some(if self.once { Lifetime::Turn } else { Lifetime::Session }),
            resume: self.resume,
            env: variables(screen, &self.env)?,
            branch: self.worktree.clone().filter(|branch| !branch.is_empty()),
            worktree: self.worktree.is_some(),
            key: self.key,
        })
    }
}

/// With a prompt on its way, standard output belongs to the answer.
fn report(context: &Context, info: &SessionInfo, prompted: bool) -> Result<(), CommandError> {
    if context.json() {
        context.screen.value(info)?;
        return Ok(());
    }
    // The id first: it stays the same, whatever the session is called later.
    let (id, name) = (&info.id, info.called());
    let head = format!("{id}  {} in {}", visible(&info.agent), visible(&info.workspace));
    if prompted {
        context.screen.note(&format!("{head}; continue with: ostler send {name} '...'"));
        return Ok(());
    }
    context.screen.line(&context.screen.paint(Paint::Head, &head))?;
    context.screen.line(&format!("  send a prompt:  ostler send {name} 'hello'"))?;
    context.screen.line(&format!("  follow it:      ostler watch {name}"))?;
    Ok(())
}
