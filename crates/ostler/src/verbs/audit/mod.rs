//! `ostler audit`: the record of everything that was asked, decided and done; read, followed and checked.

mod verify;
mod words;

use std::process::ExitCode;
use std::sync::mpsc::{Receiver, sync_channel};

use clap::Args;
use ostler_api::client::{Client, ClientError};
use ostler_api::{AuditEntry, AuditReadParams, FeedKind, Timestamp, methods};
use ostler_engine::Inbox;
use ostler_engine::approval::{Entry, StoreError};

use super::connect::Reached;
use super::{Context, follow_feed};
use crate::instances::{self, FoundInstance};
use crate::output::{CommandError, Screen, visible, visible_json};

use verify::LOG_FILE;

pub(super) use verify::{Checked, check_all};

/// Entries on their way to the screen; a reader that stops holds the threads, not the daemon.
const ON_THE_WAY: usize = 1024;

const HELP: &str = "\
Each entry carries the hash of the one before it, so no entry can be changed or \
removed unnoticed. --verify checks all of them and exits with 1 if one was. Keep \
the head it prints elsewhere: only that shows that the whole log was replaced.

Examples:
  ostler audit
  ostler audit --follow --json | jq 'select(.record.what == \"decided\")'
  ostler audit --verify";

/// Show or verify the log of requests and decisions
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Audit {
    /// Follow new entries
    #[arg(short, long)]
    follow: bool,

    /// Check that no entry was changed or removed
    #[arg(long, conflicts_with_all = ["follow", "after"])]
    verify: bool,

    /// Start after this entry
    #[arg(long, value_name = "SEQ")]
    after: Option<u64>,
}

impl Audit {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, CommandError> {
        if self.verify {
            return verify::run(context);
        }
        let ended = ended(context)?;
        // Without a log of one that has ended, there must be somebody to ask.
        let mut reached = match context.living()?.is_empty() && !ended.is_empty() && !self.follow {
            true => Vec::new(),
            false => context.reach_all()?,
        };
        let several = reached.len() + ended.len() > 1;
        if self.after.is_some() && several {
            return Err(CommandError::usage("--after works on one log, and there are several")
                .hint("choose one with --instance NAME"));
        }
        let after = self.after.unwrap_or(0);
        let mut entries = Vec::new();
        for found in ended {
            match read_file(&found, after) {
                Ok(read) => entries.extend(read.into_iter().map(|entry| (found.name.clone(), entry))),
                // One log that cannot be read does not hide the others.
                Err(error) => context.screen.note(&visible(&format!("ostler: {}: {error}", found.name))),
            }
        }
        let mut positions = Vec::new();
        for instance in &mut reached {
            let mut last = after;
            for entry in read(&mut instance.client, after)? {
                last = entry.seq;
                entries.push((instance.found.name.clone(), entry));
            }
            positions.push(last);
        }
        entries.sort_by_key(|(_, entry)| entry.time);
        for (instance, entry) in &entries {
            print(&context.screen, several.then_some(instance.as_str()), instance, entry)?;
        }
        if self.follow {
            for (instance, entry) in follow(reached, positions)? {
                print(&context.screen, several.then_some(instance.as_str()), &instance, &entry?)?;
            }
        } else if entries.is_empty() && !context.json() {
            context.screen.note("no requests yet");
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The instances that do not run and left a log.
fn ended(context: &Context) -> Result<Vec<FoundInstance>, CommandError> {
    let mut found = instances::find(&context.paths, context.instance.as_deref())?;
    found.retain(|found| !found.alive && found.dir.join(LOG_FILE).exists());
    Ok(found)
}

fn read_file(found: &FoundInstance, after: u64) -> Result<Vec<AuditEntry>, StoreError> {
    let entries = Inbox::audit_file(&found.dir.join(LOG_FILE), after, usize::MAX)?;
    let entry = |entry: Entry| AuditEntry {
        seq: entry.seq,
        time: Timestamp::from_millis(entry.at_ms),
        about: entry.about,
        record: ostler_story::json_of(entry.body),
    };
    Ok(entries.into_iter().map(entry).collect())
}

/// Everything after a position, page by page.
fn read(client: &mut Client, mut after: u64) -> Result<Vec<AuditEntry>, ClientError> {
    let mut all = Vec::new();
    loop {
        let page = client.call::<methods::AuditRead>(&AuditReadParams { after, limit: 0 })?.entries;
        let Some(last) = page.last() else { return Ok(all) };
        after = last.seq;
        all.extend(page);
    }
}

type News = (String, Result<AuditEntry, ClientError>);

/// What happens from now on, in every instance; one thread each.
fn follow(reached: Vec<Reached>, positions: Vec<u64>) -> Result<Receiver<News>, CommandError> {
    let (tell, news) = sync_channel(ON_THE_WAY);
    for (instance, after) in reached.into_iter().zip(positions) {
        let (tell, name, mut client) = (tell.clone(), instance.found.name, instance.client);
        std::thread::Builder::new().name(format!("audit {name}")).spawn(move || {
            let told = |entry| tell.send((name.clone(), Ok(entry))).is_ok();
            if let Err(error) = tell_all(&mut client, after, told) {
                // Nobody reads any more, or everybody hears why it ends.
                let _ = tell.send((name.clone(), Err(error)));
            }
        })?;
    }
    Ok(news)
}

/// Every entry after this one, as the feed tells of them, until nobody wants any more.
fn tell_all(client: &mut Client, mut after: u64, tell: impl Fn(AuditEntry) -> bool) -> Result<(), ClientError> {
    // A daemon that is gone closes the connection; one that is busy is waited for.
    client.answer_within(None)?;
    follow_feed::follow(client, FeedKind::AUDIT.to_vec())?;
    loop {
        for entry in read(client, after)? {
            after = entry.seq;
            if !tell(entry) {
                return Ok(());
            }
        }
        follow_feed::changes(client)?;
    }
}

fn print(screen: &Screen, column: Option<&str>, instance: &str, entry: &AuditEntry) -> Result<(), CommandError> {
    let AuditEntry { seq, time, about, record } = entry;
    if screen.json() {
        let line =
            serde_json::json!({"instance": instance, "seq": seq, "time": time, "about": about, "record": record});
        return Ok(screen.line(&visible_json(&line.to_string()))?);
    }
    let time = time.to_string();
    let time = time.get(..19).unwrap_or(&time).replace('T', " ");
    let (what, paint, text) = words::tell(record);
    let about = about.as_deref().unwrap_or("");
    let column = column.map_or(String::new(), |name| format!("{name:8}  "));
    let what = screen.paint(paint, &format!("{what:10}"));
    Ok(screen.line(&format!("{seq:>5}  {time}  {column}{:13}  {what}  {}", visible(about), visible(&text)))?)
}
