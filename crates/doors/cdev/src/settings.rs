//! What the door must be told. A program that joins hands it over as it is, so everything here can be written down.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use ostler_door_web::{Exposure, NotAnOrigin, Pages, Tls};
use ostler_engine::access::device::Lifetimes;
use serde::{Deserialize, Serialize};

/// A phone whose network went away with the answer asks again; it is told no, and pairs anew or comes with the newer token.
const FORGIVE: Duration = Duration::from_secs(30);

/// All of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Settings {
    /// The version that is reported to clients.
    pub version: String,
    /// The repository that is served and meant where a client names none; without it every workspace there is.
    pub repo: Option<PathBuf>,
    /// How often clients hear that the server is there.
    pub heartbeat: Duration,
    /// How devices come in.
    pub pairing: Pairing,
    /// How much a client may ask for; nothing: as much as it likes.
    pub rate: Option<Rate>,
    /// Pages of other sites that may call, beside those of the loopback.
    pub origins: Vec<String>,
    /// How others than our own user reach it.
    pub reach: Reach,
    /// `shutdown` ends the whole program, not only its client.
    pub shutdown_ends: bool,
    /// A prompt that begins with `!` is a command line, for a device that may type into terminals.
    #[serde(default)]
    pub shell: bool,
    /// The program that is started as claude.
    pub claude: Option<String>,
    /// As much of a file as is given at once.
    pub max_file_bytes: u64,
    /// As much of a difference as is given at once.
    pub max_diff_bytes: usize,
}

/// What the original gives of a file and of a difference unless told otherwise.
pub const FILE_BYTES: u64 = 200 << 10;
/// The same of a difference.
pub const DIFF_BYTES: usize = 500 << 10;

/// How others than our own user reach it: the three ways of every web listener.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Reach {
    /// Where a tunnel or a proxy in front of us is found.
    pub url: Option<String>,
    /// A certificate and its key, as PEM files.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// In the clear, at our own address.
    pub insecure_lan: bool,
}

impl Reach {
    /// Whether anybody else can.
    pub fn is_open(&self) -> bool {
        self.url.is_some() || self.certificate.is_some() || self.insecure_lan
    }
}

impl Settings {
    /// Under which names the door is found. Reads the certificate, which may wait for the disk.
    pub fn exposure(&self) -> io::Result<Exposure> {
        let url = self.reach.url.as_deref().map(str::parse).transpose();
        let files = self.reach.certificate.as_ref();
        Ok(Exposure {
            external: url.map_err(|error: NotAnOrigin| io::Error::new(io::ErrorKind::InvalidInput, error))?,
            certificate: files.map(|(certificate, key)| Tls::read(certificate, key)).transpose()?,
            insecure_lan: self.reach.insecure_lan,
            pages: Pages { loopback: true, named: self.origins.clone() },
            allowed: None,
        })
    }
}

/// How devices come in.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Pairing {
    /// A person is asked about each.
    pub approval: bool,
    /// Others than programs of this machine are shown tokens too: said out loud.
    pub insecure: bool,
    /// A program of our user that nobody hosts may decide who comes in, as the document says; else a person at a terminal or
    /// a device with that right.
    pub local_decides: bool,
    /// How long a token that was shown can be used.
    pub token: Duration,
    /// How long access and refresh tokens are good.
    pub access: Duration,
    /// The same of the one that renews it.
    pub refresh: Duration,
}

/// How much a client may ask for in a minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// Requests on one connection.
    pub commands: u32,
    /// Of those, prompts.
    pub runs: u32,
}

impl Pairing {
    pub(crate) fn lifetimes(&self) -> Lifetimes {
        Lifetimes { access_ms: millis(self.access), refresh_ms: millis(self.refresh), forgive_ms: millis(FORGIVE) }
    }
}

impl Default for Pairing {
    fn default() -> Self {
        Self {
            approval: true,
            insecure: false,
            local_decides: false,
            token: Duration::from_secs(3600),
            access: Duration::from_secs(15 * 60),
            refresh: Duration::from_secs(7 * 24 * 3600),
        }
    }
}

impl Default for Rate {
    /// What the document asks for.
    fn default() -> Self {
        Self { commands: 100, runs: 10 }
    }
}

pub(crate) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
