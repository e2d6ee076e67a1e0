//! From a line to the method it asks for. The order of checks is part of the contract: parse, token, version, method,
//! params. What is quick is answered here and now, what may wait runs beside the connection.

use std::sync::Arc;

use ostler_door_rpc::{Flow, Later, Outbox, Session};
use ostler_engine::FrameHead;

use crate::env::Env;
use crate::envelope::{Envelope, members};
use crate::error::RpcError;
use crate::gojson::Object;
use crate::reply::{Head, for_log};
use crate::stream::{self, Tag};
use crate::{Shared, files, git, process, server};

const FILES: [&str; 5] = ["list", "validate", "stat", "read", "extract_tar"];
const GIT: [&str; 5] = ["info", "status", "list_branches", "worktree_create", "worktree_remove"];

/// A method that may wait for disks and programs; nothing for a name that it does not know.
type Slow = fn(&str, &Object<'_>, &Env, &mut Vec<u8>) -> Option<Result<(), RpcError>>;

/// One connection's session.
pub(crate) struct Client {
    shared: Arc<Shared>,
    head: Head,
}

impl Client {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, head: Head::default() }
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
            "files" if FILES.contains(&name) => self.beside(files::call, name, envelope, head, out),
            "git" if GIT.contains(&name) => self.beside(git::call, name, envelope, head, out),
            "files" | "git" => Err(unknown()),
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
                self.shared.shutdown.notify_one();
                return Some(Flow::Close);
            }
            _ => return None,
        };
        head.line(&mut out.ready, |out| {
            write(out);
            Ok(())
        });
        Some(Flow::Continue)
    }

    /// Files and programs may keep a call waiting: it runs on a thread that can afford it.
    fn beside(
        &self,
        call: Slow,
        name: &str,
        envelope: &Envelope<'_>,
        head: &Head,
        out: &mut Outbox<Tag>,
    ) -> Result<Flow, RpcError> {
        let params = envelope.params()?;
        // Mistyped params are refused here, so that garbage never takes a thread.
        members(params)?;
        let (params, name, head, shared) = (params.to_vec(), name.to_owned(), head.clone(), Arc::clone(&self.shared));
        out.spawn_blocking(move || {
            let mut line = Vec::new();
            head.line(&mut line, |out| {
                call(&name, &members(&params)?, &shared.env(), out).unwrap_or_else(|| Err(RpcError::invalid_params()))
            });
            Later::reply(line)
        });
        Ok(Flow::Continue)
    }
}

impl Shared {
    /// What a method may use of the daemon's surroundings, as they are now.
    fn env(&self) -> Env {
        let environment = self.engine.environment();
        Env { path: environment.path(), home: self.config.home.clone(), vars: environment.snapshot().as_ref().clone() }
    }
}

impl Session for Client {
    type Tag = Tag;

    fn line(&mut self, line: &[u8], out: &mut Outbox<Tag>) -> Flow {
        let mut head = std::mem::take(&mut self.head);
        let envelope = Envelope::read(line);
        head.set(envelope.as_ref().ok().and_then(|envelope| envelope.id));
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
    fn gap(&mut self, _: &Tag, first_seq: u64, _: &mut Vec<u8>) {
        tracing::warn!("frames before {first_seq} are no longer kept");
    }
}

/// Everything that an unauthenticated line can reach; for fuzzing.
pub fn fuzz_line(line: &[u8]) {
    if let Ok(envelope) = Envelope::read(line) {
        let head = Head::new(envelope.id);
        let _ = envelope.check_auth("token");
        let _ = head.error(RpcError::method(format!("Unknown method: {}", envelope.method)));
        if let Ok(params) = envelope.params().and_then(members) {
            process::fuzz_params(&params);
        }
    }
}
