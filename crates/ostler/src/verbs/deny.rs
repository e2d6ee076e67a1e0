//! `ostler deny`: says no to one request.

use std::process::ExitCode;

use clap::Args;
use ostler_api::{DecideParams, Verdict, methods};

use super::Context;
use super::approvals::{told, with_instance};
use super::recorded::recorded;
use crate::output::{CommandError, visible};

/// Deny a request
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ostler deny                       the only one that is waiting\n  ostler deny a7k2\n  ostler deny fix                   what session fix asks\n  ostler deny a7k2 --message 'use the staging host'"
)]
pub(crate) struct Deny {
    /// Id of the request, or the session that asks [default: the only one waiting]
    id: Option<String>,

    /// Tell the agent why; kept in the audit log
    #[arg(short, long, default_value = "", hide_default_value = true, value_name = "TEXT")]
    message: String,

    /// Also interrupt the agent that asked
    #[arg(long)]
    interrupt: bool,
}

impl Deny {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, CommandError> {
        let (mut reached, info) = context.meant_approval(self.id.as_deref(), "deny")?;
        if !self.id.as_ref().is_some_and(|id| info.id.starts_with(id.as_str())) {
            // Nobody named it, so it is said what was meant.
            context.screen.note(&visible(&format!("{}: {}", info.id, info.title)));
        }
        let params = DecideParams {
            id: info.id,
            hash: info.hash,
            verdict: Verdict::Deny,
            message: self.message,
            interrupt: self.interrupt,
            input: None,
            answers: None,
            relays: false,
            signed: None,
        };
        let info = recorded::<methods::ApprovalDecide>(&context.screen, &mut reached.client, &params)?;
        if context.json() {
            context.screen.value(&with_instance(&reached.found.name, &info))?;
        } else {
            context.screen.line(&format!("{}: {}", info.id, visible(&told(&info))))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
