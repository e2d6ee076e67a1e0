//! A reader's place that outlives its connection and the daemon: a few numbers in a file of the session's folder.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// What a file holds at most: a page, which a kill leaves as it was or as it is to be.
const NUMBERS_MAX: usize = 512;
const NUMBER: usize = size_of::<u64>();

/// A named, durable position in a session's journal.
#[derive(Debug)]
pub struct Bookmark {
    file: File,
}

impl Bookmark {
    /// The bookmark of this name, made if there is none. Names are a door's own: letters and dashes.
    pub(super) fn open(dir: &Path, name: &str) -> io::Result<Self> {
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.is_empty() || name.len() > 64 || !name.chars().all(fits) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{name:?} cannot name a bookmark")));
        }
        let path = dir.join(format!("at.{name}"));
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        Ok(Self { file })
    }

    /// The record that was read last; nothing if none ever was.
    pub fn get(&self) -> Option<u64> {
        let mut bytes = [0; 8];
        self.file.read_exact_at(&mut bytes, 0).ok().map(|()| u64::from_le_bytes(bytes))
    }

    /// Notes the record that was read last. Eight bytes within a page: a kill leaves the old place or the new one.
    pub fn set(&self, record: u64) -> io::Result<()> {
        self.set_all(&[record])
    }

    /// All numbers that were ever noted here: those of [`set_all`](Self::set_all), and what longer lists before it left behind.
    pub fn all(&self) -> io::Result<Vec<u64>> {
        let mut page = vec![0; NUMBERS_MAX * NUMBER];
        let length = self.file.read_at(&mut page, 0)?;
        page.truncate(length);
        Ok(page.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect())
    }

    /// Notes some numbers together. All within a page: a kill leaves the old ones or the new ones.
    pub fn set_all(&self, numbers: &[u64]) -> io::Result<()> {
        if numbers.len() > NUMBERS_MAX {
            let why = format!("a bookmark holds {NUMBERS_MAX} numbers, not {}", numbers.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.file.write_all_at(&bytes, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_found_again_and_a_name_stays_in_its_folder() {
        let dir = tempfile::tempdir().unwrap();
        let mark = Bookmark::open(dir.path(), "codecast").unwrap();
        assert_eq!(mark.get(), None);
        mark.set(7).unwrap();
        mark.set(3).unwrap();
        assert_eq!(Bookmark::open(dir.path(), "codecast").unwrap().get(), Some(3));
        mark.set_all(&[9, 8, 7]).unwrap();
        assert_eq!((mark.get(), mark.all().unwrap()), (Some(9), vec![9, 8, 7]));
        mark.set_all(&vec![1; NUMBERS_MAX]).unwrap();
        assert_eq!(mark.all().unwrap().len(), NUMBERS_MAX);
        assert!(mark.set_all(&vec![1; NUMBERS_MAX + 1]).is_err());
        for name in ["", "../x", "a/b", "a.b"] {
            assert!(Bookmark::open(dir.path(), name).is_err(), "{name:?}");
        }
    }
}
