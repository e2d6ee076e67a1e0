//! From a line to the method it asks for. The order of checks is part of the contract: parse, token, version, method,
//! params. What is quick is answered here and now, what may wait runs beside the connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ostler_door_rpc::{Flow, Head, Outbox, RpcError, Session};
use ostler_engine::{FrameHead, Missing};

use crate::blocking::{BlockingCalls, Call, Size};
use crate::envelope::{Envelope, members};
use crate::reply::{FORM, for_log, set_id};
use crate::stream::{self, Tag};
use crate::{DoorState, files, git, process, server};

const FILES: [&str; 5] = ["list", "validate", "stat", "read", "extract_tar"];
const GIT: [&str; 5] = ["info", "status", "list_branches", "worktree_create", "worktree_remove"];

/// One connection's session.
pub(crate) struct Client {
    shared: Arc<DoorState>,
    head: Head,
    blocking: BlockingCalls,
    /// It asked the daemon to stop: nothing that it says counts any more.
    asked_for_the_end: Arc<AtomicBool>,
}

impl Client {
    pub(crate) fn new(shared: Arc<DoorState>) -> Self {
        Self { shared, head: Head::unknown(&FORM), blocking: BlockingCalls::new(), asked_for_the_end: Arc::default() }
    }

    /// Whether this client asked the daemon to stop.
    pub(crate) fn asked_for_the_end(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.asked_for_the_end)
    }

    fn check_auth(&self, envelope: &Envelope<'_>) -> Result<(), RpcError> {
        envelope.check_auth(&self.shared.config.token).inspect_err(|_| {
            let (method, id) = (for_log(&envelope.method), envelope.id.map_or(&b"null"[..], |raw| raw.text()));
            let id = for_log(&String::from_utf8_lossy(id));
            tracing::warn!("[Server] Unauthorized request: method={method}, id={id}");
        })
    }

    fn call(&self, envelope: &Envelope<'_>, head: &Head, out: &mut Outbox<Tag>) -> Result<Flow, RpcError> {
        self.check_auth(envelope)?;
        envelope.check_version()?;
        let method = envelope.method.as_ref();
        let Some((namespace, name)) = method.split_once('.') else {
            return Err(RpcError::method(format!("Invalid method format: {method}")));
        };
        let unknown = || RpcError::method(format!("Unknown method: {method}"));
        match namespace {
            "server" => self.server(name, head, out).ok_or_else(unknown),
            "process" => {
                let call = process::method(name).ok_or_else(unknown)?;
                call(&self.shared, &members(envelope.params()?)?, head, out)?;
                Ok(Flow::Continue)
            }
            "files" | "git" => {
                let call = slow_method(namespace, name).ok_or_else(unknown)?;
                let params = envelope.params()?;
                // Mistyped params are refused here, so that garbage never takes a thread.
                members(params)?;
                self.blocking.run(&self.shared, call, (name, params), head, out);
                Ok(Flow::Continue)
            }
            _ => Err(RpcError::method(format!("Unknown namespace: {namespace}"))),
        }
    }

    fn server(&self, name: &str, head: &Head, out: &mut Outbox<Tag>) -> Option<Flow> {
        let version = &self.shared.config.version;
        let write: &dyn Fn(&mut Vec<u8>) = match name {
            "ping" => &server::ping,
            "version" => &|out| server::version(version, out),
            "capabilities" => &|out| server::capabilities(version, out),
            "shutdown" => {
                self.asked_for_the_end.store(true, Ordering::Release);
                // An answer that never comes: the connection lasts as long as what it asked to end.
                drop(out.later());
                self.shared.shutdown.notify_one();
                return Some(Flow::Continue);
            }
            _ => return None,
        };
        head.line(&mut out.ready, |out| {
            write(out);
            Ok(())
        });
        Some(Flow::Continue)
    }
}

/// What answers a method that may wait, and what tells how much that will hold, where it may be much.
fn slow_method(namespace: &str, name: &str) -> Option<(Call, Option<Size>)> {
    match namespace {
        "files" if FILES.contains(&name) => Some((files::call, (name == "read").then_some(files::size))),
        "git" if GIT.contains(&name) => Some((git::call, None)),
        _ => None,
    }
}

impl Session for Client {
    type Tag = Tag;

    fn line(&mut self, line: &[u8], out: &mut Outbox<Tag>) -> Flow {
        if self.asked_for_the_end.load(Ordering::Relaxed) {
            return Flow::Continue;
        }
        let mut head = std::mem::replace(&mut self.head, Head::new(&FORM, None));
        let envelope = Envelope::read(line);
        set_id(&mut head, envelope.as_ref().ok().and_then(|envelope| envelope.id));
        let flow = envelope.and_then(|envelope| self.call(&envelope, &head, out)).unwrap_or_else(|error| {
            head.line(&mut out.ready, |_| Err(error));
            Flow::Continue
        });
        self.head = head;
        flow
    }

    fn frame(&mut self, tag: &Tag, head: &FrameHead, data: &[u8], out: &mut Vec<u8>) -> bool {
        stream::write(tag, head, data, out)
    }

    /// This protocol has no word for it: the sequence number jumps, and reattach tells `firstSeq`.
    fn gap(&mut self, _: &Tag, first_seq: u64, missing: Missing, _: &mut Vec<u8>) {
        tracing::warn!("output before frame {first_seq} is missing: {missing}");
    }
}

/// Everything that an unauthenticated line can reach; for fuzzing.
pub fn fuzz_line(line: &[u8]) {
    if let Ok(envelope) = Envelope::read(line) {
        let mut head = Head::unknown(&FORM);
        set_id(&mut head, envelope.id);
        let _ = envelope.check_auth("token");
        let _ = head.error(RpcError::method(format!("Unknown method: {}", envelope.method)));
        if let Ok(params) = envelope.params().and_then(members) {
            process::fuzz_params(&params);
        }
    }
}
