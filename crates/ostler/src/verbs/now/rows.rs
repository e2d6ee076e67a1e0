//! What is on the list: requests and everything that is hosted, in three sections. Pure: from what daemons say to rows.

use ostler_api::{
    AgentInfo, ApprovalInfo, ClaimState, Hosted, HostedSection, HostedState, LimitState, SessionStatus, Timestamp,
};
use ostler_story::ToolContent;

use super::inbox::{Entry, Inbox, Standing, Which};
use crate::output::Paint;
use crate::verbs::listing::Listed;
use crate::verbs::ps;
use crate::verbs::session::status_word;

/// Ids are cut to this where there is no name: enough to know one by.
const ID_SHOWN: usize = 7;

/// Where a row stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Section {
    NeedsYou,
    /// It runs, or takes words.
    Open,
    Ended,
}

impl Section {
    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::NeedsYou => "NEEDS YOU",
            Self::Open => "OPEN",
            Self::Ended => "ENDED",
        }
    }
}

/// What a row is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum About {
    /// A request in the inbox.
    Request(Which),
    /// A session, a terminal program or a command.
    Hosted(Which),
}

impl About {
    fn instance(&self) -> &str {
        let (Self::Request(which) | Self::Hosted(which)) = self;
        &which.instance
    }
}

/// One row, in words that are not safe to show yet.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    pub(super) about: About,
    pub(super) section: Section,
    pub(super) name: String,
    /// The agent or the program.
    pub(super) what: String,
    pub(super) state: String,
    pub(super) paint: Paint,
    /// Behind its instance, where there are several.
    pub(super) folder: String,
    pub(super) line: String,
    pub(super) since: Timestamp,
    pub(super) cost: Option<f64>,
}

impl Row {
    /// Whether a filter lets it through: every word of it is somewhere in the row.
    fn fits(&self, filter: &str) -> bool {
        let text = [&self.name, &self.what, &self.state, &self.folder, &self.line].map(|part| part.to_lowercase());
        filter.to_lowercase().split_whitespace().all(|word| text.iter().any(|part| part.contains(word)))
    }
}

/// The list: requests and then whatever else needs somebody, who waits longest first, then what runs in the order it began, then what ended, newest first.
pub(super) fn rows(inbox: &Inbox, listed: &[Listed], filter: &str) -> Vec<Row> {
    let mut rows: Vec<Row> = inbox.entries.iter().map(|entry| request(entry, listed)).collect();
    let asks = |one: &Listed| {
        let waits = one.hosted.session.as_ref().map(|session| session.approvals.as_slice()).unwrap_or_default();
        inbox.entries.iter().any(|entry| entry.which.instance == one.instance && waits.contains(&entry.which.id))
    };
    // An agent's process is seen as its session, and a session that asks as its request. What carried out a request and is
    // over was told to whoever asked.
    let is_seen = |one: &Listed| match &one.hosted.part_of {
        Some(whole) => one.hosted.ended.is_none() && !listed.iter().any(|other| other.hosted.id == *whole),
        None => !asks(one),
    };
    rows.extend(listed.iter().filter(|one| is_seen(one)).map(hosted));
    let first = rows.first().map(|row| row.about.instance().to_owned());
    if rows.iter().any(|row| Some(row.about.instance()) != first.as_deref()) {
        rows.iter_mut().for_each(|row| row.folder = format!("{}:{}", row.about.instance(), row.folder));
    }
    rows.retain(|row| row.fits(filter));
    let is_hosted = |row: &Row| matches!(row.about, About::Hosted(_));
    rows.sort_by(|one, two| {
        let order = one.section.cmp(&two.section).then_with(|| is_hosted(one).cmp(&is_hosted(two)));
        order.then_with(|| match one.section {
            Section::Ended => two.since.cmp(&one.since),
            Section::NeedsYou | Section::Open => one.since.cmp(&two.since),
        })
    });
    rows
}

fn request(entry: &Entry, listed: &[Listed]) -> Row {
    let (info, which) = (&entry.info, &entry.which);
    let session = asking(info, &which.instance, listed);
    let content = serde_json::from_str::<ToolContent>(&info.content).ok();
    let claimed = || match info.asker.claimed_session.as_str() {
        "" => info.asker.door.clone(),
        claimed => claimed.to_owned(),
    };
    let (state, paint) = match (&entry.standing, info.privileged) {
        (Standing::Over(_), _) => ("settled", Paint::Dim),
        (Standing::Away(_), _) => ("away", Paint::Dim),
        (Standing::Open, true) => ("asks root", Paint::Bad),
        (Standing::Open, false) => ("asks", Paint::Warn),
    };
    Row {
        about: About::Request(which.clone()),
        section: Section::NeedsYou,
        name: session.map_or_else(claimed, |session| name(&session.hosted)),
        what: content.map_or_else(|| info.asker.door.clone(), |content| content.agent),
        state: state.to_owned(),
        paint,
        folder: folder(info.workspace.as_deref().or_else(|| session?.hosted.workspace.as_deref())),
        line: info.title.clone(),
        since: info.asked,
        cost: session.and_then(|session| session.hosted.cost_usd),
    }
}

