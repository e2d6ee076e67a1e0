//! `/api/auth/*`: pairing tokens become tokens of a device, which are renewed and revoked; and who waits to come in is let in
//! or refused. What a token is worth the engine knows, and only it.

use std::time::{Duration, Instant, SystemTime};

use axum::extract::Request;
use axum::http::{HeaderMap, Method, StatusCode, header};
use ostler_api::Timestamp;
use ostler_door_web::Admitted;
use ostler_engine::access::device::{
    Admitter, DeviceError, Grant, Guest, Introduction, NotIn, OfferError, OfferView, PublicKey, Redeemed, Standing,
    Visitor,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::{Code, Error};
use crate::http::{Served, body, not_in, wrong_verb};
use crate::reply::Reply;
use crate::{DOOR, proof};

/// What the tokens of this protocol begin with, so that a person, or a program that looks for secrets, knows them.
pub(crate) const PAIRING: &str = "cdev_p_";
const ACCESS: &str = "cdev_s_";
const REFRESH: &str = "cdev_r_";

#[derive(Deserialize)]
struct Exchange {
    pairing_token: String,
    /// What the device would be called.
    #[serde(default)]
    device_name: Option<String>,
    /// The key of a browser that keeps one.
    #[serde(default)]
    key: Option<String>,
}

#[derive(Deserialize)]
struct RefreshToken {
    refresh_token: String,
}

#[derive(Deserialize)]
struct Decided {
    request_id: String,
}

/// Tokens as a device gets them.
#[derive(Serialize)]
struct Tokens {
    access_token: String,
    access_token_expires_at: Timestamp,
    refresh_token: String,
    refresh_token_expires_at: Timestamp,
    token_type: &'static str,
    expires_in: u64,
}

/// Exchange, refresh, revoke.
pub(crate) async fn token(served: &Served, request: Request, admitted: &Admitted) -> Reply {
    if request.method() != Method::POST {
        return wrong_verb("POST");
    }
    let path = request.uri().path().to_owned();
    let named = request.headers().get(header::USER_AGENT).and_then(|agent| agent.to_str().ok()).map(product);
    let answered = match path.as_str() {
        "/api/auth/exchange" => exchange(served, request, admitted, named.unwrap_or_default()).await,
        "/api/auth/refresh" => refresh(served, request, admitted).await,
        _ => revoke(served, request, admitted).await,
    };
    answered.unwrap_or_else(Reply::from)
}

/// The program that a client says it is: the first word.
fn product(agent: &str) -> String {
    agent.split(['/', ' ']).next().unwrap_or_default().chars().filter(|sign| !sign.is_control()).take(40).collect()
}

async fn read<T: DeserializeOwned>(request: Request) -> Result<T, Error> {
    let text = body(request).await?;
    serde_json::from_str(&text).map_err(|why| Error::params(format!("the body does not fit: {why}")))
}

/// A token that was shown, without what stands before it.
fn bare<'a>(shown: &'a str, prefix: &str) -> Result<&'a str, Error> {
    match shown.trim() {
        "" => Err(Error::params("an empty token is none")),
        shown => Ok(shown.strip_prefix(prefix).unwrap_or(shown)),
    }
}

async fn exchange(served: &Served, request: Request, admitted: &Admitted, named: String) -> Result<Reply, Error> {
    let wanted: Exchange = read(request).await?;
    let link = bare(&wanted.pairing_token, PAIRING)?.to_owned();
    let bad = || Error::params("`key` is no point of P-256 in base64url");
    let key = wanted.key.map(|key| PublicKey::parse(&key).ok_or_else(bad)).transpose()?;
    let name = wanted.device_name.filter(|name| !name.trim().is_empty()).unwrap_or(named);
    let who = Introduction { name, key };
    served
        .with_visitor(admitted, move |wait, state, visitor| {
            state.count_address(visitor.address, Instant::now())?;
            let redeemed = state.engine.redeem_link(wait, &link, who, visitor).map_err(|error| refusal(&error))?;
            Ok(match redeemed {
                Redeemed::Waits { offer, left_ms } => {
                    let expires = Timestamp::from(SystemTime::now() + Duration::from_millis(left_ms));
                    let pending = json!({
                        "status": "pending_approval", "request_id": offer, "expires_at": expires.to_string(),
                    });
                    Reply::json(StatusCode::ACCEPTED, &pending)
                }
                Redeemed::Paired(paired) => match paired.grant {
                    Some(grant) => Reply::json(StatusCode::OK, &tokens(&grant)),
                    None => Reply::json(StatusCode::OK, &json!({ "device_id": paired.id, "name": paired.name })),
                },
            })
        })
        .await
}

