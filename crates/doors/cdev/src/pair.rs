//! `/pair` and `/api/pair/*`: what a phone scans or types to come in. A token is shown to programs of this machine only, none
//! of which is hosted, unless the user said out loud that everybody may see one.

use std::time::{Duration, SystemTime};

use axum::extract::Request;
use axum::http::{Method, StatusCode};
use ostler_api::Timestamp;
use ostler_door_web::Admitted;
use ostler_engine::access::device::{Admitter, Asks, Offered, Preset, Terms};
use ostler_engine::{Caller, MayWait};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::auth::{self, PAIRING};
use crate::error::{Code, Error};
use crate::http::{Served, body, wrong_verb};
use crate::place::name_of;
use crate::reply::Reply;
use crate::settings::millis;
use crate::{DOOR, DoorState, qr, query};

/// How long a code can be typed.
const CODE: Duration = Duration::from_secs(600);
/// The side of a code in pixels, unless another one is asked for.
const SIDE: u32 = 256;
/// The largest.
const SIDE_MAX: u32 = 512;

/// What a phone must know to connect: in the QR code, and as JSON.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Info {
    ws: String,
    http: String,
    session: String,
    repo: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
}

#[derive(Deserialize)]
struct Size {
    #[serde(default)]
    size: Option<u32>,
}

#[derive(Deserialize)]
struct Code6 {
    code: String,
}

pub(crate) async fn answer(served: &Served, request: Request, admitted: &Admitted) -> Reply {
    let (verb, path) = (request.method().clone(), request.uri().path().to_owned());
    let asked = request.uri().query().unwrap_or_default().to_owned();
    let answered = match (path.as_str(), verb) {
        ("/api/pair/info", Method::GET) => info(served, admitted).await,
        ("/api/pair/qr", Method::GET) => code_image(served, &asked, admitted).await,
        ("/api/pair/code", Method::POST) => code(served, request, admitted).await,
        ("/pair", Method::GET) => page(served, admitted).await,
        ("/pair" | "/api/pair/info" | "/api/pair/qr", _) => return wrong_verb("GET"),
        ("/api/pair/code", _) => return wrong_verb("POST"),
        (path, Method::GET) => {
            crate::page::file(path).ok_or_else(|| Error::new(Code::NotFound, "there is nothing here"))
        }
        _ => Err(Error::new(Code::NotFound, "there is nothing here")),
    };
    answered.unwrap_or_else(Reply::from)
}

impl Info {
    fn of(served: &Served, admitted: &Admitted, token: Option<String>) -> Self {
        let (state, exposure) = (&served.state, &served.exposure);
        let scheme = if exposure.certificate.is_some() { "https" } else { "http" };
        // Who came from elsewhere has found a name that leads here.
        let known = exposure.external.is_none() && !admitted.here;
        let told = if known { None } else { exposure.from_elsewhere(served.bound) };
        let http = told.unwrap_or_else(|| format!("{scheme}://{}", admitted.host));
        let ws = format!("{}/ws", http.replacen("http", "ws", 1));
        // What the folders of an `ostler up` are called is for who is paired.
        let repo = state.settings.repo.as_deref().map(name_of).unwrap_or_default();
        Self { ws, http, session: state.id.clone(), repo, token }
    }
}

/// Offers a place, if whoever asks may see what it is offered with; nothing to who is elsewhere.
async fn offer(served: &Served, admitted: &Admitted, code: bool) -> Result<Option<Offered>, Error> {
    served
        .with_visitor(admitted, move |wait, state, visitor| {
            let pairing = &state.settings.pairing;
            if visitor.caller == Caller::Elsewhere && !pairing.insecure {
                return Ok(None);
            }
            let who = Admitter::Protocol { visitor, name: DOOR, anybody: pairing.insecure };
            make(wait, state, who, code).map(Some)
        })
        .await
}

