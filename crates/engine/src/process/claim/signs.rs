//! Weaker signs, where a program does not speak the status protocol: progress, notifications, a shell's marks, a spinner in
//! the title, the bell. Each says a little; none is believed at once where it would end something, and that nothing is said
//! any more is never taken for an end.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::status::{Doing, plain};

/// A spinner that stands still for so long says nothing any more.
const SPINS_MS: u64 = 30_000;
/// How long work must not be shown before it counts as over: programs change their titles between two spins.
const SETTLED_MS: u64 = 2_000;
/// A sign of work this soon after a notification was on its way already.
const TRAILING_MS: u64 = 1_000;
/// The bell means something only of a program that worked this recently: shells ring it at every wrong key.
const RINGS_AFTER_WORK_MS: u64 = 10_000;
/// Words in a notification that say that somebody is waited for.
const ASKING: &[&str] =
    &["approv", "permission", "confirm", "question", "waiting", "needs your", "input", "allow", "log in", "login"];

/// How it is known that something works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    /// It must be said again and again.
    Spinner,
    /// It holds until something else is said.
    Said,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Sign {
    Working {
        by: Work,
        progress: Option<u8>,
    },
    /// Work is no longer shown.
    Rests,
    Is {
        doing: Doing,
        message: Option<String>,
    },
}

#[derive(Debug, Default)]
pub(super) struct Signs {
    last: Option<(Sign, u64)>,
    /// When work was last shown, and how.
    worked: Option<(Work, u64)>,
}

/// What the signs come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) doing: Doing,
    pub(super) message: Option<String>,
    pub(super) progress: Option<u8>,
    pub(super) since_ms: u64,
}

impl Signs {
    pub(super) fn title(&mut self, title: &[u8], now_ms: u64) {
        let first = String::from_utf8_lossy(title.get(..title.len().min(4)).unwrap_or_default()).chars().next();
        match first.is_some_and(|c| ('\u{2801}'..='\u{28ff}').contains(&c)) {
            true => self.works(Work::Spinner, None, now_ms),
            false if matches!(self.worked, Some((Work::Spinner, _))) => self.rests(now_ms),
            false => {}
        }
    }

