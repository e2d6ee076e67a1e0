//! A command in a sealed memory file, or in the packet where it is short: program, directory, log, arguments and environment as
//! length-prefixed strings that end in NUL, so that the keeper can point into a mapping instead
//! of copying a megabyte. Sealed, because a file that shrinks under a mapping kills its reader.

use std::ffi::{CStr, OsStr, OsString};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, memfd_create};
use rustix::io::Errno;

/// First bytes of the file: name and version of the layout.
const MAGIC: &[u8; 4] = b"OSK1";
/// Largest command accepted: the kernel itself refuses arguments beyond 6 MiB.
const BLOB_MAX: u64 = 8 * 1024 * 1024;
/// Up to this size a copy costs less than a mapping and its removal from other processors.
const COPY_MAX: usize = 32 * 1024;
/// What makes a mapping of the file safe.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::WRITE);

/// A command as the daemon knows it.
pub(crate) struct Command<'a> {
    pub(crate) program: &'a OsStr,
    pub(crate) cwd: &'a OsStr,
    pub(crate) log: &'a OsStr,
    pub(crate) argv: &'a [OsString],
    pub(crate) env: &'a [(OsString, OsString)],
}

/// The same command as the keeper sees it.
#[derive(Debug)]
pub(crate) struct Mapped<'a> {
    pub(crate) program: &'a CStr,
    pub(crate) cwd: &'a CStr,
    pub(crate) log: &'a CStr,
    pub(crate) argv: Vec<&'a CStr>,
    pub(crate) env: Vec<&'a CStr>,
}

/// Up to this size a command travels in the packet: a file of its own costs more than the copy.
pub(crate) const PACKED_MAX: usize = 32 * 1024;

/// Writes a command into a sealed memory file. A NUL inside a string is EINVAL.
pub(crate) fn seal(command: &Command<'_>) -> std::io::Result<OwnedFd> {
    sealed(&pack(command)?)
}

/// Writes what [`pack`] made into a sealed memory file.
pub(crate) fn sealed(bytes: &[u8]) -> std::io::Result<OwnedFd> {
    let file = memfd_create("command", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut file = File::from(file);
    file.write_all(bytes)?;
    fcntl_add_seals(&file, SEALS | SealFlags::SEAL)?;
    Ok(file.into())
}

/// A command as bytes. A NUL inside a string is EINVAL.
pub(crate) fn pack(command: &Command<'_>) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(4096);
    bytes.extend_from_slice(MAGIC);
    for count in [command.argv.len(), command.env.len()] {
        bytes.extend_from_slice(&length(count)?);
    }
    for text in [command.program, command.cwd, command.log] {
        push(&mut bytes, &[text.as_bytes()])?;
    }
    for argument in command.argv {
        push(&mut bytes, &[argument.as_bytes()])?;
    }
    for (name, value) in command.env {
        push(&mut bytes, &[name.as_bytes(), b"=", value.as_bytes()])?;
    }
    Ok(bytes)
}

fn length(value: usize) -> std::io::Result<[u8; 4]> {
    u32::try_from(value).map(u32::to_le_bytes).map_err(|_| Errno::TOOBIG.into())
}

fn push(bytes: &mut Vec<u8>, parts: &[&[u8]]) -> std::io::Result<()> {
    if parts.iter().any(|part| part.contains(&0)) {
        return Err(Errno::INVAL.into());
    }
    bytes.extend_from_slice(&length(parts.iter().map(|part| part.len()).sum())?);
    for part in parts {
        bytes.extend_from_slice(part);
    }
    bytes.push(0);
    Ok(())
}

/// The bytes of a command: copied when few, mapped when many.
#[derive(Debug)]
pub(crate) enum Bytes {
    Copied(Vec<u8>),
    Mapped(crate::sys::Mapping),
}

impl std::ops::Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Copied(bytes) => bytes,
            Bytes::Mapped(mapping) => mapping,
        }
    }
}

