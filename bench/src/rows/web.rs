//! Round trips of a device's requests over a WebSocket, against a blocking server that takes and gives frames of the same size.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use ostler_api::client::Client;
use ostler_api::{DeviceOfferParams, Empty, Rights, methods};
use rustix::process::Pid;
use serde_json::{Value, json};

use super::Bench;
use crate::approvals::{Daemon, native, terminal};
use crate::args::Args;
use crate::instance::Instance;
use crate::measure::{CpuMeter, Sample, pairs, profile};
use crate::raw::Peer;
use crate::raw::websocket::HEAD;
use crate::table::{Row, Target};

/// Nothing here waits; a silent peer is a hung one.
pub(super) const SILENCE: Duration = Duration::from_secs(20);
pub(super) const RAW: &str =
    "a blocking WebSocket server in one thread: frames of the same size, unmasked, not looked at";
const REQUEST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"instance.hello","params":{"version":1,"client":""}}"#;

pub(crate) fn rows(bench: &Bench) -> Result<()> {
    let instance = Instance::new(&bench.bin, "web")?;
    let mut daemon = Daemon::new(&instance)?;
    daemon.start()?;
    let pid = daemon.pid().context("no daemon")?;
    let port = port(&instance, "web")?;
    let token = paired(&instance, port)?;
    let (request, mut first) = (frame(REQUEST), connect(port, Some(&token))?);
    first.write_all(&request)?;
    let answer = read_frame(&mut first)?.0;
    let sizes = [request.len().to_string(), answer.to_string()];
    let [request_size, answer_size] = &sizes;
    let peer = Peer::start(instance.dir(), "websocket", &["--request", request_size, "--answer", answer_size])?;
    let mut told = String::new();
    BufReader::new(peer.connect()?).read_line(&mut told)?;
    let raw: u16 = told.trim().parse()?;
    // A connection each: on an older one the daemon asks whether anybody is there.
    let raw =
        |depth, count| sample(TcpStream::connect(("127.0.0.1", raw))?, peer.pid(), &request, answer, depth, count);
    let ours = |depth, count| sample(connect(port, Some(&token))?, pid, &request, answer, depth, count);

    let count = bench.size(20_000, 3_000);
    let one = pairs(bench.pairs, || raw(1, count).map(latency), || ours(1, count).map(latency))?;
    let target = Target::ratio_at_most(one.ratio, 2.0);
    let row = Row::paired("request over a WebSocket, 1 in flight", "us", one, vec![target]).cpu(" us");
    bench.show(row.against(RAW).profile(profile(pid)));

    let count = bench.size(300_000, 50_000);
    let many = pairs(bench.pairs, || raw(64, count).map(rate), || ours(64, count).map(rate))?;
    let target = Target::ratio_at_least(many.ratio, 0.2);
    let row = Row::paired("requests over a WebSocket, 64 in flight", "k/s", many, vec![target]).cpu(" us");
    bench.show(row.against(RAW).profile(profile(pid)));
    daemon.stop()
}

/// `bench offer`: on a terminal of its own, because only a person lets devices in. Prints the link.
pub(crate) fn offer(mut args: Args) -> Result<u8> {
    let socket: PathBuf = args.required("--socket")?;
    args.finish()?;
    let offer = DeviceOfferParams { name: Some("bench".to_owned()), rights: Rights::NONE, code: false };
    println!("{}", Client::connect(&socket)?.call::<methods::DeviceOffer>(&offer)?.link);
    Ok(0)
}

/// The port of this door.
pub(super) fn port(instance: &Instance, name: &str) -> Result<u16> {
    let status = Client::connect(&native(instance.dir()))?.call::<methods::InstanceStatus>(&Empty {})?;
    let door = status.doors.into_iter().find(|door| door.name == name).context("no such port")?;
    Ok(door.address.rsplit(':').next().context("no port")?.parse()?)
}

