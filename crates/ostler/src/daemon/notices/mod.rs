//! The ways by which somebody is told: those that the settings name, and none else. Nothing leaves the machine before a
//! destination was named: in the settings, which a person confirms, or by a device that subscribes.

mod address;
mod http;
mod vapid;
mod way;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use ostler_door_native::ANSWER_PATH;
use ostler_engine::access::device::Secret;
use ostler_engine::notice::{About, Came, Notice, Notices, Way, Ways};
use ostler_engine::{Engine, MayWait};

use crate::config::Notify;
use http::Reach;
use vapid::Vapid;
use way::{Answers, Carrier, OpenWay, Parcel};

/// The ways of a running instance.
struct Carriers {
    ways: Vec<OpenWay>,
    vapid: Option<Arc<Vapid>>,
    reach: Reach,
    bell: bool,
    notices: Notices,
    /// Where the page is.
    origin: Option<String>,
}

/// Begins to tell; for as long as the daemon lives. `origin` is where the page is found.
pub(super) fn begin(engine: &Engine, dir: &Path, settings: &Notify, origin: Option<String>) {
    let reach = if settings.push_private { Reach::Anywhere } else { Reach::Public };
    let vapid = settings.push.then(|| Arc::new(Vapid::new(dir, settings.contact.clone())));
    let mut carriers = Vec::new();
    if let Some(url) = settings.webhook.clone() {
        carriers.push(Carrier::Webhook { url, token: settings.webhook_token.clone() });
    }
    if !settings.command.is_empty() {
        carriers.push(Carrier::Command(engine.forker(), settings.command.clone()));
    }
    if let Some(vapid) = &vapid {
        carriers.push(Carrier::Push(engine.clone(), Arc::clone(vapid), reach));
    }
    if let Some(program) = desktop().filter(|_| settings.desktop) {
        carriers.push(Carrier::Desktop(engine.forker(), program));
    }
    let open = |carrier| OpenWay::open(carrier).inspect_err(|error| tracing::error!("notices: {error}")).ok();
    let ways = carriers.into_iter().filter_map(open).collect();
    let notices = engine.notices().clone();
    let carriers = Carriers { ways, vapid, reach, bell: settings.bell, notices, origin };
    engine.notices().begin(engine, settings.rules.clone(), Arc::new(carriers));
}

/// The program that shows notifications of a desktop, where there is one.
pub(crate) fn desktop() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let screen = set("DISPLAY") || set("WAYLAND_DISPLAY");
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let bus = set("DBUS_SESSION_BUS_ADDRESS") || runtime.is_some_and(|dir| dir.join("bus").exists());
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join("notify-send")).find(|program| program.is_file());
    found.filter(|_| screen && bus)
}

impl Carriers {
    /// Links that answer from a notice: only where a phone can follow them and nobody on the way reads along.
    fn answers(&self, notice: &Notice, carrier: &Carrier) -> Option<Answers> {
        let origin = self.origin.as_ref().filter(|origin| origin.starts_with("https://"))?;
        let of = notice.answer.as_ref().filter(|_| matches!(carrier, Carrier::Webhook { .. }))?;
        let issued = self.notices.links(of, carrier.name());
        let (allow, deny) = issued.inspect_err(|error| tracing::warn!("no answers from notices: {error}")).ok()?;
        let link = |secret: &Secret| format!("{origin}{ANSWER_PATH}{}", secret.reveal());
        Some(Answers { allow: link(&allow), deny: link(&deny) })
    }
}

impl Ways for Carriers {
    fn list(&self, _: &MayWait) -> Vec<Way> {
        self.ways.iter().map(|way| way.carrier.describe()).collect()
    }

    fn send(&self, notice: &Notice, came: Came) {
        for way in &self.ways {
            let (link, answers) = (self.link(&notice.about), self.answers(notice, &way.carrier));
            way.take(Parcel { notice: notice.clone(), link, answers, came: Arc::clone(&came) });
        }
    }

    fn minute(&self, at_ms: u64) -> u16 {
        let at = i64::try_from(at_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok()).unwrap_or_default();
        let local = at.to_zoned(TimeZone::system());
        u16::try_from(i32::from(local.hour()) * 60 + i32::from(local.minute())).unwrap_or(0)
    }

    fn link(&self, about: &About) -> Option<String> {
        let origin = self.origin.as_ref()?;
        Some(match (&about.session, &about.process, &about.approval) {
            (Some(id), ..) => format!("{origin}/#/session/{id}"),
            (_, Some(id), _) => format!("{origin}/#/process/{id}"),
            (.., Some(_)) => format!("{origin}/#/approvals"),
            _ => format!("{origin}/"),
        })
    }

    fn rings(&self) -> bool {
        self.bell
    }

    fn push_key(&self, _: &MayWait) -> Result<String, String> {
        let vapid = self.vapid.as_ref().ok_or(OFF)?;
        vapid.public().map_err(|error| format!("no key to sign pushes with: {error}"))
    }

    fn check_endpoint(&self, endpoint: &str) -> Result<(), String> {
        self.vapid.as_ref().ok_or(OFF)?;
        address::check(endpoint, self.reach == Reach::Anywhere).map(drop)
    }
}

/// Why no device is pushed to.
const OFF: &str = "pushing to devices is off; see notify.push";
