//! From a line to the method it asks for. What is quick is answered here and now, what may wait runs beside the
//! connection, and stdin is handed over in the order of its lines.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ostler_api::{ErrorKind, Method, RpcError};
use ostler_door_rpc::{Envelope, Flow, Later, NotAMessage, Outbox, Session};
use ostler_engine::{EventHead, FrameHead, Kind, MayWait, Missing};
use serde_json::value::RawValue;

use crate::call::{Call, Who};
use crate::reply::Head;
use crate::watches::Watches;
use crate::{feed, frame, pieces, record, rights, search, table};

/// What a watch is on, and its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tag {
    Process(u64),
    Session(u64),
    Feed(u64),
}

pub(crate) type Out = Outbox<Tag>;

/// That somebody answers a request, or why nobody does.
pub(crate) type Answered = Result<(), RpcError>;

/// What a method gives.
type Given<M> = Result<<M as Method>::Result, RpcError>;

/// A method that never waits.
type Quick<M> = fn(&Call, <M as Method>::Params) -> Given<M>;

/// A method that changes what its connection has open.
type Here<M> = fn(&mut Client, <M as Method>::Params, &mut Out) -> Given<M>;

/// A method that may wait for the disk.
type Waiting<M> = fn(&MayWait, &Call, <M as Method>::Params) -> Given<M>;

/// The same, with a way to ask whether anybody still waits.
type Long<M> = fn(&MayWait, &Call, <M as Method>::Params, &dyn Fn() -> bool) -> Given<M>;

/// One connection's session.
pub(crate) struct Client {
    /// Who is at the other end.
    pub(crate) call: Arc<Call>,
    /// The number of the newest watch.
    pub(crate) last_watch: u64,
    pub(crate) watches: Watches,
    /// What it follows of the feed.
    pub(crate) follows: feed::Follows,
    /// Workspaces of which it wants to be told.
    pub(crate) leases: search::Leases,
    /// What went wrong in its own program, so many times.
    pub(crate) troubles: u32,
    /// What it has in view, by its own word.
    pub(crate) looking: Vec<ostler_engine::notice::Looking>,
    /// Set when the connection has ended: nobody waits any more for what is worked on.
    gone: Arc<AtomicBool>,
}

impl Drop for Client {
    fn drop(&mut self) {
        self.gone.store(true, Ordering::Relaxed);
    }
}

/// A request on its way to its method.
pub(crate) struct Request<'a> {
    pub(crate) head: Head,
    params: Option<&'a RawValue>,
}

impl<'a> Request<'a> {
    /// The method that a line asks for, and the request; nothing, and the answer, where it asks for none.
    pub(crate) fn read(line: &'a [u8], out: &mut Out) -> Option<(Cow<'a, str>, Self)> {
        let no_method = || NotAMessage::Shape("`method` is missing, or no text".to_owned());
        let read = Envelope::read(line).and_then(|read| Ok((read.method().ok_or_else(no_method)?, read)));
        match read {
            // Here an id of null is none.
            Ok((method, read)) => {
                let head = Head::of(read.id().filter(|id| *id != b"null"));
                Some((method, Self { head, params: read.params }))
            }
            Err(error) => {
                let error = RpcError::new(ErrorKind::Invalid, format!("not a request: {error}"));
                out.ready.extend(Head::unreadable(&error));
                None
            }
        }
    }

    /// The parameters, as this method means them; none at all are as good as an empty object.
    pub(crate) fn params<M: Method>(&self) -> Result<M::Params, RpcError> {
        let text = self.params.map_or("{}", RawValue::get);
        M::read_params(if text == "null" { "{}" } else { text })
            .map_err(|error| RpcError::new(ErrorKind::BadParams, format!("{}: {error}", M::NAME)))
    }
}

impl Client {
    pub(crate) fn new(call: Call) -> Self {
        Self {
            call: Arc::new(call),
            last_watch: 0,
            watches: Watches::default(),
            follows: feed::Follows::default(),
            leases: search::Leases::default(),
            troubles: 0,
            looking: Vec::new(),
            gone: Arc::default(),
        }
    }

    /// The description of the protocol.
    pub(crate) fn describe(&mut self, request: &Request<'_>, out: &mut Out) -> Answered {
        let program = self.call.shared.instance.identity().program;
        out.ready.extend(request.head.document(&ostler_api::document(&program)));
        Ok(())
    }

    pub(crate) fn now<M: Method>(&self, request: &Request<'_>, out: &mut Out, answer: Quick<M>) -> Answered {
        let result = answer(&self.call, request.params::<M>()?);
        out.ready.extend(request.head.answer::<M>(&result));
        Ok(())
    }

    pub(crate) fn here<M: Method>(&mut self, request: &Request<'_>, out: &mut Out, answer: Here<M>) -> Answered {
        let result = answer(self, request.params::<M>()?, out);
        out.ready.extend(request.head.answer::<M>(&result));
        Ok(())
    }

