//! The loop of Now: news from the daemons, keys from the person's terminal, one picture of both.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use ostler_api::{
    ApprovalIdParams, ApprovalInfo, ApprovalState, HostedListParams, HostedSection, PromptParams, Verdict, methods,
};
use ostler_hooks::fault;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;

use super::changes::Looking;
use super::draw::{Canvas, draw};
use super::errands::{Done, Errand, Errands, Outcome};
use super::feed::{Feed, News};
use super::frames::Frames;
use super::inbox::{Decide, Standing, Which};
use super::keys::Keys;
use super::outside;
use super::pager::Pager;
use super::rows::{self, agents};
use super::start::{Form, Start};
use super::state::{Act, State, View};
use crate::config::Config;
use crate::output::{Called, CommandError, Paint, visible};
use crate::request::Row;
use crate::verbs::Context;
use crate::verbs::agents_here;
use crate::verbs::approvals::{Raw, Tty, follow, told};
use crate::verbs::bells;
use crate::verbs::connect::Reached;
use crate::verbs::listing::hosted;
use crate::verbs::new::New;
use crate::verbs::recorded::BUSY;
use crate::verbs::stream::see_end;

/// How soon news and the passing of time are seen.
const TICK: Duration = Duration::from_millis(50);
/// An instance that has not come back by then has ended.
const GONE_AFTER: Duration = Duration::from_secs(10);

/// What there is to say while a record is busy.
const ON_ITS_WAY: &str = "your answer is on its way";

/// As many last lines as a daemon gives.
const LINES: u32 = 64;

type Screen = Terminal<CrosstermBackend<Frames<File>>>;

struct App<'a> {
    context: &'a Context,
    tty: Tty,
    state: State,
    canvas: Canvas,
    shown: HashSet<Which>,
    errands: Errands,
    /// When an instance was seen last.
    seen: HashMap<String, Instant>,
    looking: Option<Looking>,
}

/// What becomes of the screen after an act.
enum Next {
    Stays,
    /// Somebody else had the terminal.
    Anew,
    Leaves,
}

/// Runs until the person leaves.
pub(super) fn run(context: &Context, tty: Tty, notice: &str) -> Result<ExitCode, CommandError> {
    let mut state = State::new(Instant::now());
    notice.clone_into(&mut state.inbox.notice);
    let canvas = Canvas::new(context.screen.has_colour());
    let (shown, seen) = (HashSet::new(), HashMap::new());
    App { context, tty, state, canvas, shown, errands: Errands::new(), seen, looking: None }.run()
}

