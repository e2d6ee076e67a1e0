//! From exec to the first answer, alone and with a thousand children to adopt.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::json;

use super::Bench;
use crate::instance::{Instance, START_DEADLINE, TOKEN};
use crate::measure::{Sample, pairs, profile};
use crate::procfs;
use crate::raw::{Peer, connect};
use crate::running::Running;
use crate::table::{Row, Target};
use crate::wire::{self, Attached, Incoming};

const CHILDREN: usize = 1000;

pub(crate) fn rows(bench: &Bench) -> Result<()> {
    bench.show(first_answer(bench)?);
    bench.show(adoption(bench)?);
    Ok(())
}

fn first_answer(bench: &Bench) -> Result<Row> {
    let measured = pairs(
        bench.pairs,
        || {
            let instance = Instance::new(&bench.bin, "raw-start")?;
            let peer = Peer::start(instance.dir(), "echo", &[])?;
            ping(peer.connect()?)?;
            Ok(Sample::of(peer.started.elapsed().as_secs_f64() * 1e3))
        },
        || {
            let instance = Instance::new(&bench.bin, "start")?;
            let mut launcher = instance.launch()?;
            ping(connect(&instance.socket(), START_DEADLINE)?)?;
            let value = launcher.started.elapsed().as_secs_f64() * 1e3;
            launcher.wait_success(&instance)?;
            instance.shutdown()?;
            Ok(Sample::of(value))
        },
    )?;
    let target = Target::at_most(measured.ours, 50.0, "ms");
    Ok(Row::paired("-serve, exec to first answer", "ms", measured, vec![target]).against("exec, bind, listen, answer"))
}

fn ping(mut stream: UnixStream) -> Result<()> {
    stream.set_read_timeout(Some(START_DEADLINE))?;
    stream.write_all(wire::request(1, "server.ping", None, TOKEN).as_bytes())?;
    let n = stream.read(&mut [0; 256])?;
    if n == 0 {
        bail!("the connection was closed instead of answered");
    }
    Ok(())
}

/// Adopted means: a client has reattached every child and was told that it runs.
fn adoption(bench: &Bench) -> Result<Row> {
    let mut running = Running::unprivileged(&bench.bin, "adopt")?;
    running.sleepers("s", CHILDREN)?;
    let dir = running.instance.dir().join("raw-keeper").display().to_string();
    let peer = Peer::start_in(&running.instance, "adopt", &["--dir", &dir, "--children", &CHILDREN.to_string()])?;
    let mut bare = Bare::connect(&peer)?;
    let mut spent = String::new();
    let measured = pairs(
        bench.pairs,
        || bare.hand_over(),
        || {
            running.kill()?;
            let mut launcher = running.instance.launch()?;
            reattach_all(connect(&running.instance.socket(), START_DEADLINE)?)?;
            let value = launcher.started.elapsed().as_secs_f64() * 1e3;
            launcher.wait_success(&running.instance)?;
            running.daemon = running.instance.daemon()?;
            spent = profile(running.pid());
            Ok(Sample { value, cpu: Some(procfs::cpu(running.pid())?.total() * 1e3) })
        },
    )?;
    drop(bare);
    peer.finish()?;
    let target = Target::at_most(measured.ours, 250.0, "ms");
    let name = format!("exec to {CHILDREN} children adopted and reattached, ordinary user");
    let against = "a bare keeper's hand-over to a program that runs already";
    Ok(Row::paired(name, "ms", measured, vec![target]).cpu(" ms").against(against).profile(spent))
}

/// The raw limit of adoption.
struct Bare {
    stream: UnixStream,
    answers: BufReader<UnixStream>,
}

impl Bare {
    /// Waits until it has its children.
    fn connect(peer: &Peer) -> Result<Self> {
        let stream = peer.connect()?;
        stream.set_read_timeout(Some(START_DEADLINE))?;
        let answers = BufReader::new(stream.try_clone()?);
        Ok(Self { stream, answers })
    }

    fn hand_over(&mut self) -> Result<Sample> {
        writeln!(self.stream)?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        Ok(Sample::of(line.trim().parse().context("the bare keeper failed")?))
    }
}

fn reattach_all(mut stream: UnixStream) -> Result<()> {
    let mut requests = String::new();
    for id in 0..CHILDREN {
        let params = json!({"id": format!("s{id}"), "fromSeq": 0});
        requests.push_str(&wire::request(id as u64, "process.reattach", Some(&params), TOKEN));
    }
    let reader = stream.try_clone()?;
    let writer = std::thread::spawn(move || stream.write_all(requests.as_bytes()));
    reader.set_read_timeout(Some(Duration::from_secs(30)))?;
    let mut lines = BufReader::new(reader).lines();
    for found in 0..CHILDREN {
        let line = lines.next().with_context(|| format!("only {found} answers"))??;
        let Incoming::Reply { result: Ok(result), .. } = wire::parse(line.as_bytes())? else {
            bail!("reattach: {line}")
        };
        let attached: Attached = serde_json::from_str(result)?;
        if !attached.found || !attached.running {
            bail!("a child is not there any more: {line}");
        }
    }
    writer.join().map_err(|_| anyhow::anyhow!("the writer failed"))??;
    Ok(())
}
