//! A pairing, seen from the terminal of the person who offers it: what to show, the time that is left, and the question whether
//! the device that came is theirs. The code and the link are only ever printed here, on a terminal that nobody hosted has open.

use std::process::ExitCode;
use std::time::Duration;

use ostler_api::client::Client;
use ostler_api::{
    DeviceOfferParams, DeviceOffered, Door, Empty, OfferInfo, OfferParams, OfferState, Right, Rights, methods,
};
use qrcode::{Color, EcLevel, QrCode};

use super::Context;
use super::approvals::Tty;
use super::confirmed::confirmed;
use super::connect::Reached;
use super::tailnet;
use crate::output::{CommandError, Kind, Paint, visible};
use crate::request::Row;

/// How often the time that is left is drawn anew.
const DRAW_EVERY: Duration = Duration::from_millis(500);
/// Light around a code, so that a camera finds its edge.
const QUIET: usize = 2;
/// What a browser at `/pair` may do: let others in, and give what it gives.
const BROWSER: &str = "work,admit";
/// A phone would look for it in vain.
const ONLY_HERE: &str = "Note: phones cannot reach that address: set web.url or web.bind (ostler config)";
/// How names of tailnets end: whether they still lead here is looked at again.
const TAILNET: &str = ".ts.net";
const CTRL_C: u8 = 3;
const ESCAPE: u8 = 27;

/// Where a device comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum At {
    /// The port of our own protocol.
    Web,
    /// That of cdev clients, which has a page.
    Cdev,
}

impl At {
    fn door(self) -> &'static str {
        match self {
            Self::Web => "web",
            Self::Cdev => "cdev",
        }
    }

    /// What a camera reads.
    fn scanned(self, url: &str, link: &str) -> String {
        match self {
            Self::Web => format!("{url}/#{link}"),
            Self::Cdev => {
                let ws = format!("{}/ws", url.replacen("http", "ws", 1));
                serde_json::json!({ "ws": ws, "http": url, "token": format!("cdev_p_{link}") }).to_string()
            }
        }
    }

    /// What a browser opens.
    fn opened(self, url: &str, link: &str) -> String {
        match self {
            Self::Web => format!("{url}/#{link}"),
            Self::Cdev => format!("{url}/pair#{link}"),
        }
    }
}

/// What somebody asks for.
pub(super) struct Wanted<'a> {
    pub(super) at: At,
    pub(super) name: Option<String>,
    pub(super) rights: Option<&'a str>,
    pub(super) code: bool,
}

