//! `upload/*`: a file that comes in pieces, each at the place that the sender names, and is written when all of it is there and
//! has the hash that was announced. Who lost its connection asks how far it came and goes on from there. Pieces are in memory
//! only, and bounded: with the server they are gone, and the sender begins anew.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ostler_door_rpc::decode_base64;
use ostler_engine::MayWait;
use ostler_workspace::beneath::{Expected, content_hash, media_type};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::{Code, Error};
use crate::method::Call;

/// 8 MiB: what a workspace writes at once.
pub(crate) const FILE_MAX: u64 = 8 << 20;
/// Uploads under way, of all devices together: the memory that they may take is this many files.
const OPEN_MAX: usize = 8;
/// Who sends nothing for so long begins anew.
const IDLE: Duration = Duration::from_secs(600);
/// Pictures are put here, beneath the workspace.
const IMAGES: &str = ".cdev/images";
/// What a picture may be, and how its file is called.
const KINDS: [(&str, &str); 4] =
    [("image/png", "png"), ("image/jpeg", "jpg"), ("image/gif", "gif"), ("image/webp", "webp")];

/// Uploads that are under way.
#[derive(Default)]
pub(crate) struct Uploads(Mutex<BTreeMap<String, Upload>>);

struct Upload {
    /// The device that sends it; nobody else may.
    device: String,
    folder: PathBuf,
    path: String,
    size: u64,
    sha256: String,
    /// The hash of the file that it replaces.
    replaces: Option<String>,
    content: Vec<u8>,
    heard: Instant,
}

impl Uploads {
    /// Those that somebody still sends.
    fn open(&self, now: Instant) -> MutexGuard<'_, BTreeMap<String, Upload>> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|_, upload| now.duration_since(upload.heard) < IDLE);
        open
    }
}

fn no_upload() -> Error {
    Error::new(Code::NotFound, "no upload of this id is under way; begin anew: upload/start")
}

/// What is to come.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct StartParams {
    /// Where in the workspace it belongs.
    path: String,
    /// How many bytes it has.
    size: u64,
    /// SHA-256 of the whole, in hex.
    sha256: String,
    /// SHA-256 of the file that it replaces; without it there must be none.
    #[serde(default)]
    replaces: Option<String>,
    #[serde(default)]
    workspace_id: Option<String>,
}

/// One piece.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct ChunkParams {
    upload_id: String,
    /// Where it begins.
    offset: u64,
    /// In base64.
    data: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct IdParams {
    upload_id: String,
}

/// How far it has come.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Progress {
    upload_id: String,
    /// The next piece begins here.
    offset: u64,
    size: u64,
    complete: bool,
}

/// A file that was written.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Uploaded {
    success: bool,
    path: String,
    size: u64,
    sha256: String,
}

impl Upload {
    fn progress(&self, id: &str) -> Progress {
        let offset = self.content.len() as u64;
        Progress { upload_id: id.to_owned(), offset, size: self.size, complete: offset == self.size }
    }
}

pub(crate) fn start(wait: &MayWait, call: &Call, params: StartParams) -> Result<Progress, Error> {
    let folder = call.folder(params.workspace_id.as_deref())?;
    call.root(wait, &folder)?;
    let sha256 = params.sha256.to_ascii_lowercase();
    if sha256.len() != 64 || !sha256.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(Error::params("`sha256` is 64 hexadecimal digits"));
    }
    if params.size > FILE_MAX {
        let said = Error::new(Code::FileTooLarge, format!("at most {FILE_MAX} bytes can be uploaded"));
        return Err(said.with("size", params.size).with("max_size", FILE_MAX));
    }
    let now = Instant::now();
    // The same again is the same upload: who lost the answer goes on.
    let named = (&call.guest.id, &folder, &params.path, params.size, &sha256, &params.replaces);
    let digest = Sha256::digest(format!("{named:?}").as_bytes());
    let id: String = digest.iter().take(12).map(|byte| format!("{byte:02x}")).collect();
    let mut open = call.state.uploads.open(now);
    if open.len() >= OPEN_MAX && !open.contains_key(&id) {
        return Err(Error::new(Code::Full, "too many uploads are under way; finish one first"));
    }
    let upload = open.entry(id.clone()).or_insert_with(|| Upload {
        device: call.guest.id.clone(),
        folder,
        path: params.path,
        size: params.size,
        sha256,
        replaces: params.replaces,
        content: Vec::new(),
        heard: now,
    });
    upload.heard = now;
    Ok(upload.progress(&id))
}

