//! Answers of devices. One that has a key signs what it answers, and the signed text is what counts.

use ostler_api::{DecideParams, ErrorKind, RpcError};
use ostler_engine::MayWait;
use ostler_engine::access::device::{Guest, SignedAnswer};
use ostler_story::By;
use serde::Deserialize;

use crate::call::Call;
use crate::rights;

/// The longest text that may be signed: it stays in the audit.
const TEXT_MAX: usize = 256 * 1024;

/// The text that was signed: the answer itself, and until when it counts.
#[derive(Deserialize)]
struct Text {
    until_ms: u64,
    #[serde(flatten)]
    answer: DecideParams,
}

/// Who decides, and what: of a device with a key, what it signed.
pub(crate) fn by_device(
    wait: &MayWait,
    call: &Call,
    guest: &Guest,
    id: &str,
    params: DecideParams,
) -> Result<(By, DecideParams), RpcError> {
    let (signed, mut meant) = match params.signed.clone() {
        None => (None, params),
        Some(signed) => {
            let (text, answer) = read(signed, id)?;
            (Some(text), answer)
        }
    };
    // A password is never typed from afar.
    meant.relays = false;
    let by = call.engine().guest_decides(wait, guest, signed, id).map_err(|error| rights::refusal(&error))?;
    Ok((by, meant))
}

fn read(signed: ostler_api::SignedAnswer, id: &str) -> Result<(SignedAnswer, DecideParams), RpcError> {
    let bad = |why: String| RpcError::new(ErrorKind::BadParams, format!("approval.decide: {why}"));
    let ostler_api::SignedAnswer { text, signature } = signed;
    if text.len() > TEXT_MAX {
        return Err(bad("the signed text is too long".to_owned()));
    }
    let Text { until_ms, answer } =
        serde_json::from_str(&text).map_err(|error| bad(format!("the signed text is no answer: {error}")))?;
    if answer.id != id {
        return Err(bad("the signed text is about another request".to_owned()));
    }
    Ok((SignedAnswer { text, signature, until_ms }, answer))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ostler_api::Verdict;

    fn signed(text: &str) -> ostler_api::SignedAnswer {
        ostler_api::SignedAnswer { text: text.into(), signature: String::new() }
    }

    #[test]
    fn what_was_signed_is_what_is_meant_and_names_its_request() {
        let text = r#"{"id":"a1","hash":"h","verdict":"deny","message":"no","until_ms":7}"#;
        let (answer, meant) = read(signed(text), "a1").unwrap();
        assert_eq!((answer.until_ms, meant.verdict, meant.message.as_str()), (7, Verdict::Deny, "no"));
        assert!(read(signed(text), "a2").is_err());
        assert!(read(signed(r#"{"id":"a1","hash":"h","verdict":"once"}"#), "a1").is_err(), "it says until when");
        assert!(read(signed(&" ".repeat(TEXT_MAX + 1)), "a1").is_err());
    }
}