/// The session or the process that asks, if it is hosted here.
pub(super) fn asking<'a>(info: &ApprovalInfo, instance: &str, listed: &'a [Listed]) -> Option<&'a Listed> {
    let host = info.asker.verified_session.as_deref()?;
    let found = listed.iter().find(|one| one.instance == instance && one.hosted.id == host)?;
    let session = found.hosted.part_of.as_deref();
    let whole = session.and_then(|id| listed.iter().find(|one| one.instance == instance && one.hosted.id == id));
    Some(whole.unwrap_or(found))
}

fn hosted(one: &Listed) -> Row {
    let hosted = &one.hosted;
    let (state, paint) = state(hosted);
    let section = match hosted.section {
        HostedSection::NeedsYou => Section::NeedsYou,
        HostedSection::Running => Section::Open,
        HostedSection::Ended => Section::Ended,
    };
    let over = matches!(hosted.state, HostedState::Ended | HostedState::Failed);
    Row {
        about: About::Hosted(Which { instance: one.instance.clone(), id: hosted.id.clone() }),
        section,
        name: name(hosted),
        what: what(hosted),
        state,
        paint,
        folder: folder(hosted.workspace.as_deref()),
        line: line(hosted),
        since: if over { hosted.active } else { hosted.began },
        cost: hosted.cost_usd,
    }
}

pub(super) fn name(hosted: &Hosted) -> String {
    let id = || hosted.id.get(..ID_SHOWN).unwrap_or(&hosted.id).to_owned();
    hosted.name.clone().unwrap_or_else(id)
}

/// The agent or the program, without the folder that it lies in.
pub(super) fn what(hosted: &Hosted) -> String {
    let whole = hosted.process.as_ref().map_or(hosted.what.as_str(), |process| process.program.as_str());
    let file = whole.rsplit('/').next().unwrap_or(whole);
    let own = hosted.process.is_some() && file == "exe" && whole.starts_with("/proc/");
    if own { "ostler".to_owned() } else { file.to_owned() }
}

/// A word for how it is doing. What a terminal program says of itself has a question mark: nobody has checked it.
pub(super) fn state(hosted: &Hosted) -> (String, Paint) {
    if let Some(session) = &hosted.session {
        let needs = hosted.section == HostedSection::NeedsYou;
        let spent = needs && session.limits.iter().any(|limit| limit.state == LimitState::Reached);
        let (word, paint) = match session.status {
            SessionStatus::Idle | SessionStatus::Running if spent => ("limit reached", Paint::Warn),
            SessionStatus::Failed if session.logged_out => ("logged out", Paint::Warn),
            SessionStatus::Interrupted if session.rebooted => ("rebooted", Paint::Warn),
            _ => status_word(session),
        };
        return (word.to_owned(), paint);
    }
    let Some(process) = &hosted.process else { return (hosted.state.as_str().to_owned(), Paint::Plain) };
    match process.claim.as_ref().filter(|_| process.exit.is_none()).map(|claim| claim.state) {
        None if process.rebooted => ("rebooted".to_owned(), Paint::Warn),
        None => ps::state(process),
        Some(ClaimState::Idle) => ("idle?".to_owned(), Paint::Plain),
        Some(ClaimState::Working) => ("working?".to_owned(), Paint::Good),
        Some(ClaimState::NeedsYou) => ("needs you?".to_owned(), Paint::Warn),
        Some(ClaimState::Done) => ("done?".to_owned(), Paint::Plain),
        Some(ClaimState::Failed) => ("failed?".to_owned(), Paint::Bad),
    }
}

/// The last thing it said, or else what it is.
fn line(hosted: &Hosted) -> String {
    let failed = hosted.session.as_ref().filter(|session| session.status == SessionStatus::Failed);
    let claim = hosted.process.as_ref().and_then(|process| process.claim.as_ref());
    let claimed = claim.and_then(|claim| claim.message.clone().or_else(|| claim.title.clone()));
    let unready = hosted.session.as_ref().and_then(|session| session.failed_setup.as_ref());
    let unready = unready.map(|process| format!("its setup failed: ostler logs {process}"));
    let why = failed.and_then(|session| session.why.clone()).or(unready);
    let last = why.or(claimed).or_else(|| hosted.lines.last().map(|line| line.trim_start().to_owned()));
    last.or_else(|| hosted.process.as_ref().map(ps::command)).unwrap_or_default()
}

fn folder(path: Option<&str>) -> String {
    let path = path.unwrap_or_default().trim_end_matches('/');
    path.rsplit('/').next().unwrap_or_default().to_owned()
}

/// Names of agents to choose from, and of those that cannot be chosen because they are not installed. The built-in one comes
/// last, because it only says back.
pub(super) fn agents(found: &[AgentInfo]) -> (Vec<String>, Vec<String>) {
    let (here, absent): (Vec<_>, Vec<_>) = found.iter().partition(|agent| agent.program.is_some());
    let name = |agent: &AgentInfo| agent.name.clone();
    let here = here.into_iter().map(name).chain(["echo".to_owned()]);
    (here.collect(), absent.into_iter().map(name).collect())
}

#[cfg(test)]
#[path = "rows_tests.rs"]
pub(super) mod tests;
