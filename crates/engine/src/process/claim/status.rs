//! The program status protocol (OSC 7501): what a terminal program says about itself, as records by id.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// Records that are kept; who updates more loses the one that was not updated for longest.
const RECORDS_MAX: usize = 256;
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// What a program waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// A yes or a no.
    Permission,
    /// An answer.
    Question,
    /// A login.
    Auth,
}

/// What a program is doing, by its own words or by what terminals are told anyway. In the order in which one is shown before
/// another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    /// Nothing.
    Idle,
    /// It has done what it was asked for.
    Done,
    /// It works.
    Working,
    /// It failed.
    Failed,
    /// It waits for its user.
    NeedsYou(Option<Need>),
}

impl Doing {
    fn rank(self) -> u8 {
        match self {
            Self::Idle => 0,
            Self::Done => 1,
            Self::Working => 2,
            Self::Failed => 3,
            Self::NeedsYou(_) => 4,
        }
    }

    /// Whether it ends with the program that said so.
    fn passes(self) -> bool {
        matches!(self, Self::Working | Self::NeedsYou(_))
    }
}

/// What was said about one of the program's works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    /// A path; empty is the program itself.
    id: String,
    pub(super) doing: Doing,
    pub(super) progress: Option<u8>,
    pub(super) app: Option<String>,
    pub(super) title: Option<String>,
    pub(super) message: Option<String>,
    pub(super) time_ms: u64,
}

/// A report as it was written; nothing where it is to be ignored whole.
enum Report {
    Record(Record),
    Clear(String),
}

/// All records, the one that was updated last at the end.
#[derive(Debug, Default)]
pub(super) struct Records {
    records: Vec<Record>,
    /// The program speaks this protocol: weaker signs say less.
    pub(super) spoken: bool,
}

impl Records {
    /// Takes what stands after `7501;`.
    pub(super) fn report(&mut self, body: &[u8], time_ms: u64) {
        let Some(report) = parse(body, time_ms) else { return };
        self.spoken = true;
        match report {
            Report::Clear(id) => self.records.retain(|record| !is_within(&record.id, &id)),
            Report::Record(record) => {
                self.records.retain(|known| known.id != record.id);
                self.records.push(record);
                let excess = self.records.len().saturating_sub(RECORDS_MAX);
                self.records.drain(..excess);
            }
        }
    }

    /// A shell asks for the next command: what was begun before is over, and another program may come.
    pub(super) fn prompt(&mut self) {
        self.records.retain(|record| !record.doing.passes());
        self.spoken = !self.records.is_empty();
    }

    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }

    /// The record that counts, with the name of the program that it or one above it bears.
    pub(super) fn shown(&self) -> Option<(&Record, Option<&str>)> {
        // The last of those that are equal, which is the newest.
        let shown = self.records.iter().max_by_key(|record| record.doing.rank())?;
        Some((shown, self.app(&shown.id)))
    }

    fn app(&self, id: &str) -> Option<&str> {
        let mut at = Some(id);
        while let Some(id) = at {
            let named = self.records.iter().find(|record| record.id == id).and_then(|record| record.app.as_deref());
            if named.is_some() {
                return named;
            }
            at = (!id.is_empty()).then(|| id.rsplit_once('/').map_or("", |(above, _)| above));
        }
        None
    }
}

