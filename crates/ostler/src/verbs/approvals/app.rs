//! The loop of the full-screen inbox: news from the daemons, keys from the person's terminal, one picture of both.

use std::collections::HashSet;
use std::fs::File;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use ostler_api::{ApprovalIdParams, ApprovalInfo, ApprovalState, DecideParams, ShownParams, Verdict, methods};
use ostler_hooks::fault;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;

use super::draw::{Page, draw};
use super::feed::{Feed, News};
use super::keys::Keys;
use super::relay::{follow, has_terminal};
use super::state::{Act, Standing, State, Which};
use super::told::told;
use super::tty::{Raw, Tty};
use crate::output::{CommandError, Kind};
use crate::verbs::Context;
use crate::verbs::connect::Reached;

/// How soon news and the passing of time are seen.
const TICK: Duration = Duration::from_millis(50);

type Screen = Terminal<CrosstermBackend<File>>;

struct App<'a> {
    context: &'a Context,
    tty: Tty,
    state: State,
    page: Page,
    shown: HashSet<Which>,
}

/// Runs until the person leaves.
pub(super) fn run(context: &Context) -> Result<ExitCode, CommandError> {
    let refused = |why: String| CommandError::new(Kind::Refused, why).hint("`ostler approvals --list` works anywhere");
    ostler_engine::access::own_place().map_err(|why| refused(why.to_string()))?;
    let tty = Tty::open().map_err(|error| refused(format!("/dev/tty: {error}")))?;
    if context.living()?.is_empty() {
        return Err(context.nobody());
    }
    let now = Instant::now();
    App { context, tty, state: State::new(now), page: Page::default(), shown: HashSet::new() }.run()
}

impl App<'_> {
    fn run(mut self) -> Result<ExitCode, CommandError> {
        let mut feed = Feed::new();
        let mut keys = Keys::default();
        let (mut raw, mut screen) = self.enter()?;
        let mut buffer = [0; 256];
        loop {
            self.listen(&mut feed);
            self.picture(&mut screen)?;
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
                match self.state.press(key, Instant::now()) {
                    None => {}
                    Some(Act::Quit) => return Ok(ExitCode::SUCCESS),
                    Some(Act::Decide { which, hash, verdict, message, interrupt, answers }) => {
                        let id = which.id.clone();
                        let params =
                            DecideParams { id, hash, verdict, message, interrupt, input: None, answers, relays: true };
                        if let Some((reached, info)) = self.decide(&which, &params) {
                            drop((screen, raw));
                            self.follow(&which, reached, &info);
                            (raw, screen) = self.enter()?;
                        }
                        // What was typed meanwhile was not meant for what is shown now.
                        self.tty.forget_typed()?;
                        break;
                    }
                }
            }
        }
    }

    fn enter(&self) -> Result<(Raw, Screen), CommandError> {
        let raw = self.tty.full_screen()?;
        let screen = Terminal::new(CrosstermBackend::new(self.tty.file().try_clone()?))?;
        Ok((raw, screen))
    }

    fn listen(&mut self, feed: &mut Feed) {
        if let Some(living) = feed.scan(self.context) {
            let gone = |which: &Which| !living.contains(&which.instance);
            let ended = self.open().into_iter().filter(gone).collect::<Vec<_>>();
            for which in ended {
                self.state.over(&which, format!("instance {} has ended", which.instance));
            }
        }
        for news in feed.take() {
            match news {
                News::Away { instance, why } => self.state.away(&instance, &why),
                News::Pending { instance, list } => {
                    let waits: HashSet<String> = list.iter().map(|info| info.id.clone()).collect();
                    self.state.update(&instance, list, Instant::now());
                    let settled = |which: &Which| which.instance == instance && !waits.contains(&which.id);
                    for which in self.open().into_iter().filter(settled).collect::<Vec<_>>() {
                        let how = self.look(&which).map_or_else(|error| error.message, |info| told(&info));
                        self.state.over(&which, how);
                    }
                }
            }
        }
    }

    fn open(&self) -> Vec<Which> {
        let open = self.state.entries.iter().filter(|entry| !matches!(entry.standing, Standing::Over(_)));
        open.map(|entry| entry.which.clone()).collect()
    }

    fn picture(&mut self, screen: &mut Screen) -> Result<(), CommandError> {
        let mut sight = None;
        let (state, page) = (&self.state, &mut self.page);
        screen.draw(|frame| sight = draw(frame, state, page, Instant::now()))?;
        break_down();
        let first = sight.as_ref().map(|sight| sight.which.clone()).filter(|which| !self.shown.contains(which));
        if let Some(which) = first {
            let params = ShownParams { id: which.id.clone(), surface: "inbox".into() };
            let told = self.reach(&which).and_then(|mut reached| {
                reached.client.call::<methods::ApprovalShown>(&params).map_err(CommandError::from)
            });
            if let Err(error) = told {
                self.state.notice = error.message;
            }
            self.shown.insert(which);
        }
        // What was typed while the daemon was told is read next, and comes too soon.
        self.state.drawn(sight, Instant::now());
        Ok(())
    }

    fn reach(&self, which: &Which) -> Result<Reached, CommandError> {
        let found = crate::instances::find(&self.context.paths, Some(&which.instance))?;
        let found = found.into_iter().find(|found| found.alive).ok_or_else(|| self.context.nobody())?;
        self.context.reach(found)
    }

    fn look(&self, which: &Which) -> Result<ApprovalInfo, CommandError> {
        let mut reached = self.reach(which)?;
        Ok(reached.client.call::<methods::ApprovalGet>(&ApprovalIdParams { id: which.id.clone() })?)
    }

    /// Decides; gives back what must be followed on a terminal.
    fn decide(&mut self, which: &Which, params: &DecideParams) -> Option<(Reached, ApprovalInfo)> {
        let decided = self.reach(which).and_then(|mut reached| {
            let info = reached.client.call::<methods::ApprovalDecide>(params)?;
            Ok((reached, info))
        });
        match decided {
            Ok((_, info)) if params.verdict == Verdict::Deny => self.state.over(which, told(&info)),
            Ok((reached, info)) if has_terminal(&info) => return Some((reached, info)),
            Ok((reached, info)) => {
                self.follow(which, reached, &info);
                self.state.notice = match params.verdict {
                    Verdict::Session => "the same again in this session is not asked about (`ostler rules`)".into(),
                    Verdict::Always => "the same again is not asked about (`ostler rules`)".into(),
                    _ => std::mem::take(&mut self.state.notice),
                };
            }
            Err(error) => match self.look(which) {
                Ok(info) if info.state != ApprovalState::Pending => self.state.over(which, error.message),
                _ => self.state.notice = error.message,
            },
        }
        None
    }

    fn follow(&mut self, which: &Which, mut reached: Reached, info: &ApprovalInfo) {
        let head = format!("\r\napproved {}: its terminal follows; Ctrl-] comes back here\r\n", info.id);
        if has_terminal(info) {
            // If even that cannot be written, the next picture fails and says so.
            let _ = self.tty.write(head.as_bytes());
        }
        let how = match follow(&mut reached.client, &self.tty, info) {
            Ok(info) => told(&info),
            Err(error) => format!("approved; {}", error.message),
        };
        self.state.over(which, how);
    }
}

/// Breaks down where a test wants to see what is left of the terminal; a shipped binary has nothing of it.
#[expect(clippy::panic, reason = "what a test asked for")]
fn break_down() {
    if fault!("inbox.drawn").is_some() {
        panic!("a test wants it so");
    }
}
