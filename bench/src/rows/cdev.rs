//! The port of cdev clients: a request beside the raw WebSocket, a turn's events to one phone and to many, the first screen after
//! connecting, and what a connected phone costs.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use ostler_api::client::Client;
use ostler_api::methods;
use rustix::process::Pid;
use serde_json::{Value, json};

use super::Bench;
use super::web::{RAW, SILENCE, frame, latency, paired, port, rate, sample};
use crate::approvals::{Daemon, native};
use crate::instance::Instance;
use crate::measure::{RowTime, median, pairs, profile};
use crate::procfs;
use crate::raw::Peer;
use crate::table::{Row, Target};

/// An answer that always has the same size.
const REQUEST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"workspace/subscriptions","params":{}}"#;
/// What a phone shows first.
const SCREEN: u64 = 50;
/// Phones whose memory is compared with that of none.
const PHONES: usize = 200;
/// Threads that answered them have ended by then.
const SETTLE: Duration = Duration::from_secs(12);
const KB: f64 = 1e3;

/// What every row of this family needs.
struct Server<'a> {
    bench: &'a Bench,
    instance: &'a Instance,
    pid: Pid,
    port: u16,
    token: String,
}

pub(crate) fn rows(bench: &Bench) -> Result<()> {
    let instance = Instance::new(&bench.bin, "cdev")?;
    // Nothing but what is measured is said, and as often as it is asked for.
    let quiet = [("OSTLER_CDEV_RATE_LIMIT", "false"), ("OSTLER_CDEV_HEARTBEAT", "1h")];
    let quiet: BTreeMap<String, String> = quiet.map(|(name, text)| (name.to_owned(), text.to_owned())).into();
    let mut daemon = Daemon::new(&instance)?.with_env(&quiet);
    daemon.start()?;
    let work = instance.dir().join("work");
    std::fs::create_dir_all(&work)?;
    let session = serde_json::from_value(json!({ "agent": "echo", "workspace": work }))?;
    Client::connect(&native(instance.dir()))?.call::<methods::SessionCreate>(&session)?;
    let token = paired(&instance, port(&instance, "web")?)?;
    let pid = daemon.pid().context("no daemon")?;
    let server = Server { bench, instance: &instance, pid, port: port(&instance, "cdev")?, token };
    server.requests()?;
    // Before there were many: what they leave behind is used again.
    server.memory()?;
    for count in [1, 100, 1000] {
        server.events(count)?;
    }
    server.first_screen()?;
    daemon.stop()
}

impl Server<'_> {
    fn requests(&self) -> Result<()> {
        let (request, mut first) = (frame(REQUEST), self.phone()?);
        first.send(REQUEST)?;
        // Two bytes stand before what is this short.
        let answer = first.next()?.len() + 2;
        ensure!(answer < 126, "the answer has {answer} bytes");
        let sizes = [request.len().to_string(), answer.to_string()];
        let [request_size, answer_size] = &sizes;
        let peer =
            Peer::start(self.instance.dir(), "websocket", &["--request", request_size, "--answer", answer_size])?;
        let mut told = String::new();
        BufReader::new(peer.connect()?).read_line(&mut told)?;
        let raw: u16 = told.trim().parse()?;
        let raw =
            |depth, count| sample(TcpStream::connect(("127.0.0.1", raw))?, peer.pid(), &request, answer, depth, count);
        let ours = |depth, count| sample(self.phone()?.into_stream()?, self.pid, &request, answer, depth, count);

        let count = self.bench.size(10_000, 2_000);
        let one = pairs(self.bench.pairs, || raw(1, count).map(latency), || ours(1, count).map(latency))?;
        let target = Target::ratio_at_most(one.ratio, 3.0);
        let row = Row::paired("cdev request over a WebSocket, 1 in flight", "us", one, vec![target]).cpu(" us");
        self.bench.show(row.against(RAW).profile(profile(self.pid)));

        let count = self.bench.size(100_000, 20_000);
        let many = pairs(self.bench.pairs, || raw(64, count).map(rate), || ours(64, count).map(rate))?;
        let target = Target::ratio_at_least(many.ratio, 0.05);
        let row = Row::paired("cdev requests over a WebSocket, 64 in flight", "k/s", many, vec![target]).cpu(" us");
        self.bench.show(row.against(RAW).profile(profile(self.pid)));
        Ok(())
    }

    /// The events of a turn, until the last phone has the last of them.
    fn events(&self, count: usize) -> Result<()> {
        let mut phones = (0..count).map(|_| self.phone()).collect::<Result<Vec<_>>>()?;
        let mut taken = Vec::new();
        let time = RowTime::begin();
        for turn in (0..self.bench.pairs).take_while(|taken| time.allows(*taken)) {
            let prompt = json!({
                "jsonrpc": "2.0", "id": 1, "method": "agent/run",
                "params": { "prompt": format!("turn {turn} {}", "word ".repeat(100)), "agent_type": "echo" },
            });
            let started = Instant::now();
            phones.first_mut().context("no phone")?.send(&prompt.to_string())?;
            let mut heard = 0;
            for phone in &mut phones {
                heard += phone.until_idle()?;
            }
            taken.push(started.elapsed().as_secs_f64() / heard as f64 * 1e6);
        }
        let each = median(taken).unwrap_or(f64::NAN);
        let sockets = if count == 1 { "1 socket".to_owned() } else { format!("{count} sockets") };
        // To one, the agent's own start is most of it.
        let target = Target::at_most(each, if count == 1 { 10_000.0 } else { 200.0 }, "us");
        let name = format!("cdev events of a turn to {sockets}, each");
        self.bench.show(Row::alone(name, "us", each, target).profile(profile(self.pid)));
        Ok(())
    }

    /// What a phone asks for when it is opened: where things stand, the list, the last messages.
    fn first_screen(&self) -> Result<()> {
        let mut phone = self.phone()?;
        let listed = phone.call("session/list", &json!({ "limit": 1 }))?;
        let session = listed.pointer("/result/sessions/0/session_id").and_then(Value::as_str).context("no session")?;
        for turn in 0..SCREEN / 2 {
            let params = json!({ "session_id": session, "prompt": format!("again {turn}") });
            let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "session/send", "params": params });
            // The turn may be over before it is answered for.
            phone.send(&request.to_string())?;
            phone.until_idle()?;
        }
        let mut taken = Vec::new();
        let time = RowTime::begin();
        for _ in (0..10 * self.bench.pairs).take_while(|taken| time.allows(*taken)) {
            let started = Instant::now();
            let mut phone = Phone::connect(self.port, &self.token)?;
            phone.call("initialize", &json!({ "protocolVersion": "1.0" }))?;
            phone.call("status/get", &json!({}))?;
            phone.call("session/list", &json!({}))?;
            let wanted = json!({ "session_id": session, "limit": SCREEN, "order": "desc" });
            let messages = phone.call("session/messages", &wanted)?;
            let count = messages.pointer("/result/messages").and_then(Value::as_array).map_or(0, Vec::len);
            ensure!(count as u64 == SCREEN, "{count} messages came");
            taken.push(started.elapsed().as_secs_f64() * 1e3);
        }
        let screen = median(taken).unwrap_or(f64::NAN);
        let target = Target::at_most(screen, 100.0, "ms");
        let name = "cdev first screen: connect, status, sessions, 50 messages";
        self.bench.show(Row::alone(name, "ms", screen, target).profile(profile(self.pid)));
        Ok(())
    }

    fn memory(&self) -> Result<()> {
        std::thread::sleep(SETTLE);
        let before = procfs::rss_anon(self.pid)? as f64;
        let phones = (0..PHONES).map(|_| self.phone()).collect::<Result<Vec<_>>>()?;
        std::thread::sleep(SETTLE);
        let each = (procfs::rss_anon(self.pid)? as f64 - before) / phones.len() as f64 / KB;
        let target = Target::at_most(each, 100.0, "kB");
        self.bench.show(Row::alone("daemon's RssAnon per connected cdev phone", "kB", each, target));
        Ok(())
    }

    /// A phone that has its events, and has read all that came so far.
    fn phone(&self) -> Result<Phone> {
        let mut phone = Phone::connect(self.port, &self.token)?;
        phone.call("workspace/subscriptions", &json!({}))?;
        Ok(phone)
    }
}

