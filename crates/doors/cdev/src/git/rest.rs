//! REST answers what git refused with 200 and `success: false`, where JSON-RPC has an error: clients of each know it so.

use ostler_engine::MayWait;
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    CheckedOut, CheckoutParams, CommitParams, Committed, PullParams, Pulled, PushParams, Pushed, checkout, commit,
    pull, push,
};
use crate::error::{Code, Error};
use crate::method::Call;

/// What came of it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Outcome<T> {
    Done(T),
    Refused(Refused),
}

/// Why git did not do it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Refused {
    /// `false`.
    pub(crate) success: bool,
    pub(crate) error: String,
    /// `GIT_ERROR`.
    pub(crate) code: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) conflicted_files: Vec<String>,
}

fn softened<T>(result: Result<T, Error>) -> Result<Outcome<T>, Error> {
    match result {
        Ok(done) => Ok(Outcome::Done(done)),
        Err(error) if matches!(error.code, Code::Git | Code::GitConflict) => {
            let files = error.detail("conflicted_files").and_then(|files| files.as_array()).into_iter().flatten();
            let conflicted_files = files.filter_map(|file| file.as_str().map(str::to_owned)).collect();
            let code = error.code.word().to_owned();
            Ok(Outcome::Refused(Refused { success: false, error: error.message, code, conflicted_files }))
        }
        Err(error) => Err(error),
    }
}

pub(crate) fn rest_commit(wait: &MayWait, call: &Call, params: CommitParams) -> Result<Outcome<Committed>, Error> {
    softened(commit(wait, call, params))
}

pub(crate) fn rest_push(wait: &MayWait, call: &Call, params: PushParams) -> Result<Outcome<Pushed>, Error> {
    softened(push(wait, call, params))
}

pub(crate) fn rest_pull(wait: &MayWait, call: &Call, params: PullParams) -> Result<Outcome<Pulled>, Error> {
    softened(pull(wait, call, params))
}

pub(crate) fn rest_checkout(wait: &MayWait, call: &Call, params: CheckoutParams) -> Result<Outcome<CheckedOut>, Error> {
    softened(checkout(wait, call, params))
}
