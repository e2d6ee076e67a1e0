//! How a turn ends, told once and in the right words: by the agent, by somebody who stopped it, or by its process.

use ostler_engine::session::Agent;

use crate::event::Event;

/// Of what a process wrote to stderr, its last line is shown, up to here.
const STDERR_MAX: usize = 300;
/// Words that are remembered to be recognised.
const WORDS_MAX: usize = 4096;
const TERM: i32 = 15;

/// The turn that runs, or the last one. Its end is told once, and nothing is told after it.
#[derive(Debug, Default)]
pub(super) struct Turn {
    running: bool,
    /// The agent has the prompt.
    pub(super) sent: bool,
    /// Somebody wants it to stop.
    pub(super) stopping: bool,
    /// How it ended was told.
    over: bool,
    /// Claude's own call with its questions was shown.
    pub(super) asks: bool,
    /// What went wrong, and will be told with the turn's end.
    pub(super) trouble: Option<String>,
    /// The last words of the agent, if they were few.
    words: String,
}

impl Turn {
    pub(super) fn begun() -> Self {
        Self { running: true, ..Self::default() }
    }

    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    pub(super) fn spoke(&mut self, words: &str) {
        self.words.clear();
        self.words.push_str(if words.len() <= WORDS_MAX { words.trim() } else { "" });
    }

    /// Whether the agent has just said this.
    pub(super) fn has_said(&self, words: &str) -> bool {
        !self.words.is_empty() && self.words == words.trim()
    }

    /// It ends with this event, if it has not ended yet.
    pub(super) fn end(&mut self, event: Event) -> Option<Event> {
        (!std::mem::replace(&mut self.over, true)).then_some(event)
    }

    /// Its process is over. Clients pass over `interrupted`, so that is told only to who asked for it: to anybody else half
    /// an answer must not look like a whole one.
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
        let name = capital(agent.name());
        let why = match (self.trouble.take(), code, signal) {
            _ if self.stopping => return self.end(Event::Interrupted),
            (Some(trouble), ..) => trouble,
            (None, Some(0), _) => format!("{name} ended without a result"),
            (None, None, None) => format!("{name} is gone: nobody saw how it ended"),
            (None, None, Some(TERM)) => {
                format!("{name} was ended from outside (signal {TERM}) before its answer was whole")
            }
            _ => abnormal(&name, code, signal, stderr),
        };
        self.end(Event::Error { message: why })
    }
}

/// In the words that clients know.
fn abnormal(name: &str, code: Option<i32>, signal: Option<i32>, stderr: &str) -> String {
    let or_null = |number: Option<i32>| number.map_or("null".to_owned(), |number| number.to_string());
    let said = stderr.lines().map(str::trim).rfind(|line| !line.is_empty());
    let said = said.map_or(String::new(), |said| format!(": {}", said.chars().take(STDERR_MAX).collect::<String>()));
    format!("{name} process exited abnormally (code={}, signal={}){said}", or_null(code), or_null(signal))
}

fn capital(name: &str) -> String {
    let mut name = name.to_owned();
    if let Some(first) = name.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    name
}