    /// `OSC 9`: progress, or a notification.
    pub(super) fn nine(&mut self, body: &[u8], now_ms: u64) {
        let text = String::from_utf8_lossy(body);
        let mut parts = text.split(';');
        match (parts.next(), parts.next()) {
            (Some("4"), Some(state)) => {
                let percent = parts.next().and_then(|percent| percent.parse().ok()).filter(|percent| *percent <= 100);
                match state {
                    "0" => self.rests(now_ms),
                    "1" => self.works(Work::Said, percent, now_ms),
                    "2" => self.is(Doing::Failed, None, now_ms),
                    "3" => self.works(Work::Said, None, now_ms),
                    "4" => self.is(Doing::NeedsYou(None), None, now_ms),
                    _ => {}
                }
            }
            // Other numbers are other commands.
            (Some(number), Some(_)) if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) => {}
            _ => self.notified(body, now_ms),
        }
    }

    /// `OSC 777`: `notify;TITLE;BODY`.
    pub(super) fn seven(&mut self, body: &[u8], now_ms: u64) {
        if let Some(text) = body.strip_prefix(b"notify;") {
            self.notified(text, now_ms);
        }
    }

    /// `OSC 99`: `KEY=VALUE:...;TEXT`.
    pub(super) fn kitty(&mut self, body: &[u8], now_ms: u64) {
        let mut halves = body.splitn(2, |byte| *byte == b';');
        let (Some(head), Some(text)) = (halves.next(), halves.next()) else { return };
        let head = String::from_utf8_lossy(head);
        let value = |key: &str| head.split(':').filter_map(|pair| pair.split_once('=')).find(|(k, _)| *k == key);
        if value("p").is_some_and(|(_, part)| part != "title" && part != "body") {
            return;
        }
        match value("e") {
            Some((_, "1")) => self.notified(&STANDARD.decode(text).unwrap_or_default(), now_ms),
            _ => self.notified(text, now_ms),
        }
    }

    /// `OSC 133`: a shell's marks. `true` where it asks for the next command.
    pub(super) fn mark(&mut self, body: &[u8], now_ms: u64) -> bool {
        let mut parts = body.split(|byte| *byte == b';');
        match (parts.next(), parts.next()) {
            (Some(b"A"), _) => {
                let reached = matches!(self.last, Some((Sign::Is { doing: Doing::Done | Doing::Failed, .. }, _)));
                if !reached {
                    self.is(Doing::Idle, None, now_ms);
                }
                return true;
            }
            (Some(b"C"), _) => self.works(Work::Said, None, now_ms),
            (Some(b"D"), Some(b"0") | None) => self.is(Doing::Done, None, now_ms),
            (Some(b"D"), Some(code)) => {
                let message = plain(code).map(|code| format!("exit code {code}"));
                self.is(Doing::Failed, message, now_ms);
            }
            _ => {}
        }
        false
    }

    pub(super) fn bell(&mut self, now_ms: u64) {
        if self.worked.is_some_and(|(_, at)| now_ms.saturating_sub(at) <= RINGS_AFTER_WORK_MS) {
            self.is(Doing::NeedsYou(None), None, now_ms);
        }
    }

    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }

    /// What they come to now.
    pub(super) fn seen(&self, now_ms: u64) -> Option<Seen> {
        let (sign, since_ms) = self.last.as_ref()?;
        let (doing, message, progress, since_ms) = match sign {
            Sign::Working { by: Work::Spinner, .. } if now_ms.saturating_sub(*since_ms) > SPINS_MS => return None,
            Sign::Working { progress, .. } => (Doing::Working, None, *progress, *since_ms),
            Sign::Rests if now_ms.saturating_sub(*since_ms) < SETTLED_MS => (Doing::Working, None, None, *since_ms),
            Sign::Rests => (Doing::Idle, None, None, *since_ms),
            Sign::Is { doing, message } => (*doing, message.clone(), None, *since_ms),
        };
        Some(Seen { doing, message, progress, since_ms })
    }

    fn works(&mut self, by: Work, progress: Option<u8>, now_ms: u64) {
        self.worked = Some((by, now_ms));
        let trails = |(sign, at): &(Sign, u64)| {
            matches!(sign, Sign::Is { .. }) && by == Work::Spinner && now_ms.saturating_sub(*at) < TRAILING_MS
        };
        if !self.last.as_ref().is_some_and(trails) {
            self.last = Some((Sign::Working { by, progress }, now_ms));
        }
    }

    /// Only work can come to rest: what was said of the program otherwise stays.
    fn rests(&mut self, now_ms: u64) {
        if matches!(self.last, Some((Sign::Working { .. }, _))) {
            self.last = Some((Sign::Rests, now_ms));
        }
    }

    fn notified(&mut self, text: &[u8], now_ms: u64) {
        let Some(text) = plain(text).filter(|text| !text.is_empty()) else { return };
        let lower = text.to_lowercase();
        let asks = ASKING.iter().any(|word| lower.contains(word));
        let doing = if asks { Doing::NeedsYou(None) } else { Doing::Done };
        self.is(doing, Some(text.to_owned()), now_ms);
    }

    fn is(&mut self, doing: Doing, message: Option<String>, now_ms: u64) {
        // The bell that comes with a notification adds nothing to it.
        let said = matches!(&self.last, Some((Sign::Is { message: Some(_), .. }, at)) if now_ms.saturating_sub(*at) < TRAILING_MS);
        if message.is_some() || !said {
            self.last = Some((Sign::Is { doing, message }, now_ms));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doing(signs: &Signs, now_ms: u64) -> Option<Doing> {
        signs.seen(now_ms).map(|seen| seen.doing)
    }

    #[test]
    fn a_spinner_is_work_until_it_is_gone_for_a_while_and_never_done() {
        let mut signs = Signs::default();
        signs.title("⠐ Fixing".as_bytes(), 0);
        assert_eq!(doing(&signs, 100), Some(Doing::Working));
        signs.title("✳ Fixing".as_bytes(), 1_000);
        assert_eq!(doing(&signs, 1_500), Some(Doing::Working), "not at once");
        signs.title("⠂ Fixing".as_bytes(), 1_600);
        assert_eq!(doing(&signs, 10_000), Some(Doing::Working));
        signs.title("✳ Fixing".as_bytes(), 10_000);
        assert_eq!(doing(&signs, 12_000), Some(Doing::Idle));
    }

    #[test]
    fn silence_is_not_the_end() {
        let mut signs = Signs::default();
        signs.title("⠐ Fixing".as_bytes(), 0);
        assert_eq!(doing(&signs, 30_001), None, "nobody knows");
        signs.nine(b"4;3", 40_000);
        assert_eq!(doing(&signs, 4_000_000), Some(Doing::Working));
    }

    #[test]
    fn progress_says_what_it_says() {
        let mut signs = Signs::default();
        signs.nine(b"4;1;40", 0);
        assert_eq!(signs.seen(1).map(|seen| (seen.doing, seen.progress)), Some((Doing::Working, Some(40))));
        signs.nine(b"4;4", 1);
        assert_eq!(doing(&signs, 1), Some(Doing::NeedsYou(None)));
        signs.nine(b"4;0", 2);
        assert_eq!(doing(&signs, 2), Some(Doing::NeedsYou(None)), "its end is no answer");
        signs.nine(b"4;2", 3);
        assert_eq!(doing(&signs, 3), Some(Doing::Failed));
        signs.nine(b"12;x", 4);
        assert_eq!(doing(&signs, 4), Some(Doing::Failed), "another command of the same number");
    }

    #[test]
    fn a_notification_is_a_question_by_its_words_and_a_last_spin_does_not_undo_it() {
        let mut signs = Signs::default();
        signs.title("⠐".as_bytes(), 0);
        signs.nine(b"Approval requested: rm", 10);
        signs.title("⠂".as_bytes(), 20);
        signs.bell(30);
        let seen = signs.seen(40).unwrap();
        assert_eq!((seen.doing, seen.message.as_deref()), (Doing::NeedsYou(None), Some("Approval requested: rm")));
        signs.title("⠂".as_bytes(), 2_000);
        assert_eq!(doing(&signs, 2_000), Some(Doing::Working));
        signs.seven(b"notify;claude;Turn complete", 5_000);
        assert_eq!(doing(&signs, 5_000), Some(Doing::Done));
        signs.kitty(b"i=1:e=1;TmVlZHMgeW91ciBwZXJtaXNzaW9u", 9_000);
        assert_eq!(doing(&signs, 9_000), Some(Doing::NeedsYou(None)));
        signs.kitty(b"p=?;", 9_500);
        signs.nine(b"bad \x01 text", 9_600);
        assert_eq!(signs.seen(9_700).unwrap().message.as_deref(), Some("Needs your permission"));
    }

    #[test]
    fn a_shell_is_idle_works_and_is_done_and_its_bell_is_only_a_bell() {
        let mut signs = Signs::default();
        assert!(signs.mark(b"A", 0));
        signs.bell(5);
        assert_eq!(doing(&signs, 5), Some(Doing::Idle));
        signs.mark(b"B", 10);
        signs.mark(b"C", 10);
        assert_eq!(doing(&signs, 20), Some(Doing::Working));
        signs.mark(b"D;2", 30);
        assert!(signs.mark(b"A", 31));
        assert_eq!(doing(&signs, 40), Some(Doing::Failed));
        signs.mark(b"C", 50);
        signs.mark(b"D;0", 60);
        signs.mark(b"A", 60);
        assert_eq!(doing(&signs, 70), Some(Doing::Done));
    }

    #[test]
    fn the_bell_of_a_program_that_worked_calls_somebody() {
        let mut signs = Signs::default();
        signs.bell(0);
        assert_eq!(signs.seen(1), None);
        signs.nine(b"4;3", 10);
        signs.bell(20);
        assert_eq!(doing(&signs, 20), Some(Doing::NeedsYou(None)));
    }
}
