//! Carrying out an approved command: one hosted runner per approval. Either one that waited is told to go, which its stdin
//! ledger accepts once, or one is started whose spawn key is the approval's id, and the same key never starts a second
//! process. The second way is taken only when the first can not have happened, so a yes is carried out at most once,
//! whoever dies in between.

mod warm;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ostler_hooks::hook;
use ostler_stages::{Captured, Elevate, Report, Spec, Stage};
use ostler_story::{Alias, By};

use crate::approval::{CommandContent, Outcome, Record, State, Stream, Ticket, Trace, content_hash};
use crate::process::Registry;
use crate::{Engine, MayWait, Process, SpawnError, SpawnRequest, StdinError, Terminal};
use warm::TellOutcome;

pub use warm::WarmCommand;

/// The hidden verb under which this program is the runner.
pub const RUNNER_VERB: &str = "__stages";
/// Before the id of the approval, so that no client's own key can be mistaken for one.
const KEY_PREFIX: &str = "approval:";
/// What a runner is shown as among the processes of the machine.
const SHOWN_AS: &str = "ostler-run";
/// Of the instance: what runners are to run.
const FOLDER: &str = "approved";

/// What only the door knows about how a command runs.
#[derive(Debug, Clone)]
pub struct CommandSetup {
    /// How long it may take.
    pub limit: Duration,
    /// Variables that the command gets beside those of the request, which win. For root, sudo's policy knows better: none.
    pub base_env: BTreeMap<String, String>,
    /// The agent's socket, for a command that may use it.
    pub ssh_agent: Option<String>,
    /// Whether the door itself shows the terminal to whoever approved.
    pub has_terminal: bool,
    /// The name space it belongs to, where that may end before the daemon does.
    pub endpoint: Option<String>,
}

impl CommandSetup {
    /// What its runner is called in the name space that it belongs to.
    fn alias(&self, key: &str) -> Option<Alias> {
        self.endpoint.clone().map(|space| Alias { space, id: key.to_owned() })
    }
}

/// An approved command that was started.
#[derive(Clone)]
pub struct RunningCommand {
    /// The runner; its stdout is the report.
    pub process: Process,
    /// Where sudo asks for a password, when it may.
    pub terminal: Option<Arc<Terminal>>,
}

