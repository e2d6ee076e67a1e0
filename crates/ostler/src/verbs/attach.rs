//! `ostler attach`: back to a process, its terminal or its pipes.

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use clap::Args;
use ostler_api::{Exit, ProcessInfo};

use super::Context;
use super::connect::{Named, Reached};
use super::session::talk;
use super::stream::{Format, Input, Link, Mode, Outcome, ProcessWatch, Sink, View};
use crate::output::escape::Policy;
use crate::output::{Called, CommandError, Kind};

/// What a shell reports of a program that Ctrl-C ended.
pub(super) const INTERRUPTED: i32 = 130;

/// Go back to a process or a session, and type to it
#[derive(Debug, Args)]
#[command(after_help = "\
A process started with -t gets every key; Ctrl-] leaves it (setting attach.detach_key). Ctrl-C leaves any other \
(exit code 130). It keeps running when you leave, close the window or lose the connection. When it ends, attach exits \
with its exit code.

In a session each line is a prompt. Approve with y, deny with n, or with m and a message. Ctrl-C interrupts the agent, \
Ctrl-] or Ctrl-D leaves.

With several people attached, the smallest terminal sets the size.

Examples:
  ostler attach claude
  ostler attach p3fk --from 1         from its first output
  echo yes | ostler attach build")]
pub(crate) struct Attach {
    /// Id or name of a process or a session
    id: String,

    /// Start at this number instead of the last screenful
    #[arg(long, value_name = "SEQ")]
    from: Option<u64>,

    /// Watch only: send no input, do not resize it
    #[arg(long)]
    read_only: bool,

    /// Do not resize it to this terminal
    #[arg(long)]
    no_resize: bool,
}

impl Attach {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, CommandError> {
        let config = context.settings();
        let (reached, process) = match context.find_named(&self.id)? {
            Named::Process(reached, process) => (reached, process),
            Named::Session(_, info) if self.read_only => {
                let name = info.called();
                return Err(CommandError::usage(format!("{name} is a session; --read-only is for processes"))
                    .hint(format!("only watch it: ostler watch {name}")));
            }
            Named::Session(reached, info) => return talk(context, reached, &info, self.from),
        };
        let raw = takes_keyboard(&process);
        let quiet = self.read_only && process.exit.is_none() && at_terminal();
        let keyboard = if raw { Some(Mode::Raw) } else { quiet.then_some(Mode::Quiet) };
        let view = View {
            from: self.from,
            tail: self.from.is_none().then_some(config.attach.tail),
            keyboard: keyboard.map(|mode| (config.attach.detach_key, mode)),
            repaint: raw && self.from.is_none(),
            draws: process.tty,
            attached: true,
            sized: raw && !self.read_only && !self.no_resize,
            ..View::default()
        };
        let format = match (context.json(), process.tty) {
            (true, _) => Format::Json,
            // A terminal program's own terminal is where its sequences belong, for as long as it is there to undo them.
            (_, true) if process.exit.is_none() => Format::Raw,
            (_, true) => Format::Safe(Policy::Drop),
            (_, false) => Format::Safe(Policy::Show),
        };
        let input = if self.read_only { Input::looking() } else { Input::shared(process.tty)? };
        hold(context, reached, &process, view, Sink::new(format, false), input)
    }
}

/// Whether this terminal's keys go to the process one by one.
pub(super) fn takes_keyboard(process: &ProcessInfo) -> bool {
    process.tty && process.exit.is_none() && at_terminal()
}

fn at_terminal() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
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
    let name = process.called();
    let banner = keyboard.map(|(key, _)| format!("ostler: attached to {name}; leave it with {key}"));
    let watch = ProcessWatch::new(Link::new(context, reached), process, view, sink, input)?;
    let outcome = watch.saying(banner).run().inspect_err(|error| {
        // Who pipes it into `head` may think that it has ended with that, as it does without ostler.
        let runs = || context.find_process(&process.id).is_ok_and(|(_, process)| process.exit.is_none());
        if error.kind == Kind::Unread && runs() {
            context.screen.note(&format!("ostler: left {name} running; to end it: ostler kill {name}"));
        }
    })?;
    let back = |next: u64| match keyboard {
        Some((_, Mode::Raw)) => format!("\nostler: left {name} running; go back to it: ostler attach {name}"),
        _ => format!("\nostler: left {name} running; go back to it: ostler attach {name} --from {next}"),
    };
    match outcome {
        Outcome::Exited(exit) => Ok(exit_code(context, &name, &exit)),
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
pub(super) fn exit_code(context: &Context, name: &str, exit: &Exit) -> ExitCode {
    match exit.shell_code() {
        Some(number) => code(number),
        None => {
            context.screen.note(&format!("ostler: {name} ended; exit code unknown"));
            ExitCode::FAILURE
        }
    }
}

pub(super) fn code(number: i32) -> ExitCode {
    // The kernel passes on eight bits of an exit code.
    ExitCode::from(u8::try_from(number & 0xff).unwrap_or(1))
}
