//! The one accept loop, of every door with a listener. Where descriptors run out it gives up the spare ones for the next
//! client and has an idle connection leave; after any other trouble it tries again rather than spin.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::EventfdFlags;
use rustix::io::Errno;
use tokio::net::{TcpListener, TcpStream, UnixStream};

use crate::connection_slots;
use crate::listen::Bound;

const RETRY: Duration = Duration::from_millis(50);
/// Enough to answer one client that asks how things are: its connection, and the files that are looked at for it.
const SPARE: usize = 4;

/// Where clients come in.
pub trait Listener: Sync {
    /// One of them, and what is known of it.
    type Client: Send;

    /// The next one.
    fn accept(&self) -> impl Future<Output = io::Result<Self::Client>> + Send;
}

impl Listener for Bound {
    type Client = UnixStream;

    async fn accept(&self) -> io::Result<UnixStream> {
        Ok(self.listener.accept().await?.0)
    }
}

impl Listener for TcpListener {
    type Client = (TcpStream, SocketAddr);

    async fn accept(&self) -> io::Result<Self::Client> {
        TcpListener::accept(self).await
    }
}

/// Hands every client that comes to `admit`, until dropped. Complaints begin with `door`.
pub async fn accept_each<L: Listener>(door: &str, listener: &L, mut admit: impl FnMut(L::Client)) {
    let mut spare = Vec::new();
    put_aside(&mut spare);
    loop {
        match listener.accept().await {
            Ok(client) => {
                put_aside(&mut spare);
                admit(client);
            }
            Err(error) => {
                if is_out_of_descriptors(&error) {
                    connection_slots::make_room();
                    if !std::mem::take(&mut spare).is_empty() {
                        continue;
                    }
                }
                tracing::error!("{door} accept error: {error}");
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

/// Takes the spare descriptors, as far as there are any.
fn put_aside(spare: &mut Vec<OwnedFd>) {
    while spare.len() < SPARE {
        match rustix::event::eventfd(0, EventfdFlags::CLOEXEC) {
            Ok(fd) => spare.push(fd),
            Err(_) => return,
        }
    }
}

fn is_out_of_descriptors(error: &io::Error) -> bool {
    [Errno::MFILE, Errno::NFILE].iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Answers in this order, then never again.
    struct Script(Mutex<Vec<Result<u32, Errno>>>, AtomicUsize);

    impl Listener for Script {
        type Client = u32;

        async fn accept(&self) -> io::Result<u32> {
            self.1.fetch_add(1, Ordering::Relaxed);
            let next = self.0.lock().unwrap().pop();
            match next {
                Some(answer) => answer.map_err(Into::into),
                None => std::future::pending().await,
            }
        }
    }

    #[tokio::test]
    async fn clients_come_in_whatever_went_wrong_before_and_nothing_spins() {
        let answers = vec![Ok(2), Err(Errno::MFILE), Err(Errno::MFILE), Ok(1), Err(Errno::CONNABORTED)];
        let script = Script(Mutex::new(answers), AtomicUsize::new(0));
        let mut came = Vec::new();
        let accepting = accept_each("door", &script, |client| came.push(client));
        let _ = tokio::time::timeout(RETRY * 3, accepting).await;
        assert_eq!(came, [1, 2]);
        assert_eq!(script.1.load(Ordering::Relaxed), 6, "tried again after each, and at most that often");
    }
}
