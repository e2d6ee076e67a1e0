//! A turn of each real agent, from prompt to its end: kept alive, with a process of its own, and run once, each beside the CLI's own
//! command line with the same prompt. The agents are those that `./test agents` drives, in front of the same scripted model on
//! the loopback: what is measured is the CLI and ostler, never a network.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use ostler_agents::{Launch, Setup, open};
use ostler_api::client::{Client, Incoming};
use ostler_api::{
    Lifetime, Notification, PromptParams, SessionCreateParams, SessionEvent, SessionIdParams, WatchParams, methods,
};
use ostler_story::{Agent, Autonomy, Drive};
use serde::Deserialize;

use super::Bench;
use crate::approvals::{Daemon, native};
use crate::instance::Instance;
use crate::measure::{RowTime, Sample, summarise};
use crate::sessions::word;
use crate::table::{Row, Target};

/// The slowest starter takes half a minute on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);
const PROMPT: &str = "measure this turn";
/// What the scripted model makes of it.
const ANSWER: &str = "You said: measure this turn";
/// In one process that is kept, a turn costs no start: no slower than the command line that pays for one.
const KEPT: f64 = 1.0;
/// The same command line with a journal before it: some milliseconds beside some hundred.
const ONCE: f64 = 1.15;

pub(crate) fn rows(bench: &Bench) -> Result<()> {
    let instance = Instance::new(&bench.bin, "agents")?;
    let (once, stage) = (Instance::new(&bench.bin, "agents-once")?, Stage::set(&instance.dir().join("home"))?);
    let mut usual = Daemon::new(&instance)?.with_env(&stage.told.env);
    let mut env = stage.told.env.clone();
    env.insert("OSTLER_AGENT_DRIVE".to_owned(), "oneshot".to_owned());
    let mut oneshot = Daemon::new(&once)?.with_env(&env);
    usual.start()?;
    oneshot.start()?;
    for (agent, name) in
        [(Agent::Claude, "claude"), (Agent::Codex, "codex"), (Agent::Gemini, "gemini"), (Agent::Opencode, "opencode")]
    {
        let Some(program) = stage.told.programs.get(name).cloned().flatten() else {
            let absent = Target { text: "not installed: ./test install".to_owned(), met: true };
            bench.show(Row::alone(format!("{name}: a turn"), "ms", f64::NAN, absent));
            continue;
        };
        let workspace = instance.dir().join(name);
        std::fs::create_dir(&workspace)?;
        let cli = Cli { agent, name, program, workspace: workspace.display().to_string() };
        cli.rows(bench, &stage, [instance.dir(), once.dir()]).with_context(|| cli.name)?;
    }
    oneshot.stop()?;
    usual.stop()?;
    Ok(())
}

/// The agents' settings and the scripted model; gone with this value.
struct Stage {
    child: Child,
    told: AgentClis,
}

#[derive(Deserialize)]
struct AgentClis {
    env: BTreeMap<String, String>,
    programs: BTreeMap<String, Option<String>>,
}

impl Stage {
    fn set(home: &Path) -> Result<Self> {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../conformance/agents/clis.py");
        let mut child = Command::new("python3")
            .arg(script)
            .arg(home)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("start python3 for the scripted model")?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("stdout")?).read_line(&mut line)?;
        let told = serde_json::from_str(&line).with_context(|| format!("{script} said {line:?}"))?;
        Ok(Self { child, told })
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // The end of its stdin is its end; there is nobody to tell if it did not come.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

struct Cli {
    agent: Agent,
    name: &'static str,
    program: String,
    workspace: String,
}

impl Cli {
    fn rows(&self, bench: &Bench, stage: &Stage, [usual, once]: [&Path; 2]) -> Result<()> {
        let mut ways = [
            Talk::begin(self, usual, Lifetime::Session)?,
            Talk::begin(self, usual, Lifetime::Turn)?,
            Talk::begin(self, once, Lifetime::Turn)?,
        ];
        // What is there only once, a first look at a program or a first conversation in a folder, is nobody's usual turn.
        self.plain(stage)?;
        for way in &mut ways {
            way.turn()?;
        }
        let mut taken: [Vec<(Sample, Sample)>; 3] = Default::default();
        let (rounds, time) = (if bench.quick { 3 } else { 5 }, RowTime::begin());
        for round in (0..rounds).take_while(|round| time.allows(*round)) {
            // The command line begins a conversation each time: so does what is compared with it.
            ways[2].anew()?;
            // By turns, so that a noisy minute hits all of them; and no way always comes after the same one.
            let before = self.plain(stage)?;
            let mut order: Vec<_> = ways.iter_mut().zip(&mut taken).collect();
            if round % 2 == 1 {
                order.reverse();
            }
            for (way, taken) in order {
                taken.push((before, way.turn()?));
            }
        }
        let [kept, turn, oneshot] = taken.map(|taken| summarise(&taken));
        let row = |what: &str, pairs, target| {
            Row::paired(format!("{}: a turn, {what}", self.name), "ms", pairs, vec![target])
                .against("the CLI's own command line, once")
        };
        bench.show(row("kept alive", kept, Target::ratio_at_most(kept.ratio, KEPT)));
        let scale = Target { text: "for scale".to_owned(), met: turn.ours.is_finite() };
        bench.show(row("a process each", turn, scale));
        bench.show(row("run once", oneshot, Target::ratio_at_most(oneshot.ratio, ONCE)));
        Ok(())
    }

