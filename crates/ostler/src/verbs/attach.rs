//! `ostler attach`: back to a process, its terminal or its pipes.

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use clap::Args;
use ostler_api::{Exit, ProcessInfo};

use super::Context;
use super::connect::Reached;
use super::stream::{Format, Input, Link, Outcome, Session, Sink, View};
use crate::output::escape::Policy;
use crate::output::{CommandError, visible};

/// What a shell reports of a program that Ctrl-C ended.
pub(super) const INTERRUPTED: i32 = 130;

/// Come back to a process: see its output, type to it
#[derive(Debug, Args)]
#[command(after_help = "\
A process started with -t gets every key; leave it with Ctrl-] (setting attach.detach_key). \
Leave any other with Ctrl-C (exit code 130). Leaving never touches the process. When it ends, attach ends with its code.

Examples:
  ostler attach claude
  ostler attach p3fk --from 1         everything it ever wrote, then what comes
  echo yes | ostler attach build")]
pub(crate) struct Attach {
    /// Id, unique prefix of it, or name
    id: String,

    /// Begin with this frame instead of the last screenful
    #[arg(long, value_name = "SEQ")]
    from: Option<u64>,

    /// Only watch: pass no input on
    #[arg(long)]
    read_only: bool,
}

impl Attach {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, CommandError> {
        let config = context.settings();
        let (reached, process) = context.find_process(&self.id)?;
        let keyboard = takes_keyboard(&process) && !self.read_only;
        let view = View {
            from: self.from,
            tail: self.from.is_none().then_some(config.attach.tail),
            until_now: false,
            keyboard: keyboard.then_some(config.attach.detach_key),
            repaint: keyboard && self.from.is_none(),
        };
        let format = match (context.json(), process.tty) {
            (true, _) => Format::Json,
            // A terminal program's own terminal is where its sequences belong, for as long as it is there to undo them.
            (_, true) if process.exit.is_none() => Format::Raw,
            (_, true) => Format::Safe(Policy::Drop),
            (_, false) => Format::Safe(Policy::Show),
        };
        let input = if self.read_only { Input::none() } else { Input::shared() };
        hold(context, reached, &process, view, Sink::new(format, false), input)
    }
}

/// Whether this terminal's keys go to the process one by one.
pub(super) fn takes_keyboard(process: &ProcessInfo) -> bool {
    process.tty && process.exit.is_none() && io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// Watches to the end and says, to whoever left, how to come back.
pub(super) fn hold(
    context: &Context,
    reached: Reached,
    process: &ProcessInfo,
    view: View,
    sink: Sink,
    input: Input,
) -> Result<ExitCode, CommandError> {
    let keyboard = view.keyboard;
    if let Some(key) = keyboard {
        let name = process.name.as_deref().unwrap_or(&process.id);
        context.screen.note(&format!("ostler: attached to {}; leave it with {key}", visible(name)));
    }
    let id = &process.id;
    let outcome = Session::new(Link::new(context, reached), id, view, sink, input)?.run()?;
    let back = |next: u64| match keyboard {
        Some(_) => format!("ostler: left {id} running; come back with: ostler attach {id}"),
        None => format!("\nostler: left {id} running; come back with: ostler attach {id} --from {next}"),
    };
    match outcome {
        Outcome::Exited(exit) => Ok(exit_code(context, id, &exit)),
        Outcome::UpToNow => Ok(ExitCode::SUCCESS),
        Outcome::Left { next, interrupted } => {
            context.screen.note(&back(next));
            Ok(if interrupted { code(INTERRUPTED) } else { ExitCode::SUCCESS })
        }
        Outcome::Ended { next, signal } => {
            context.screen.note(&back(next));
            Ok(code(128 + signal))
        }
    }
}

/// The child's own code, as a shell would pass it on.
pub(super) fn exit_code(context: &Context, id: &str, exit: &Exit) -> ExitCode {
    match exit.shell_code() {
        Some(number) => code(number),
        None => {
            context.screen.note(&format!("ostler: {id} has ended; how, nobody was there to see"));
            ExitCode::FAILURE
        }
    }
}

pub(super) fn code(number: i32) -> ExitCode {
    // The kernel passes on eight bits of an exit code.
    ExitCode::from(u8::try_from(number & 0xff).unwrap_or(1))
}
