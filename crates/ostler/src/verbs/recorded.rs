//! What goes into the record of decisions. Another program may hold that file for up to a minute: whoever waits is told at once.

use std::time::Duration;

use ostler_api::Method;
use ostler_api::client::{Client, ClientError};

use crate::output::Screen;

/// Longer than a disk takes.
pub(super) const PATIENCE: Duration = Duration::from_millis(300);

/// What a person is told meanwhile.
pub(super) const BUSY: &str = "the record of decisions is busy";

/// Asks, says so if the record is busy, and waits for the answer.
pub(super) fn recorded<M: Method>(
    screen: &Screen,
    client: &mut Client,
    params: &M::Params,
) -> Result<M::Result, ClientError> {
    let slow = || screen.note(&format!("ostler: {BUSY} (another program may hold it); waiting"));
    client.call_patiently::<M>(params, PATIENCE, slow)
}
