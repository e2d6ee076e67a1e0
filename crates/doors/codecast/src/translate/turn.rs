//! How a turn ends, told once and in the right words: by the agent, by somebody who stopped it, or by its process.

use ostler_engine::session::Agent;

use crate::event::Event;

/// Of what a process wrote to stderr, its last line is shown, up to here.
const STDERR_MAX: usize = 300;
/// Words that are remembered to be recognised.
const WORDS_MAX: usize = 4096;
const TERM: i32 = 15;
/// What a shell, and many a program, makes of TERM.
const TERM_CODE: i32 = 128 + TERM;

/// The turn that runs, or the last one.
#[derive(Debug, Default)]
pub(super) struct Turn {
    running: bool,
    /// The agent has the prompt.
    pub(super) sent: bool,
    /// Somebody wants it to stop.
    pub(super) stopping: bool,
    /// How it ended was told.
    pub(super) over: bool,
    /// Claude's own call with its questions was shown.
    pub(super) asks: bool,
    /// Why it failed was told.
    failed: bool,
    /// The last words of the agent, if they were few.
    words: String,
}

impl Turn {
    pub(super) fn begun() -> Self {
        Self { running: true, ..Self::default() }
    }

    pub(super) fn spoke(&mut self, words: &str) {
        self.words.clear();
        self.words.push_str(if words.len() <= WORDS_MAX { words.trim() } else { "" });
    }

    /// It failed for this reason, unless the agent has just said the same.
    pub(super) fn failed(&mut self, why: String) -> Option<Event> {
        self.over = true;
        let known = std::mem::replace(&mut self.failed, true) || (!self.words.is_empty() && self.words == why.trim());
        (!known).then_some(Event::Error { message: why })
    }

    pub(super) fn failed_somehow(&mut self) -> Option<Event> {
        let known = std::mem::replace(&mut self.failed, true);
        (!known).then(|| Event::error("the turn failed"))
    }

    pub(super) fn interrupted(&mut self) -> Option<Event> {
        (!std::mem::replace(&mut self.over, true)).then_some(Event::Interrupted)
    }

    /// Its process is over.
    pub(super) fn exited(
        &mut self,
        agent: &Agent,
        code: Option<i32>,
        signal: Option<i32>,
        stderr: &str,
    ) -> Option<Event> {
        // A process that never took the prompt is explained by the engine.
        if !(self.running && self.sent) {
            return None;
        }
        self.running = false;
        let stopped = self.stopping || signal == Some(TERM) || code == Some(TERM_CODE);
        match (code, signal) {
            _ if stopped => self.interrupted(),
            // Ended by the daemon because it did not leave, or without a word.
            (None, _) if self.over => None,
            (Some(0), _) | (None, None) => self.interrupted(),
            _ => {
                self.over = true;
                Some(Event::error(abnormal(agent, code, signal, stderr)))
            }
        }
    }
}

/// In the words that clients know.
fn abnormal(agent: &Agent, code: Option<i32>, signal: Option<i32>, stderr: &str) -> String {
    let or_null = |number: Option<i32>| number.map_or("null".to_owned(), |number| number.to_string());
    let mut name = agent.name().to_owned();
    if let Some(first) = name.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    let said = stderr.lines().map(str::trim).rfind(|line| !line.is_empty());
    let said = said.map_or(String::new(), |said| format!(": {}", said.chars().take(STDERR_MAX).collect::<String>()));
    format!("{name} process exited abnormally (code={}, signal={}){said}", or_null(code), or_null(signal))
}
