//! One way to tell somebody. Each has a thread of its own and a short queue, so that one that is slow or gone holds up nobody.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use ostler_engine::brief::Brief;
use ostler_engine::notice::{Came, Kind, Notice, Way};
use ostler_engine::{Engine, Forker, MayWait};
use ostler_workspace::read_small;
use ureq::Agent;

use super::address;
use super::http::{self, Answer, Reach};
use super::vapid::Vapid;

/// Notices that wait for a way: more come only where it hangs.
const QUEUE: usize = 8;
/// A command that takes longer than this hangs.
const COMMAND_WITHIN: Duration = Duration::from_secs(10);
/// A token is a line.
const TOKEN_MAX: u64 = 4096;
/// How long a push service keeps a notice for a device that is off, in seconds: what is older is nobody's news.
const KEPT_FOR: u32 = 12 * 3600;

/// How it is done.
pub(super) enum Carrier {
    /// A program of the user's own.
    Command(Forker, Vec<String>),
    /// A server that takes what ntfy takes; a file with a token for it.
    Webhook { url: String, token: Option<PathBuf> },
    /// Devices that subscribed.
    Push(Engine, Arc<Vapid>, Reach),
    /// The desktop's own notifications.
    Desktop(Forker, PathBuf),
}

/// A notice on its way, and the link that goes with it.
pub(super) struct Parcel {
    pub(super) notice: Notice,
    pub(super) link: Option<String>,
    pub(super) answers: Option<Answers>,
    pub(super) came: Came,
}

/// Links that answer what a notice asks, each of them once.
pub(super) struct Answers {
    pub(super) allow: String,
    pub(super) deny: String,
}

/// A way that takes notices.
pub(super) struct OpenWay {
    pub(super) carrier: Arc<Carrier>,
    queue: SyncSender<Parcel>,
}

impl OpenWay {
    /// Opens it; its thread ends with it.
    pub(super) fn open(carrier: Carrier) -> io::Result<Self> {
        let (queue, next) = sync_channel::<Parcel>(QUEUE);
        let carrier = Arc::new(carrier);
        let carries = Arc::clone(&carrier);
        MayWait::thread("notice", move |wait| {
            for parcel in next {
                let came = carries.carry(wait, &parcel);
                (parcel.came)(carries.name(), came);
            }
        })?;
        Ok(Self { carrier, queue })
    }

    pub(super) fn take(&self, parcel: Parcel) {
        if let Err(TrySendError::Full(parcel) | TrySendError::Disconnected(parcel)) = self.queue.try_send(parcel) {
            (parcel.came)(self.carrier.name(), Err("those before it are still under way".to_owned()));
        }
    }
}

impl Carrier {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Command(..) => "command",
            Self::Webhook { .. } => "webhook",
            Self::Push(..) => "push",
            Self::Desktop(..) => "desktop",
        }
    }

    /// Where it leads, for people.
    pub(super) fn describe(&self) -> Way {
        let (to, trouble) = match self {
            Self::Command(_, line) => {
                let program = Path::new(line.first().map(String::as_str).unwrap_or_default());
                (line.join(" "), (!program.exists()).then(|| format!("{} does not exist", program.display())))
            }
            Self::Webhook { url, token } => {
                let unread = token.as_deref().and_then(|file| read_token(file).err());
                (url.clone(), unread.map(|error| error.to_string()))
            }
            Self::Push(engine, _, _) => {
                let names = subscribed(engine).into_iter().map(|(name, _, _)| name);
                let names: Vec<String> = names.collect();
                (if names.is_empty() { "no device has subscribed".to_owned() } else { names.join(", ") }, None)
            }
            Self::Desktop(_, program) => (program.display().to_string(), None),
        };
        Way { name: self.name().to_owned(), to, trouble }
    }

    fn carry(&self, wait: &MayWait, parcel: &Parcel) -> Result<String, String> {
        match self {
            Self::Command(forker, line) => command(forker, line, parcel),
            Self::Webhook { url, token } => webhook(url, token.as_deref(), parcel),
            Self::Push(engine, vapid, reach) => push(wait, engine, vapid, *reach, &parcel.notice),
            Self::Desktop(forker, program) => desktop(forker, program, &parcel.notice),
        }
    }
}

/// The notice as variables and as a line of JSON; no shell has a part in it.
fn command(forker: &Forker, line: &[String], Parcel { notice, link, .. }: &Parcel) -> Result<String, String> {
    let [program, args @ ..] = line else { return Err("no command".to_owned()) };
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let mut brief = Brief::new(program, &args, COMMAND_WITHIN);
    let (about, count) = (&notice.about, notice.count.to_string());
    let id = about.session.as_ref().or(about.process.as_ref()).or(about.approval.as_ref());
    let (id, link) = (id.cloned().unwrap_or_default(), link.clone().unwrap_or_default());
    let members =
        [("text", notice.text.as_str()), ("kind", notice.kind.word()), ("count", &count), ("id", &id), ("link", &link)];
    for (name, value) in members {
        brief.set(&format!("OSTLER_NOTICE_{}", name.to_uppercase()), value);
    }
    let body: serde_json::Map<_, _> =
        members.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
    brief.stdin = format!("{}\n", serde_json::Value::Object(body)).into_bytes();
    brief.leaves_nothing = true;
    ran(forker, &brief)
}

