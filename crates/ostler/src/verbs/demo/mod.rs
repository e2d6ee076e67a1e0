//! `ostler demo`: shows what ostler is for, with scripted agents in an instance of its own, and counts what a killed daemon
//! costs. It never touches the user's instances, settings or folders.

mod listen;
mod place;
mod remove;
mod story;
mod tally;

use std::io::{self, IsTerminal, Read};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use ostler_api::{Lifetime, PromptParams, SessionCreateParams, SessionIdParams, SessionInfo, SessionStatus, methods};

use self::listen::{Absence, Listener};
use self::story::{OTHERS, Role, WRITER};
use self::tally::Tally;
use super::Context;
use super::background::{self, Start};
use super::connect::Reached;
use crate::output::{CommandError, Paint, terminal_width};
use crate::paths::DEMO_INSTANCE;

/// A scripted agent does its part in a moment.
const READY_WITHIN: Duration = Duration::from_secs(15);
const POLL: Duration = Duration::from_millis(10);
/// Lines are not wider than one likes to read.
const WIDTH: usize = 78;

/// Try ostler with scripted agents; touches nothing of yours
#[derive(Debug, Args)]
#[command(after_help = "\
Starts a private ostler with four scripted sessions in a scratch repository, kills it with SIGKILL in the middle of a sentence, \
and counts what was lost. Needs git, no agent and no network; takes ten seconds. Everything is in one folder, \
~/.local/state/ostler-demo, and stays there to look at until you remove it.

Examples:
  ostler demo
  ostler sessions --instance demo      every command works on it
  ostler demo --remove                 end it and delete everything")]
pub(crate) struct Demo {
    /// End the demo and delete everything that it made
    #[arg(long)]
    remove: bool,
}

impl Demo {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, CommandError> {
        let paths = match context.instance.as_deref() {
            Some(DEMO_INSTANCE) => context.paths.clone(),
            _ => context.paths.of_demo(),
        };
        let demo = Context::new(paths, Some(DEMO_INSTANCE.to_owned()), context.json());
        if self.remove {
            let removed = remove::remove(&demo)?;
            return told_removal(&demo, removed);
        }
        leave_with_a_word()?;
        // What an earlier one left would only confuse.
        remove::remove(&demo)?;
        play(&demo)
    }
}