/// Pairs a device, and gives its token.
pub(super) fn paired(instance: &Instance, port: u16) -> Result<String> {
    let link = offered(instance.tool(), &native(instance.dir()))?;
    let mut socket = connect(port, None)?;
    let redeem =
        json!({"jsonrpc": "2.0", "id": 1, "method": "device.redeem", "params": {"link": link, "name": "bench"}});
    socket.write_all(&frame(&redeem.to_string()))?;
    let answer: Value = serde_json::from_slice(&read_frame(&mut socket)?.1)?;
    let token = answer.pointer("/result/paired/tokens/access").and_then(Value::as_str);
    token.map(str::to_owned).with_context(|| format!("not paired: {answer}"))
}

fn offered(tool: &Path, socket: &Path) -> Result<String> {
    let (_master, slave) = terminal()?;
    let mut command = Command::new("setsid");
    command.args(["--ctty", "--wait"]).arg(tool).arg("offer").arg("--socket").arg(socket);
    let said = command.stdin(slave).stderr(Stdio::inherit()).output().context("start setsid of util-linux")?;
    Ok(String::from_utf8(said.stdout)?.trim().to_owned())
}

fn connect(port: u16, token: Option<&str>) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(SILENCE))?;
    let bearer = token.map_or(String::new(), |token| format!("Authorization: Bearer {token}\r\n"));
    write!(
        stream,
        "GET /rpc HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{bearer}\r\n"
    )?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.extend(byte);
    }
    if !head.starts_with(b"HTTP/1.1 101 ") {
        bail!("no WebSocket: {}", String::from_utf8_lossy(&head));
    }
    Ok(stream)
}

/// A client's frame, with a mask that changes nothing.
pub(super) fn frame(text: &str) -> Vec<u8> {
    let mut frame = vec![0x81];
    match u8::try_from(text.len()).ok().filter(|length| *length < 126) {
        Some(length) => frame.push(0x80 | length),
        None => {
            frame.push(0xfe);
            frame.extend((text.len() as u16).to_be_bytes());
        }
    }
    frame.extend([0; HEAD - 2]);
    frame.extend(text.as_bytes());
    frame
}

/// The size and payload of the next frame.
fn read_frame(stream: &mut TcpStream) -> Result<(usize, Vec<u8>)> {
    let mut head = [0; 2];
    stream.read_exact(&mut head)?;
    let [_, short] = head;
    let (length, head) = if short == 126 {
        let mut length = [0; 2];
        stream.read_exact(&mut length)?;
        (usize::from(u16::from_be_bytes(length)), 4)
    } else {
        (usize::from(short), 2)
    };
    let mut payload = vec![0; length];
    stream.read_exact(&mut payload)?;
    Ok((head + length, payload))
}

pub(super) struct Trips {
    seconds: f64,
    cpu: f64,
    count: f64,
}

pub(super) fn latency(trips: Trips) -> Sample {
    Sample { value: trips.seconds / trips.count * 1e6, cpu: Some(trips.cpu / trips.count * 1e6) }
}

pub(super) fn rate(trips: Trips) -> Sample {
    Sample { value: trips.count / trips.seconds / 1e3, cpu: Some(trips.cpu / trips.count * 1e6) }
}

/// `count` round trips with `depth` of them on their way at any time; every answer has `answer` bytes.
pub(super) fn sample(
    mut stream: TcpStream,
    pid: Pid,
    request: &[u8],
    answer: usize,
    depth: u64,
    count: u64,
) -> Result<Trips> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(SILENCE))?;
    let mut buffer = vec![0; 64 << 10];
    let meter = CpuMeter::start(pid)?;
    let started = Instant::now();
    let (mut sent, mut bytes) = (0, 0);
    while bytes < answer * usize::try_from(count)? {
        let answered = (bytes / answer) as u64;
        let now = depth.saturating_sub(sent - answered).min(count - sent);
        stream.write_all(&request.repeat(usize::try_from(now)?))?;
        sent += now;
        let n = stream.read(&mut buffer)?;
        if n == 0 {
            bail!("the server closed the connection after {answered} answers");
        }
        bytes += n;
    }
    Ok(Trips { seconds: started.elapsed().as_secs_f64(), cpu: meter.seconds()?, count: count as f64 })
}