/// Opens a command, refusing a file that is not sealed or too large.
pub(crate) fn open(file: impl AsFd) -> Result<Bytes, Errno> {
    let size = u64::try_from(fstat(&file)?.st_size).unwrap_or(0);
    if size == 0 || !fcntl_get_seals(&file)?.contains(SEALS) {
        return Err(Errno::INVAL);
    }
    if size > BLOB_MAX {
        return Err(Errno::TOOBIG);
    }
    let size = usize::try_from(size).map_err(|_| Errno::TOOBIG)?;
    if size > COPY_MAX {
        return Ok(Bytes::Mapped(crate::sys::Mapping::new(file, size)?));
    }
    let mut bytes = vec![0; size];
    let length = rustix::io::pread(&file, &mut bytes, 0)?;
    bytes.truncate(length);
    Ok(Bytes::Copied(bytes))
}

/// Finds the strings. `None`: not a command.
pub(crate) fn parse(bytes: &[u8]) -> Option<Mapped<'_>> {
    let rest = &mut bytes.strip_prefix(MAGIC)?;
    let argc = number(rest)?;
    let envc = number(rest)?;
    let program = text(rest)?;
    let cwd = text(rest)?;
    let log = text(rest)?;
    Some(Mapped { program, cwd, log, argv: texts(rest, argc)?, env: texts(rest, envc)? })
}

fn number(rest: &mut &[u8]) -> Option<usize> {
    let (head, tail) = rest.split_first_chunk::<4>()?;
    *rest = tail;
    usize::try_from(u32::from_le_bytes(*head)).ok()
}

fn text<'a>(rest: &mut &'a [u8]) -> Option<&'a CStr> {
    let length = number(rest)?.checked_add(1)?;
    let (head, tail) = rest.split_at_checked(length)?;
    *rest = tail;
    CStr::from_bytes_with_nul(head).ok()
}

fn texts<'a>(rest: &mut &'a [u8], count: usize) -> Option<Vec<&'a CStr>> {
    // Each string takes five bytes at least: a count that cannot be true allocates nothing.
    if count > rest.len() / 5 {
        return None;
    }
    let mut found = Vec::with_capacity(count);
    for _ in 0..count {
        found.push(text(rest)?);
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command<'a>(argv: &'a [OsString], env: &'a [(OsString, OsString)]) -> Command<'a> {
        Command { program: OsStr::new("/bin/true"), cwd: OsStr::new("/"), log: OsStr::new(""), argv, env }
    }

    #[test]
    fn a_command_is_read_as_it_was_written() {
        let argv = ["true".into(), "".into(), "x".repeat(900_000).into()];
        let env = [("A".into(), "b=c".into())];
        let bytes = open(seal(&command(&argv, &env)).unwrap()).unwrap();
        let found = parse(&bytes).unwrap();
        assert_eq!(found.program, c"/bin/true");
        assert_eq!(found.cwd, c"/");
        assert_eq!(found.log, c"");
        assert_eq!(found.argv.len(), 3);
        assert_eq!(found.argv[2].count_bytes(), 900_000);
        assert_eq!(found.env, [c"A=b=c"]);
    }

    #[test]
    fn a_nul_byte_never_cuts_a_string_short() {
        let argv = ["a\0b".into()];
        let error = seal(&command(&argv, &[])).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::INVAL.raw_os_error()));
    }

    #[test]
    fn a_file_that_could_still_shrink_is_refused() {
        let file = memfd_create("x", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::io::write(&file, MAGIC).unwrap();
        assert_eq!(open(&file).unwrap_err(), Errno::INVAL);
    }

    #[test]
    fn every_cut_of_a_command_is_refused() {
        let argv = ["true".into()];
        let env = [("A".into(), "b".into())];
        let bytes = open(seal(&command(&argv, &env)).unwrap()).unwrap();
        for cut in 0..bytes.len() {
            assert!(parse(&bytes[..cut]).is_none(), "cut at {cut}");
        }
        let mut lie = MAGIC.to_vec();
        lie.extend_from_slice(&[0xff; 64]);
        assert!(parse(&lie).is_none());
    }
}