/// How a program ended, with its last words where that was not well.
fn ran(forker: &Forker, brief: &Brief) -> Result<String, String> {
    let ran = forker.run(brief).map_err(|error| format!("{}: {error}", brief.program.display()))?;
    if ran.ended.well() {
        return Ok(ran.ended.to_string());
    }
    let said = String::from_utf8_lossy(&ran.said);
    let last: String = said.lines().last().unwrap_or_default().escape_debug().take(200).collect();
    Err(format!("{} {last}", ran.ended).trim_end().to_owned())
}

fn webhook(url: &str, token: Option<&Path>, Parcel { notice, link, answers, .. }: &Parcel) -> Result<String, String> {
    let priority = if notice.kind == Kind::Ended { "default" } else { "high" };
    let mut head = vec![("title", "ostler".to_owned()), ("priority", priority.to_owned())];
    head.push(("content-type", "text/plain; charset=utf-8".to_owned()));
    head.extend(link.iter().map(|link| ("click", link.clone())));
    if let Some(Answers { allow, deny }) = answers {
        // As ntfy reads them: a request of the phone's own, not a page.
        let open = link.iter().map(|link| format!("; view, Open, {link}")).collect::<String>();
        head.push((
            "actions",
            format!(
                "http, Allow once, {allow}, method=POST, clear=true; http, Deny, {deny}, method=POST, clear=true{open}"
            ),
        ));
    }
    if let Some(file) = token {
        let token = read_token(file).map_err(|error| error.to_string())?;
        head.push(("authorization", format!("Bearer {token}")));
    }
    let agent = http::agent(Reach::Anywhere, true);
    match tried(|| http::post(&agent, url, &head, notice.text.as_bytes())) {
        Answer::Taken(words) => Ok(words),
        Answer::Gone => Err("404 Not Found".to_owned()),
        Answer::NotNow(why) | Answer::Refused(why) => Err(why),
    }
}

/// The first line of a file, which is sent and never shown.
fn read_token(file: &Path) -> io::Result<String> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", file.display()));
    let text = read_small(file, TOKEN_MAX).map_err(named)?;
    let token = text.lines().next().unwrap_or_default().trim();
    match !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(token.to_owned()),
        false => Err(io::Error::other(format!("{}: its first line is no token", file.display()))),
    }
}

/// The devices that are pushed to: name, id and endpoint.
fn subscribed(engine: &Engine) -> Vec<(String, String, String)> {
    let devices = engine.devices().into_iter().filter(|held| !held.suspended);
    devices.filter_map(|held| Some((held.device.name, held.device.id, held.endpoint?))).collect()
}

/// To every device that subscribed, each beside the others; one that is not there any more is forgotten.
fn push(wait: &MayWait, engine: &Engine, vapid: &Vapid, reach: Reach, notice: &Notice) -> Result<String, String> {
    let devices = subscribed(engine);
    if devices.is_empty() {
        return Ok("no device has subscribed".to_owned());
    }
    let agent = http::agent(reach, false);
    let answers: Vec<Answer> = std::thread::scope(|scope| {
        let sends: Vec<_> = devices
            .iter()
            .map(|(_, _, endpoint)| scope.spawn(|| send(&agent, vapid, reach, endpoint, notice.kind)))
            .collect();
        let lost = |_| Answer::Refused("its thread died".to_owned());
        sends.into_iter().map(|send| send.join().unwrap_or_else(lost)).collect()
    });
    let (mut done, mut failed) = (Vec::new(), Vec::new());
    for ((name, id, endpoint), answer) in devices.iter().zip(answers) {
        match answer {
            Answer::Taken(words) => done.push(format!("{name}: {words}")),
            Answer::NotNow(why) | Answer::Refused(why) => failed.push(format!("{name}: {why}")),
            Answer::Gone => {
                failed.push(format!("{name}: its browser has ended the subscription"));
                if let Err(error) = engine.subscription_gone(wait, id, endpoint) {
                    tracing::warn!("the subscription of {name} was not forgotten: {error}");
                }
            }
        }
    }
    if failed.is_empty() { Ok(done.join("; ")) } else { Err([failed, done].concat().join("; ")) }
}

/// No payload: the page fetches what it may see.
fn send(agent: &Agent, vapid: &Vapid, reach: Reach, endpoint: &str, kind: Kind) -> Answer {
    let uri = match address::check(endpoint, reach == Reach::Anywhere) {
        Ok(uri) => uri,
        Err(why) => return Answer::Refused(why),
    };
    let authorization = match vapid.authorization(&uri) {
        Ok(authorization) => authorization,
        Err(error) => return Answer::Refused(error.to_string()),
    };
    let urgency = if kind == Kind::Ended { "normal" } else { "high" };
    // A newer one takes the place of one that waits: the page fetches all of them anyway.
    let head = [
        ("authorization", authorization),
        ("ttl", KEPT_FOR.to_string()),
        ("urgency", urgency.to_owned()),
        ("topic", "ostler".to_owned()),
    ];
    tried(|| http::post(agent, endpoint, &head, b""))
}

/// Tries again what cannot have arrived.
fn tried(attempt: impl Fn() -> Answer) -> Answer {
    let mut answer = attempt();
    for pause in http::AGAIN {
        if !matches!(answer, Answer::NotNow(_)) {
            break;
        }
        std::thread::sleep(pause);
        answer = attempt();
    }
    answer
}

fn desktop(forker: &Forker, program: &Path, notice: &Notice) -> Result<String, String> {
    let urgency = if notice.kind == Kind::Ended { "--urgency=low" } else { "--urgency=normal" };
    // The text of a notification may be read as markup.
    let text = notice.text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    ran(forker, &Brief::new(program, &["--app-name=ostler", urgency, "--", "ostler", &text], COMMAND_WITHIN))
}