async fn refresh(served: &Served, request: Request, admitted: &Admitted) -> Result<Reply, Error> {
    let wanted: RefreshToken = read(request).await?;
    let token = bare(&wanted.refresh_token, REFRESH)?.to_owned();
    served
        .with_visitor(admitted, move |wait, state, visitor| {
            state.count_address(visitor.address, Instant::now())?;
            let lifetimes = state.settings.pairing.lifetimes();
            let grant = state.engine.refresh(wait, &token, lifetimes, visitor).map_err(|error| refusal(&error))?;
            Ok(Reply::json(StatusCode::OK, &tokens(&grant)))
        })
        .await
}

async fn revoke(served: &Served, request: Request, admitted: &Admitted) -> Result<Reply, Error> {
    let wanted: RefreshToken = read(request).await?;
    let token = bare(&wanted.refresh_token, REFRESH)?.to_owned();
    served
        .with_visitor(admitted, move |wait, state, visitor| {
            state.count_address(visitor.address, Instant::now())?;
            state.engine.revoke_by_refresh(wait, &token, visitor).map_err(|error| refusal(&error))?;
            Ok(Reply::json(StatusCode::OK, &json!({ "success": true, "orphaned_workspaces": [] })))
        })
        .await
}

fn tokens(grant: &Grant) -> Tokens {
    let access_until = Timestamp::from_millis(grant.access_until);
    Tokens {
        access_token: format!("{ACCESS}{}", grant.access.reveal()),
        access_token_expires_at: access_until,
        refresh_token: format!("{REFRESH}{}", grant.refresh.reveal()),
        refresh_token_expires_at: Timestamp::from_millis(grant.refresh_until),
        token_type: "Bearer",
        expires_in: access_until.left().as_secs_f64().round() as u64,
    }
}

/// Why nothing came of a token.
pub(crate) fn refusal(error: &DeviceError) -> Error {
    let said = not_in(error);
    match error {
        DeviceError::Offer(OfferError::Nobody | OfferError::Another) => Error::new(Code::Unauthorized, said.message),
        DeviceError::TooOften { wait } => crate::rate::too_much(*wait),
        DeviceError::NotIn(NotIn::TooOften) => crate::rate::too_much(Duration::from_secs(60)),
        _ => said,
    }
}

/// Who waits, and what becomes of them.
pub(crate) async fn pairing(served: &Served, request: Request, admitted: &Admitted) -> Reply {
    let (verb, path) = (request.method().clone(), request.uri().path().to_owned());
    let answered = match (path.as_str(), verb) {
        ("/api/auth/pairing/pending", Method::GET) => pending(served, request.headers().clone(), admitted).await,
        ("/api/auth/pairing/pending", _) => return wrong_verb("GET"),
        ("/api/auth/pairing/approve", Method::POST) => decide(served, request, admitted, true).await,
        ("/api/auth/pairing/reject", Method::POST) => decide(served, request, admitted, false).await,
        ("/api/auth/pairing/challenge", Method::POST) => proof::challenge(served, admitted),
        ("/api/auth/pairing/approve" | "/api/auth/pairing/reject" | "/api/auth/pairing/challenge", _) => {
            return wrong_verb("POST");
        }
        _ => Err(Error::new(Code::NotFound, "there is nothing here")),
    };
    answered.unwrap_or_else(Reply::from)
}