fn make(wait: &MayWait, state: &DoorState, who: Admitter<'_>, code: bool) -> Result<Offered, Error> {
    let pairing = &state.settings.pairing;
    let terms = Terms {
        name: None,
        rights: Preset::Work.rights(),
        stands_ms: millis(if code { pairing.token.min(CODE) } else { pairing.token }),
        code,
        keyless: true,
        asks: if pairing.approval { Asks::Always } else { Asks::Never },
        lifetimes: pairing.lifetimes(),
    };
    state.engine.offer(wait, who, terms).map_err(|error| auth::refusal(&error))
}

fn token(offered: &Offered) -> String {
    format!("{PAIRING}{}", offered.link.reveal())
}

fn until(left_ms: u64) -> String {
    Timestamp::from(SystemTime::now() + Duration::from_millis(left_ms)).to_string()
}

async fn info(served: &Served, admitted: &Admitted) -> Result<Reply, Error> {
    let offered = offer(served, admitted, false).await?;
    let info = Info::of(served, admitted, offered.as_ref().map(token));
    let mut told = serde_json::to_value(&info).map_err(Error::internal)?;
    if let Some(told) = told.as_object_mut() {
        told.insert("auth_required".into(), true.into());
        told.insert("approval_required".into(), served.state.settings.pairing.approval.into());
        if let Some(offered) = &offered {
            told.insert("token_expires_at".into(), until(offered.stands_ms).into());
        }
    }
    Ok(Reply::json(StatusCode::OK, &told))
}

async fn code_image(served: &Served, asked: &str, admitted: &Admitted) -> Result<Reply, Error> {
    let size: Size = query::read(asked).map_err(Error::params)?;
    let side = size.size.unwrap_or(SIDE);
    if !(1..=SIDE_MAX).contains(&side) {
        return Err(Error::params(format!("`size` is from 1 to {SIDE_MAX}")));
    }
    let offered = offer(served, admitted, false).await?;
    let Some(offered) = offered else {
        return Err(Error::new(Code::Forbidden, "the code is shown at the machine itself"));
    };
    let text = serde_json::to_string(&Info::of(served, admitted, Some(token(&offered)))).map_err(Error::internal)?;
    let image = qr::png(&text, side).ok_or_else(|| Error::internal("the address is too long for a code"))?;
    Ok(Reply::of(StatusCode::OK, "image/png", image))
}

/// Six digits that a person read off the page, for a token.
async fn code(served: &Served, request: Request, admitted: &Admitted) -> Result<Reply, Error> {
    let text = body(request).await?;
    let wanted: Code6 =
        serde_json::from_str(&text).map_err(|why| Error::params(format!("the body does not fit: {why}")))?;
    let code: String = wanted.code.chars().filter(|sign| !matches!(sign, ' ' | '-')).collect();
    if code.len() != 6 || !code.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Error::params("`code` is six digits"));
    }
    served
        .with_visitor(admitted, move |wait, state, visitor| {
            state.count_address(visitor.address, std::time::Instant::now())?;
            let ticket = state.engine.redeem_code(wait, &code, visitor).map_err(|error| auth::refusal(&error))?;
            let told = json!({
                "pairing_token": format!("{PAIRING}{}", ticket.secret.reveal()),
                "expires_at": until(ticket.left_ms),
                "expires_in": ticket.left_ms / 1000,
            });
            Ok(Reply::json(StatusCode::OK, &told))
        })
        .await
}

async fn page(served: &Served, admitted: &Admitted) -> Result<Reply, Error> {
    let offered = offer(served, admitted, true).await?;
    let info = Info::of(served, admitted, offered.as_ref().map(token));
    let text = serde_json::to_string(&info).map_err(Error::internal)?;
    let shown = offered.as_ref().map(|offered| crate::page::Shown {
        square: qr::svg(&text).unwrap_or_default(),
        code: offered.code.as_ref().map(|code| code.reveal().to_owned()).unwrap_or_default(),
        token: token(offered),
        left_s: offered.stands_ms / 1000,
    });
    Ok(crate::page::page(&info.http, &info.repo, served.state.settings.pairing.approval, shown.as_ref()))
}
