//! `ostler approvals`: what waits for a person, across all instances of the user, as a part of Now or as a list.
//! It shows whatever a daemon says waits; whether a decision counts is the daemon's to say.

mod list;
mod questions;
mod relay;
mod told;
mod tty;
mod unlock;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Args;
use ostler_api::client::ClientError;
use ostler_api::{ApprovalIdParams, ApprovalInfo, ApprovalListParams, ErrorKind, methods};

use super::connect::Reached;
use super::{Context, now};
use crate::output::{Called, CommandError, Kind, has_cursor, visible};

pub(super) use list::with_instance;
pub(super) use questions::{Answering, Step, from_words, in_words, questions};
pub(super) use relay::{begun, follow, has_terminal};
pub(super) use told::told;
pub(super) use tty::{Raw, Tty};

/// What to say where there is no request.
pub(super) const NOTHING: &str = "nothing is waiting for you";

/// What to say where nobody can decide.
pub(super) const LOCKED: &str =
    "locked: the process that started the agents was killed. Prove that it is you: ostler approvals --unlock";

const HELP: &str = "\
Keys: y approve, s approve for this session, a approve for 30 days, n deny, m deny with a message, i deny and interrupt \
the agent, space and b page down and up, j and k next and previous request, q quit. Answer a question with 1 to 9, or type \
an answer with t. Keys only count once you have seen the whole request. No other program can open the terminal meanwhile; \
if ostler was killed there (kill -9), any ostler command in it, such as `ostler ps`, unlocks it.

Examples:
  ostler approvals
  ostler approvals --list --all
  ostler approvals --list --json | jq '.[] | select(.privileged) | .title'";

/// Decide what is waiting for you (full screen)
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Approvals {
    /// List what is waiting
    #[arg(short, long)]
    list: bool,

    /// Include recent ones that are settled
    #[arg(short, long, requires = "list")]
    all: bool,

    /// Prove with your password that it is you, where ostler asks for that
    #[arg(long, conflicts_with = "list")]
    unlock: bool,
}

impl Approvals {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, CommandError> {
        if self.unlock {
            return unlock::run(context);
        }
        match (self.list, context.json()) {
            (false, true) => Err(CommandError::usage("the full screen has no JSON output").hint("add --list")),
            (false, false) if is_plain_terminal() => list::run(context, false, true),
            (false, false) => now::needs_you(context),
            (true, _) => list::run(context, self.all, false),
        }
    }
}

/// Somebody sits there, at a terminal that nothing can be drawn on.
fn is_plain_terminal() -> bool {
    !has_cursor() && std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

impl Context {
    /// The request that is meant, by its id or by the session that asks; the only one that is waiting, if none is named.
    pub(super) fn meant_approval(&self, id: Option<&str>, verb: &str) -> Result<(Reached, ApprovalInfo), CommandError> {
        let mut session = None;
        if let Some(id) = id {
            match self.find_approval(id) {
                Err(error) if error.kind == Kind::NotFound => {
                    session = Some(self.find_session(id).map_err(|_| error)?.1);
                }
                found => return found,
            }
        }
        let mut waiting = Vec::new();
        let mut holder = None;
        for mut reached in self.reach_all_deciding()? {
            let mut list = reached.client.call::<methods::ApprovalList>(&ApprovalListParams { all: false })?.approvals;
            list.retain(|info| session.as_ref().is_none_or(|session| session.approvals.contains(&info.id)));
            if !list.is_empty() {
                waiting.extend(list);
                holder = Some(reached);
            }
        }
        match (waiting.as_slice(), holder) {
            ([only], Some(mut reached)) => {
                let info = reached.client.call::<methods::ApprovalGet>(&ApprovalIdParams { id: only.id.clone() })?;
                Ok((reached, info))
            }
            ([first, ..], _) => {
                // On stderr: what is printed is the answer to something else.
                let lines: Vec<String> =
                    waiting.iter().map(|info| visible(&format!("  {}  {}", info.id, info.title))).collect();
                let message = format!("{} requests are waiting; which one?\n{}", waiting.len(), lines.join("\n"));
                Err(CommandError::usage(message)
                    .hint(format!("use: ostler {verb} {}; or see them all: ostler approvals", first.id)))
            }
            ([], _) => {
                let what =
                    session.map_or_else(|| NOTHING.to_owned(), |session| format!("{} asks nothing", session.called()));
                Err(CommandError::new(Kind::NotFound, what).hint("recent ones: ostler approvals --list --all"))
            }
        }
    }

    /// The request that `id` means, in whichever instance it waits.
    pub(super) fn find_approval(&self, id: &str) -> Result<(Reached, ApprovalInfo), CommandError> {
        let mut matches = Vec::new();
        for mut reached in self.reach_all_deciding()? {
            match reached.client.call::<methods::ApprovalGet>(&ApprovalIdParams { id: id.to_owned() }) {
                Ok(info) => matches.push((reached, info)),
                Err(ClientError::Rpc(error)) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
        if matches.len() > 1 {
            let ids: Vec<&str> = matches.iter().map(|(_, info)| info.id.as_str()).collect();
            return Err(
                CommandError::usage(format!("`{id}` matches several: {}", ids.join(", "))).hint("use more of the id")
            );
        }
        matches.pop().ok_or_else(|| {
            CommandError::new(Kind::NotFound, format!("no request `{id}`"))
                .hint("list them: ostler approvals --list --all")
        })
    }
}