/// Offers a place to a device, and waits until one has come and a person has decided.
pub(super) fn run(context: &Context, wanted: Wanted<'_>) -> Result<ExitCode, CommandError> {
    let rights = wanted.rights.map_or(Ok(Rights::NONE), rights_of)?;
    let mut reached = match wanted.at {
        At::Web => super::rules::one(context)?,
        At::Cdev => of_cdev(context)?,
    };
    let params = DeviceOfferParams { name: wanted.name, rights, code: wanted.code };
    let Some(tty) = crate::exclusive::own_place().ok().and_then(|_| Tty::deciding().ok()) else {
        return Err(refusal(&mut reached, &params));
    };
    let found = found(&mut reached, wanted.at)?;
    let mut url = if wanted.code { found.device() } else { found.browser() }.to_owned();
    tty.alone(&reached.client)?;
    if wanted.at == At::Web && wanted.code && is_here(&url) {
        url = tailnet::address(&tty, &mut reached, url)?;
    }
    if wanted.at == At::Cdev {
        let browser = DeviceOfferParams { name: None, rights: rights_of(BROWSER)?, code: false };
        let link = reached.client.call::<methods::DeviceOffer>(&browser)?.link;
        let line = format!(
            "To accept devices in a browser here, open this once: {}\r\n\r\n",
            At::Cdev.opened(found.browser(), &link)
        );
        tty.write(line.as_bytes())?;
    }
    let offered = reached.client.call::<methods::DeviceOffer>(&params)?;
    for line in shown(wanted.at, &offered, &url, tty.size()) {
        tty.write(format!("{line}\r\n").as_bytes())?;
    }
    for warning in crate::exclusive::warnings() {
        tty.write(format!("Note: {warning}\r\n").as_bytes())?;
    }
    if offered.code.is_some() && is_only_here(&url) {
        tty.write(format!("{ONLY_HERE}\r\n").as_bytes())?;
    }
    let settled = Watch { context, tty, reached, offer: offered.offer, url, canceled: false }.until_settled()?;
    let name = settled.name.unwrap_or_default();
    if context.json() {
        context.screen.value(&serde_json::json!({ "paired": settled.device, "name": name }))?;
    } else {
        context.screen.line(&visible(&format!("{name} is paired ({})", settled.rights)))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// There is nobody here to press a key. The daemon says why, and notes that somebody tried.
fn refusal(reached: &mut Reached, params: &DeviceOfferParams) -> CommandError {
    match reached.client.call::<methods::DeviceOffer>(params) {
        Err(error) => error.into(),
        Ok(offered) => {
            let offer = OfferParams { offer: offered.offer };
            // What nobody can see is taken back; else it runs out.
            let _ = reached.client.call::<methods::DeviceRefuse>(&offer);
            CommandError::new(Kind::Refused, "pairing needs a terminal")
        }
    }
}

/// Words of rights, or of what people choose.
pub(super) fn rights_of(text: &str) -> Result<Rights, CommandError> {
    text.parse().map_err(|error| {
        let known: Vec<&str> = Right::ALL.iter().map(|right| right.word()).collect();
        CommandError::usage(format!("--rights: {error}"))
            .hint(format!("use watch, answer, work or full; or some of: {}", known.join(",")))
    })
}

/// The instance whose port for cdev clients is meant: `--instance`, else the only one that has it, else `main`.
fn of_cdev(context: &Context) -> Result<Reached, CommandError> {
    let mut living = context.living()?;
    living.retain(|found| {
        let doors = found.record.iter().flat_map(|record| &record.doors);
        doors.into_iter().any(|door| door.name == At::Cdev.door())
    });
    match (living.len(), context.instance.is_some(), living.pop()) {
        (1, false, Some(only)) => context.reach_deciding(only),
        _ => context.reach_one_deciding(),
    }
}

/// Where a device finds this ostler.
fn found(reached: &mut Reached, at: At) -> Result<Found, CommandError> {
    let doors = reached.client.call::<methods::InstanceStatus>(&Empty {})?.doors;
    let door = doors.into_iter().find(|door| door.name == at.door());
    let door = door.ok_or_else(|| {
        CommandError::failed("this ostler does not listen for devices, so none can be paired")
            .hint("see which addresses it has: ostler status --connect")
    })?;
    Ok(Found::of(&door))
}

/// Where a door is found.
struct Found {
    /// From this machine.
    here: String,
    /// From others, where there is such a place.
    elsewhere: Option<String>,
}

impl Found {
    fn of(door: &Door) -> Self {
        let words = door.connect.split([' ', ',', ';']);
        let mut urls = words.filter_map(|word| {
            let (scheme, rest) = word.split_once("://")?;
            let host = rest.split('/').next()?;
            let secure = matches!(scheme, "https" | "wss");
            (secure || matches!(scheme, "http" | "ws"))
                .then(|| format!("http{}://{host}", if secure { "s" } else { "" }))
        });
        let here = urls.next().unwrap_or_else(|| format!("http://{}", door.address));
        let elsewhere = door.connect.contains("from elsewhere").then(|| urls.next()).flatten();
        Self { here, elsewhere }
    }

    /// For a device: the one for other machines where there is one.
    fn device(&self) -> &str {
        self.elsewhere.as_deref().unwrap_or(&self.here)
    }

    /// For a browser, which keeps no key where anybody reads along: then only one on this machine can become a device.
    fn browser(&self) -> &str {
        self.elsewhere.as_deref().filter(|url| url.starts_with("https://")).unwrap_or(&self.here)
    }
}

/// Whether nobody but this machine comes to this address.
fn is_only_here(url: &str) -> bool {
    let host = url.split_once("://").map_or(url, |(_, rest)| rest);
    ["127.", "localhost", "[::1]", "0.0.0.0", "[::]"].iter().any(|here| host.starts_with(here))
}

/// Whether only this machine finds it, or a tailnet whose names may have changed.
fn is_here(url: &str) -> bool {
    is_only_here(url) || url.ends_with(TAILNET)
}

/// What the person sees on a terminal of so many columns and rows.
fn shown(at: At, offered: &DeviceOffered, url: &str, (columns, rows): (usize, usize)) -> Vec<String> {
    let Some(code) = &offered.code else {
        let link = at.opened(url, &offered.link);
        return vec!["Give this link to your browser; it works once:".to_owned(), String::new(), format!("  {link}")];
    };
    let (first, rest) = code.split_at_checked(3).unwrap_or((code, ""));
    let typed = format!("the code {first} {rest} at {url}");
    // What does not fit is no square.
    let fits = |square: &Vec<String>| square.len() + 4 <= rows && 2 * square.len() <= columns;
    match squares(&at.scanned(url, &offered.link)).filter(fits) {
        Some(mut lines) => {
            lines.extend([String::new(), format!("Scan this with the device, or type {typed}")]);
            lines
        }
        None => vec![format!("Type {typed} on the device")],
    }
}

/// A text as a square of half blocks, two rows to a line, light on dark turned round so that it can be scanned.
fn squares(text: &str) -> Option<Vec<String>> {
    let code = QrCode::with_error_correction_level(text, EcLevel::L).ok()?;
    let (width, colors) = (code.width(), code.to_colors());
    let dark = |x: usize, y: usize| {
        let inside = |at: usize| at.checked_sub(QUIET).filter(|at| *at < width);
        let at = inside(x).zip(inside(y)).map(|(x, y)| y * width + x);
        at.and_then(|at| colors.get(at)) == Some(&Color::Dark)
    };
    let side = width + 2 * QUIET;
    let line = |y: usize| {
        let half = |x: usize| match (dark(x, y), dark(x, y + 1)) {
            (false, false) => '█',
            (false, true) => '▀',
            (true, false) => '▄',
            (true, true) => ' ',
        };
        // Whatever the colours of the terminal are: light squares are white.
        format!("\x1b[97;40m{}\x1b[0m", (0..side).map(half).collect::<String>())
    };
    Some((0..side).step_by(2).map(line).collect())
}

/// An offer that stands.
struct Watch<'a> {
    context: &'a Context,
    tty: Tty,
    reached: Reached,
    offer: String,
    url: String,
    /// The person here took it back.
    canceled: bool,
}

impl Watch<'_> {
    /// How it stands now.
    fn look(&mut self) -> Result<OfferInfo, CommandError> {
        let offers = self.reached.client.call::<methods::DeviceOffers>(&Empty {})?;
        let own = offers.offers.into_iter().find(|one| one.offer == self.offer);
        own.ok_or_else(|| CommandError::failed("ostler was restarted meanwhile, and the code with it; start again"))
    }

    fn until_settled(&mut self) -> Result<OfferInfo, CommandError> {
        let mut raw = Some(self.tty.raw()?);
        let settled = loop {
            let offer = self.look()?;
            match offer.state {
                OfferState::Open | OfferState::Admitted => self.wait(&offer)?,
                OfferState::Claimed => {
                    // The question takes the terminal for itself.
                    drop(raw.take());
                    decide(self.context, &self.tty, &mut self.reached.client, &offer, &self.url)?;
                    raw = Some(self.tty.raw()?);
                }
                OfferState::Paired => break Ok(offer),
                OfferState::Refused if self.canceled => {
                    break Err(CommandError::failed("canceled; nothing was paired"));
                }
                OfferState::Refused => break Err(CommandError::new(Kind::Refused, "not paired: it was refused")),
                OfferState::Expired => {
                    break Err(CommandError::failed("nobody came in time; the code and link are useless now"));
                }
            }
        };
        self.tty.write(b"\r\x1b[K")?;
        drop(raw);
        settled
    }

    /// Draws the time that is left, and takes the offer back if the person wants to leave.
    fn wait(&mut self, offer: &OfferInfo) -> Result<(), CommandError> {
        let seconds = offer.expires_in_ms / 1000;
        let what = if offer.state == OfferState::Open { "waiting for the device" } else { "letting it in" };
        let line = format!("{what} (q to stop), {}:{:02} left ", seconds / 60, seconds % 60);
        // A line that is wrapped cannot be drawn over.
        let line: String = line.chars().take(self.tty.size().0.saturating_sub(1)).collect();
        self.tty.write(format!("\r\x1b[K{line}").as_bytes())?;
        let typed = self.tty.typed(DRAW_EVERY)?;
        let mut buffer = [0; 64];
        let keys = if typed { self.tty.read(&mut buffer)? } else { &[] };
        let closed = typed && keys.is_empty();
        if closed || Tty::ended().is_some() || matches!(keys, [b'q' | b'Q' | CTRL_C | ESCAPE]) {
            let offer = OfferParams { offer: self.offer.clone() };
            self.reached.client.call::<methods::DeviceRefuse>(&offer)?;
            self.canceled = true;
        }
        Ok(())
    }
}

