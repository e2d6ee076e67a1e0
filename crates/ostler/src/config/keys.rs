//! Every setting there is: name, default, meaning, and how its text becomes a value.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use ostler_door_sudo_proxy::Writable;
use ostler_door_web::NotAnOrigin;
use tracing_subscriber::filter::ParseError;

use super::{Config, DetachKey, Forward, notify, parse_duration, parse_size};

/// As often as somebody says no before it is meant.
const REFUSALS: u32 = 3;

/// More often it would tell nobody anything.
const BEAT_MIN: Duration = Duration::from_secs(1);

/// One setting.
#[derive(Debug)]
pub(crate) struct Key {
    /// `section.name`, as in the file.
    pub(crate) name: &'static str,
    pub(crate) default: &'static str,
    pub(crate) doc: &'static str,
    pub(super) apply: fn(&mut Config, &str) -> Result<(), String>,
}

impl Key {
    /// Whether this value loosens something that keeps agents in their place. The file is theirs to write too, so it counts
    /// once a person has confirmed it.
    pub(crate) fn loosens(&self, text: &str) -> bool {
        match self.name {
            "approvals.writable_programs" => text != self.default,
            // Asking again until somebody gives in.
            "approvals.fatigue" => parse_duration(text)
                .ok()
                .is_none_or(|pause| parse_duration(self.default).is_ok_and(|usual| pause < usual)),
            // A command line of anybody's who writes the file, and what it is told.
            "audit.forward" => matches!(Forward::parse(text), Forward::Command(_)),
            "daemon.core_dumps" | "web.insecure_lan" | "cdev.shell" => parse_bool(text) == Ok(true),
            "web.bind" => text.parse().is_ok_and(|bind: IpAddr| !bind.to_canonical().is_loopback()),
            "web.url" | "cdev.url" => !text.is_empty(),
            // Where what is told goes, and how much of it.
            "notify.webhook" | "notify.webhook_token" | "notify.command" => !text.is_empty(),
            "notify.content" | "notify.answer" | "notify.push_private" => parse_bool(text) == Ok(true),
            _ => false,
        }
    }

    /// The environment variable that overrides it.
    pub(crate) fn variable(&self) -> String {
        format!("OSTLER_{}", self.name.replace('.', "_").to_uppercase())
    }
}