    /// A method that waits for others, in a task of its own.
    pub(crate) fn task<M: Method, F: Future<Output = Given<M>> + Send + 'static>(
        &self,
        request: &Request<'_>,
        out: &mut Out,
        answer: fn(Arc<Call>, M::Params) -> F,
    ) -> Answered {
        let (head, answered) = (request.head.clone(), answer(Arc::clone(&self.call), request.params::<M>()?));
        out.spawn(async move { Later::reply(head.answer::<M>(&answered.await)) });
        Ok(())
    }

    pub(crate) fn waits<M: Method>(&self, request: &Request<'_>, out: &mut Out, answer: Waiting<M>) -> Answered {
        let (params, head, call) = (request.params::<M>()?, request.head.clone(), Arc::clone(&self.call));
        out.spawn_blocking(move |wait| Later::reply(head.answer::<M>(&answer(wait, &call, params))));
        Ok(())
    }

    /// What may take long is told when nobody waits for the answer any more.
    pub(crate) fn long<M: Method>(&self, request: &Request<'_>, out: &mut Out, answer: Long<M>) -> Answered {
        let (params, head, call) = (request.params::<M>()?, request.head.clone(), Arc::clone(&self.call));
        let gone = Arc::clone(&self.gone);
        out.spawn_blocking(move |wait| {
            let gone = || gone.load(Ordering::Relaxed);
            Later::reply(head.answer::<M>(&answer(wait, &call, params, &gone)))
        });
        Ok(())
    }

    /// The same for what takes all the processors that it can get: a client has few of them at once.
    pub(crate) fn search<M: Method>(&self, request: &Request<'_>, out: &mut Out, answer: Long<M>) -> Answered {
        let (params, head, call) = (request.params::<M>()?, request.head.clone(), Arc::clone(&self.call));
        let (gone, share) = (Arc::clone(&self.gone), Arc::clone(out.share()));
        out.spawn(async move {
            let place = share.search().await;
            let found = MayWait::pool(move |wait| {
                let gone = || gone.load(Ordering::Relaxed);
                let found = head.answer::<M>(&answer(wait, &call, params, &gone));
                drop((place, share));
                found
            });
            // A thread that died has said so in the log.
            Later::reply(found.await.unwrap_or_default())
        });
        Ok(())
    }
}

impl Session for Client {
    type Tag = Tag;

    fn line(&mut self, line: &[u8], out: &mut Out) -> Flow {
        self.call.shared.counters.requests.fetch_add(1, Ordering::Relaxed);
        let Some((method, request)) = Request::read(line, out) else { return Flow::Continue };
        let entry = table::find(&method);
        if let Who::Device(guest) = &self.call.who
            && let Err(error) = rights::check(self.call.engine(), guest, &method, entry.map(|entry| entry.required))
        {
            // Who was refused goes on record, which may wait for the disk.
            let (call, guest) = (Arc::clone(&self.call), Arc::clone(guest));
            out.spawn_blocking(move |wait| {
                call.engine().guest_refused(wait, &guest, "devices", &error.message);
                Later::reply(request.head.refuse(&error))
            });
            return Flow::Continue;
        }
        let unknown = || RpcError::new(ErrorKind::UnknownMethod, format!("no method `{method}`"));
        let answered = match entry {
            Some(entry) => (entry.run)(self, &request, out),
            None => Err(unknown().hint("the client may be of another version (ostler status); methods: ostler api")),
        };
        if let Err(error) = answered {
            out.ready.extend(request.head.refuse(&error));
        }
        Flow::Continue
    }

    fn frame(&mut self, tag: &Tag, head: &FrameHead, data: &[u8], out: &mut Vec<u8>) -> bool {
        let (Tag::Process(watch) | Tag::Session(watch) | Tag::Feed(watch)) = *tag;
        if head.kind != Kind::Exit {
            frame::push_frame(watch, head, data, out);
            return true;
        }
        frame::push_exit(watch, head, out);
        self.watches.leave(*tag);
        false
    }

    /// A session's watch goes on: more may be said after it was closed.
    fn record(&mut self, tag: &Tag, head: &EventHead, data: &[u8], out: &mut Vec<u8>) -> bool {
        match *tag {
            Tag::Feed(watch) => return feed::push_entry(self, watch, head, data, out),
            Tag::Process(watch) | Tag::Session(watch) => {
                let tell = |story: &mut _| pieces::push(watch, story, head, data, out);
                if !self.watches.go_on(*tag, tell) {
                    record::push_record(watch, head, data, out);
                }
            }
        }
        true
    }

    fn gap(&mut self, tag: &Tag, first: u64, missing: Missing, out: &mut Vec<u8>) {
        match *tag {
            Tag::Process(watch) => frame::push_gap(watch, first, missing, out),
            Tag::Session(watch) => record::push_gap(watch, first, missing, out),
            Tag::Feed(watch) => feed::push_gap(watch, first, missing, out),
        }
    }

    fn lost(&mut self, tag: &Tag, error: &std::io::Error, out: &mut Vec<u8>) {
        let why = self.call.engine().disk_trouble(error).message;
        match *tag {
            Tag::Process(watch) => frame::push_lost(watch, &why, out),
            Tag::Session(watch) => record::push_lost(watch, &why, out),
            Tag::Feed(watch) => return feed::push_lost(self, watch, why, out),
        }
        self.watches.leave(*tag);
    }

    /// Here processes are known by their own ids: a watcher sees every one to its end.
    fn leaves_superseded(&self) -> bool {
        false
    }
}
