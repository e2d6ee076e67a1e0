//! `ostler events`: everything that happens in every instance, in one order each, from any position.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use clap::Args;
use ostler_api::client::{Client, ClientError};
use ostler_api::{
    FeedChange, FeedFollowParams, FeedKind, FeedMissing, FeedReadParams, FileBecame, FilePath, Missing, Notification,
    WorkspaceWatchParams, methods,
};

use super::Context;
use super::connect::Reached;
use crate::instances;
use crate::output::{CommandError, Screen, visible};
use crate::paths::{DEFAULT_INSTANCE, Paths};

/// Changes on their way to the screen; a reader that stops holds the threads, not the daemon.
const ON_THE_WAY: usize = 1024;
/// A restart takes a moment; beyond this somebody meant it.
const COME_BACK_WITHIN: Duration = Duration::from_secs(20);
const RETRY: Duration = Duration::from_millis(50);

const HELP: &str = "\
Each line begins with its position: --after continues behind it, also after a restart or a crash. What is older than \
30 days, or than the last 64 MiB, is not kept; if something is missing, that is said. The events refer to sessions, \
processes and requests; read those with `ostler watch`, `ostler logs` and `ostler audit`.

Kinds: session.made, session.changed, session.prompted, session.turn_began, session.turn_ended, session.asked, \
session.answered, session.closed, session.said, session.forgotten, process.started, process.ended, process.forgotten, \
approval.asked, approval.shown, approval.decided, approval.withdrawn, approval.expired, approval.done, device.paired, device.revoked, workspace.file_changed, \
workspace.diff_changed, workspace.git_changed, workspace.git_done, workspace.watch_changed, notice.told, audit.noted. \
session.said (everything an agent says) is shown only if asked for.

Examples:
  ostler events --follow
  ostler events --follow --kind session.asked --kind session.turn_ended
  ostler events --follow --workspace .
  ostler events --kind process --json | jq -r .process
  ostler events --session fix --after 812.3";

/// Show what happens: sessions, processes and requests
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Events {
    /// Follow new events
    #[arg(short, long)]
    follow: bool,

    /// Start after this position; with --follow and without it, only new events
    #[arg(long, value_name = "POSITION")]
    after: Option<String>,

    /// Only this kind, or all that begin with this word
    #[arg(long = "kind", value_name = "KIND", value_parser = parse_kind)]
    kinds: Vec<Kinds>,

    /// Only what is about this session
    #[arg(long, value_name = "ID")]
    session: Option<String>,

    /// Only what is in this folder; with --follow, also its files and git as they change
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    workspace: Option<PathBuf>,
}

/// The kinds that a word means.
#[derive(Debug, Clone)]
struct Kinds(Vec<FeedKind>);

fn parse_kind(text: &str) -> Result<Kinds, String> {
    let means = |kind: &FeedKind| {
        let word = kind.as_str();
        word == text || word.split_once('.').is_some_and(|(first, _)| first == text)
    };
    match FeedKind::ALL.iter().copied().filter(means).collect::<Vec<_>>() {
        none if none.is_empty() => {
            Err("expected a kind like session.turn_ended, or session, process, approval, device, workspace, audit"
                .into())
        }
        kinds => Ok(Kinds(kinds)),
    }
}

/// What is asked of every instance.
#[derive(Clone)]
struct Wanted {
    after: Option<String>,
    kinds: Vec<FeedKind>,
    session: Option<String>,
    workspace: Option<FilePath>,
}

enum News {
    Change(Box<FeedChange>),
    Gap(FeedMissing),
    Ended(ClientError),
}