impl App<'_> {
    fn run(mut self) -> Result<ExitCode, CommandError> {
        let mut feed = Feed::new();
        let mut keys = Keys::default();
        let mut full = Some(self.enter()?);
        let mut buffer = [0; 256];
        loop {
            self.listen(&mut feed);
            self.settle(&mut full)?;
            let Some((_, screen)) = &mut full else { return Ok(ExitCode::SUCCESS) };
            self.picture(screen)?;
            let typed = self.tty.typed(TICK);
            if let Some(code) = Tty::ended() {
                return Ok(ExitCode::from(code));
            }
            let pressed = match typed? {
                true => {
                    let bytes = self.tty.read(&mut buffer)?;
                    if bytes.is_empty() {
                        return Ok(ExitCode::SUCCESS);
                    }
                    if Tty::is_stop(bytes) {
                        self.tty.stop()?;
                        screen.clear()?;
                        continue;
                    }
                    keys.feed(bytes)
                }
                false => keys.quiet().into_iter().collect(),
            };
            for key in pressed {
                let act = self.state.press(key, Instant::now());
                self.state.refresh();
                let Some(act) = act else { continue };
                let away = self.leaves_screen(&act);
                if away {
                    feed.look(false);
                    full = None;
                }
                let next = self.act(act, &mut full)?;
                if let Next::Leaves = next {
                    drop(full);
                    self.leave();
                    return Ok(ExitCode::SUCCESS);
                }
                if full.is_none() {
                    full = Some(self.enter()?);
                }
                if away {
                    feed.look(true);
                }
                feed.ask();
                if let Next::Anew = next {
                    // What was typed meanwhile was not meant for what is shown now.
                    self.tty.forget_typed()?;
                    break;
                }
            }
        }
    }

    fn enter(&self) -> Result<(Raw, Screen), CommandError> {
        let raw = self.tty.full_screen()?;
        let screen = Terminal::new(CrosstermBackend::new(Frames::new(self.tty.file().try_clone()?)))?;
        Ok((raw, screen))
    }

    fn leaves_screen(&self, act: &Act) -> bool {
        matches!(act, Act::Attach(_))
    }

    fn act(&mut self, act: Act, full: &mut Option<(Raw, Screen)>) -> Result<Next, CommandError> {
        match act {
            Act::Quit => return Ok(Next::Leaves),
            Act::Attach(which) => {
                if let Err(error) = outside::attach(&self.tty, &which) {
                    self.state.inbox.notice = error.message;
                }
                return Ok(Next::Anew);
            }
            Act::Decide(decided) => {
                self.decide(decided);
                self.settle(full)?;
                return Ok(Next::Anew);
            }
            Act::Changes { title, folder, began } => {
                self.looking = Looking::begin(title, folder, began);
                self.state.inbox.notice = "asking git …".into();
            }
            Act::Read(which) => match self.last_words(&which) {
                Ok(pager) => self.state.view = View::Page(pager),
                Err(error) => self.state.inbox.notice = error.message,
            },
            Act::Again(which) => {
                let chosen = self.state.hosted().map(|one| &one.hosted);
                let name = chosen.map_or_else(|| which.id.clone(), |hosted| hosted.called());
                let goes =
                    if chosen.is_some_and(|hosted| hosted.session.is_some()) { "continues" } else { "runs again" };
                self.state.inbox.notice = outside::again(&which).err().unwrap_or_else(|| format!("{name} {goes}"));
            }
            Act::Choose => self.state.view = View::Start(self.form()),
            Act::Start(start) => self.start(start),
            Act::Up => self.state.inbox.notice = outside::up(self.context),
        }
        Ok(Next::Stays)
    }

    /// What was said last by something that has ended, and how to read all of it.
    fn last_words(&self, which: &Which) -> Result<Pager, CommandError> {
        let mut reached = self.reach(which)?;
        let params =
            HostedListParams { all: true, over_max: None, lines: LINES, branches: false, id: Some(which.id.clone()) };
        let found = hosted(&mut reached.client, &params)?.pop();
        let gone = || CommandError::failed(format!("{} was deleted (retention)", which.id));
        let one = found.ok_or_else(gone)?;
        if one.process.is_some() && one.section == HostedSection::NeedsYou {
            see_end(&mut reached.client, &one.id)?;
        }
        let mut rows: Vec<Row> = one.lines.iter().map(|line| Row::ours(Paint::Plain, visible(line))).collect();
        let verb = if one.session.is_some() { "export" } else { "logs" };
        rows.push(Row::ours(Paint::Plain, ""));
        rows.push(Row::ours(Paint::Dim, format!("all of it: ostler {verb} {}", one.called())));
        Ok(Pager::new(&format!("{}: last output", rows::name(&one)), rows))
    }

    /// The agents that there are, as the daemon finds them, and this folder.
    fn form(&self) -> Form {
        let found = self.context.reach_one().ok().and_then(|mut reached| agents_here::of_daemon(&mut reached, false));
        let found = found.unwrap_or_else(|| {
            let (config, _) = Config::load_all(self.context.paths.config_file(), |name| std::env::var(name).ok());
            agents_here::of_this_terminal(&config, false)
        });
        let here = std::env::current_dir().map(|dir| dir.display().to_string()).unwrap_or_default();
        Form::new(agents(&found), here)
    }

    fn start(&mut self, start: Start) {
        let begun = self.begin(&start);
        match (begun, &mut self.state.view) {
            (Ok(id), view) => {
                *view = View::List;
                self.state.inbox.notice = format!("{} started: {id}", start.agent);
            }
            (Err(error), View::Start(form)) => {
                form.problem = std::iter::once(error.message).chain(error.hint).collect();
            }
            (Err(error), _) => self.state.inbox.notice = error.message,
        }
    }

    fn begin(&self, start: &Start) -> Result<String, CommandError> {
        let (mut reached, info) = New::plain(start.agent.clone(), start.folder.clone().into()).begin(self.context)?;
        if let Some(text) = start.prompt.clone() {
            let id = info.id.clone();
            let params = PromptParams { id, text: Some(text), blocks: Vec::new(), refuse_if_busy: false, key: None };
            reached.client.call::<methods::SessionPrompt>(&params)?;
        }
        Ok(info.called())
    }

    fn listen(&mut self, feed: &mut Feed) {
        let now = Instant::now();
        if let Some(living) = feed.scan(self.context) {
            self.state.live(&living, now);
            self.seen.extend(living.iter().map(|name| (name.clone(), now)));
            let gone: Vec<String> =
                self.seen.iter().filter(|(_, at)| at.elapsed() > GONE_AFTER).map(|(name, _)| name.clone()).collect();
            for instance in gone {
                self.seen.remove(&instance);
                self.state.gone(&instance);
            }
        }
        for news in feed.take() {
            match news {
                News::Away { instance, why } => self.state.inbox.away(&instance, &why),
                News::Notice(text) => {
                    // A terminal that cannot be written to is found out by the next picture.
                    let _ = self.tty.write(&bells::ring(&text));
                }
                News::Impostor { instance, why } => {
                    self.state.inbox.away(&instance, &why);
                    self.state.inbox.notice = why;
                }
                News::Hosted { instance, list, lines } => {
                    self.state.update(&instance, list);
                    if let Some(lines) = lines {
                        self.state.lines = Some(lines);
                    }
                }
                News::Pending { instance, list, suspended, locked } => {
                    self.state.suspended.insert(instance.clone(), (suspended, locked));
                    let waits: HashSet<String> = list.iter().map(|info| info.id.clone()).collect();
                    self.state.inbox.update(&instance, list, now);
                    let settled = |which: &Which| which.instance == instance && !waits.contains(&which.id);
                    for which in self.open().into_iter().filter(settled).collect::<Vec<_>>() {
                        let how = self.look(&which).map_or_else(|error| error.message, |info| told(&info));
                        self.state.inbox.over(&which, how);
                    }
                    feed.ask();
                }
            }
        }
        match self.looking.as_ref().map(Looking::take) {
            Some(Ok(Some(pager))) => {
                self.looking = None;
                self.state.inbox.notice.clear();
                if let View::List = self.state.view {
                    self.state.view = View::Page(pager);
                }
            }
            Some(Err(())) => self.looking = None,
            Some(Ok(None)) | None => {}
        }
        self.state.refresh();
        feed.focus(self.state.focus());
    }

    fn open(&self) -> Vec<Which> {
        let open = self.state.inbox.entries.iter().filter(|entry| !matches!(entry.standing, Standing::Over(_)));
        open.map(|entry| entry.which.clone()).collect()
    }

    fn picture(&mut self, screen: &mut Screen) -> Result<(), CommandError> {
        let mut sight = None;
        let down = self.state.is_down(Instant::now()).then(|| self.context.nobody());
        let (state, canvas) = (&mut self.state, &mut self.canvas);
        screen.draw(|frame| sight = draw(frame, state, canvas, down.as_ref(), Instant::now()))?;
        break_down();
        let first = sight.as_ref().map(|sight| sight.which.clone()).filter(|which| !self.shown.contains(which));
        if let Some(which) = first {
            let reached = self.reach(&which);
            let errand = Errand::Shown(which.clone());
            match reached.map(|reached| self.errands.begin(errand, reached, Instant::now())) {
                Ok(true) => drop(self.shown.insert(which)),
                // There is no room: the next picture tries again.
                Ok(false) => {}
                Err(error) => {
                    self.state.inbox.notice = error.message;
                    self.shown.insert(which);
                }
            }
        }
        // What was typed while the daemon was reached is read next, and comes too soon.
        self.state.inbox.drawn(sight, Instant::now());
        Ok(())
    }

    fn reach(&self, which: &Which) -> Result<Reached, CommandError> {
        let found = crate::instances::find(&self.context.paths, Some(&which.instance))?;
        let found = found.into_iter().find(|found| found.alive).ok_or_else(|| self.context.nobody())?;
        self.context.reach_deciding(found)
    }

    fn look(&self, which: &Which) -> Result<ApprovalInfo, CommandError> {
        let mut reached = self.reach(which)?;
        Ok(reached.client.call::<methods::ApprovalGet>(&ApprovalIdParams { id: which.id.clone() })?)
    }

    /// Hands a decision over.
    fn decide(&mut self, decided: Decide) {
        if self.errands.decides(&decided.which) {
            self.state.inbox.notice = ON_ITS_WAY.into();
            return;
        }
        let reached = self.reach(&decided.which).and_then(|reached| {
            self.tty.alone(&reached.client)?;
            Ok(reached)
        });
        match reached {
            Ok(reached) => {
                let which = decided.which.clone();
                match self.errands.begin(Errand::Decide(Box::new(decided)), reached, Instant::now()) {
                    true => self.errands.wait_for(&which),
                    false => self.state.inbox.notice = BUSY.into(),
                }
            }
            Err(error) => self.refused(&decided.which, error),
        }
    }

    /// What came of what was handed over.
    fn settle(&mut self, full: &mut Option<(Raw, Screen)>) -> Result<(), CommandError> {
        for done in self.errands.take() {
            match done {
                Done::Recorded(_) | Done::Shown(_, Ok(())) => {}
                Done::Shown(_, Err(error)) => self.state.inbox.notice = error.message,
                Done::Decided(decided, Err(error)) => self.refused(&decided.which, error),
                Done::Decided(decided, Ok(Outcome::Told(how))) => {
                    self.state.inbox.over(&decided.which, how);
                    let notice = match decided.verdict {
                        Verdict::Session => "not asked again in this session (see: ostler rules)",
                        Verdict::Always => "not asked again for 30 days (see: ostler rules)",
                        _ => continue,
                    };
                    self.state.inbox.notice = notice.into();
                }
                Done::Decided(decided, Ok(Outcome::Terminal(running))) => {
                    let (reached, info) = *running;
                    *full = None;
                    self.follow(&decided.which, reached, &info);
                    *full = Some(self.enter()?);
                    // What was typed meanwhile was not meant for what is shown now.
                    self.tty.forget_typed()?;
                }
            }
            self.state.refresh();
        }
        self.state.busy = self.errands.is_busy(Instant::now());
        let notice = &mut self.state.inbox.notice;
        match self.state.busy && self.errands.unrecorded().is_some() {
            true if notice.is_empty() => ON_ITS_WAY.clone_into(notice),
            false if notice == ON_ITS_WAY => notice.clear(),
            _ => {}
        }
        Ok(())
    }

    /// A decision does not count, and this is why.
    fn refused(&mut self, which: &Which, error: CommandError) {
        match self.look(which) {
            Ok(info) if info.state != ApprovalState::Pending => self.state.inbox.over(which, error.message),
            _ => self.state.inbox.notice = error.message,
        }
    }

    /// Says what nobody will see the end of.
    fn leave(&self) {
        if let Some(which) = self.errands.unrecorded() {
            let id = &which.id;
            let note =
                format!("ostler: your answer to {id} is on its way; what came of it: ostler approvals --list --all");
            self.context.screen.note(&note);
        }
    }

    /// The terminal of an approved command.
    fn follow(&mut self, which: &Which, mut reached: Reached, info: &ApprovalInfo) {
        let head = format!("\r\napproved {}: now in its terminal; Ctrl-] to come back\r\n", info.id);
        // If even that cannot be written, the next picture fails and says so.
        let _ = self.tty.write(head.as_bytes());
        let how = match follow(&mut reached.client, &self.tty, info) {
            Ok(info) => told(&info),
            Err(error) => format!("approved; {}", error.message),
        };
        self.state.inbox.over(which, how);
    }
}

/// Breaks down where a test wants to see what is left of the terminal; a shipped binary has nothing of it.
#[expect(clippy::panic, reason = "what a test asked for")]
fn break_down() {
    if fault!("inbox.drawn").is_some() {
        panic!("a test wants it so");
    }
}
