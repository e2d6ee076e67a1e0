//! The daemon's side: whoever offers a door is looked at, its door opened, and closed again when its lease is over.
//! Nobody hosted gets further than a greeting, and a lease that ends unasked ends nothing but the door.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ostler_engine::{Caller, Engine, Environment, Joiner, MayWait, Peer, SessionConfig};
use tokio::net::UnixStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio::time::timeout;

use super::SOCKET;
use super::line::{Line, Mouth};
use super::offer::{Answer, Hello, Later, Offer, Over, VERSION};
use super::prompt::{Relay, Telling};
use super::surroundings::Surroundings;
use crate::daemon::Asked;
use crate::daemon::door_socket::{DoorSocket, Folder};
use crate::daemon::doors::OwnDoor;
use crate::daemon::host::{Host, HostError};
use crate::daemon::open_doors::OpenDoors;

/// Programs that may have their doors here at once.
const LEASES: usize = 32;
/// 4 KiB: a version and two words. Nobody is heard for longer before it is known who it is.
const HELLO_MAX: usize = 4 << 10;
/// How long a program may take for its offer, and a lease before it for its end.
const OFFERED_WITHIN: Duration = Duration::from_secs(10);
/// How long a program may take to hear that it is over: one that was stopped hears nothing.
const HEARD_WITHIN: Duration = Duration::from_secs(2);
/// How long all of them may take to close when the daemon ends: who takes over waits five seconds.
const CLOSED_WITHIN: Duration = Duration::from_secs(4);

/// The socket where programs join, open.
pub(crate) struct Leases {
    socket: DoorSocket,
    shared: Arc<Shared>,
}

struct Shared {
    engine: Engine,
    surroundings: Surroundings,
    umask: u32,
    doors: Arc<OpenDoors>,
    slots: Arc<Semaphore>,
    /// For those who are being looked at.
    arriving: Arc<Semaphore>,
    /// Who is here by name; dropped when its door is closed.
    here: Mutex<BTreeMap<String, watch::Sender<bool>>>,
    /// How the daemon ends. Whoever has a door listens, so that it can be waited for.
    ends: watch::Sender<Option<Asked>>,
}

impl Leases {
    /// Opens the socket. Whoever joins is listed in `doors`.
    pub(crate) fn open(host: &Host, sessions: &SessionConfig, doors: Arc<OpenDoors>) -> Result<Self, HostError> {
        let socket = DoorSocket::open(&host.paths().door_socket(host.name(), SOCKET), Folder::Ours)?;
        let shared = Shared {
            engine: host.engine().clone(),
            surroundings: Surroundings::of_this_process(Some(sessions)),
            umask: super::own_umask(),
            doors,
            slots: Arc::new(Semaphore::new(LEASES)),
            arriving: Arc::new(Semaphore::new(LEASES)),
            here: Mutex::default(),
            ends: watch::Sender::new(None),
        };
        Ok(Self { socket, shared: Arc::new(shared) })
    }

    /// Serves whoever comes.
    pub(crate) async fn serve(&mut self) {
        let Self { socket, shared } = self;
        let arrive = |stream| match Arc::clone(&shared.arriving).try_acquire_owned() {
            Ok(arriving) => drop(tokio::spawn(arrived(Arc::clone(shared), stream, arriving))),
            Err(_) => tracing::warn!("not joined: too many programs come at once"),
        };
        socket.serve("joining:", arrive).await;
    }

    /// Closes every door: the daemon ends.
    pub(crate) async fn close(self, asked: Asked) {
        drop(self.socket);
        self.shared.ends.send_replace(Some(asked));
        if timeout(CLOSED_WITHIN, self.shared.ends.closed()).await.is_err() {
            tracing::warn!("programs that had joined are left");
        }
    }
}

async fn arrived(shared: Arc<Shared>, stream: UnixStream, arriving: OwnedSemaphorePermit) {
    // Before anything is waited for: a daemon that ends waits for whoever is here.
    let mut ends = shared.ends.subscribe();
    let mut line = Line::new(stream);
    let admitted = tokio::select! {
        admitted = admitted(&shared, &mut line) => admitted,
        _ = daemon_ends(&mut ends) => return,
    };
    let refusal = match admitted {
        Ok(Some(admitted)) => {
            drop(arriving);
            return lease(&shared, line, admitted, ends).await;
        }
        Ok(None) => return,
        Err(why) => why,
    };
    drop(ends);
    tracing::warn!("not joined: {refusal}");
    line.dismiss(&Answer::Refused(refusal)).await;
}