pub(crate) const KEYS: &[Key] = &[
    Key {
        name: "journal.live_max",
        default: "all",
        doc: "How much output of a running process to keep: `all`, or a size such as 2GiB. Sessions always keep all.",
        apply: |config, text| {
            config.journal.live_max = if text == "all" { None } else { Some(parse_size(text)?) };
            Ok(())
        },
    },
    Key {
        name: "journal.keep_for",
        default: "24h",
        doc: "How long to keep the output of a finished process.",
        apply: |config, text| parse_duration(text).map(|value| config.journal.keep_for = value),
    },
    Key {
        name: "journal.total_max",
        default: "8GiB",
        doc: "How much disk all finished processes may use together; the oldest are deleted first.",
        apply: |config, text| parse_size(text).map(|value| config.journal.total_max = value),
    },
    Key {
        name: "journal.count_max",
        default: "5000",
        doc: "How many finished processes to keep of what each client program started; the oldest are deleted first.",
        apply: |config, text| {
            config.journal.count_max = text.parse().map_err(|_| "expected a number".to_owned())?;
            Ok(())
        },
    },
    Key {
        name: "journal.sync_every",
        default: "200ms",
        doc: "How often output is synced to disk: the most a power loss can lose. A killed ostler loses nothing.",
        apply: |config, text| parse_duration(text).map(|value| config.journal.sync_every = value),
    },
    Key {
        name: "journal.keep_free",
        default: "auto",
        doc: "Pause the process that writes most when less than this is free: `auto` (5 % of the disk, at most 1GiB), a size, or 0 for never.",
        apply: |config, text| {
            config.journal.keep_free = if text == "auto" { None } else { Some(parse_size(text)?) };
            Ok(())
        },
    },
    Key {
        name: "process.kill_grace",
        default: "5s",
        doc: "How long a process may take to end after SIGTERM before it gets SIGKILL.",
        apply: |config, text| parse_duration(text).map(|value| config.process.kill_grace = value),
    },
    Key {
        name: "attach.detach_key",
        default: "ctrl-]",
        doc: "The key that leaves `ostler attach`: ctrl- and a letter or one of @ [ \\ ] ^ _.",
        apply: |config, text| DetachKey::parse(text).map(|value| config.attach.detach_key = value),
    },
    Key {
        name: "attach.tail",
        default: "64KiB",
        doc: "How much earlier output `ostler attach` shows first.",
        apply: |config, text| parse_size(text).map(|value| config.attach.tail = value),
    },
    Key {
        name: "doors.cdev",
        default: "true",
        doc: "Serve cdev clients, on `cdev.port` of localhost or the next free one.",
        apply: |config, text| parse_bool(text).map(|value| config.doors.cdev = value),
    },
    Key {
        name: "doors.claustrum",
        default: "true",
        doc: "Serve claustrum clients, on a socket in the runtime folder.",
        apply: |config, text| parse_bool(text).map(|value| config.doors.claustrum = value),
    },
    Key {
        name: "doors.codecast",
        default: "true",
        doc: "Serve codecast head nodes, on port 9100 of localhost or the next free one.",
        apply: |config, text| parse_bool(text).map(|value| config.doors.codecast = value),
    },
    Key {
        name: "doors.sudo_proxy",
        default: "true",
        doc: "Serve sudo-request, on a socket in the runtime folder.",
        apply: |config, text| parse_bool(text).map(|value| config.doors.sudo_proxy = value),
    },
    Key {
        name: "doors.zeroclaw",
        default: "true",
        doc: "Serve zerocode, on a socket in the runtime folder.",
        apply: |config, text| parse_bool(text).map(|value| config.doors.zeroclaw = value),
    },
    Key {
        name: "doors.web",
        default: "true",
        doc: "Serve paired phones and browsers, on `web.port` of localhost or the next free one.",
        apply: |config, text| parse_bool(text).map(|value| config.doors.web = value),
    },
    Key {
        name: "doors.drop_in",
        default: "false",
        doc: "Always start with --drop-in.",
        apply: |config, text| parse_bool(text).map(|value| config.doors.drop_in = value),
    },
    Key {
        name: "cdev.port",
        default: "8766",
        doc: "The first port to try for cdev clients.",
        apply: |config, text| {
            config.cdev.port = text.parse().map_err(|_| "expected a port (0 to 65535)".to_owned())?;
            Ok(())
        },
    },
    Key {
        name: "cdev.url",
        default: "",
        doc: "Where a tunnel or proxy in front of that port is found, such as https://box.example. Needs `ostler config confirm`.",
        apply: |config, text| {
            let url = if text.is_empty() { Ok(None) } else { text.parse().map(Some) };
            config.cdev.url = url.map_err(|error: NotAnOrigin| error.to_string())?;
            Ok(())
        },
    },
    Key {
        name: "cdev.heartbeat",
        default: "30s",
        doc: "How often cdev clients hear that ostler is there.",
        apply: |config, text| {
            let every = parse_duration(text)?;
            if every < BEAT_MIN {
                return Err("expected 1s or more".to_owned());
            }
            config.cdev.heartbeat = every;
            Ok(())
        },
    },
    Key {
        name: "cdev.rate_limit",
        default: "true",
        doc: "Limit cdev clients to 100 requests and 10 prompts a minute for a connection.",
        apply: |config, text| parse_bool(text).map(|value| config.cdev.rate_limit = value),
    },
    Key {
        name: "cdev.shell",
        default: "false",
        doc: "Run a prompt that begins with ! in a shell, for devices that may type into terminals. Needs `ostler config confirm`.",
        apply: |config, text| parse_bool(text).map(|value| config.cdev.shell = value),
    },
    Key {
        name: "web.port",
        default: "8767",
        doc: "The first port to try for phones and browsers.",
        apply: |config, text| {
            config.web.port = text.parse().map_err(|_| "expected a port (0 to 65535)".to_owned())?;
            Ok(())
        },
    },
    Key {
        name: "web.bind",
        default: "127.0.0.1",
        doc: "The address of that port. One that other machines reach also needs web.url, web.certificate or web.insecure_lan, and `ostler config confirm`.",
        apply: |config, text| {
            config.web.bind = text.parse().map_err(|_| "expected an IP address, such as 0.0.0.0".to_owned())?;
            Ok(())
        },
    },
    Key {
        name: "web.url",
        default: "",
        doc: "Where a tunnel or proxy in front of that port is found, such as https://box.example. Needs `ostler config confirm`.",
        apply: |config, text| {
            let url = (!text.is_empty()).then(|| text.parse()).transpose();
            config.web.url = url.map_err(|error: NotAnOrigin| error.to_string())?;
            Ok(())
        },
    },
    Key {
        name: "web.certificate",
        default: "",
        doc: "A TLS certificate of your own for that port, as a PEM file.",
        apply: |config, text| absolute(text).map(|path| config.web.certificate = path),
    },
    Key {
        name: "web.key",
        default: "",
        doc: "The key of web.certificate, as a PEM file.",
        apply: |config, text| absolute(text).map(|path| config.web.key = path),
    },
    Key {
        name: "web.insecure_lan",
        default: "false",
        doc: "Let other machines use that port without encryption: everybody on the network can read along. Needs `ostler config confirm`.",
        apply: |config, text| parse_bool(text).map(|value| config.web.insecure_lan = value),
    },
    Key {
        name: "web.zeroclaw",
        default: "false",
        doc: "Serve zeroclaw clients on that port too, at /zeroclaw, by TLS and a paired device's token. Needs web.certificate.",
        apply: |config, text| parse_bool(text).map(|value| config.web.zeroclaw = value),
    },
    Key {
        name: "daemon.restart",
        default: "true",
        doc: "Restart ostler when it crashes; `false` where a service manager does that.",
        apply: |config, text| parse_bool(text).map(|value| config.daemon.restart = value),
    },
    Key {
        name: "daemon.core_dumps",
        default: "false",
        doc: "Let ostler leave core dumps for debugging; agents can then read its memory. Needs `ostler config confirm`.",
        apply: |config, text| parse_bool(text).map(|value| config.daemon.core_dumps = value),
    },
    Key {
        name: "approvals.wait",
        default: "60s",
        doc: "How long a command waits for approval.",
        apply: |config, text| parse_duration(text).map(|value| config.approvals.wait = value),
    },
    Key {
        name: "approvals.fatigue",
        default: "10m",
        doc: "How long a request that was denied three times in a row is denied without asking; `off` always asks. Less than 10m needs `ostler config confirm`.",
        apply: |config, text| {
            let pause = if text == "off" { None } else { Some(parse_duration(text)?) };
            config.approvals.fatigue = pause.map(|pause| (REFUSALS, pause));
            Ok(())
        },
    },
    Key {
        name: "approvals.writable_programs",
        default: "refuse",
        doc: "A root command whose program the requester can replace: `refuse` it, or `warn` whoever approves. Needs `ostler config confirm`.",
        apply: |config, text| {
            config.approvals.writable_programs = match text {
                "refuse" => Writable::Refuse,
                "warn" => Writable::Warn,
                _ => return Err("expected refuse or warn".to_owned()),
            };
            Ok(())
        },
    },
    Key {
        name: "approvals.requesters",
        default: "",
        doc: "Uids of other users who may make requests, separated by commas.",
        apply: |config, text| {
            let uids = text.split(',').map(str::trim).filter(|uid| !uid.is_empty());
            let uids: Result<Vec<u32>, _> = uids.map(str::parse).collect();
            config.approvals.requesters = uids.map_err(|_| "expected uids separated by commas".to_owned())?;
            Ok(())
        },
    },
    Key {
        name: "approvals.socket",
        default: "",
        doc: "Path of the sudo-proxy socket; `approvals.requesters` need access to its folder.",
        apply: |config, text| absolute(text).map(|path| config.approvals.socket = path),
    },
    Key {
        name: "sessions.idle_stop",
        default: "15m",
        doc: "Stop an idle agent after this; the next prompt resumes it.",
        apply: |config, text| parse_duration(text).map(|value| config.sessions.idle_stop = value),
    },
    Key {
        name: "sessions.queue",
        default: "32",
        doc: "How many prompts one session may queue.",
        apply: |config, text| {
            config.sessions.queue = text.parse().map_err(|_| "expected a number".to_owned())?;
            Ok(())
        },
    },
    Key {
        name: "sessions.start_timeout",
        default: "90s",
        doc: "How long an agent may take to start.",
        apply: |config, text| parse_duration(text).map(|value| config.sessions.start_timeout = value),
    },
    Key {
        name: "sessions.ask_timeout",
        default: "never",
        doc: "How long an agent waits for an answer before it is denied; `never` waits forever.",
        apply: |config, text| {
            config.sessions.ask_timeout = match text {
                "never" => None,
                _ => match parse_duration(text) {
                    Ok(time) if !time.is_zero() => Some(time),
                    _ => return Err("expected `never`, or a duration such as 10m or 24h".to_owned()),
                },
            };
            Ok(())
        },
    },
    Key {
        name: "sessions.keep_closed",
        default: "30d",
        doc: "How long to keep a closed session.",
        apply: |config, text| parse_duration(text).map(|value| config.sessions.keep_closed = value),
    },
    Key {
        name: "audit.forward",
        default: "",
        doc: "Also send the audit log to `journald`, or to a command that reads JSON lines and exits with 0, which needs `ostler config confirm`.",
        apply: |config, text| {
            config.audit.forward = Forward::parse(text);
            Ok(())
        },
    },
    Key {
        name: "notify.after",
        default: "10s",
        doc: "How long something must need you, have failed or have ended, with nobody looking, before you are told.",
        apply: |config, text| parse_duration(text).map(|value| config.notify.rules.after = value),
    },
    Key {
        name: "notify.kinds",
        default: "needs,failed,ended",
        doc: "What you are told of: some of needs, failed and ended.",
        apply: |config, text| notify::kinds(text).map(|value| config.notify.rules.kinds = value),
    },
    Key {
        name: "notify.per_hour",
        default: "6",
        doc: "How many notices one session may cause in an hour.",
        apply: |config, text| {
            config.notify.rules.per_hour = text.parse().map_err(|_| "expected a number".to_owned())?;
            Ok(())
        },
    },
    Key {
        name: "notify.quiet",
        default: "",
        doc: "Hours without notices, such as 22:00-07:00; what still stands is told afterwards.",
        apply: |config, text| notify::quiet(text).map(|value| config.notify.rules.quiet = value),
    },
    Key {
        name: "notify.content",
        default: "false",
        doc: "Say in a notice what is asked, too: whoever runs the destination can read it. Needs `ostler config confirm`.",
        apply: |config, text| parse_bool(text).map(|value| config.notify.rules.content = value),
    },
    Key {
        name: "notify.answer",
        default: "false",
        doc: "Let what a notice says whole be allowed once or denied from it, never as root: whoever runs the destination can do it too, and an agent that reads the destination in your settings. Needs notify.content, an https address of the page, and `ostler config confirm`.",
        apply: |config, text| parse_bool(text).map(|value| config.notify.rules.answer = value),
    },
    Key {
        name: "notify.webhook",
        default: "",
        doc: "Post notices to this address, as ntfy takes them: https://ntfy.sh/TOPIC. Needs `ostler config confirm`.",
        apply: |config, text| notify::webhook(text).map(|value| config.notify.webhook = value),
    },
    Key {
        name: "notify.webhook_token",
        default: "",
        doc: "Path of a file whose first line is an access token for the webhook. Needs `ostler config confirm`.",
        apply: |config, text| absolute(text).map(|path| config.notify.webhook_token = path),
    },
    Key {
        name: "notify.command",
        default: "",
        doc: "Run this program for a notice: absolute path and arguments, no shell; it gets OSTLER_NOTICE_TEXT and others, and JSON on stdin. Needs `ostler config confirm`.",
        apply: |config, text| notify::command(text).map(|value| config.notify.command = value),
    },
    Key {
        name: "notify.bell",
        default: "true",
        doc: "Ring in terminals where ostler has a screen open.",
        apply: |config, text| parse_bool(text).map(|value| config.notify.bell = value),
    },
    Key {
        name: "notify.desktop",
        default: "true",
        doc: "Show notices on the desktop with notify-send, where there is one.",
        apply: |config, text| parse_bool(text).map(|value| config.notify.desktop = value),
    },
    Key {
        name: "notify.push",
        default: "true",
        doc: "Let paired devices subscribe to notices, through the push service of their browser and without content.",
        apply: |config, text| parse_bool(text).map(|value| config.notify.push = value),
    },
    Key {
        name: "notify.push_private",
        default: "false",
        doc: "Let devices name a push service at a private address or without TLS. Needs `ostler config confirm`.",
        apply: |config, text| parse_bool(text).map(|value| config.notify.push_private = value),
    },
    Key {
        name: "notify.contact",
        default: "mailto:ostler@localhost",
        doc: "Whom a push service may complain to: mailto:YOU or an https address; Apple's wants a real one.",
        apply: |config, text| match text.starts_with("mailto:") || text.starts_with("https://") {
            true => {
                config.notify.contact = text.to_owned();
                Ok(())
            }
            false => Err("expected mailto:YOU or an https address".to_owned()),
        },
    },
    Key {
        name: "log.level",
        default: "info",
        doc: "Log level: error, warn, info, debug or trace; per module as in `info,ostler_engine=debug`.",
        apply: |config, text| {
            text.parse().map(|level| config.log.level = level).map_err(|error: ParseError| error.to_string())
        },
    },
];

/// A path, if there is any.
fn absolute(text: &str) -> Result<Option<PathBuf>, String> {
    match text {
        "" => Ok(None),
        path if path.starts_with('/') => Ok(Some(path.into())),
        _ => Err("expected an absolute path".to_owned()),
    }
}

fn parse_bool(text: &str) -> Result<bool, String> {
    match text {
        "true" | "yes" | "on" | "1" => Ok(true),
        "false" | "no" | "off" | "0" => Ok(false),
        _ => Err("expected true or false".to_owned()),
    }
}
