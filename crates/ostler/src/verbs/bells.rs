//! Rings in the terminal where somebody works with ostler when they are needed elsewhere: the bell, and OSC 9, which many
//! terminals show as a notification.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use ostler_api::client::{Client, ClientError};
use ostler_api::{FeedKind, NoticeListParams, methods};
use rustix::event::{EventfdFlags, eventfd};

use super::{Context, follow_feed};
use crate::instances::FoundInstance;
use crate::output::visible;

/// How soon a daemon that is gone is looked for again.
const AGAIN: Duration = Duration::from_secs(2);
/// Texts that wait to be rung: the newest says enough.
const TEXTS: usize = 4;

/// What a terminal is told for a notice. Nothing in it can be taken for another command.
pub(super) fn ring(text: &str) -> Vec<u8> {
    let text: String = visible(text).chars().map(|c| if c == ';' { ',' } else { c }).collect();
    format!("\x07\x1b]9;ostler: {text}\x1b\\").into_bytes()
}

/// Hands on the text of each notice from now on, until `tell` says that nobody listens, or the daemon is gone.
pub(super) fn follow(client: &mut Client, mut tell: impl FnMut(String) -> bool) -> Result<(), ClientError> {
    follow_feed::follow(client, vec![FeedKind::NoticeTold])?;
    let mut after = client.call::<methods::NoticeList>(&NoticeListParams { after: u64::MAX })?.revision;
    loop {
        follow_feed::changes(client)?;
        let told = client.call::<methods::NoticeList>(&NoticeListParams { after })?;
        after = told.revision;
        for notice in told.notices.into_iter().filter(|_| told.bell) {
            if !tell(notice.text) {
                return Ok(());
            }
        }
    }
}

/// Notices of an instance, as they come; readable when there is one.
pub(super) struct Bells {
    ready: Arc<OwnedFd>,
    texts: Receiver<String>,
}

impl Bells {
    /// Listens beside everything else, until this is dropped and one more comes.
    pub(super) fn listen(context: &Context, found: &FoundInstance) -> io::Result<Self> {
        let ready = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (tell, texts) = sync_channel(TEXTS);
        let (wake, socket) = (Arc::clone(&ready), context.native_socket(found));
        std::thread::Builder::new().name("bells".into()).spawn(move || {
            let mut listens = true;
            while listens {
                let followed = Client::connect(&socket).and_then(|mut client| {
                    client.hello("ostler bells")?;
                    follow(&mut client, |text| {
                        listens = !matches!(tell.try_send(text), Err(std::sync::mpsc::TrySendError::Disconnected(_)));
                        let _ = rustix::io::write(&*wake, &1u64.to_ne_bytes());
                        listens
                    })
                });
                // It may be an older one, which knows nothing of this, or one that comes back.
                if followed.is_err() {
                    std::thread::sleep(AGAIN);
                }
            }
        })?;
        Ok(Self { ready, texts })
    }

    /// What came since the last time.
    pub(super) fn take(&self) -> Option<String> {
        let _ = rustix::io::read(&*self.ready, &mut [0; 8]);
        self.texts.try_iter().last()
    }
}

impl AsFd for Bells {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_told_one_thing_whatever_the_text_is() {
        assert_eq!(ring("a needs you"), b"\x07\x1b]9;ostler: a needs you\x1b\\");
        let hostile = ring("a\x1b]52;c;x\x07\u{9b}1mb\u{202e}");
        let inside = &hostile[5..hostile.len() - 2];
        assert!(!inside.iter().any(|byte| *byte < 0x20 || *byte == 0x7f), "{hostile:?}");
        assert!(!String::from_utf8(inside.to_vec()).unwrap().chars().any(|c| c.is_control() || c == ';'));
    }
}
