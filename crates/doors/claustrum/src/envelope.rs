//! The outside of a request: who asks, for what, and under which id the answer goes back.

use std::borrow::Cow;

use crate::error::RpcError;
use crate::gojson::{self, Object, Raw};

/// A line that was JSON of the right shape; nothing in it has been believed yet.
pub(crate) struct Envelope<'a> {
    pub(crate) id: Option<Raw<'a>>,
    pub(crate) method: Cow<'a, str>,
    version: Cow<'a, str>,
    auth: Cow<'a, str>,
    params: Params<'a>,
}

/// What stood under `params`.
enum Params<'a> {
    Absent,
    Null,
    Given(Raw<'a>),
}

impl<'a> Envelope<'a> {
    /// Reads a line. Fields of the envelope that have the wrong type make the whole line malformed.
    pub(crate) fn read(line: &'a [u8]) -> Result<Self, RpcError> {
        let object = gojson::parse_object(line).map_err(|_| RpcError::parse())?.unwrap_or_default();
        let text = |name| object.string(name).map(Option::unwrap_or_default).map_err(|_| RpcError::parse());
        let params = match object.get("params") {
            Some(raw) => Params::Given(raw),
            None if object.present("params") => Params::Null,
            None => Params::Absent,
        };
        Ok(Self {
            id: object.get("id"),
            method: text("method")?,
            version: text("jsonrpc")?,
            auth: text("auth")?,
            params,
        })
    }

    /// Checked before anything else: whoever does not have the token learns nothing.
    pub(crate) fn check_auth(&self, token: &str) -> Result<(), RpcError> {
        let equal = subtle::ConstantTimeEq::ct_eq(self.auth.as_bytes(), token.as_bytes());
        match !token.is_empty() && bool::from(equal) {
            true => Ok(()),
            false => Err(RpcError::unauthorized()),
        }
    }

    pub(crate) fn check_version(&self) -> Result<(), RpcError> {
        if self.version == "2.0" { Ok(()) } else { Err(RpcError::version()) }
    }

    /// The text of the params object; absent params and anything but an object are refused.
    pub(crate) fn params(&self) -> Result<&'a [u8], RpcError> {
        match self.params {
            Params::Absent => Err(RpcError::invalid_params()),
            Params::Null => Ok(b"{}"),
            Params::Given(raw) => Ok(raw.text()),
        }
    }
}

/// The members of a params object.
pub(crate) fn members(params: &[u8]) -> Result<Object<'_>, RpcError> {
    gojson::parse_object(params).map(Option::unwrap_or_default).map_err(|_| RpcError::invalid_params())
}