/// Why a yes was not carried out. Nothing ran.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// Nobody said yes, or it is over.
    #[error("there is no approval to carry out")]
    NotApproved,
    /// The approved content is not a command.
    #[error("the approved content is not a command")]
    NotACommand,
    /// The runner could not be started.
    #[error("failed to execute command: {0}")]
    Spawn(#[from] SpawnError),
    /// The runner that waited could not be told.
    #[error("failed to execute command: {0}")]
    NotTold(#[source] StdinError),
    /// The command could not be written down for the runner.
    #[error("{}: {source}", path.display())]
    Io {
        /// Where.
        path: PathBuf,
        /// What happened.
        source: io::Error,
    },
    /// The audit could not be written.
    #[error(transparent)]
    Store(#[from] crate::approval::StoreError),
}

impl Process {
    /// The request whose command it carries out.
    pub fn approval(&self) -> Option<&str> {
        let key = self.about().key.as_deref()?;
        key.strip_prefix(KEY_PREFIX).or_else(|| key.strip_prefix(warm::KEY_PREFIX))
    }
}

impl Engine {
    /// Starts what was approved (or tells `warm`, where a runner waits for it), or finds it running already.
    pub async fn apply_command(
        &self,
        ticket: &Ticket,
        setup: CommandSetup,
        warm: Option<WarmCommand>,
    ) -> Result<RunningCommand, ApplyError> {
        let approval = ticket.approval().ok_or(ApplyError::NotApproved)?;
        if warm.is_none()
            && let Some(running) = self.command(ticket.id())
        {
            return Ok(running);
        }
        let State::Accepted { .. } = &approval.state else { return Err(ApplyError::NotApproved) };
        let content = CommandContent::parse(&approval.ask.content).ok_or(ApplyError::NotACommand)?;
        let by_hand = matches!(approval.decided, Some((By::Terminal { .. }, _)));
        let elevate = match (content.privileged, by_hand && (setup.has_terminal || approval.relayed)) {
            (false, _) => Elevate::No,
            (true, true) => Elevate::AskOnTerminal,
            (true, false) => Elevate::NeverAsk,
        };
        let spec = spec(content, &setup, elevate);
        let started = self.begin(ticket.id(), &spec, warm, &setup).await;
        let (engine, id) = (self.clone(), ticket.id().to_owned());
        // Recording waits for the disk.
        let noted = MayWait::pool(move |wait| match started {
            Ok(process) => {
                hook!("approval.started");
                engine.inbox().note(wait, &id, Record::Applied { process: Some(process.id().to_owned()) })?;
                Ok(process)
            }
            Err(error) => {
                engine.inbox().note(wait, &id, Record::Failed { why: error.to_string() })?;
                Err(error)
            }
        });
        let process = noted.await.unwrap_or(Err(ApplyError::NotApproved))?;
        self.watch_command(ticket.id().to_owned(), process.clone());
        let terminal = self.inner.terminal(process.id());
        Ok(RunningCommand { process, terminal })
    }

    /// The runner of this approval, if there is one.
    pub fn command(&self, id: &str) -> Option<RunningCommand> {
        let process = self.inner.runner_of(id)?;
        let terminal = self.inner.terminal(process.id());
        Some(RunningCommand { process, terminal })
    }

    async fn begin(
        &self,
        id: &str,
        spec: &Spec,
        warm: Option<WarmCommand>,
        setup: &CommandSetup,
    ) -> Result<Process, ApplyError> {
        if let Some(warm) = warm
            && let TellOutcome::Goes(process) = self.tell(warm, spec).await?
        {
            return Ok(process);
        }
        self.start_runner(id, spec, setup).await
    }

    async fn start_runner(&self, id: &str, spec: &Spec, setup: &CommandSetup) -> Result<Process, ApplyError> {
        let (path, hash) = self.write_down(id.to_owned(), spec.clone()).await?;
        hook!("approval.accepted");
        let key = format!("{KEY_PREFIX}{id}");
        let request = SpawnRequest {
            program: self.inner.config.runner.clone().into_os_string(),
            shown_as: Some(SHOWN_AS.into()),
            args: vec![RUNNER_VERB.into(), path.into_os_string(), hash.into()],
            cwd: Some(PathBuf::from("/")),
            name: Some(format!("command of {id}")),
            alias: setup.alias(&key),
            key: Some(key),
            relayed_terminal: spec.elevate == Elevate::AskOnTerminal,
            ..SpawnRequest::default()
        };
        Ok(self.spawn_own(request).await?)
    }

    /// The command in a file of its own, and the hash that the runner holds it to.
    async fn write_down(&self, name: String, spec: Spec) -> Result<(PathBuf, String), ApplyError> {
        let (path, folder) = (self.inner.approved(&name), self.inner.config.dir.join(FOLDER));
        let file = path.clone();
        let written = MayWait::pool(move |_| {
            let text = serde_json::to_string(&spec)?;
            fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
            let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&file)?;
            file.write_all(text.as_bytes())?;
            Ok(content_hash(&text))
        });
        match written.await.unwrap_or_else(|lost| Err(io::Error::other(lost))) {
            Ok(hash) => Ok((path, hash)),
            Err(source) => Err(ApplyError::Io { path, source }),
        }
    }

    /// Records how it ended, also when nobody waits for the answer.
    pub(crate) fn watch_command(&self, id: String, process: Process) {
        let engine = self.clone();
        tokio::spawn(async move {
            process.wait_exit().await;
            let recorded = MayWait::pool(move |wait| {
                let outcome = match Report::read(process.stdout(wait)) {
                    Ok(Report { outcome: Some(outcome) }) => outcome_of(outcome),
                    Ok(Report { outcome: None }) => {
                        Outcome::Broke { why: "the runner ended before its command".into() }
                    }
                    Err(error) => Outcome::Broke { why: error.to_string() },
                };
                // What the command was is in the audit; the file was the runner's.
                for name in [id.clone(), format!("{id}.waiting")] {
                    let _ = fs::remove_file(engine.inner.approved(&name));
                }
                engine.inbox().note(wait, &id, Record::Finished { outcome })
            });
            if let Ok(Err(error)) = recorded.await {
                tracing::error!("outcome not recorded: {error}");
            }
        });
    }

    /// Goes on with what the daemon before us carried out.
    pub(crate) fn resume_commands(&self) {
        self.discard_waiting();
        for approval in self.inbox().recent() {
            if approval.state == (State::Applied { outcome: None })
                && let Some(running) = self.command(&approval.id)
            {
                self.watch_command(approval.id, running.process);
            }
        }
    }
}

impl Registry {
    /// What became of a yes that the daemon before us recorded.
    pub(crate) fn trace(&self, id: &str, keeper_is_new: bool) -> Trace {
        if let Some(process) = self.runner_of(id) {
            return Trace::Process(process.id().to_owned());
        }
        // The file is there before the runner can be. With the keeper gone as well, nobody knows what it had started. (A
        // runner that waited is known by its folder, and by its ledger whether it was told.)
        let prepared = self.approved(id).exists();
        if prepared && keeper_is_new { Trace::CannotTell } else { Trace::Nothing }
    }

    /// The process that carries this approval out, or did.
    fn runner_of(&self, id: &str) -> Option<Process> {
        self.by_key(&format!("{KEY_PREFIX}{id}")).or_else(|| self.told(id))
    }

    /// Where a command is written down for its runner.
    fn approved(&self, name: &str) -> PathBuf {
        self.config.dir.join(FOLDER).join(format!("{name}.json"))
    }
}

fn spec(content: CommandContent, setup: &CommandSetup, elevate: Elevate) -> Spec {
    let stages =
        content.stages.into_iter().map(|stage| Stage { program: stage.program, argv: stage.argv, seal: stage.seal });
    let mut env = setup.base_env.clone();
    env.extend(content.env);
    if content.forward_agent
        && let Some(socket) = &setup.ssh_agent
    {
        env.insert("SSH_AUTH_SOCK".into(), socket.clone());
    }
    Spec::new(stages.collect(), env.into_iter().collect(), setup.limit, elevate)
}

fn outcome_of(outcome: ostler_stages::Outcome) -> Outcome {
    let stream = |Captured { length, sha256, truncated }| Stream { length, sha256, truncated };
    match outcome {
        ostler_stages::Outcome::Done { exit_codes, stdout, stderr } => {
            Outcome::Ran { exit_codes, stdout: stream(stdout), stderr: stderr.into_iter().map(stream).collect() }
        }
        ostler_stages::Outcome::TimedOut { secs, left } => Outcome::Broke { why: timed_out(secs, &left) },
        ostler_stages::Outcome::Failed { message, .. } => Outcome::Broke { why: message },
    }
}

fn timed_out(secs: u64, left: &[usize]) -> String {
    let left: Vec<String> = left.iter().map(|stage| (stage + 1).to_string()).collect();
    match left.as_slice() {
        [] => format!("timed out after {secs}s"),
        _ => format!("timed out after {secs}s; could not be ended and may still run: command {}", left.join(", ")),
    }
}
