//! `ostler kill`: ends processes, or sends them any signal.

use std::process::ExitCode;

use clap::Args;
use ostler_api::client::{Client, ClientError, Incoming};
use ostler_api::{API_VERSION, HelloParams, KillParams, ProcessInfo, SignalParams, SignalScope, methods};

use super::Context;
use super::connect::Reached;
use crate::output::{Called, CommandError, nearest};

/// What escalation itself may take after the grace: SIGKILL, reaping, and 5 s for pipes that a grandchild holds.
const AFTER_GRACE: std::time::Duration = std::time::Duration::from_secs(15);

/// Linux signals by name; the numbers of x86-64 and arm64, where Rust's tier-one Linux runs.
const SIGNALS: &[(&str, i32)] = &[
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("ILL", 4),
    ("TRAP", 5),
    ("ABRT", 6),
    ("BUS", 7),
    ("FPE", 8),
    ("KILL", 9),
    ("USR1", 10),
    ("SEGV", 11),
    ("USR2", 12),
    ("PIPE", 13),
    ("ALRM", 14),
    ("TERM", 15),
    ("STKFLT", 16),
    ("CHLD", 17),
    ("CONT", 18),
    ("STOP", 19),
    ("TSTP", 20),
    ("TTIN", 21),
    ("TTOU", 22),
    ("URG", 23),
    ("XCPU", 24),
    ("XFSZ", 25),
    ("VTALRM", 26),
    ("PROF", 27),
    ("WINCH", 28),
    ("IO", 29),
    ("PWR", 30),
    ("SYS", 31),
];
/// The highest real-time signal.
const SIGNAL_MAX: i32 = 64;

/// End processes and all they started
#[derive(Debug, Args)]
#[command(
    after_help = "Ends each of them, even if one fails.\n\nExamples:\n  ostler kill build\n  ostler kill build web p3fk\n  ostler kill p3fk --wait\n  ostler kill p3fk --signal HUP    only send SIGHUP"
)]
pub(crate) struct Kill {
    /// Ids or names
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,

    /// Only send this signal
    #[arg(short, long, value_name = "SIGNAL", value_parser = parse_signal)]
    signal: Option<i32>,

    /// Wait until it has ended
    #[arg(short, long)]
    wait: bool,
}

impl Kill {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, CommandError> {
        // Found before any is touched: a slip in the second name is told before the first is gone.
        let found = self.ids.iter().map(|id| context.find_process(id)).collect::<Result<Vec<_>, _>>()?;
        let mut failed = None;
        for (reached, process) in found {
            if let Err(error) = self.kill(context, reached, &process) {
                // The last one is told by whoever called.
                if let Some(before) = failed.replace(error) {
                    before.report(context.json());
                }
            }
        }
        failed.map_or(Ok(ExitCode::SUCCESS), Err)
    }

    fn kill(&self, context: &Context, mut reached: Reached, process: &ProcessInfo) -> Result<(), CommandError> {
        let (id, name) = (process.id.clone(), process.called());
        if process.exit.is_some() {
            let (state, _) = super::ps::state(process);
            return self.done(
                context,
                process,
                &format!("already ended: {state}"),
                serde_json::json!({"died": true, "already_exited": true}),
            );
        }
        if let Some(signal) = self.signal {
            let params = SignalParams { id: id.clone(), signal, scope: Some(SignalScope::Group), key: None };
            reached.client.call::<methods::ProcessSignal>(&params)?;
            if !self.wait {
                let name = signal_name(signal);
                return self.done(context, process, &format!("{name} sent"), serde_json::json!({"sent": name}));
            }
            let exit = super::stream::wait_exit(&mut reached.client, &id)?;
            return self.done(context, process, "ended", serde_json::json!({"died": true, "exit": exit}));
        }
        let grace = context.settings().process.kill_grace;
        let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        let params = KillParams { id: id.clone(), signal: None, grace_ms: Some(grace_ms), key: None };
        reached.client.answer_within(Some(grace.saturating_add(AFTER_GRACE)))?;
        if !self.wait {
            begin(&mut reached.client, &params)?;
            return self.done(context, process, "ending", serde_json::json!({"sent": "SIGTERM"}));
        }
        let killed = reached.client.call::<methods::ProcessKill>(&params)?;
        if !killed.died {
            return Err(CommandError::failed(format!("{name} did not end"))
                .hint("it may wait for a disk or the network; see `ostler ps`"));
        }
        let how = if killed.escalated { "ended by SIGKILL" } else { "ended" };
        let unknown = killed.exit.as_ref().is_some_and(|exit| exit.time.is_none());
        self.done(context, process, how, serde_json::to_value(killed).unwrap_or_default())?;
        if unknown {
            context.screen.note("ostler: how it ended is not recorded: the disk does not take it");
            context.screen.note(&format!("  delete it and its output: ostler forget {name}"));
        }
        Ok(())
    }

    fn done(
        &self,
        context: &Context,
        process: &ProcessInfo,
        text: &str,
        mut value: serde_json::Value,
    ) -> Result<(), CommandError> {
        if context.json() {
            if let Some(object) = value.as_object_mut() {
                object.insert("id".into(), process.id.as_str().into());
            }
            context.screen.value(&value)?;
        } else {
            context.screen.line(&format!("{} {text}", process.called()))?;
        }
        Ok(())
    }
}

/// Makes sure that a kill was taken, and not refused, before the connection goes. Its answer comes with the exit, for which
/// who does not wait does not wait; a refusal comes before the answer to what is asked next.
fn begin(client: &mut Client, params: &KillParams) -> Result<(), CommandError> {
    let kill = client.send::<methods::ProcessKill>(params)?;
    let next = client.send::<methods::InstanceHello>(&HelloParams { client: "kill".into(), version: API_VERSION })?;
    loop {
        client.fill()?;
        while let Some(incoming) = client.take()? {
            let Incoming::Reply { id, result } = incoming else { continue };
            match result {
                Err(error) if id == kill => return Err(ClientError::Rpc(error).into()),
                _ if id == next => return Ok(()),
                _ => {}
            }
        }
    }
}

/// `SIGTERM` for 15; a number for what has no name.
pub(crate) fn signal_name(signal: i32) -> String {
    match SIGNALS.iter().find(|(_, number)| *number == signal) {
        Some((name, _)) => format!("SIG{name}"),
        None => format!("signal {signal}"),
    }
}

fn parse_signal(text: &str) -> Result<i32, String> {
    if let Ok(number) = text.parse::<i32>() {
        return if (1..=SIGNAL_MAX).contains(&number) {
            Ok(number)
        } else {
            Err(format!("signals are 1 to {SIGNAL_MAX}"))
        };
    }
    let upper = text.to_ascii_uppercase();
    let bare = upper.strip_prefix("SIG").unwrap_or(&upper);
    match SIGNALS.iter().find(|(name, _)| *name == bare) {
        Some((_, number)) => Ok(*number),
        None => Err(match nearest(bare, SIGNALS.iter().map(|(name, _)| *name)) {
            Some(near) => format!("no such signal; did you mean {near}?"),
            None => "no such signal; list them: kill -l".to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_many_spellings() {
        for text in ["15", "TERM", "term", "SIGTERM", "sigterm"] {
            assert_eq!(parse_signal(text), Ok(15));
        }
        assert!(parse_signal("TREM").unwrap_err().contains("TERM"));
        assert!(parse_signal("0").is_err() && parse_signal("65").is_err() && parse_signal("").is_err());
        assert_eq!(signal_name(9), "SIGKILL");
        assert_eq!(signal_name(40), "signal 40");
    }
}
