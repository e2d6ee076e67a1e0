//! One connection: one line in, one decision, one line out. Whatever happens to the client, a request that waits is
//! withdrawn when its client hangs up, and one that runs is run to its end.

use std::io::{self, BufWriter, Write};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ostler_engine::{Host, MayWait};
use tokio::net::UnixStream;

use crate::answer::Responder;
use crate::arrive::{self, Arrived};
use crate::request::{self, Checked};
use crate::run::{self, Reply};
use crate::{DoorState, Open, Peer, Request, wire};

/// A client that takes nothing for so long has stopped reading; its place is needed.
const WRITE_WITHIN: Duration = Duration::from_secs(30);
/// What is gathered before it is written to the socket.
const BUFFER: usize = 64 * 1024;

/// Serves the connection to its end.
pub(crate) async fn serve(shared: Arc<DoorState>, stream: UnixStream, peer: Peer, mut open: Open) {
    let arrived = tokio::select! {
        arrived = arrive::request(&stream) => arrived,
        () = open.closed() => return,
    };
    let outcome = match arrived {
        Ok(Arrived::Line(line)) => answer(&shared, stream, &peer, &line, &mut open).await,
        Ok(Arrived::Nothing) => Ok(()),
        Ok(Arrived::Broken(why)) => send(stream, shared.answer("").error(why)).await.map(drop),
        Ok(Arrived::TooLong) => match send(stream, shared.answer("").error(arrive::TOO_LONG)).await {
            Ok(stream) => {
                arrive::drain(&stream).await;
                Ok(())
            }
            Err(error) => Err(error),
        },
        Err(error) => Err(error),
    };
    if let Err(error) = outcome {
        tracing::debug!("a client left before its answer: {error}");
    }
}

/// Answers whatever the client asks, which nobody reads.
pub(crate) async fn refuse(stream: UnixStream, line: Vec<u8>) {
    match send(stream, line).await {
        Ok(stream) => arrive::drain(&stream).await,
        Err(error) => tracing::debug!("a client left before its answer: {error}"),
    }
}

async fn answer(
    shared: &Arc<DoorState>,
    stream: UnixStream,
    peer: &Peer,
    line: &[u8],
    open: &mut Open,
) -> io::Result<()> {
    let wire = match wire::Request::read(line) {
        Ok(wire) => wire,
        Err(error) => {
            let message = format!("invalid JSON: {error}");
            return send(stream, shared.answer("").error(&message)).await.map(drop);
        }
    };
    let id = wire.id.clone();
    let to = shared.answer(&id);
    let short = match request::check(wire, SystemTime::now()) {
        Err(refusal) => to.error(&refusal.to_string()),
        Ok(Checked::Run(request)) => return run_it(shared, stream, peer, request, open).await,
        Ok(Checked::Ping(_) | Checked::Stop(_)) if !shared.first_use(&id) => to.error(&run::duplicate(&id)),
        Ok(Checked::Ping(request)) => {
            shared.surface.pinged(&request);
            to.done(Some("pong"))
        }
        // Who may ask for commands may still not end the place where they are decided.
        Ok(Checked::Stop(_)) if peer.uid != rustix::process::geteuid().as_raw() => {
            to.error("only the user whose sudo-proxy this is may stop it")
        }
        Ok(Checked::Stop(request)) => match shared.surface.stop(&request) {
            // The daemon may end once the answer is on its way.
            Ok(()) => {
                let sent = send(stream, to.done(None)).await;
                shared.stop.notify_one();
                return sent.map(drop);
            }
            Err(why) => to.error(&why),
        },
    };
    send(stream, short).await.map(drop)
}

async fn run_it(
    shared: &Arc<DoorState>,
    stream: UnixStream,
    peer: &Peer,
    request: Request,
    open: &mut Open,
) -> io::Result<()> {
    let id = request.id.clone();
    // Looked at only for what somebody will be asked about.
    let host = shared.engine.host_of(&stream);
    let mut peer = peer.clone();
    if let Some(Host { name, workspace }) = host {
        peer.hosted = Some(name);
        peer.workspace = workspace.map(|path| path.to_string_lossy().into_owned());
    }
    let peer = peer;
    let said = run::decided(shared, request, &peer, &stream, open).await;
    let to = shared.answer(&id);
    match said {
        Reply::Nothing => Ok(()),
        Reply::Denied => send(stream, to.denied()).await.map(drop),
        Reply::Expired => send(stream, to.timeout()).await.map(drop),
        Reply::Error(why) => send(stream, to.error(&why)).await.map(drop),
        Reply::Ran(ran, output) => {
            let version = shared.settings.version.clone();
            let write = move |wait: &MayWait, out: &mut dyn Write| {
                Responder { id: &id, version: &version }.ran(&ran, &mut output.read(wait), out)
            };
            blocking(stream.into_std()?, write).await.map(drop)
        }
    }
}

/// Sends a short answer, which almost always fits the socket at once.
async fn send(stream: UnixStream, line: Vec<u8>) -> io::Result<UnixStream> {
    let sent = match stream.try_write(&line) {
        Ok(count) => count,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
        Err(error) => return Err(error),
    };
    let stream = match line.get(sent..) {
        Some(rest) if !rest.is_empty() => {
            let rest = rest.to_vec();
            let stream = blocking(stream.into_std()?, move |_, out| out.write_all(&rest)).await?;
            stream.set_nonblocking(true)?;
            UnixStream::from_std(stream)?
        }
        _ => stream,
    };
    // Whoever reads to the end need not wait for us to close.
    let _ = rustix::net::shutdown(&stream, rustix::net::Shutdown::Write);
    Ok(stream)
}

/// Writes from a thread that may wait for the disk and for the reader.
async fn blocking(
    stream: StdUnixStream,
    write: impl FnOnce(&MayWait, &mut dyn Write) -> io::Result<()> + Send + 'static,
) -> io::Result<StdUnixStream> {
    MayWait::run(move |wait| {
        stream.set_nonblocking(false)?;
        stream.set_write_timeout(Some(WRITE_WITHIN))?;
        let mut out = BufWriter::with_capacity(BUFFER, stream);
        write(wait, &mut out)?;
        out.into_inner().map_err(io::IntoInnerError::into_error)
    })
    .await
}
