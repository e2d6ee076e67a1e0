//! The program's side: finds a daemon to join, hands its door over, and holds the lease until it ends or is told to. A daemon
//! that dies is waited for, and offered the door again.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ostler_engine::{Environment, MayWait, SessionConfig, access};
use ostler_keeper::shield;
use rustix::process::{Resource, getrlimit};
use tokio::net::UnixStream;

use super::SOCKET;
use super::line::Line;
use super::offer::{Answer, Hello, Later, Offer, Over, VERSION};
use super::prompt::{Said, Told};
use super::surroundings::Surroundings;
use crate::daemon::Asked;
use crate::daemon::door_socket::DoorSocket;
use crate::daemon::doors::Handed;
use crate::daemon::host::Ours;
use crate::instances::{self, DoorRecord, InstanceRecord};
use crate::paths::{DEFAULT_INSTANCE, Paths};

/// Keeps a program apart.
const JOIN: &str = "OSTLER_JOIN";
/// How long a daemon may take to come back: its keeper starts it at once, a service manager within seconds.
const BACK_WITHIN: Duration = Duration::from_secs(30);
/// The same when the program itself is to end.
const ENDED_WITHIN: Duration = Duration::from_secs(20);
/// How soon it is looked for again.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// A daemon that does not answer is hung, and not waited for without end.
const ANSWERED_WITHIN: Duration = Duration::from_secs(20);
/// How often a keeper is looked at before it counts as one that stays.
const KEEPER_LOOKS: u32 = 5;

/// A daemon that could be joined.
pub(crate) struct Invitation {
    line: Line,
    paths: Paths,
    name: String,
}

/// A program whose door is open in the daemon.
pub(crate) struct Holder {
    line: Line,
    paths: Paths,
    offer: Offer,
}

/// Where a door listens, as long as the program lives.
pub(crate) trait Listening: AsFd + Send + Sync {
    /// Resolves when it listens anew, at a place that was swept.
    fn renewed(&mut self) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }
}

impl Listening for std::net::TcpListener {}
impl Listening for ostler_door_rpc::Bound {}
impl Listening for DoorSocket {
    async fn renewed(&mut self) {
        self.swept().await;
        self.reopen().await;
    }
}

/// A program that puts the questions of its door to a person.
pub(crate) trait Answering: Send {
    /// The door tells it this, perhaps with a terminal.
    fn told(&mut self, told: Told, terminal: Option<OwnedFd>) -> impl Future<Output = ()> + Send;

    /// What is to be said there. Nothing is lost when this is dropped.
    fn says(&mut self) -> impl Future<Output = Said> + Send;

    /// The daemon is gone, and with it whoever asked.
    fn lost(&mut self);
}

/// Most are told nothing.
impl Answering for () {
    async fn told(&mut self, _: Told, _: Option<OwnedFd>) {}

    fn says(&mut self) -> impl Future<Output = Said> + Send {
        std::future::pending()
    }

    fn lost(&mut self) {}
}

impl Invitation {
    /// Looks for a daemon that the program of this place can join. Says why not where there is one.
    pub(crate) async fn find(ours: &Ours) -> Option<Self> {
        if std::env::var_os(JOIN).is_some_and(|join| join == "never") {
            return None;
        }
        let (paths, name) = (ours.paths().clone(), ours.name().to_owned());
        let dir = paths.instance_dir(DEFAULT_INSTANCE);
        let runs = InstanceRecord::read(&dir).ok().flatten().is_some_and(|record| record.is_alive());
        if !runs {
            return None;
        }
        if let Some(why) = obstacle(ours.dir()).await {
            tracing::warn!("not joining ostler: {why}");
            return None;
        }
        match call(&paths).await {
            Ok(line) => Some(Self { line, paths, name }),
            Err(why) => {
                tracing::warn!("not joining ostler: {why}");
                None
            }
        }
    }

    /// Hands the door over. Nothing if that was refused, which is said: the program runs apart.
    pub(crate) async fn accept(
        self,
        sessions: Option<&SessionConfig>,
        environment: &Environment,
        listening: &impl Listening,
        record: DoorRecord,
        door: Handed,
    ) -> Option<Holder> {
        let nofile = getrlimit(Resource::Nofile);
        let offer = Offer {
            name: self.name,
            surroundings: Surroundings::of_this_process(sessions),
            environment: environment.snapshot().as_ref().clone(),
            cwd: std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/")),
            umask: super::own_umask(),
            nofile: (nofile.current.unwrap_or(u64::MAX), nofile.maximum.unwrap_or(u64::MAX)),
            record,
            door,
        };
        let mut holder = Holder { line: self.line, paths: self.paths, offer };
        match holder.offer(listening).await {
            Ok(()) => {
                tracing::info!("joined ostler");
                Some(holder)
            }
            Err(why) => {
                tracing::warn!("not joining ostler: {why}");
                None
            }
        }
    }
}

impl Holder {
    /// Holds the lease until the program is to end: because it was `asked`, or a client or the daemon wants it so.
    pub(crate) async fn hold(
        self,
        listening: impl Listening,
        asked: impl Future<Output = Asked>,
    ) -> Result<Over, String> {
        self.hold_for(listening, asked, ()).await
    }