/// Works on an upload of this device.
fn of_device<T>(call: &Call, id: &str, work: impl FnOnce(&mut Upload) -> Result<T, Error>) -> Result<T, Error> {
    let now = Instant::now();
    let mut open = call.state.uploads.open(now);
    let upload = open.get_mut(id).filter(|upload| upload.device == call.guest.id).ok_or_else(no_upload)?;
    upload.heard = now;
    work(upload)
}

pub(crate) fn chunk(_: &MayWait, call: &Call, params: ChunkParams) -> Result<Progress, Error> {
    let piece = decode_base64(params.data.as_bytes()).map_err(|_| Error::params("`data` is not base64"))?;
    of_device(call, &params.upload_id, |upload| {
        let here = upload.content.len() as u64;
        let begin = usize::try_from(params.offset).unwrap_or(usize::MAX);
        // What came before, because its answer was lost, changes nothing.
        if upload.content.get(begin..begin.saturating_add(piece.len())) == Some(piece.as_slice()) {
            return Ok(upload.progress(&params.upload_id));
        }
        if params.offset != here {
            let said = Error::new(Code::Conflict, format!("the next piece begins at {here}"));
            return Err(said.with("offset", here));
        }
        if here + piece.len() as u64 > upload.size {
            return Err(Error::params(format!("that is more than the {} bytes that were announced", upload.size)));
        }
        upload.content.extend_from_slice(&piece);
        Ok(upload.progress(&params.upload_id))
    })
}

pub(crate) fn status(_: &MayWait, call: &Call, params: IdParams) -> Result<Progress, Error> {
    of_device(call, &params.upload_id, |upload| Ok(upload.progress(&params.upload_id)))
}

/// Takes an upload of this device out.
fn taken(call: &Call, id: &str) -> Result<Upload, Error> {
    let mut open = call.state.uploads.open(Instant::now());
    let is_own = open.get(id).is_some_and(|upload| upload.device == call.guest.id);
    if is_own { open.remove(id).ok_or_else(no_upload) } else { Err(no_upload()) }
}

pub(crate) fn cancel(_: &MayWait, call: &Call, params: IdParams) -> Result<Progress, Error> {
    taken(call, &params.upload_id).map(|upload| upload.progress(&params.upload_id))
}

pub(crate) fn finish(wait: &MayWait, call: &Call, params: IdParams) -> Result<Uploaded, Error> {
    of_device(call, &params.upload_id, |upload| match upload.content.len() as u64 {
        here if here < upload.size => {
            let said = Error::new(Code::Conflict, format!("{} bytes are missing", upload.size - here));
            Err(said.with("offset", here))
        }
        _ => Ok(()),
    })?;
    let upload = taken(call, &params.upload_id)?;
    let found = hex(&upload.content);
    if found != upload.sha256 {
        let said = Error::new(Code::Conflict, "the content does not have the hash that was announced; begin anew");
        return Err(said.with("sha256", found));
    }
    let root = call.root(wait, &upload.folder)?;
    let expected = upload.replaces.as_deref().map_or(Expected::Absent, Expected::Hash);
    root.write(upload.path.as_ref(), &upload.content, expected)?;
    Ok(Uploaded { success: true, path: upload.path, size: upload.size, sha256: found })
}

fn hex(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A picture for a prompt.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct ImageParams {
    /// In base64: PNG, JPEG, GIF or WebP.
    data: String,
    #[serde(default)]
    workspace_id: Option<String>,
}

/// Where it was put: a prompt names `local_path`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Image {
    success: bool,
    id: String,
    local_path: String,
    mime_type: String,
    size: u64,
}

/// What a picture is called follows from what is in it: the same again is the same file.
pub(crate) fn image(wait: &MayWait, call: &Call, params: ImageParams) -> Result<Image, Error> {
    let content = decode_base64(params.data.as_bytes()).map_err(|_| Error::params("`data` is not base64"))?;
    let kind = media_type(&content);
    let Some((_, ending)) = KINDS.iter().find(|(known, _)| *known == kind) else {
        return Err(Error::new(Code::MediaType, "only PNG, JPEG, GIF and WebP pictures are taken"));
    };
    let folder = call.folder(params.workspace_id.as_deref())?;
    let root = call.root(wait, &folder)?;
    let id = format!("img_{}", hex(&content).get(..24).unwrap_or_default());
    let local_path = format!("{IMAGES}/{id}.{ending}");
    let hash = content_hash(&content);
    root.make_folders(local_path.as_ref())?;
    let written = root
        .write(local_path.as_ref(), &content, Expected::Absent)
        .or_else(|_| root.write(local_path.as_ref(), &content, Expected::Hash(&hash)));
    written?;
    Ok(Image { success: true, id, local_path, mime_type: kind.to_owned(), size: content.len() as u64 })
}
