//! Reaching instances: all of the user's, or the one that `--instance` names.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use ostler_api::client::{Client, ClientError};
use ostler_api::{ErrorKind, Hello, IdParams, ProcessInfo, SessionIdParams, SessionInfo, methods};
use ostler_door_rpc::called;
use ostler_engine::access::{daemon_comes, is_the_daemon};

use super::Context;
use crate::instances::{self, FoundInstance, InstanceRecord};
use crate::output::{CommandError, Kind, visible};

/// What the daemon's log calls us.
const CLIENT_NAME: &str = concat!("ostler ", env!("CARGO_PKG_VERSION"));

/// A daemon that was killed this moment is still listed, and hangs up on whoever calls.
pub(super) const DYING_WITHIN: Duration = Duration::from_secs(3);
/// A keeper pauses up to 1.6 s before it brings a daemon back, which then reads its journals.
const BACK_WITHIN: Duration = Duration::from_secs(10);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// What there is to say of a keeper without a daemon.
pub(crate) struct Kept {
    pub(crate) message: String,
    pub(crate) hint: String,
}

/// A living instance and a connection to it.
pub(crate) struct Reached {
    pub(crate) found: FoundInstance,
    pub(crate) hello: Hello,
    pub(crate) client: Client,
}

/// What a person may mean by a name or an id.
pub(crate) enum Named {
    Process(Reached, ProcessInfo),
    Session(Reached, SessionInfo),
}

impl Named {
    pub(crate) fn id(&self) -> &str {
        match self {
            Self::Process(_, process) => &process.id,
            Self::Session(_, session) => &session.id,
        }
    }
}

/// Makes sure that whoever answers for an instance is its daemon.
pub(crate) fn is_real(client: &Client, found: &FoundInstance) -> Result<(), CommandError> {
    is_the_daemon(client, &found.dir).map_err(|why| {
        let name = instances::called(&found.name);
        CommandError::new(Kind::Refused, visible(&format!("nothing is decided with {name}: {why}")))
    })
}

impl Context {
    /// Every instance of the user that answers. One that lives and does not answer is told, and left out.
    pub(crate) fn reach_all(&self) -> Result<Vec<Reached>, CommandError> {
        self.every(|found| self.reach_settled(found))
    }

    /// Every instance with which a person may decide something. One that somebody else stands for is told, and left out.
    pub(crate) fn reach_all_deciding(&self) -> Result<Vec<Reached>, CommandError> {
        self.every(|found| self.reach_deciding(found))
    }

    fn every(
        &self,
        reach: impl Fn(FoundInstance) -> Result<Reached, CommandError>,
    ) -> Result<Vec<Reached>, CommandError> {
        let (mut reached, mut silent) = (Vec::new(), Vec::new());
        for found in self.alive(self.settled(self.instance.as_deref())?) {
            match reach(found) {
                Ok(instance) => reached.push(instance),
                Err(error) => silent.push(error),
            }
        }
        let outcome = if reached.is_empty() { Err(silent.pop().unwrap_or_else(|| self.nobody())) } else { Ok(reached) };
        for error in silent {
            self.screen.note(&format!("ostler: {}", error.message));
        }
        outcome
    }

    /// The one instance a verb acts on: `--instance`, else `main`.
    pub(crate) fn reach_one(&self) -> Result<Reached, CommandError> {
        self.reach_settled(self.one()?)
    }

    /// The same, where a person decides something.
    pub(crate) fn reach_one_deciding(&self) -> Result<Reached, CommandError> {
        self.reach_deciding(self.one()?)
    }

    fn one(&self) -> Result<FoundInstance, CommandError> {
        let name = self.instance_name();
        let found = self.settled(Some(name))?.into_iter().find(|found| found.alive);
        found.ok_or_else(|| self.nobody())
    }