/// One WebSocket.
struct Phone(BufReader<TcpStream>);

impl Phone {
    fn connect(port: u16, token: &str) -> Result<Self> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(SILENCE))?;
        write!(
            stream,
            "GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nAuthorization: Bearer {token}\r\n\r\n"
        )?;
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        stream.read_line(&mut line)?;
        ensure!(line.starts_with("HTTP/1.1 101 "), "no WebSocket: {line}");
        while line != "\r\n" {
            line.clear();
            stream.read_line(&mut line)?;
        }
        Ok(Self(stream))
    }

    fn send(&mut self, text: &str) -> Result<()> {
        Ok(self.0.get_mut().write_all(&frame(text))?)
    }

    /// The next message.
    fn next(&mut self) -> Result<Vec<u8>> {
        loop {
            let mut head = [0; 2];
            self.0.read_exact(&mut head)?;
            let [kind, short] = head;
            let length = match short {
                126 => {
                    let mut length = [0; 2];
                    self.0.read_exact(&mut length)?;
                    u64::from(u16::from_be_bytes(length))
                }
                127 => {
                    let mut length = [0; 8];
                    self.0.read_exact(&mut length)?;
                    u64::from_be_bytes(length)
                }
                short => u64::from(short),
            };
            let mut payload = vec![0; usize::try_from(length)?];
            self.0.read_exact(&mut payload)?;
            match kind & 15 {
                1 => return Ok(payload),
                8 => bail!("the server hung up"),
                _ => {}
            }
        }
    }

    /// The answer to a request; what comes in between is passed over.
    fn call(&mut self, method: &str, params: &Value) -> Result<Value> {
        self.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string())?;
        loop {
            let said: Value = serde_json::from_slice(&self.next()?)?;
            if said.get("id").is_some() {
                ensure!(said.get("error").is_none(), "{method}: {said}");
                return Ok(said);
            }
        }
    }

    /// Reads on until a turn is over; how many events came.
    fn until_idle(&mut self) -> Result<u64> {
        let mut count = 0;
        loop {
            let said: Value = serde_json::from_slice(&self.next()?)?;
            ensure!(said.get("error").is_none(), "{said}");
            count += u64::from(said.get("method").is_some());
            let is_status = said.get("method").and_then(Value::as_str) == Some("event/claude_status");
            match said.pointer("/params/state").and_then(Value::as_str).filter(|_| is_status) {
                Some("idle") => return Ok(count),
                Some("error" | "stopped") => bail!("the turn failed: {said}"),
                _ => {}
            }
        }
    }

    fn into_stream(self) -> Result<TcpStream> {
        ensure!(self.0.buffer().is_empty(), "something came that nobody asked for");
        Ok(self.0.into_inner())
    }
}
