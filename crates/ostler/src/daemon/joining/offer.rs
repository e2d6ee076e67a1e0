//! What is said over a lease. Both ends may be of different releases: a member may be added, none may change its meaning.

use std::ffi::OsString;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::prompt::{Said, Told};
use super::surroundings::Surroundings;
use crate::daemon::Asked;
use crate::daemon::doors::Handed;
use crate::instances::DoorRecord;

/// The version of these messages, told in a [`Hello`] that every version reads. Another one is refused by name.
pub(super) const VERSION: u32 = 1;

/// What a program says first, its environment beside it: whoever hides cannot be looked at otherwise.
#[derive(Serialize, Deserialize)]
pub(super) struct Hello {
    pub(super) version: u32,
    /// The release of the program, for the log.
    pub(super) program: String,
    /// Its environment comes along.
    pub(super) shows: bool,
}

/// What it says next, its listening socket beside it.
#[derive(Serialize, Deserialize)]
pub(super) struct Offer {
    /// The name of its place: the same after each restart.
    pub(super) name: String,
    #[serde(rename = "footing")]
    pub(super) surroundings: Surroundings,
    /// What children inherit.
    pub(super) environment: Vec<(OsString, OsString)>,
    pub(super) cwd: PathBuf,
    pub(super) umask: u32,
    pub(super) nofile: (u64, u64),
    /// How the door is listed.
    pub(super) record: DoorRecord,
    /// Which door, and what it must be told.
    pub(super) door: Handed,
}

/// What a program says later.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Later {
    /// It ends.
    Ends { asked: Asked },
    /// Of a question that its door put there.
    Prompt { prompt: Said },
}

/// How a door was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Over {
    pub(crate) asked: Asked,
    /// So many processes were let go of, if that is the door's way.
    #[serde(default)]
    pub(crate) abandoned: Option<usize>,
}

/// What the daemon says.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    /// The door is open.
    Open,
    /// It is not, and will not be.
    Refused(String),
    /// The door is closed and what ends with it has ended; the program ends too.
    Over(Over),
    /// The daemon leaves. Another one may come.
    Leaving,
    /// Of what is asked at the door, for a program that puts questions to a person.
    Told(Box<Told>),
}