/// Whoever decides who comes in.
enum Decider {
    Device(Guest),
    /// A program of our user, where the protocol's own rule holds.
    Program,
}

impl Decider {
    /// A device with that right; else, where the document's own rule holds, a program of this machine that came by itself.
    async fn of(served: &Served, asked: &HeaderMap, admitted: &Admitted) -> Result<Self, Error> {
        let pairing = &served.state.settings.pairing;
        if !pairing.approval {
            return Err(Error::new(Code::NotFound, "nobody is asked here about who comes in"));
        }
        if proof::is_signed(asked) {
            return proof::prove(served, asked, admitted).await.map(Self::Device);
        }
        if asked.contains_key(header::AUTHORIZATION) {
            return served.guest(admitted, asked).await.map(Self::Device);
        }
        match pairing.local_decides && admitted.here {
            true => Ok(Self::Program),
            false => Err(Error::new(Code::Forbidden, "devices are let in at the machine itself: ostler devices admit")),
        }
    }

    fn admitter<'a>(&'a self, visitor: &'a Visitor) -> Admitter<'a> {
        match self {
            Self::Device(guest) => Admitter::Device(guest),
            Self::Program => Admitter::Protocol { visitor, name: DOOR, anybody: false },
        }
    }
}

async fn pending(served: &Served, asked: HeaderMap, admitted: &Admitted) -> Result<Reply, Error> {
    let decider = Decider::of(served, &asked, admitted).await?;
    served
        .with_visitor(admitted, move |wait, state, visitor| {
            state.engine.may_admit(wait, decider.admitter(visitor)).map_err(|error| refusal(&error))?;
            let own = |offer: &OfferView| match decider {
                Decider::Device(_) => true,
                Decider::Program => offer.protocol.as_deref() == Some(DOOR),
            };
            let waiting = state.engine.offers().into_iter().filter(|offer| offer.standing == Standing::Claimed);
            let pending: Vec<Value> = waiting.filter(own).map(|offer| waits(&offer)).collect();
            Ok(Reply::json(StatusCode::OK, &json!({ "count": pending.len(), "pending": pending })))
        })
        .await
}

fn waits(offer: &OfferView) -> Value {
    let now = SystemTime::now();
    let came = now.checked_sub(Duration::from_millis(offer.waited_ms)).unwrap_or(now);
    json!({
        "request_id": offer.id,
        "remote_addr": offer.address,
        "user_agent": offer.name,
        "rights": offer.rights.to_string(),
        "created_at": Timestamp::from(came).to_string(),
        "expires_at": Timestamp::from(now + Duration::from_millis(offer.left_ms)).to_string(),
    })
}

async fn decide(served: &Served, request: Request, admitted: &Admitted, yes: bool) -> Result<Reply, Error> {
    let asked = request.headers().clone();
    let decider = Decider::of(served, &asked, admitted).await?;
    let id = read::<Decided>(request).await?.request_id;
    if id.is_empty() {
        return Err(Error::params("`request_id` is empty"));
    }
    served
        .with_visitor(admitted, move |wait, state, visitor| {
            let who = decider.admitter(visitor);
            let nobody = || Error::new(Code::NotFound, "nobody waits under this id");
            if !yes {
                // Who was let in is put out elsewhere: a decision is made once.
                state.engine.may_admit(wait, decider.admitter(visitor)).map_err(|error| refusal(&error))?;
                let waits = |offer: &OfferView| offer.id == id && offer.standing == Standing::Claimed;
                state.engine.offers().iter().find(|offer| waits(offer)).ok_or_else(nobody)?;
            }
            let decided = match yes {
                true => state.engine.admit(wait, who, &id),
                false => state.engine.refuse(wait, who, &id),
            };
            decided.map_err(|error| match error {
                DeviceError::Offer(OfferError::Nobody | OfferError::NotClaimed) => nobody(),
                error => refusal(&error),
            })?;
            let status = if yes { "approved" } else { "rejected" };
            Ok(Reply::json(StatusCode::OK, &json!({ "success": true, "status": status, "request_id": id })))
        })
        .await
}