impl Events {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, CommandError> {
        let (reached, session) = match &self.session {
            Some(text) => {
                let (reached, info) = context.find_session(text)?;
                (vec![reached], Some(info.id))
            }
            None => (context.reach_all()?, None),
        };
        if self.after.is_some() && reached.len() > 1 {
            return Err(CommandError::usage("--after works on one instance, and there are several")
                .hint("choose one with --instance NAME"));
        }
        let kinds = match self.kinds.is_empty() {
            true => FeedKind::ALL.iter().copied().filter(|kind| *kind != FeedKind::SessionSaid).collect(),
            false => self.kinds.into_iter().flat_map(|Kinds(kinds)| kinds).collect(),
        };
        let folder = |path: PathBuf| match path.canonicalize() {
            Ok(path) => Ok(FilePath(path)),
            Err(error) => Err(CommandError::usage(format!("--workspace {}: {error}", path.display()))),
        };
        let workspace = self.workspace.map(folder).transpose()?;
        let wanted = Wanted { after: self.after, kinds, session, workspace };
        let teller = Teller { screen: &context.screen, several: reached.len() > 1 };
        if self.follow {
            return follow(context, reached, &wanted, &teller);
        }
        let mut all = Vec::new();
        for mut instance in reached {
            let name = instance.found.name;
            for news in read(&mut instance.client, &wanted)? {
                match news {
                    News::Change(change) => all.push((name.clone(), change)),
                    News::Gap(gap) => teller.gap(&name, &gap)?,
                    News::Ended(error) => return Err(error.into()),
                }
            }
        }
        // Each instance has its own order, in which time does not go back.
        all.sort_by_key(|(_, change)| change.time);
        if all.is_empty() && !context.json() {
            context.screen.note("no events");
        }
        for (name, change) in &all {
            teller.change(name, change)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Everything after a position, page by page.
fn read(client: &mut Client, wanted: &Wanted) -> Result<Vec<News>, ClientError> {
    let (mut all, mut after) = (Vec::new(), wanted.after.clone());
    loop {
        let Wanted { kinds, session, workspace, .. } = wanted.clone();
        let params = FeedReadParams { after, limit: 0, kinds, session, workspace };
        let page = client.call::<methods::FeedRead>(&params)?;
        all.extend(page.gap.map(News::Gap));
        all.extend(page.changes.into_iter().map(Box::new).map(News::Change));
        if !page.more {
            return Ok(all);
        }
        after = Some(page.position);
    }
}

fn follow(
    context: &Context,
    reached: Vec<Reached>,
    wanted: &Wanted,
    teller: &Teller<'_>,
) -> Result<ExitCode, CommandError> {
    let (tell, news): (SyncSender<(String, News)>, Receiver<_>) = sync_channel(ON_THE_WAY);
    for instance in reached {
        let name = instance.found.name.clone();
        let (tell, paths) = (tell.clone(), context.paths.clone());
        let mut following = Following { name, paths, wanted: wanted.clone(), tell };
        std::thread::Builder::new()
            .name(format!("events {}", following.name))
            .spawn(move || following.run(instance.client))?;
    }
    drop(tell);
    for (name, news) in news {
        match news {
            News::Change(change) => teller.change(&name, &change)?,
            News::Gap(gap) => teller.gap(&name, &gap)?,
            News::Ended(error) => return Err(error.into()),
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// One instance, through restarts and crashes of its daemon.
struct Following {
    name: String,
    paths: Paths,
    wanted: Wanted,
    tell: SyncSender<(String, News)>,
}

/// Nobody reads any more.
struct Unread;

impl Following {
    fn run(&mut self, client: Client) {
        let mut client = Some(client);
        loop {
            let error = match client.take() {
                Some(client) => match self.listen(client) {
                    Ok(Unread) => return,
                    Err(error) => error,
                },
                None => ClientError::Closed,
            };
            client = match error {
                ClientError::Closed | ClientError::Io(_) | ClientError::Connect { .. } => self.again(),
                _ => None,
            };
            if client.is_none() {
                // Everybody hears why it ends.
                let _ = self.tell(News::Ended(error));
                return;
            }
        }
    }

    fn tell(&self, news: News) -> Result<(), Unread> {
        self.tell.send((self.name.clone(), news)).map_err(|_| Unread)
    }

    /// One connection, until it breaks.
    fn listen(&mut self, mut client: Client) -> Result<Unread, ClientError> {
        let Wanted { after, kinds, session, workspace } = self.wanted.clone();
        // One instance is enough to see what changes in a folder; it lasts as long as this connection.
        let watched = workspace.clone().filter(|_| self.name == DEFAULT_INSTANCE);
        let begun = client.call::<methods::FeedFollow>(&FeedFollowParams { after, kinds, session, workspace })?;
        if let Some(root) = watched {
            client.call::<methods::WorkspaceWatch>(&WorkspaceWatchParams { root: Some(root), session: None })?;
        }
        if let Some(gap) = begun.gap
            && self.tell(News::Gap(gap)).is_err()
        {
            return Ok(Unread);
        }
        // From here on nothing is missed, also before the first event.
        self.wanted.after.get_or_insert(begun.position);
        client.answer_within(None)?;
        loop {
            let told = match client.next_notification()? {
                Notification::FeedChanges(told) => told.changes.into_iter().try_for_each(|change| {
                    self.wanted.after = Some(change.position.clone());
                    self.tell(News::Change(Box::new(change)))
                }),
                Notification::FeedGap(gap) => {
                    self.tell(News::Gap(FeedMissing { oldest: gap.oldest, missing: gap.missing }))
                }
                Notification::FeedLost(lost) => return Err(ClientError::Garbled(lost.message)),
                _ => Ok(()),
            };
            if told.is_err() {
                return Ok(Unread);
            }
        }
    }

    /// The next daemon, if one comes.
    fn again(&self) -> Option<Client> {
        let until = Instant::now() + COME_BACK_WITHIN;
        while Instant::now() < until {
            let found = instances::find(&self.paths, Some(&self.name)).unwrap_or_default();
            if let Some(found) = found.into_iter().find(|found| found.alive) {
                let recorded = found.record.as_ref().and_then(|record| record.native.clone());
                let socket = recorded.unwrap_or_else(|| self.paths.native_socket(&self.name));
                let client =
                    Client::connect(&socket).and_then(|mut client| client.hello("ostler events").map(|_| client));
                if let Ok(client) = client {
                    return Some(client);
                }
            }
            std::thread::sleep(RETRY);
        }
        None
    }
}

struct Teller<'a> {
    screen: &'a Screen,
    several: bool,
}

impl Teller<'_> {
    fn change(&self, instance: &str, change: &FeedChange) -> Result<(), CommandError> {
        if self.screen.json() {
            let mut line = serde_json::json!({ "instance": instance });
            if let (Some(line), Ok(serde_json::Value::Object(told))) =
                (line.as_object_mut(), serde_json::to_value(change))
            {
                line.extend(told);
            }
            return Ok(self.screen.line(&line.to_string())?);
        }
        let time = change.time.to_string();
        let time = time.get(..19).unwrap_or(&time).replace('T', " ");
        // The rest is for programs: it tells whether it is still the same feed.
        let position = change.position.split('-').next().unwrap_or_default();
        let column = if self.several { format!("{instance:8}  ") } else { String::new() };
        let kind = change.kind.as_str();
        Ok(self.screen.line(&format!("{position:>9}  {time}  {column}{kind:19}  {}", visible(&about(change))))?)
    }

    fn gap(&self, instance: &str, gap: &FeedMissing) -> Result<(), CommandError> {
        if self.screen.json() {
            let line = serde_json::json!({ "instance": instance, "gap": gap.oldest, "missing": gap.missing });
            return Ok(self.screen.line(&line.to_string())?);
        }
        let why = match gap.missing {
            Missing::LetGo => "older events are no longer kept",
            Missing::Damaged => "some events are damaged",
            Missing::Lost => "this position is not one of this feed, or was lost with the machine",
        };
        self.screen.note(&format!("ostler: {why}; starting with the oldest there is ({})", gap.oldest));
        Ok(())
    }
}

/// What an event is about.
fn about(change: &FeedChange) -> String {
    let subject = change.approval.as_ref().or(change.device.as_ref()).or(change.process.as_ref());
    let mut text = match (subject, &change.session) {
        (Some(subject), Some(session)) => format!("{subject}  of {session}"),
        (Some(one), None) | (None, Some(one)) => one.clone(),
        (None, None) => String::new(),
    };
    let records = change.record.filter(|_| change.approval.is_none() && change.device.is_none()).map(|record| {
        match change.last {
            Some(last) => format!("records {record}-{last}"),
            None => format!("record {record}"),
        }
    });
    let file = change.file.as_ref().map(|file| {
        let became = file.change.map_or("differs", FileBecame::as_str);
        let from = file.old_path.as_ref().map_or(String::new(), |old| format!(" from {old}"));
        format!("{} {became}{from}", file.path)
    });
    let git = change
        .git
        .as_ref()
        .map(|git| format!("{}: {} staged, {} not, {} untracked", git.branch, git.staged, git.unstaged, git.untracked));
    let watch = change.watch.as_ref().map(|watch| {
        let why = watch.why.as_ref().map_or(String::new(), |why| format!(": {why}"));
        format!("{}{why}", if watch.on { "watched" } else { "not watched" })
    });
    let look_again = change.kind == FeedKind::FileChanged && change.file.is_none();
    let look_again = look_again.then(|| "much changed: look again".to_owned());
    let workspace = change.workspace.as_ref().map(FilePath::to_string);
    let parts = records.iter().chain(&file).chain(&git).chain(&watch).chain(&look_again).chain(&workspace);
    for part in parts {
        text.push_str("  ");
        text.push_str(part);
    }
    text.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_named_by_its_word_or_by_the_first_of_it() {
        let count = |text| parse_kind(text).map(|Kinds(kinds)| kinds.len()).ok();
        assert_eq!((count("session.said"), count("process"), count("audit")), (Some(1), Some(3), Some(1)));
        assert_eq!((count("sess"), count("session.")), (None, None));
        for kind in FeedKind::ALL {
            assert!(HELP.contains(kind.as_str()), "the help does not name {}", kind.as_str());
        }
    }
}