fn told_removal(demo: &Context, removed: bool) -> Result<ExitCode, CommandError> {
    let root = at_home(demo.paths.state_dir());
    if demo.json() {
        demo.screen.value(&serde_json::json!({ "removed": removed }))?;
    } else if removed {
        demo.screen.line(&format!("demo removed: its processes and {root}"))?;
    } else {
        demo.screen.line("no demo here")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Ctrl-C anywhere leaves things as they are, and says how to be rid of them.
fn leave_with_a_word() -> Result<(), CommandError> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let came = Arc::new(AtomicUsize::new(0));
    let (mut woken, waker) = UnixStream::pair()?;
    for (signal, number) in [(SIGINT, 2), (SIGTERM, 15), (SIGHUP, 1)] {
        signal_hook::flag::register_usize(signal, Arc::clone(&came), number)?;
        signal_hook::low_level::pipe::register(signal, waker.try_clone()?)?;
    }
    // Not joined: it ends with the process.
    std::thread::spawn(move || {
        let _ = woken.read(&mut [0]);
        eprintln!("\nostler: left the demo; remove it with: ostler demo --remove");
        std::process::exit(128 + i32::try_from(came.load(Ordering::SeqCst)).unwrap_or(0));
    });
    Ok(())
}

fn play(demo: &Context) -> Result<ExitCode, CommandError> {
    let lock = place::make(&demo.paths)?;
    say(demo, Paint::Head, "This is a demo. Its agents are scripted, and nothing of yours is touched.")?;
    say(demo, Paint::Dim, &format!("Everything is in {}", at_home(demo.paths.state_dir())))?;
    background::launch(demo, &Start { drop_in: false, take_over: false })?;
    let mut others = Vec::new();
    for role in &OTHERS {
        others.push(begin(demo, role)?);
    }
    let before = settled(demo, &others)?;
    let writer = begin(demo, &WRITER)?;
    say(demo, Paint::Plain, "\nFour sessions in a scratch repository:")?;
    for role in OTHERS.iter().chain([&WRITER]) {
        let paint = match role.then {
            SessionStatus::Waiting => Paint::Warn,
            SessionStatus::Failed => Paint::Bad,
            _ => Paint::Good,
        };
        let name = demo.screen.paint(paint, &format!("{:<14}", role.name));
        say(demo, Paint::Plain, &format!("  {name}{}", role.about))?;
    }
    say(demo, Paint::Plain, &format!("\n{}, live:", WRITER.name))?;
    let shown = experiment(demo, &writer)?;
    let unchanged = settled(demo, &others).is_ok_and(|after| after == before);
    report(demo, &shown, unchanged)?;
    drop(lock);
    open(demo)?;
    if shown.tally.is_whole() && unchanged { Ok(ExitCode::SUCCESS) } else { Ok(ExitCode::FAILURE) }
}

/// A path as one would type it.
fn at_home(path: &Path) -> String {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
    let below = home.and_then(|home| path.strip_prefix(home).ok().map(Path::to_owned));
    below.map_or_else(|| path.display().to_string(), |below| format!("~/{}", below.display()))
}

fn say(demo: &Context, paint: Paint, line: &str) -> io::Result<()> {
    if demo.json() { Ok(()) } else { demo.screen.line(&demo.screen.paint(paint, line)) }
}

/// Begins a session and gives it its prompt. Its id.
fn begin(demo: &Context, role: &Role) -> Result<String, CommandError> {
    let Reached { mut client, .. } = demo.reach_one()?;
    let made = client.call::<methods::SessionCreate>(&SessionCreateParams {
        agent: "echo".to_owned(),
        command: Vec::new(),
        program: None,
        workspace: text(&place::repository(&demo.paths))?,
        name: Some(role.name.to_owned()),
        autonomy: Some(role.autonomy),
        raw_mode: None,
        model: None,
        lifetime: Some(Lifetime::Session),
        resume: None,
        env: Vec::new(),
        worktree: role.worktree,
        branch: None,
        key: None,
    })?;
    client.call::<methods::SessionPrompt>(&PromptParams {
        id: made.id.clone(),
        text: Some(role.prompt.to_owned()),
        blocks: Vec::new(),
        refuse_if_busy: false,
        key: None,
    })?;
    Ok(made.id)
}

fn text(path: &Path) -> Result<String, CommandError> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| CommandError::failed(format!("{}: the path is not UTF-8", path.display())))
}

/// How the sessions beside the writer stand once they have done their part: what they wait for, too.
fn settled(demo: &Context, ids: &[String]) -> Result<Vec<(SessionStatus, Vec<String>)>, CommandError> {
    let deadline = Instant::now() + READY_WITHIN;
    let Reached { mut client, .. } = demo.reach_one()?;
    let mut stands = Vec::new();
    for (id, role) in ids.iter().zip(&OTHERS) {
        let info = loop {
            let info: SessionInfo = client.call::<methods::SessionGet>(&SessionIdParams { id: id.clone() })?;
            if info.status == role.then && is_through(&info) {
                break info;
            }
            if Instant::now() > deadline {
                let stands = info.status.as_str();
                return Err(CommandError::failed(format!("{} is {stands}, not {}", role.name, role.then.as_str()))
                    .hint(format!("ostler watch {} --instance {DEMO_INSTANCE}", role.name)));
            }
            std::thread::sleep(POLL);
        };
        stands.push((info.status, info.approvals));
    }
    Ok(stands)
}

/// A turn that has not begun is idle, too, and a request that is on its way to the inbox is waited for.
fn is_through(info: &SessionInfo) -> bool {
    match info.status {
        SessionStatus::Waiting => !info.approvals.is_empty(),
        SessionStatus::Idle => info.usage.is_some(),
        _ => true,
    }
}

/// What came of killing the daemon.
struct Shown {
    tally: Tally,
    absence: Absence,
    agent: u32,
    same_agent: bool,
}