/// Whether a path is this one or below it; everything is below the program itself.
fn is_within(id: &str, above: &str) -> bool {
    above.is_empty() || id.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn parse(body: &[u8], time_ms: u64) -> Option<Report> {
    let text = plain(body)?;
    let mut state = None;
    let (mut kind, mut progress, mut id, mut app, mut title, mut message) = (None, None, "", None, None, None);
    for (key, value) in text.split(':').filter_map(|pair| pair.split_once('=')) {
        match key {
            "state" => state = Some(value),
            "kind" => kind = need(value),
            "progress" => progress = value.parse().ok().filter(|percent| *percent <= 100),
            "id" => id = value,
            "app" => app = Some(value),
            "title" => title = Some(decoded(value)?),
            "msg" => message = Some(decoded(value)?),
            _ => {}
        }
    }
    let doing = match state? {
        "idle" => Doing::Idle,
        "working" => Doing::Working,
        "blocked" => Doing::NeedsYou(kind),
        "done" => Doing::Done,
        "error" => Doing::Failed,
        "clear" => return Some(Report::Clear(id.to_owned())),
        _ => return None,
    };
    let said = |text: Option<String>| text.filter(|text| !text.is_empty());
    let app = said(app.map(str::to_owned));
    let (title, message) = (said(title), said(message));
    Some(Report::Record(Record { id: id.to_owned(), doing, progress, app, title, message, time_ms }))
}

fn need(kind: &str) -> Option<Need> {
    match kind {
        "permission" => Some(Need::Permission),
        "question" => Some(Need::Question),
        "auth" => Some(Need::Auth),
        _ => None,
    }
}

fn decoded(base64: &str) -> Option<String> {
    plain(&BASE64.decode(base64).ok()?).map(str::to_owned)
}

/// Text without control characters, or nothing.
pub(super) fn plain(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok().filter(|text| !text.chars().any(char::is_control))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(reports: &[&str]) -> Records {
        let mut records = Records::default();
        for (time, report) in (0..).zip(reports) {
            records.report(report.as_bytes(), time);
        }
        records
    }

    fn shown(reports: &[&str]) -> String {
        let records = after(reports);
        match records.shown() {
            Some((record, app)) => format!("{:?} {} {}", record.doing, record.id, app.unwrap_or("-")),
            None => "nothing".to_owned(),
        }
    }

    #[test]
    fn a_report_replaces_its_whole_record() {
        let records = after(&["state=working:progress=40:title=aGk:app=a", "state=working"]);
        let (record, app) = records.shown().unwrap();
        assert_eq!((record.progress, record.title.as_deref(), app), (None, None, None));
    }

    #[test]
    fn who_needs_somebody_is_shown_first_and_the_newest_among_equals() {
        assert_eq!(
            shown(&["state=blocked:id=a:kind=auth", "state=error:id=b", "state=working"]),
            "NeedsYou(Some(Auth)) a -"
        );
        assert_eq!(
            shown(&["state=idle", "state=done:id=x", "state=working:id=a", "state=working:id=b"]),
            "Working b -"
        );
        assert_eq!(shown(&["state=working:id=a", "state=error:id=b"]), "Failed b -");
        assert_eq!(shown(&["state=done", "state=idle:id=a"]), "Done  -");
    }

    #[test]
    fn a_name_is_inherited_from_the_nearest_above() {
        let (root, deploy, east) =
            ("state=idle:app=root", "state=idle:id=deploy:app=d", "state=working:id=deploy/us/east");
        assert_eq!(shown(&[root, east]), "Working deploy/us/east root");
        assert_eq!(shown(&[root, deploy, east]), "Working deploy/us/east d");
        assert_eq!(shown(&[root, "state=working:id=deployed"]), "Working deployed root");
    }

    #[test]
    fn clear_takes_what_is_below_along_and_without_an_id_everything() {
        let all = ["state=working:id=a", "state=working:id=a/b", "state=done:id=ab"];
        assert_eq!(shown(&[&all[..], &["state=clear:id=a"]].concat()), "Done ab -");
        assert_eq!(shown(&[&all[..], &["state=clear"]].concat()), "nothing");
    }

    #[test]
    fn what_cannot_be_understood_is_ignored_whole() {
        let done = "state=done:title=aGk=";
        for odd in [
            "state=sleeping",
            "title=aGk",
            "state=working:title=G1szMW0=",
            "state=working:msg=!!",
            "state=working:app=a\u{9b}b",
            "state=working:msg=//4=",
        ] {
            assert_eq!(shown(&[done, odd]), "Done  -", "{odd:?}");
        }
        let records = after(&["state=blocked:kind=other:progress=101:new=1"]);
        let (record, _) = records.shown().unwrap();
        assert_eq!((record.doing, record.progress), (Doing::NeedsYou(None), None));
    }

    #[test]
    fn what_was_begun_ends_with_the_next_prompt_of_a_shell_and_what_was_reached_stays() {
        let mut records = after(&["state=working:id=a", "state=blocked", "state=done:id=b"]);
        records.prompt();
        assert_eq!(records.shown().map(|(record, _)| record.id.as_str()), Some("b"));
        assert!(records.spoken);
        records.reset();
        assert!(records.shown().is_none() && !records.spoken);
    }

    #[test]
    fn records_are_bounded_and_the_least_recently_updated_goes() {
        let mut records = Records::default();
        records.report(b"state=blocked:id=first", 0);
        for number in 0..RECORDS_MAX - 1 {
            records.report(format!("state=idle:id=n{number}").as_bytes(), 1);
        }
        assert_eq!(records.shown().unwrap().0.id, "first");
        records.report(b"state=idle:id=one-more", 2);
        assert_eq!((records.records.len(), records.shown().unwrap().0.doing), (RECORDS_MAX, Doing::Idle));
    }
}