    /// The raw limit: the line that the adapter would start, without ostler.
    fn plain(&self, stage: &Stage) -> Result<Sample> {
        let setup = Setup {
            agent: self.agent.clone(),
            program: Some(self.program.clone()),
            cwd: self.workspace.clone(),
            model: None,
            autonomy: Autonomy::Ask,
            resume: None,
            new_session_id: "bench".to_owned(),
            raw_mode: None,
        };
        let Launch { program, args, env, .. } = open(&setup, Drive::Oneshot)?.launch();
        let started = Instant::now();
        let mut child = Command::new(program)
            .args(args)
            .current_dir(&self.workspace)
            .env_clear()
            .envs(&stage.told.env)
            .envs(env)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        child.stdin.take().context("stdin")?.write_all(PROMPT.as_bytes())?;
        let output = child.wait_with_output()?;
        let took = started.elapsed();
        ensure!(output.status.success(), "run directly it ends with {}", output.status);
        Ok(Sample::of(took.as_secs_f64() * 1e3))
    }
}

/// One conversation, watched.
struct Talk {
    client: Client,
    params: SessionCreateParams,
    id: String,
}

impl Talk {
    fn begin(cli: &Cli, instance: &Path, lifetime: Lifetime) -> Result<Self> {
        let mut client = Client::connect(&native(instance))?;
        client.answer_within(Some(PATIENCE))?;
        let params = SessionCreateParams {
            agent: cli.name.to_owned(),
            command: Vec::new(),
            program: Some(cli.program.clone()),
            workspace: cli.workspace.clone(),
            name: None,
            autonomy: None,
            raw_mode: None,
            model: None,
            lifetime: Some(lifetime),
            resume: None,
            env: Vec::new(),
            worktree: false,
            branch: None,
            key: None,
        };
        let mut talk = Self { client, params, id: String::new() };
        talk.anew()?;
        Ok(talk)
    }

    /// Another conversation of the same kind.
    fn anew(&mut self) -> Result<()> {
        self.id = self.client.call::<methods::SessionCreate>(&self.params)?.id;
        self.client.call::<methods::SessionWatch>(&WatchParams {
            id: self.id.clone(),
            from: None,
            prompts: None,
            pieces: false,
        })?;
        Ok(())
    }

    /// A prompt, and the time until its turn has ended as it should.
    fn turn(&mut self) -> Result<Sample> {
        let started = Instant::now();
        self.client.call::<methods::SessionPrompt>(&PromptParams {
            id: self.id.clone(),
            text: Some(PROMPT.to_owned()),
            blocks: Vec::new(),
            refuse_if_busy: true,
            key: None,
        })?;
        let (mut said, mut reason) = (String::new(), None);
        while reason.is_none() {
            for event in self.next()? {
                let event = event.json();
                match word(event, "/type") {
                    "text" => said.push_str(word(event, "/text")),
                    "turn_ended" => reason = Some(word(event, "/reason").to_owned()),
                    _ => {}
                }
            }
        }
        let took = started.elapsed();
        ensure!(reason.as_deref() == Some("completed") && said.contains(ANSWER), "{reason:?}, it said {said:?}");
        // Its leaving belongs to no turn.
        let asked = SessionIdParams { id: self.id.clone() };
        let leaves = self.params.lifetime == Some(Lifetime::Turn);
        while leaves && self.client.call::<methods::SessionGet>(&asked)?.process.is_some() {
            ensure!(started.elapsed() < PATIENCE, "its process does not leave");
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(Sample::of(took.as_secs_f64() * 1e3))
    }

    fn next(&mut self) -> Result<Vec<SessionEvent>> {
        loop {
            if let Some(Notification::Events(record)) = self.client.take_early() {
                return Ok(record.events);
            }
            match self.client.take()? {
                Some(Incoming::Notification(Notification::Events(record))) => return Ok(record.events),
                Some(_) => {}
                None => self.client.fill()?,
            }
        }
    }
}