    /// The instances, once each has a daemon whose keeper brings one back: who asks in the moment after a crash means that
    /// one, and what could be said of the moment would end somebody's work.
    fn settled(&self, only: Option<&str>) -> io::Result<Vec<FoundInstance>> {
        let deadline = Instant::now() + BACK_WITHIN;
        loop {
            let found = instances::find(&self.paths, only)?;
            let comes = |found: &FoundInstance| !found.alive && daemon_comes(&found.dir);
            if Instant::now() >= deadline || !found.iter().any(comes) {
                return Ok(found);
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// The living instances of this moment, narrowed by `--instance`.
    pub(crate) fn living(&self) -> Result<Vec<FoundInstance>, CommandError> {
        Ok(self.alive(instances::find(&self.paths, self.instance.as_deref())?))
    }

    /// Those of them that live; what is wrong with others is told.
    fn alive(&self, mut found: Vec<FoundInstance>) -> Vec<FoundInstance> {
        for problem in found.iter().filter_map(|instance| instance.problem.as_deref()) {
            self.screen.note(&format!("ostler: {problem}"));
        }
        found.retain(|instance| instance.alive);
        found
    }

    /// The same as [`Context::reach`]; of one that was killed this moment, the daemon that comes next.
    pub(crate) fn reach_settled(&self, found: FoundInstance) -> Result<Reached, CommandError> {
        let (name, deadline) = (found.name.clone(), Instant::now() + DYING_WITHIN);
        let record = found.record.clone();
        let error = match self.reach(found) {
            Err(error) if error.kind == Kind::Failed => error,
            reached => return reached,
        };
        while record.as_ref().is_some_and(InstanceRecord::is_alive) {
            if Instant::now() >= deadline {
                return Err(error);
            }
            std::thread::sleep(PAUSE);
        }
        let next = self.settled(Some(&name))?.into_iter().find(|found| found.alive);
        next.map_or_else(|| Err(self.nobody()), |found| self.reach(found))
    }

    pub(crate) fn reach(&self, found: FoundInstance) -> Result<Reached, CommandError> {
        let answered = Client::connect(&self.native_socket(&found)).and_then(|mut client| {
            let hello = client.hello(CLIENT_NAME)?;
            Ok((client, hello))
        });
        let (client, hello) = answered.map_err(|error| {
            let pid = found.record.as_ref().map_or(0, |record| record.pid);
            let mut told = CommandError::from(error);
            told.message = format!("{} (pid {pid}) does not answer: {}", instances::called(&found.name), told.message);
            told
        })?;
        Ok(Reached { found, hello, client })
    }

    /// Where its daemon says that it listens.
    pub(crate) fn native_socket(&self, found: &FoundInstance) -> PathBuf {
        let recorded = found.record.as_ref().and_then(|record| record.native.clone());
        recorded.unwrap_or_else(|| self.paths.native_socket(&found.name))
    }

    /// An instance whose daemon is the one that its keeper serves: only with that one anything is decided.
    pub(crate) fn reach_deciding(&self, found: FoundInstance) -> Result<Reached, CommandError> {
        let reached = self.reach_settled(found)?;
        is_real(&reached.client, &reached.found)?;
        Ok(reached)
    }

    /// The process that `id` means, in whichever instance it lives.
    pub(crate) fn find_process(&self, id: &str) -> Result<(Reached, ProcessInfo), CommandError> {
        let mut matches = Vec::new();
        for mut reached in self.reach_all()? {
            match reached.client.call::<methods::ProcessGet>(&IdParams { id: id.to_owned() }) {
                Ok(info) => matches.push((reached, info)),
                Err(ClientError::Rpc(error)) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
        if matches.len() > 1 {
            let names: Vec<&str> = matches.iter().map(|(reached, _)| reached.found.name.as_str()).collect();
            return Err(CommandError::usage(format!("`{id}` is a process in each of: {}", names.join(", ")))
                .hint("choose one with --instance NAME, or use the whole id"));
        }
        match matches.pop() {
            Some(found) => Ok(found),
            None if self.is_session(id) => {
                let name = visible(&called(Some(id), id));
                Err(CommandError::new(Kind::NotFound, format!("`{id}` is a session, not a process")).hint(format!(
                    "follow it: ostler watch {name}; interrupt it: ostler interrupt {name}; close it: ostler close {name}"
                )))
            }
            None => {
                Err(CommandError::new(Kind::NotFound, format!("no process `{id}`")).hint("list them: ostler ps -a"))
            }
        }
    }

    /// The process and the session that `id` means; at most one of them where names and ids are given with care.
    #[allow(clippy::type_complexity)]
    pub(crate) fn find_both(
        &self,
        id: &str,
    ) -> Result<(Option<(Reached, ProcessInfo)>, Option<(Reached, SessionInfo)>), CommandError> {
        fn there<T>(found: Result<T, CommandError>) -> Result<Option<T>, CommandError> {
            match found {
                Ok(found) => Ok(Some(found)),
                Err(error) if error.kind == Kind::NotFound => Ok(None),
                Err(error) => Err(error),
            }
        }
        Ok((there(self.find_process(id))?, there(self.find_session(id))?))
    }

    fn is_session(&self, id: &str) -> bool {
        let params = SessionIdParams { id: id.to_owned() };
        let mut all = self.reach_all().unwrap_or_default();
        all.iter_mut().any(|reached| reached.client.call::<methods::SessionGet>(&params).is_ok())
    }

    /// Whether a process is called so, which is no session.
    pub(crate) fn is_process(&self, id: &str) -> bool {
        let params = IdParams { id: id.to_owned() };
        let mut all = self.reach_all().unwrap_or_default();
        all.iter_mut().any(|reached| reached.client.call::<methods::ProcessGet>(&params).is_ok())
    }

    pub(crate) fn nobody(&self) -> CommandError {
        let name = self.instance_name();
        let flag = instances::flag(name);
        let absent = |message: String| CommandError::new(Kind::NoInstance, message);
        if let Some(held) = self.kept(name) {
            return absent(held.message).hint(held.hint);
        }
        let all = match instances::find(&self.paths, None) {
            Ok(all) => all,
            Err(error) => return error.into(),
        };
        let problem = |found: &FoundInstance| found.problem.clone().filter(|_| found.name == name && !found.alive);
        if let Some(problem) = all.iter().find_map(problem) {
            return CommandError::failed(format!(
                "cannot tell whether {} is running: {problem}",
                instances::called(name)
            ))
            .hint("check the disk: ostler doctor");
        }
        let running: Vec<&str> = all.iter().filter(|found| found.alive).map(|found| found.name.as_str()).collect();
        if !running.is_empty() {
            let flags: Vec<String> = running.iter().map(|name| format!("--instance {name}")).collect();
            return absent(format!("{} is not running; running: {}", instances::called(name), running.join(", ")))
                .hint(format!("use {}, or start it: ostler up{flag}", flags.join(" or ")));
        }
        match &self.instance {
            Some(name) => absent(format!("`{name}` is not running; start it with: ostler up{flag}")),
            None => absent("ostler is not running; start it with: ostler up".to_owned()),
        }
    }

    /// What an instance without a daemon has left with its keeper, and what can be done about it.
    pub(crate) fn kept(&self, name: &str) -> Option<Kept> {
        let held = match instances::kept(&self.paths.instance_dir(name)) {
            0 => return None,
            1 => "1 process is still running".to_owned(),
            many => format!("{many} processes are still running"),
        };
        let flag = instances::flag(name);
        Some(Kept {
            message: format!("{} is not running, but {held}", instances::called(name)),
            hint: format!("go back to it: ostler up{flag}; end it: ostler down --kill{flag}"),
        })
    }
}
