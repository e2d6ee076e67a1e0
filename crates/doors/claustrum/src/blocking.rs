//! Calls that may wait for disks and programs: each on a thread that can afford it, only so many at once, and never holding
//! more than a connection may cost. What waits for its turn is a request, which is small.

use std::sync::Arc;

use ostler_door_rpc::{Head, Later, Outbox, RpcError};
use ostler_engine::MayWait;
use tokio::sync::Semaphore;

use crate::envelope::members;
use crate::error;
use crate::gojson::Object;
use crate::stream::Tag;
use crate::{DoorState, env::Env};

/// Threads that the calls of one door may hold, an eighth of all there are for waiting: a dead mount must not stall the
/// journals, nor the other doors.
pub(crate) const THREADS: usize = 64;
/// What the calls of one connection may hold at once, in MiB. A larger file has it all to itself.
const ROOM: u32 = 64;
/// What each of them counts for, however little it holds: a client that asks at a dead mount holds up itself, and leaves
/// threads to the others.
const CALL: u32 = ROOM / 16;

/// Writes a result, or says why there is none; nothing for a name that it does not know.
pub(crate) type Call = fn(&str, &Object<'_>, &Env, &mut Vec<u8>) -> Option<Result<(), RpcError>>;

/// How many bytes a call will hold. May wait itself.
pub(crate) type Size = fn(&Object<'_>, &Env) -> u64;

/// One connection's calls.
pub(crate) struct BlockingCalls {
    /// For calls, and for their replies until the connection takes these.
    room: Arc<Semaphore>,
}

impl BlockingCalls {
    pub(crate) fn new() -> Self {
        Self { room: Arc::new(Semaphore::new(ROOM as usize)) }
    }

    /// Answers a call with these parameters, which are known to be an object, when its turn comes.
    pub(crate) fn run(
        &self,
        shared: &Arc<DoorState>,
        (call, size): (Call, Option<Size>),
        (name, params): (&str, &[u8]),
        head: &Head,
        out: &mut Outbox<Tag>,
    ) {
        let (shared, room, head) = (Arc::clone(shared), Arc::clone(&self.room), head.clone());
        let (name, params): (String, Arc<[u8]>) = (name.into(), params.into());
        out.spawn(async move {
            let mut weight = CALL;
            if let Some(size) = size {
                let looking = room.acquire_many(CALL).await;
                let params = Arc::clone(&params);
                let look = move |shared: &DoorState| members(&params).map_or(0, |params| size(&params, &shared.env()));
                let bytes = shared.on_a_thread(look).await;
                weight = u32::try_from(bytes >> 20).unwrap_or(ROOM).clamp(CALL, ROOM);
                drop(looking);
            }
            let held = room.acquire_many_owned(weight).await.ok();
            let write = move |shared: &DoorState| {
                let mut line = Vec::new();
                head.line(&mut line, |out| {
                    let answered = call(&name, &members(&params)?, &shared.env(), out);
                    answered.unwrap_or_else(|| Err(error::invalid_params()))
                });
                line
            };
            let mut later = Later::reply(shared.on_a_thread(write).await);
            later.held = held;
            later
        });
    }
}

impl DoorState {
    /// Waits for one of the door's threads, and for what it then does.
    async fn on_a_thread<T: Default + Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> T {
        let _place = self.threads.acquire().await;
        let shared = Arc::clone(self);
        MayWait::pool(move |_| work(&shared)).await.unwrap_or_default()
    }

    /// What a method may use of the daemon's surroundings, as they are now.
    fn env(&self) -> Env {
        let environment = self.engine.environment();
        Env {
            path: environment.path(),
            home: self.config.home.clone(),
            vars: environment.snapshot().as_ref().clone(),
            forker: self.engine.forker(),
            folder: self.engine.joined_folder().map(Into::into),
        }
    }
}
