//! What a method is: a name, what it takes, what it gives, what a device must be allowed to do for it, and how it runs. One
//! implementation answers JSON-RPC and REST alike, and describes itself.

use std::sync::Arc;

use ostler_engine::MayWait;
use ostler_engine::access::device::{Guest, Right};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use crate::DoorState;
use crate::connection::Connection;
use crate::error::Error;
use crate::query;

/// A method.
pub(crate) trait Method: Sized + 'static {
    const NAME: &'static str;
    const SUMMARY: &'static str;
    /// What the device must be allowed to do; nothing for what it may always do.
    const NEEDS: Option<Right>;
    const RUN: Run<Self>;
    /// What it takes, as it is on the wire. Members that it does not know are passed over.
    type Params: DeserializeOwned + JsonSchema + Send + 'static;
    /// What it gives.
    type Result: Serialize + JsonSchema + 'static;
}

/// How a method runs.
pub(crate) enum Run<M: Method> {
    /// It never waits, and is answered at once.
    Now(fn(&Call, M::Params) -> Result<M::Result, Error>),
    /// It may wait for disks and programs.
    Waits(Waiting<M>),
}

/// A method that may wait.
type Waiting<M> = fn(&MayWait, &Call, <M as Method>::Params) -> Result<<M as Method>::Result, Error>;

/// Who calls.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) state: Arc<DoorState>,
    pub(crate) guest: Arc<Guest>,
    /// The WebSocket that it came through; none for REST.
    pub(crate) connection: Option<Arc<Connection>>,
}

impl Call {
    /// The WebSocket, for what makes no sense without one.
    pub(crate) fn socket(&self, what: &str) -> Result<&Arc<Connection>, Error> {
        let none = || Error::params(format!("{what} needs a WebSocket: REST has no events"));
        self.connection.as_ref().ok_or_else(none)
    }
}

/// What a method said, written out.
pub(crate) type Outcome = Result<Box<RawValue>, Error>;

/// A call whose parameters were read.
pub(crate) enum Job {
    Now(Box<dyn FnOnce(&Call) -> Outcome + Send>),
    Waits(WaitingJob),
}

type WaitingJob = Box<dyn FnOnce(&MayWait, &Call) -> Outcome + Send>;

impl Job {
    /// Runs it on a thread that may wait.
    pub(crate) fn run(self, wait: &MayWait, call: &Call) -> Outcome {
        match self {
            Self::Now(run) => run(call),
            Self::Waits(run) => run(wait, call),
        }
    }
}

/// Where parameters come from.
#[derive(Clone, Copy)]
pub(crate) enum Source<'a> {
    /// A JSON object, or nothing.
    Json(&'a str),
    /// What follows the question mark of an address.
    Query(&'a str),
}

/// A method as the tables have it.
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) needs: Option<Right>,
    /// Its parameters as an object, with all of its members.
    pub(crate) params: fn(&mut SchemaGenerator) -> Schema,
    pub(crate) result: fn(&mut SchemaGenerator) -> Schema,
    /// Reads the parameters.
    pub(crate) prepare: fn(Source<'_>) -> Result<Job, Error>,
}

/// The entry of a method.
pub(crate) const fn entry<M: Method>() -> Entry {
    Entry {
        name: M::NAME,
        summary: M::SUMMARY,
        needs: M::NEEDS,
        params: M::Params::json_schema,
        result: |generator| generator.subschema_for::<M::Result>(),
        prepare: prepare::<M>,
    }
}

fn prepare<M: Method>(source: Source<'_>) -> Result<Job, Error> {
    let params: M::Params = match source {
        Source::Query(text) => query::read(text).map_err(|why| Error::params(format!("{}: {why}", M::NAME)))?,
        Source::Json(text) => {
            // Some clients have nothing to say by place.
            let text = if matches!(text.trim(), "" | "null" | "[]") { "{}" } else { text };
            if !text.trim_start().starts_with('{') {
                return Err(Error::params(format!("{}: parameters go by name, in an object", M::NAME)));
            }
            read(text).map_err(|why| Error::params(format!("{}: {why}", M::NAME)))?
        }
    };
    Ok(match M::RUN {
        Run::Now(run) => Job::Now(Box::new(move |call| written(run(call, params)))),
        Run::Waits(run) => Job::Waits(Box::new(move |wait, call| written(run(wait, call, params)))),
    })
}

/// A member that is null is one that is missing: clients of typed languages write so what they leave out.
fn read<T: DeserializeOwned>(text: &str) -> serde_json::Result<T> {
    if !text.contains("null") {
        return serde_json::from_str(text);
    }
    let mut members: Map<String, Value> = serde_json::from_str(text)?;
    members.retain(|_, value| !value.is_null());
    serde_json::from_value(Value::Object(members))
}

fn written<T: Serialize>(result: Result<T, Error>) -> Outcome {
    to_raw_value(&result?).map_err(Error::internal)
}
