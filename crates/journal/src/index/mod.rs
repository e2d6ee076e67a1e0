//! Index files: rows of 32-byte records, numbered from 1 by their position. Raw and event journals differ in what a record
//! says, not in how it is checked, written or read; nothing here knows what a record is about.

mod record;
mod walk;

pub(crate) use record::{RECORD, Record, check};
pub(crate) use walk::Walk;