/// A program whose door is open.
struct Admitted {
    name: String,
    pid: u32,
    door: Box<dyn OwnDoor>,
    /// Resolves when another process of that name is here in its place.
    replaced: watch::Receiver<bool>,
    _slot: OwnedSemaphorePermit,
}

/// Looks at whoever came, and opens its door. Otherwise why not; nothing when it said nothing.
async fn admitted(shared: &Arc<Shared>, line: &mut Line) -> Result<Option<Admitted>, String> {
    let heard = timeout(OFFERED_WITHIN, line.receive_within::<Hello>(HELLO_MAX)).await;
    let Ok(Ok(Some(hello))) = heard else { return Ok(None) };
    let pid = looked_at(line, &hello).await?;
    if hello.version != VERSION {
        let Hello { program, version, .. } = hello;
        return Err(format!("ostler {program} joins in another way (version {version}, here {VERSION})"));
    }
    let Ok(slot) = Arc::clone(&shared.slots).try_acquire_owned() else {
        return Err(format!("{LEASES} programs have joined already"));
    };
    let offer = match timeout(OFFERED_WITHIN, line.receive::<Offer>()).await {
        Ok(Ok(Some(offer))) => offer,
        Ok(Err(error)) => return Err(format!("the offer cannot be read: {error}")),
        _ => return Ok(None),
    };
    if let Some(why) = offer.surroundings.differs(&shared.surroundings) {
        return Err(why);
    }
    if let Some(why) = offer.door.objection(offer.umask == shared.umask) {
        return Err(why.to_owned());
    }
    let socket = line.take_descriptor().ok_or("no socket was handed over")?;
    let replaced = shared.take_place(&offer.name).await?;
    tracing::info!("{} joined: pid {pid}, {}", offer.name, offer.record.address);
    let joiner = Joiner {
        name: offer.name.clone(),
        environment: Arc::new(Environment::new(offer.environment)),
        cwd: offer.cwd,
        umask: offer.umask,
        nofile: offer.nofile,
        limits: offer.surroundings.own_limits(&shared.surroundings),
    };
    let engine = shared.engine.join(joiner);
    let opened = offer.door.open(engine, socket).map_err(|error| error.to_string());
    let door = opened.inspect_err(|_| shared.leave(&offer.name))?;
    let connect = format!("{} (pid {pid})", offer.record.connect);
    shared.doors.enter(&offer.name, crate::instances::DoorRecord { connect, ..offer.record }).await;
    Ok(Some(Admitted { name: offer.name, pid, door, replaced, _slot: slot }))
}

/// The pid of whoever came, if it may join: a program of our user that nobody hosts.
async fn looked_at(line: &mut Line, hello: &Hello) -> Result<u32, String> {
    let who = line.stream().as_fd().try_clone_to_owned().map_err(|error| error.to_string())?;
    let environ = if hello.shows { line.take_descriptor() } else { None };
    let looked = MayWait::pool(move |_| {
        let peer = Peer::of(&who)?;
        let caller = environ.map_or_else(|| peer.caller(), |environ| peer.caller_showing(environ));
        io::Result::Ok((peer.uid, peer.pid, caller))
    });
    let Ok(Ok((uid, pid, caller))) = looked.await else {
        return Err("the system does not say which program it is".into());
    };
    match caller {
        Caller::Free if uid == rustix::process::geteuid().as_raw() => Ok(pid),
        Caller::Free | Caller::Elsewhere => Err(format!("pid {pid} is another user's ({uid})")),
        Caller::Hosted(host) => Err(format!("pid {pid} runs in ostler (started by {host})")),
        Caller::Unknown => Err(format!("cannot check pid {pid}")),
    }
}

