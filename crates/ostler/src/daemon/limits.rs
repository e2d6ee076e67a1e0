//! Descriptor limits: a thousand children take thousands, and the usual soft limit is 1024.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit to the hard one; gives back what children are to have, as it was.
pub(super) fn raise_descriptors() -> Option<(u64, u64)> {
    let before = getrlimit(Resource::Nofile);
    let (soft, hard) = (before.current?, before.maximum?);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: Some(hard), maximum: Some(hard) }) {
        tracing::warn!("descriptor limit stays at {soft}: {error}");
    }
    Some((soft, hard))
}
