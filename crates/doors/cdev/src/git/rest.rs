//! REST answers what git refused with 200 and `success: false`, where JSON-RPC has an error: clients of each know it so.

use schemars::JsonSchema;
use serde::Serialize;

use crate::error::{Code, Error};

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

pub(crate) fn softened<T>(result: Result<T, Error>) -> Result<Outcome<T>, Error> {
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