impl Shared {
    /// The name is taken from a process that had it: of two, the second holds the lock of their place.
    async fn take_place(&self, name: &str) -> Result<watch::Receiver<bool>, String> {
        let gone = async {
            loop {
                let before = {
                    let mut here = self.here.lock().unwrap_or_else(PoisonError::into_inner);
                    let Some(before) = here.get(name) else {
                        let (place, replaced) = watch::channel(false);
                        here.insert(name.to_owned(), place);
                        return replaced;
                    };
                    before.send_replace(true);
                    before.subscribe()
                };
                let mut before = before;
                // Nothing more is said there: it goes.
                while before.changed().await.is_ok() {}
            }
        };
        timeout(OFFERED_WITHIN, gone).await.map_err(|_| format!("the {name} before it does not end"))
    }

    fn leave(&self, name: &str) {
        self.here.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }
}

/// Serves at the door until the lease is over, whoever ends it.
async fn lease(shared: &Shared, mut line: Line, admitted: Admitted, mut ends: watch::Receiver<Option<Asked>>) {
    let Admitted { name, pid, mut door, mut replaced, _slot } = admitted;
    // Who has gone meanwhile is noticed at once.
    let _ = line.send(&Answer::Open, &[]).await;
    let relay = door.relay();
    let (last, over) = oneshot::channel();
    let mut speaking = tokio::spawn(speak(line.mouth(), relay.as_ref().and_then(|relay| relay.take_told()), over));
    let (asked, leaves) = tokio::select! {
        asked = door.serve() => (asked, false),
        asked = listen(&mut line, relay.as_ref()) => (asked, false),
        _ = replaced.wait_for(|replaced| *replaced) => (Asked::Leave, false),
        asked = daemon_ends(&mut ends) => (asked, true),
    };
    // What the daemon itself ends, it ends with everything else.
    let abandoned = door.end(if leaves { Asked::Leave } else { asked }).await;
    shared.doors.leave(&name).await;
    shared.leave(&name);
    tracing::info!("{name} has left: pid {pid}, {asked:?}");
    let answer = match leaves && asked != Asked::Stop {
        true => Answer::Leaving,
        false => Answer::Over(Over { asked, abandoned }),
    };
    let _ = last.send(answer);
    if timeout(HEARD_WITHIN, &mut speaking).await.is_err() {
        speaking.abort();
    }
    drop(ends);
}

/// Tells the program what happens at its door, and last of all that it is over.
async fn speak(mouth: Mouth, mut told: Option<mpsc::Receiver<Telling>>, mut over: oneshot::Receiver<Answer>) {
    loop {
        let news = async {
            match &mut told {
                Some(told) => told.recv().await,
                None => std::future::pending().await,
            }
        };
        let (answer, beside) = tokio::select! {
            biased;
            Some((told, beside)) = news => (Answer::Told(Box::new(told)), beside),
            last = &mut over => {
                if let Ok(last) = last {
                    // It may have been killed.
                    let _ = mouth.send(&last, &[]).await;
                }
                return;
            }
        };
        let beside: Vec<_> = beside.iter().map(|terminal| terminal.as_fd()).collect();
        if mouth.send(&answer, &beside).await.is_err() {
            return;
        }
    }
}

/// Hears what the program says, until it wants to end.
async fn listen(line: &mut Line, relay: Option<&Arc<Relay>>) -> Asked {
    loop {
        match (line.receive::<Later>().await, relay) {
            (Ok(Some(Later::Prompt { prompt })), Some(relay)) => {
                relay.hear(prompt, line.stream().as_fd().try_clone_to_owned());
            }
            (said, _) => return ended(said),
        }
    }
}

/// What a program wants that ends. One that was killed said nothing: everything lives on, as it would without us.
fn ended(said: io::Result<Option<Later>>) -> Asked {
    match said {
        Ok(Some(Later::Ends { asked })) => asked,
        _ => Asked::Leave,
    }
}

async fn daemon_ends(ends: &mut watch::Receiver<Option<Asked>>) -> Asked {
    ends.wait_for(Option::is_some).await.ok().and_then(|asked| *asked).unwrap_or(Asked::Leave)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_killed_wants_everything_to_live_on() {
        assert_eq!(ended(Ok(None)), Asked::Leave);
        assert_eq!(ended(Err(io::ErrorKind::ConnectionReset.into())), Asked::Leave);
        assert_eq!(ended(Ok(Some(Later::Ends { asked: Asked::Stop }))), Asked::Stop);
    }
}