/// Asks whether the device that came is the person's, and lets it in or refuses it.
pub(super) fn decide(
    context: &Context,
    tty: &Tty,
    client: &mut Client,
    offer: &OfferInfo,
    place: &str,
) -> Result<bool, CommandError> {
    tty.alone(&*client)?;
    tty.write(b"\r\x1b[K")?;
    let name = offer.name.clone().unwrap_or_default();
    let address = offer.address.clone().unwrap_or_default();
    let rows = [
        Row::new(Paint::Head, &format!("{name} at {address} came to {place} with your code or link.")),
        Row::new(Paint::Plain, &format!("It will be allowed to: {}", allowed(offer.rights))),
        Row::ours(Paint::Plain, ""),
    ];
    let yes = confirmed(&context.screen, tty, &rows, "is this your device? [y/N] ", || {
        let now = client.call::<methods::DeviceOffers>(&Empty {})?;
        Ok(now.offers.iter().any(|one| one.offer == offer.offer && one.state == OfferState::Claimed))
    })?;
    let offer = OfferParams { offer: offer.offer.clone() };
    if yes {
        client.call::<methods::DeviceAdmit>(&offer)?;
    } else {
        // It may have run out meanwhile, which is as good as a no.
        let _ = client.call::<methods::DeviceRefuse>(&offer);
    }
    Ok(yes)
}

