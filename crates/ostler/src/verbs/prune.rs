//! `ostler prune`: applies retention now, or says what it would take.

use std::process::ExitCode;

use clap::Args;
use ostler_api::{HostedListParams, PruneParams, methods};

use super::Context;
use crate::config::show_size;
use crate::output::{CommandError, visible};

/// Delete old output now
#[derive(Debug, Args)]
#[command(
    after_help = "How much is kept: journal.keep_for, journal.total_max and journal.count_max in `ostler config show`.\n\nExample:\n  ostler prune --dry-run"
)]
pub(crate) struct Prune {
    /// Show what would be removed
    #[arg(long)]
    dry_run: bool,
}

impl Prune {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, CommandError> {
        // What is gone has no name any more.
        let everything = HostedListParams { all: true, over_max: None, lines: 0, branches: false, id: None };
        let (listed, _) = context.hosted(&everything)?;
        let mut results = Vec::new();
        for mut reached in context.reach_all()? {
            // Deleting many large files takes as long as the disk needs.
            reached.client.answer_within(None)?;
            let result =
                reached.client.call::<methods::InstancePrune>(&PruneParams { dry_run: self.dry_run, key: None })?;
            results.push((reached.found.name, result));
        }
        if context.json() {
            let rows: Vec<_> = results
                .iter()
                .map(|(name, result)| serde_json::json!({"instance": name, "dry_run": self.dry_run, "removed": result.removed, "bytes": result.bytes}))
                .collect();
            context.screen.value(&rows)?;
            return Ok(ExitCode::SUCCESS);
        }
        let (would, freed) = if self.dry_run { ("would be ", "would free") } else { ("", "freed") };
        let removed: Vec<&String> = results.iter().flat_map(|(_, result)| &result.removed).collect();
        for id in &removed {
            let name = listed.iter().find(|one| one.hosted.id == **id).and_then(|one| one.name(&listed));
            let what = name.map_or_else(|| (*id).clone(), |name| format!("{} ({id})", visible(&name)));
            context.screen.line(&format!("{what} {would}removed"))?;
        }
        let bytes: u64 = results.iter().map(|(_, result)| result.bytes).sum();
        let kept: u64 = results.iter().map(|(_, result)| result.kept).sum();
        match removed.len() {
            0 => context.screen.line(&format!("nothing to delete; {} kept", processes(kept, "finished ")))?,
            count => {
                let count = processes(count as u64, "");
                context.screen.line(&format!("{count}, {freed} {}; {kept} kept", show_size(bytes)))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn processes(count: u64, which: &str) -> String {
    format!("{count} {which}{}", if count == 1 { "process" } else { "processes" })
}
