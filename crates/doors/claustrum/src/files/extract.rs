//! `files.extract_tar`: what went wrong is told in the result, in words that clients know.

use std::ffi::OsStr;
use std::path::Path;

use ostler_door_rpc::RpcError;
use ostler_workspace::extract::{DestError, ExtractError, Request, StreamError, extract};

use super::{Params, reason, wording, wording_of};
use crate::env::Env;
use crate::gojson::{push_bytes_lossy, push_int};
use crate::goos;

/// Tells a client that a directory holds a whole archive.
const MARKER: &str = ".synced";

pub(super) fn run(params: &Params<'_>, env: &Env, out: &mut Vec<u8>) -> Result<(), RpcError> {
    let (archive, dest) = (params.archive_path.as_ref(), params.dest_dir.as_ref());
    if archive.is_empty() || dest.is_empty() {
        return Err(RpcError::params("archivePath and destDir are required"));
    }
    let place = env.place(Path::new(archive));
    let request =
        Request { archive: &place, dest: Path::new(dest), marker: OsStr::new(MARKER), home: env.home.as_deref() };
    let (files, error) = match extract(&request) {
        Ok(files) => (files, None),
        Err(failure) => (counted(&failure.error, failure.files), Some(said(&failure.error, archive))),
    };
    out.extend_from_slice(if error.is_none() { br#"{"success":true"# } else { br#"{"success":false"# });
    out.extend_from_slice(br#","fileCount":"#);
    push_int(out, i64::try_from(files).unwrap_or(i64::MAX));
    if let Some(error) = error {
        out.extend_from_slice(br#","error":"#);
        push_bytes_lossy(out, &error);
    }
    out.push(b'}');
    Ok(())
}

/// An archive that is refused for what it is counts as nothing, whatever came before.
fn counted(error: &ExtractError, files: u64) -> u64 {
    match error {
        ExtractError::Unsafe(_) | ExtractError::Unsupported { .. } => 0,
        _ => files,
    }
}

fn said(error: &ExtractError, archive: &str) -> Vec<u8> {
    match error {
        ExtractError::Dest(refusal) => dest_refusal(refusal).into_bytes(),
        ExtractError::Archive(error) => wording_of(error, Path::new(archive)),
        ExtractError::Entry(error) => wording(error),
        ExtractError::NotRegular(path) if path.is_dir() => format!("gzip: read {archive}: is a directory").into_bytes(),
        ExtractError::NotRegular(_) => format!("open {archive}: not a regular file").into_bytes(),
        ExtractError::Gzip(error) | ExtractError::Header(error) => with_prefix("gzip: ", stream(error, archive)),
        ExtractError::Content(error) => stream(error, archive).into_bytes(),
        ExtractError::Clean(error) => with_prefix("clean destDir: ", wording(error)),
        ExtractError::Create(error) => with_prefix("mkdir destDir: ", wording(error)),
        ExtractError::Unsafe(name) => with_prefix("unsafe path in archive: ", name),
        ExtractError::Unsupported { kind, name } => with_prefix(&format!("unsupported tar entry type {kind}: "), name),
        ExtractError::TooLarge => b"extraction size limit exceeded".to_vec(),
        ExtractError::Marker(error) => with_prefix("write .synced: ", wording(error)),
    }
}

fn with_prefix(prefix: &str, text: impl AsRef<[u8]>) -> Vec<u8> {
    [prefix.as_bytes(), text.as_ref()].concat()
}

fn dest_refusal(refusal: &DestError) -> String {
    let (rule, path) = match refusal {
        DestError::NotBelowRoot(path) => ("an absolute, non-root path", path),
        DestError::HoldsHome(path) => ("neither the home directory nor a parent of it", path),
    };
    format!("destDir must be {rule}: {}", goos::quoted(&path.to_string_lossy()))
}

fn stream(error: &StreamError, archive: &str) -> String {
    let text = match error {
        StreamError::Empty => "EOF",
        StreamError::CutShort => "unexpected EOF",
        StreamError::GzipHeader => "gzip: invalid header",
        StreamError::Checksum => "gzip: invalid checksum",
        StreamError::Deflate => "flate: corrupt input",
        StreamError::TarHeader => "archive/tar: invalid tar header",
        StreamError::FieldTooLong => "archive/tar: header field too long",
        StreamError::TooLarge => "extraction size limit exceeded",
        StreamError::Io(error) => return format!("read {archive}: {}", reason(error)),
    };
    text.to_owned()
}
