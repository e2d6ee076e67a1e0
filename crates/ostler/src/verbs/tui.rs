//! `ostler tui`: the agent's own screen on a session's conversation, hosted like any terminal program.

use std::process::ExitCode;

use clap::Args;
use ostler_api::client::{ANSWER_TIMEOUT, ClientError};
use ostler_api::{ErrorKind, ProcessInfo, ScreenParams, SessionInfo, WinSize, methods};

use super::Context;
use super::attach::{hold, takes_keyboard};
use super::connect::Reached;
use super::stream::{Format, Input, Mode, Sink, View, size};
use crate::output::{Called, CommandError};

/// A terminal that nobody looks at yet; the first attach sets the true size.
const UNSEEN: WinSize = WinSize { rows: 24, cols: 80 };
/// Longer than the session's own agent may take to leave.
const OPENED_WITHIN: std::time::Duration = std::time::Duration::from_secs(60);
/// What a program needs to know of the terminal that it is shown on.
const PASSED_ON: &[&str] = &["COLORTERM", "LANG", "LC_ALL", "LC_CTYPE", "NO_COLOR", "TZ"];

/// A terminal that can draw; whoever asks from one that can not attaches from another.
const ABLE: &str = "xterm-256color";

/// Open the agent's own screen on a session's conversation
#[derive(Debug, Args)]
#[command(after_help = "\
Works with claude, codex and opencode. Leave it with Ctrl-] and go back any time. While it is open, `ostler send` to this session is refused; when you quit it there, the session continues.

Examples:
  ostler tui s3fk
  ostler tui s3fk --interrupt     interrupt the agent first")]
pub(crate) struct Tui {
    /// Id or name of a session
    session: String,

    /// Interrupt the agent first, and drop queued prompts
    #[arg(long)]
    interrupt: bool,

    /// Run in the background and print the id
    #[arg(short, long)]
    detach: bool,
}

impl Tui {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, CommandError> {
        let (mut reached, info) = context.find_session(&self.session)?;
        let process = self.open(&mut reached, &info)?;
        if self.detach {
            match context.json() {
                true => context.screen.value(&super::ps::with_instance(&reached.found.name, &process))?,
                false => context.screen.line(&process.id)?,
            }
            return Ok(ExitCode::SUCCESS);
        }
        let raw = takes_keyboard(&process);
        let view = View {
            from: raw.then_some(1).filter(|_| process.last_seq == 0),
            tail: Some(context.settings().attach.tail),
            keyboard: raw.then_some((context.settings().attach.detach_key, Mode::Raw)),
            repaint: raw && process.last_seq > 0,
            draws: true,
            attached: true,
            sized: raw,
            ..View::default()
        };
        let format = if context.json() { Format::Json } else { Format::Raw };
        let code = hold(context, reached, &process, view, Sink::new(format, false), Input::shared(true)?)?;
        let open = context.find_session(&info.id).is_ok_and(|(_, info)| info.screen.is_some());
        let name = info.called();
        context.screen.note(&match open {
            true => format!("ostler: {name} stays on that screen until you quit it there"),
            false => format!("ostler: continue with: ostler send {name} '...'"),
        });
        Ok(code)
    }

    fn open(&self, reached: &mut Reached, info: &SessionInfo) -> Result<ProcessInfo, CommandError> {
        let able = |value: &String| !matches!(value.as_str(), "" | "dumb");
        let term = std::env::var("TERM").ok().filter(able).unwrap_or_else(|| ABLE.to_owned());
        let env = PASSED_ON.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)));
        let env = env.chain([("TERM".to_owned(), term)]);
        let params = ScreenParams {
            id: info.id.clone(),
            size: size().unwrap_or(UNSEEN),
            env: env.collect(),
            interrupt: self.interrupt,
        };
        reached.client.answer_within(Some(OPENED_WITHIN))?;
        let opened = reached.client.call::<methods::SessionScreen>(&params);
        reached.client.answer_within(Some(ANSWER_TIMEOUT))?;
        opened.map_err(|error| match error {
            ClientError::Rpc(refused) if refused.kind() == ErrorKind::UnknownMethod => {
                CommandError::failed("the running ostler is an older version").hint("ostler restart")
            }
            error => error.into(),
        })
    }
}
