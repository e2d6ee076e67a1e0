//! The outside of a request: who asks, for what, and under which id the answer goes back.

use std::borrow::Cow;

use ostler_door_rpc::RpcError;
use subtle::{Choice, ConstantTimeEq};

use crate::error;
use crate::gojson::{self, Member, Mistyped, Object, Raw};

/// A line that was JSON of the right shape; nothing in it has been believed yet.
#[derive(Default)]
pub(crate) struct Envelope<'a> {
    pub(crate) id: Option<Raw<'a>>,
    pub(crate) method: Cow<'a, str>,
    /// A string, as written.
    version: Option<Raw<'a>>,
    /// A string, as written.
    auth: Option<Raw<'a>>,
    params: Params<'a>,
}

/// The fields of the envelope.
#[derive(Clone, Copy)]
enum Field {
    Id,
    Method,
    Version,
    Auth,
    Params,
}

const FIELDS: [(&str, Field); 5] = [
    ("id", Field::Id),
    ("method", Field::Method),
    ("jsonrpc", Field::Version),
    ("auth", Field::Auth),
    ("params", Field::Params),
];

impl Field {
    fn of(member: Member<'_>) -> Option<Self> {
        match member.usual_key() {
            b"id" => Some(Self::Id),
            b"method" => Some(Self::Method),
            b"jsonrpc" => Some(Self::Version),
            b"auth" => Some(Self::Auth),
            b"params" => Some(Self::Params),
            _ => FIELDS.iter().find(|(name, _)| member.is(name)).map(|(_, field)| *field),
        }
    }
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
        .map_err(|_| error::parse())?;
        typed.map(|()| envelope).map_err(|_| error::parse())
    }

    fn take(&mut self, member: Member<'a>) -> Result<(), Mistyped> {
        let given = Some(member.value()).filter(|value| !value.is_null());
        let text = |field: &mut Option<Raw<'a>>| match given {
            Some(value) if !value.is_string() => Err(Mistyped),
            Some(_) => {
                *field = given;
                Ok(())
            }
            None => Ok(()),
        };
        match Field::of(member) {
            Some(Field::Id) => self.id = given,
            Some(Field::Params) => self.params = given.map_or(Params::Null, Params::Given),
            Some(Field::Version) => text(&mut self.version)?,
            Some(Field::Auth) => text(&mut self.auth)?,
            Some(Field::Method) => {
                if let Some(value) = given {
                    self.method = value.string()?;
                }
            }
            None => {}
        }
        Ok(())
    }

    /// Checked before anything else: whoever does not have the token learns nothing.
    pub(crate) fn check_auth(&self, token: &str) -> Result<(), RpcError> {
        // Only a text with bytes that are no text needs the second look.
        let matches = self.auth.is_some_and(|auth| {
            auth.string_bytes().is_ok_and(|text| is_same(&text, token.as_bytes()))
                || auth.string().is_ok_and(|text| is_same(text.as_bytes(), token.as_bytes()))
        });
        if matches && !token.is_empty() { Ok(()) } else { Err(error::unauthorized()) }
    }

    pub(crate) fn check_version(&self) -> Result<(), RpcError> {
        let is_ours = |raw: Raw<'_>| raw.text() == br#""2.0""# || raw.string().is_ok_and(|text| text == "2.0");
        if self.version.is_some_and(is_ours) { Ok(()) } else { Err(error::version()) }
    }

    /// The text of the params object; absent params and anything but an object are refused.
    pub(crate) fn params(&self) -> Result<&'a [u8], RpcError> {
        match self.params {
            Params::Absent => Err(error::invalid_params()),
            Params::Null => Ok(b"{}"),
            Params::Given(raw) => Ok(raw.text()),
        }
    }
}

/// Compares in a time that tells nothing but the lengths; eight bytes at a time.
fn is_same(given: &[u8], secret: &[u8]) -> bool {
    let ((given_words, given_rest), (words, rest)) = (given.as_chunks::<8>(), secret.as_chunks::<8>());
    let word = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
    let same_words = given_words.iter().zip(words).fold(Choice::from(1), |same, (a, b)| same & word(a).ct_eq(&word(b)));
    given.len() == secret.len() && bool::from(same_words & given_rest.ct_eq(rest))
}

/// The members of a params object.
pub(crate) fn members(params: &[u8]) -> Result<Object<'_>, RpcError> {
    gojson::parse_object(params).map(Option::unwrap_or_default).map_err(|_| error::invalid_params())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admitted(line: &[u8], token: &str) -> bool {
        Envelope::read(line).is_ok_and(|envelope| envelope.check_auth(token).is_ok())
    }

    #[test]
    fn only_the_whole_token_opens_however_it_is_written() {
        let token = "0123456789abcdef-\u{fffd}";
        assert!(admitted("{\"auth\":\"0123456789abcdef-\u{fffd}\"}".as_bytes(), token));
        assert!(admitted(br#"{"AUTH":"0123456789abcde\u0066-\ufffd"}"#, token));
        assert!(admitted(b"{\"\\u0061uth\":\"0123456789abcdef-\xff\"}", token));
        assert!(admitted("{\"auth\":\"x\",\"auth\":\"0123456789abcdef-\u{fffd}\",\"auth\":null}".as_bytes(), token));
        for wrong in [
            &br#"{"auth":"0123456789abcdef-"}"#[..],
            br#"{"auth":"0123456789abcdef"}"#,
            br#"{"auth":"X123456789abcdef-\ufffd"}"#,
            br#"{"auth":"0123456789abcdeX-\ufffd"}"#,
            br#"{"auth":"0123456789abcdef-X"}"#,
            br#"{"auth":""}"#,
            br#"{"auth":null}"#,
            br#"{"outh":"0123456789abcdef-\ufffd"}"#,
            b"{}",
        ] {
            assert!(!admitted(wrong, token), "{}", String::from_utf8_lossy(wrong));
        }
        assert!(!admitted(br#"{"auth":""}"#, ""), "without a token nobody gets in");
    }

    #[test]
    fn a_field_of_the_wrong_type_spoils_the_line_even_where_it_is_repeated() {
        for line in [r#"{"auth":1}"#, r#"{"jsonrpc":[]}"#, r#"{"method":{}}"#, r#"{"auth":true,"auth":"t"}"#] {
            assert_eq!(Envelope::read(line.as_bytes()).err(), Some(error::parse()), "{line}");
        }
    }
}
