//! A zstd-compressed program: its checksum, and what is in it.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use sha2::{Digest, Sha256};

use super::path_error;

/// Far above any CLI, far below what a machine can hold.
pub(super) const SIZE_MAX: u64 = 512 << 20;

const CHUNK: usize = 128 << 10;

/// Opens an uploaded archive.
pub(super) fn open(path: &str) -> Result<File, String> {
    let failed = |call| move |error: io::Error| format!("opening input: {}", path_error(call, Path::new(path), &error));
    let file = File::open(path).map_err(failed("open"))?;
    match file.metadata().is_ok_and(|meta| meta.is_dir()) {
        true => Err(failed("read")(rustix::io::Errno::ISDIR.into())),
        false => Ok(file),
    }
}

/// Compares the SHA-256 of the whole file; letters of either case will do.
pub(super) fn verify(blob: &File, expected: &str) -> Result<(), String> {
    let actual =
        checksum(blob).map_err(|error| format!("reading input: {}", ostler_door_claustrum::errno_text(&error)))?;
    if actual.eq_ignore_ascii_case(expected) {
        return Ok(());
    }
    Err(format!("checksum mismatch: expected={expected}, actual={actual}"))
}

fn checksum(mut blob: &File) -> io::Result<String> {
    blob.seek(SeekFrom::Start(0))?;
    let mut digest = Sha256::new();
    let mut chunk = vec![0; CHUNK];
    loop {
        match blob.read(&mut chunk)? {
            0 => break,
            count => digest.update(chunk.get(..count).unwrap_or_default()),
        }
    }
    Ok(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Writes what is in the archive.
pub(super) fn unpack(blob: &File, out: &mut File) -> Result<(), String> {
    decompress(blob, out, SIZE_MAX).map_err(|reason| format!("decompressing: {reason}"))
}

pub(super) fn decompress(mut blob: &File, out: &mut impl Write, limit: u64) -> Result<(), String> {
    blob.seek(SeekFrom::Start(0)).map_err(|error| reason(&error))?;
    let decoder = zstd::stream::read::Decoder::new(blob).map_err(|error| reason(&error))?;
    let written = io::copy(&mut decoder.take(limit.saturating_add(1)), out).map_err(|error| reason(&error))?;
    if written > limit {
        return Err(format!("more than {} MiB", limit >> 20));
    }
    Ok(())
}

fn reason(error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        return "unexpected EOF".to_owned();
    }
    match ostler_door_claustrum::errno_text(error).as_str() {
        "unknown frame descriptor" => "invalid input: magic number mismatch".to_owned(),
        other => other.to_owned(),
    }
}