/// Rights in a sentence.
pub(super) fn allowed(rights: Rights) -> String {
    let word = |right: Right| match right {
        Right::View => "see everything",
        Right::Prompt => "talk to agents",
        Right::AnswerOnce => "answer requests once",
        Right::AnswerLastingly => "answer for good",
        Right::AnswerPrivileged => "approve commands as root",
        Right::LoosenAutonomy => "let agents act without asking",
        Right::WriteFiles => "write files and use git",
        Right::TypeIntoTerminals => "start commands and type into them",
        Right::AdmitDevices => "pair and remove devices",
    };
    rights.iter().map(word).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(code: Option<&str>) -> DeviceOffered {
        DeviceOffered { offer: "o1".into(), code: code.map(str::to_owned), link: "secret".into(), expires_in_ms: 1 }
    }

    #[test]
    fn a_link_is_behind_the_hash_and_a_code_is_read_in_two_halves() {
        let link = shown(At::Web, &offered(None), "http://127.0.0.1:1", (80, 24)).join("\n");
        assert!(link.contains("http://127.0.0.1:1/#secret"), "{link}");
        let code = shown(At::Web, &offered(Some("123456")), "https://box.example", (80, 24)).join("\n");
        assert!(code.contains("Scan") && code.contains("123 456 at https://box.example"), "{code}");
        assert!(!code.contains("secret"), "the link is in the square alone");
        let small = shown(At::Web, &offered(Some("123456")), "https://box.example", (80, 10));
        assert_eq!(small, ["Type the code 123 456 at https://box.example on the device"]);
    }

    #[test]
    fn a_phone_of_cdev_scans_its_address_and_a_browser_opens_the_page() {
        let scanned: serde_json::Value =
            serde_json::from_str(&At::Cdev.scanned("https://box.example", "secret")).unwrap();
        let wanted = serde_json::json!({
            "ws": "wss://box.example/ws", "http": "https://box.example", "token": "cdev_p_secret",
        });
        assert_eq!(scanned, wanted);
        assert_eq!(At::Cdev.opened("http://127.0.0.1:1", "secret"), "http://127.0.0.1:1/pair#secret");
    }

    #[test]
    fn a_device_is_sent_where_other_machines_come_in_if_there_is_such_a_place() {
        let door = |connect: &str| Door {
            name: At::Web.door().into(),
            address: "127.0.0.1:1".into(),
            connect: connect.into(),
        };
        let places = |connect: &str| {
            let found = Found::of(&door(connect));
            (found.device().to_owned(), found.browser().to_owned())
        };
        let both = |device: &str, browser: &str| (device.to_owned(), browser.to_owned());
        let here = "http://127.0.0.1:1";
        assert_eq!(places("devices: ws://127.0.0.1:1/rpc; more: ws://127.0.0.1:1/more"), both(here, here));
        assert_eq!(places("devices: wss://127.0.0.1:1/rpc"), both("https://127.0.0.1:1", "https://127.0.0.1:1"));
        let (secure, clear) = ("https://box.example", "http://192.0.2.1:1");
        assert_eq!(places("devices: ws://127.0.0.1:1/rpc, from elsewhere https://box.example/"), both(secure, secure));
        assert_eq!(places("cdev: http://127.0.0.1:1, from elsewhere http://192.0.2.1:1"), both(clear, here));
    }

    #[test]
    fn a_phone_is_not_sent_to_an_address_of_this_machine_without_a_word() {
        for here in
            ["http://127.0.0.1:8767", "http://localhost:1", "https://[::1]:8767", "http://0.0.0.0:1", "http://[::]:1"]
        {
            assert!(is_only_here(here), "{here}");
        }
        for elsewhere in ["https://box.example", "http://192.168.1.7:8767", "https://12.7.0.1"] {
            assert!(!is_only_here(elsewhere), "{elsewhere}");
        }
    }

    #[test]
    fn a_square_is_as_wide_as_it_is_high_and_has_light_around_it() {
        let lines = squares("https://box.example/#0123456789").unwrap();
        let rows: Vec<String> =
            lines.iter().map(|line| line.replace("\x1b[97;40m", "").replace("\x1b[0m", "")).collect();
        let width = rows[0].chars().count();
        assert!(width.div_ceil(2) == rows.len() && rows.iter().all(|row| row.chars().count() == width));
        assert!(rows[0].chars().all(|sign| sign == '█') && rows.iter().all(|row| row.starts_with("██")));
    }

    #[test]
    fn rights_are_words_that_people_choose_or_one_by_one() {
        assert_eq!(rights_of("answer").unwrap().to_string(), "answer");
        assert_eq!(rights_of("view,admit").unwrap().to_string(), "view,admit");
        assert_eq!(rights_of(BROWSER).unwrap().to_string(), "view,prompt,answer_once,write,admit");
        let error = rights_of("root").unwrap_err();
        assert!(error.message.contains("`root`") && error.hint.unwrap().contains("answer_once"));
    }
}
