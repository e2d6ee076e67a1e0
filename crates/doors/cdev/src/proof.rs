//! A browser that became a device at this origin shows who it is: it signs a challenge with the key that it keeps, once for each
//! request. There is no cookie and no token in it that a page elsewhere could use.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, StatusCode};
use ostler_door_web::Admitted;
use ostler_engine::access::device::{Challenge, Guest};
use serde_json::json;

use crate::error::{Code, Error};
use crate::http::{Served, not_in};
use crate::reply::Reply;

/// Challenges that wait to be signed: a page has one at a time.
const OPEN_MAX: usize = 64;
/// A page signs at once.
const SIGNED_WITHIN: Duration = Duration::from_secs(60);
const DEVICE: &str = "x-cdev-device";
const CHALLENGE: &str = "x-cdev-challenge";
const SIGNATURE: &str = "x-cdev-signature";

/// Challenges that were given out, each for one use.
#[derive(Default)]
pub(crate) struct Challenges(Mutex<VecDeque<(Instant, Challenge)>>);

impl Challenges {
    fn open(&self, now: Instant) -> MutexGuard<'_, VecDeque<(Instant, Challenge)>> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while open.front().is_some_and(|(made, _)| now.duration_since(*made) >= SIGNED_WITHIN) {
            open.pop_front();
        }
        open
    }

    fn keep(&self, challenge: Challenge, now: Instant) {
        let mut open = self.open(now);
        if open.len() >= OPEN_MAX {
            open.pop_front();
        }
        open.push_back((now, challenge));
    }

    fn take(&self, text: &str, now: Instant) -> Option<Challenge> {
        let mut open = self.open(now);
        let at = open.iter().position(|(_, challenge)| challenge.text() == text)?;
        open.remove(at).map(|(_, challenge)| challenge)
    }
}

/// What is to be signed, and for which host.
pub(crate) fn challenge(served: &Served, admitted: &Admitted) -> Result<Reply, Error> {
    let challenge = served.state.engine.challenge().map_err(|error| not_in(&error))?;
    let told = json!({ "challenge": challenge.text(), "host": admitted.host });
    served.state.challenges.keep(challenge, Instant::now());
    Ok(Reply::json(StatusCode::OK, &told))
}

/// Whether a request claims to be signed.
pub(crate) fn is_signed(asked: &HeaderMap) -> bool {
    asked.contains_key(DEVICE)
}

/// The device that signed a request.
pub(crate) async fn prove(served: &Served, asked: &HeaderMap, admitted: &Admitted) -> Result<Guest, Error> {
    let word = |name: &str| asked.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let unsigned = || Error::new(Code::Unauthorized, "the request is not signed as it should be");
    let (device, signature) = word(DEVICE).zip(word(SIGNATURE)).ok_or_else(unsigned)?;
    let challenge = word(CHALLENGE).and_then(|text| served.state.challenges.take(&text, Instant::now()));
    let (challenge, host) = (challenge.ok_or_else(unsigned)?, admitted.host.clone());
    served
        .with_visitor(admitted, move |wait, state, visitor| {
            let proved = state.engine.prove(wait, challenge, &device, &signature, &host, visitor);
            proved.map_err(|error| not_in(&error))
        })
        .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_is_good_once_and_for_a_minute_and_there_are_never_many() {
        let (challenges, start) = (Challenges::default(), Instant::now());
        let fresh = || Challenge::fresh().unwrap();
        let (first, second) = (fresh(), fresh());
        let texts = [first.text().to_owned(), second.text().to_owned()];
        challenges.keep(first, start);
        challenges.keep(second, start);
        assert!(challenges.take(&texts[0], start).is_some() && challenges.take(&texts[0], start).is_none());
        assert!(challenges.take(&texts[1], start + SIGNED_WITHIN).is_none());
        for _ in 0..OPEN_MAX + 9 {
            challenges.keep(fresh(), start);
        }
        assert_eq!(challenges.open(start).len(), OPEN_MAX);
    }
}