fn experiment(demo: &Context, writer: &str) -> Result<Shown, CommandError> {
    let width = terminal_width().unwrap_or(WIDTH).min(WIDTH);
    let said = tally::pieces(story::TEXT);
    let mut listener = Listener::new(demo, writer, width)?;
    listener.until(said.len() * 2 / 5)?;
    let (daemon, agent) = (listener.daemon, listener.agent()?);
    say(demo, Paint::Bad, &format!("kill -9 {daemon}, which is ostler itself"))?;
    let absence = listener.kill_daemon(agent)?;
    let seconds = absence.lasted.as_secs_f64();
    say(demo, Paint::Good, &format!("back after {seconds:.2} s as pid {}; nobody had to start it", absence.daemon))?;
    let same_agent = listener.agent().is_ok_and(|now| now == agent);
    // An agent that was lost as well is what is to be told, not hidden behind an error.
    if let Err(error) = listener.until(usize::MAX) {
        demo.screen.note(&format!("ostler: {}", error.message));
    }
    Ok(Shown { tally: Tally::of(&said, &listener.heard), absence, agent, same_agent })
}

fn report(demo: &Context, shown: &Shown, unchanged: bool) -> Result<(), CommandError> {
    let Shown { tally, absence, agent, same_agent } = shown;
    if demo.json() {
        demo.screen.value(&serde_json::json!({
            "words": tally.words, "lost": tally.lost, "doubled": tally.doubled,
            "sha256_written": tally.said, "sha256_received": tally.heard,
            "absent_seconds": absence.lasted.as_secs_f64(), "written_meanwhile": absence.written,
            "same_agent": same_agent, "others_unchanged": unchanged, "folder": demo.paths.state_dir(),
        }))?;
        return Ok(());
    }
    let paint = if tally.is_whole() { Paint::Good } else { Paint::Bad };
    say(demo, paint, &format!("\nLost: {} of {} words; doubled: {}", tally.lost, tally.words, tally.doubled))?;
    say(demo, Paint::Plain, &format!("  SHA-256 written {}, received {}", tally.said, tally.heard))?;
    let same = if *same_agent { "the same process" } else { "another process than before" };
    let meanwhile = match absence.written {
        Some(bytes) => format!("; it wrote {bytes} bytes meanwhile"),
        None => String::new(),
    };
    say(demo, Paint::Plain, &format!("  the agent is {same} (pid {agent}){meanwhile}"))?;
    let others = if unchanged { "are as they were" } else { "are not as they were" };
    say(demo, Paint::Plain, &format!("  the question, the change and the failure {others}"))?;
    next_steps(demo)
}

/// What to press next.
fn next_steps(demo: &Context) -> Result<(), CommandError> {
    say(demo, Paint::Plain, "\nNow look around in it:")?;
    for (command, about) in [
        ("ostler --instance demo", "y answers, d shows changes"),
        ("ostler watch demo-writes --instance demo", "what was said, from the beginning"),
        ("ostler demo --remove", "end it and delete everything"),
    ] {
        say(demo, Paint::Plain, &format!("  {command:<42}{about}"))?;
    }
    Ok(())
}

/// Opens the first of these, if somebody is there who wants that.
fn open(demo: &Context) -> Result<(), CommandError> {
    let stdin = io::stdin();
    if demo.json() || !stdin.is_terminal() || !io::stdout().is_terminal() {
        return Ok(());
    }
    // What was typed while the demo ran was not meant for this.
    let _ = rustix::termios::tcflush(&stdin, rustix::termios::QueueSelector::IFlush);
    say(demo, Paint::Head, "Enter opens the first of them, Ctrl-C leaves.")?;
    if stdin.read_line(&mut String::new())? == 0 {
        return Ok(());
    }
    // A program of its own: signals that mean the screen are not ours.
    Command::new("/proc/self/exe").args(["--instance", DEMO_INSTANCE]).status()?;
    say(demo, Paint::Plain, "The demo is still there; remove it with: ostler demo --remove")?;
    Ok(())
}
