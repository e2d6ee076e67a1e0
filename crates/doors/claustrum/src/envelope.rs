//! The outside of a request: who asks, for what, and under which id the answer goes back.

use std::borrow::Cow;

use crate::error::RpcError;
use crate::gojson::{self, Member, Mistyped, Object, Raw};

/// A line that was JSON of the right shape; nothing in it has been believed yet.
#[derive(Default)]
pub(crate) struct Envelope<'a> {
    pub(crate) id: Option<Raw<'a>>,
    pub(crate) method: Cow<'a, str>,
    version: Cow<'a, str>,
    auth: Cow<'a, str>,
    params: Params<'a>,
}

/// What stood under `params`.
#[derive(Default)]
enum Params<'a> {
    #[default]
    Absent,
    Null,
    Given(Raw<'a>),
}

impl<'a> Envelope<'a> {
    /// Reads a line in one pass. Fields of the envelope that have the wrong type make the whole line malformed.
    pub(crate) fn read(line: &'a [u8]) -> Result<Self, RpcError> {
        let mut envelope = Self::default();
        let mut typed = Ok(());
        gojson::scan_object(line, |member| {
            if let Err(wrong) = envelope.take(member) {
                typed = Err(wrong);
            }
        })
        .map_err(|_| RpcError::parse())?;
        typed.map(|()| envelope).map_err(|_| RpcError::parse())
    }

    fn take(&mut self, member: Member<'a>) -> Result<(), Mistyped> {
        let given = Some(member.value()).filter(|value| !value.is_null());
        let text = |field: &mut Cow<'a, str>| {
            if let Some(value) = given {
                *field = value.string()?;
            }
            Ok(())
        };
        if member.is("id") {
            self.id = given;
        } else if member.is("params") {
            self.params = given.map_or(Params::Null, Params::Given);
        } else if member.is("method") {
            return text(&mut self.method);
        } else if member.is("jsonrpc") {
            return text(&mut self.version);
        } else if member.is("auth") {
            return text(&mut self.auth);
        }
        Ok(())
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
