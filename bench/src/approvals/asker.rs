//! A client of the sudo-proxy door: asks for a command that leaves one mark each time it runs, and now and then hangs up, or
//! comes back with the same words after the daemon died.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::Deserialize;
use serde_json::json;

use crate::rng::Rng;

use super::daemon::door;

/// The reason that approvers look away from.
pub(crate) const IGNORED: &str = "nobody answers this";
/// A daemon that was killed is back long before this.
const BACK_WITHIN: Duration = Duration::from_secs(20);
/// No answer takes longer, on any machine.
const ANSWER_WITHIN: Duration = Duration::from_secs(120);
/// Words sent again after the daemon died.
const TRIES: usize = 20;

/// One request and what its asker was told.
pub(crate) struct Asked {
    pub(crate) number: u64,
    pub(crate) hung_up: bool,
    pub(crate) status: Option<String>,
}

pub(crate) struct Asker {
    door: PathBuf,
    marks: PathBuf,
    rng: Rng,
}

/// The name of a request.
pub(crate) fn key(number: u64) -> String {
    format!("run-{number}")
}

#[derive(Deserialize)]
struct AskerReply {
    status: String,
}

impl Asker {
    pub(crate) fn new(instance: &Path, rng: Rng) -> Self {
        Self { door: door(instance), marks: instance.join("ran"), rng }
    }

    pub(crate) fn ask(&mut self, number: u64) -> Asked {
        let mark = self.marks.join(number.to_string());
        let ignored = self.rng.percent(2);
        let line = json!({
            "id": key(number),
            "session": "bench",
            "time": now(),
            "pipeline": [["sh", "-c", format!("echo ran >> '{}'", mark.display())]],
            "reason": if ignored { IGNORED } else { "" },
            "privileged": false,
        });
        let line = format!("{line}\n");
        let hung_up = self.rng.percent(15);
        let patience = hung_up.then(|| self.rng.micros(0, 30_000));
        let status = self.talk(line.as_bytes(), patience);
        Asked { number, hung_up, status }
    }

    fn talk(&mut self, line: &[u8], patience: Option<Duration>) -> Option<String> {
        for _ in 0..TRIES {
            let mut stream = self.connect()?;
            if stream.write_all(line).is_err() {
                continue;
            }
            if let Some(patience) = patience {
                std::thread::sleep(patience);
                return None;
            }
            // Half-closed is not gone.
            if self.rng.percent(30) {
                let _ = stream.shutdown(Shutdown::Write);
            }
            let _ = stream.set_read_timeout(Some(ANSWER_WITHIN));
            let mut answer = Vec::new();
            if stream.read_to_end(&mut answer).is_ok()
                && let Ok(answer) = serde_json::from_slice::<AskerReply>(&answer)
            {
                return Some(answer.status);
            }
        }
        None
    }

    fn connect(&self) -> Option<UnixStream> {
        let deadline = Instant::now() + BACK_WITHIN;
        while Instant::now() < deadline {
            if let Ok(stream) = UnixStream::connect(&self.door) {
                return Some(stream);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        None
    }
}

/// The time as the protocol wants it.
fn now() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    ostler_api::Timestamp::from_micros(u64::try_from(now.as_micros()).unwrap_or(u64::MAX)).to_string()
}