    /// The same for a program that is asked what comes in at its door.
    pub(crate) async fn hold_for(
        mut self,
        mut listening: impl Listening,
        asked: impl Future<Output = Asked>,
        mut program: impl Answering,
    ) -> Result<Over, String> {
        tokio::pin!(asked);
        loop {
            let lost = tokio::select! {
                answer = self.line.receive::<Answer>() => match answer {
                    Ok(Some(Answer::Over(over))) => return Ok(over),
                    Ok(Some(Answer::Told(told))) => {
                        program.told(*told, self.line.take_descriptor()).await;
                        continue;
                    }
                    _ => true,
                },
                said = program.says() => {
                    // Nobody there to hear it is noticed above.
                    let _ = self.line.send(&Later::Prompt { prompt: said }, &[]).await;
                    continue;
                }
                asked = &mut asked => return self.end(&listening, asked).await,
                () = listening.renewed() => false,
            };
            if !lost {
                // Another socket is another lease; everything goes on meanwhile.
                let _ = self.line.send(&Later::Ends { asked: Asked::Leave }, &[]).await;
            }
            program.lost();
            tracing::info!("joining ostler again");
            let deadline = Instant::now() + BACK_WITHIN;
            tokio::select! {
                again = self.again(&listening, deadline) => again?,
                asked = &mut asked => {
                    self.again(&listening, Instant::now() + ENDED_WITHIN).await?;
                    return self.end(&listening, asked).await;
                }
            }
            tracing::info!("joined ostler");
        }
    }

    /// Ends the door, and waits until what ends with it has ended.
    async fn end(mut self, listening: &impl Listening, asked: Asked) -> Result<Over, String> {
        let deadline = Instant::now() + ENDED_WITHIN;
        loop {
            let said = self.line.send(&Later::Ends { asked }, &[]).await;
            while said.is_ok() {
                match tokio::time::timeout_at(deadline.into(), self.line.receive::<Answer>()).await {
                    Ok(Ok(Some(Answer::Over(over)))) => return Ok(Over { asked, ..over }),
                    Ok(Ok(Some(_))) => drop(self.line.take_descriptor()),
                    Ok(_) => break,
                    Err(_) => return Err("ostler does not let go of this program".to_owned()),
                }
            }
            // The daemon died before it was done, or before it heard.
            self.again(listening, deadline).await?;
        }
    }

    /// Offers the door until a daemon takes it.
    async fn again(&mut self, listening: &impl Listening, deadline: Instant) -> Result<(), String> {
        loop {
            let why = match call(&self.paths).await {
                Ok(line) => {
                    self.line = line;
                    match self.offer(listening).await {
                        Ok(()) => return Ok(()),
                        Err(why) => why,
                    }
                }
                Err(why) => why,
            };
            if Instant::now() > deadline {
                return Err(format!("ostler, which this program had joined, has not come back: {why}"));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    async fn offer(&mut self, listening: &impl Listening) -> Result<(), String> {
        let environ = shield::environ();
        let program = env!("CARGO_PKG_VERSION").to_owned();
        let hello = Hello { version: VERSION, program, shows: environ.is_some() };
        // Who is refused at the greeting hears why, whatever becomes of the rest.
        let said = match self.line.send(&hello, environ.as_slice()).await {
            Ok(()) => self.line.send(&self.offer, &[listening.as_fd()]).await,
            failed => failed,
        };
        match tokio::time::timeout(ANSWERED_WITHIN, self.line.receive()).await {
            Ok(Ok(Some(Answer::Open))) => Ok(()),
            Ok(Ok(Some(Answer::Refused(why)))) => {
                // The socket is wanted for something else now.
                self.line.dismissed().await;
                Err(why)
            }
            Ok(Ok(Some(Answer::Over(_) | Answer::Leaving | Answer::Told(_)) | None)) => Err("it is ending".to_owned()),
            Ok(Err(error)) => Err(said.err().unwrap_or(error).to_string()),
            Err(_) => Err("it does not answer".to_owned()),
        }
    }
}

/// What keeps this process from joining anybody.
async fn obstacle(dir: &Path) -> Option<String> {
    if let Some(host) = access::own_host() {
        return Some(format!("this program runs in ostler itself (started by {host})"));
    }
    let dir = dir.to_owned();
    // The keeper of a program that was ended just now takes a moment to follow it.
    let still_runs = move |dir: &Path| {
        (0..KEEPER_LOOKS).all(|look| {
            std::thread::sleep(if look == 0 { Duration::ZERO } else { LOOK_EVERY });
            instances::keeper_answers(dir)
        })
    };
    let own = MayWait::pool(move |wait| match still_runs(&dir) {
        true => Some("what was started here before still runs apart".to_owned()),
        false => match ostler_engine::session::open_in(wait, &dir) {
            0 => None,
            many => Some(format!("{many} sessions were begun here apart, and would be missed; close them first")),
        },
    });
    own.await.unwrap_or_else(|lost| Some(lost.to_string()))
}

/// A connection to the daemon, which is who it should be: it will be told secrets.
async fn call(paths: &Paths) -> Result<Line, String> {
    let dir = paths.instance_dir(DEFAULT_INSTANCE);
    let connected = MayWait::pool(move |_| {
        // Not our own runtime folder: a session over ssh may have another than the one at the desk.
        let record = InstanceRecord::read(&dir).ok().flatten().filter(InstanceRecord::is_alive);
        let native = record.and_then(|record| record.native).ok_or("it is not running")?;
        let socket = native.with_file_name(Paths::door_socket_name(DEFAULT_INSTANCE, SOCKET));
        let stream = ostler_door_rpc::connect_within(&socket, ANSWERED_WITHIN).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => "it is of a release that cannot be joined".to_owned(),
            _ => error.to_string(),
        })?;
        access::is_the_daemon(&stream, &dir).map_err(|error| error.to_string())?;
        stream.set_nonblocking(true).map_err(|error| error.to_string())?;
        Ok::<_, String>(stream)
    });
    let stream = connected.await.map_err(|lost| lost.to_string())??;
    UnixStream::from_std(stream).map(Line::new).map_err(|error| error.to_string())
}
