//! Is anybody behind a socket? A file proves nothing: ssh binds the near end of a tunnel before the far end exists, accepts,
//! and hangs up when it finds nobody there.

use std::path::Path;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep, timeout};

/// A daemon on this machine accepts at once; a tunnel's near end does too.
const CONNECT: Duration = Duration::from_millis(500);
/// A daemon never speaks first, so silence is the good sign; a dead tunnel hangs up within a round trip.
const SILENCE: Duration = Duration::from_millis(100);
const PAUSE: Duration = Duration::from_millis(100);

/// Whether a daemon waits for a request there.
pub(crate) async fn is_ready(socket: &Path) -> bool {
    let shown = socket.display();
    let mut stream = match timeout(CONNECT, UnixStream::connect(socket)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            tracing::debug!("readiness: connect({shown}) failed: {error}");
            return false;
        }
        Err(_) => {
            tracing::debug!("readiness: connect({shown}) timed out");
            return false;
        }
    };
    match timeout(SILENCE, stream.read(&mut [0_u8; 1])).await {
        Err(_) => true,
        Ok(Ok(0)) => {
            tracing::debug!("readiness: {shown} hung up: not ready");
            false
        }
        Ok(Ok(_)) => {
            tracing::debug!("readiness: {shown} spoke first: not a daemon of ours");
            false
        }
        Ok(Err(error)) => {
            tracing::debug!("readiness: read({shown}) failed: {error}");
            false
        }
    }
}

/// Waits until a daemon is there, or the limit has passed.
pub(crate) async fn becomes_ready(socket: &Path, limit: Duration) -> bool {
    wait(socket, limit, true).await
}

/// Waits until no daemon is there any more, or the limit has passed.
pub(crate) async fn goes_away(socket: &Path, limit: Duration) -> bool {
    wait(socket, limit, false).await
}

async fn wait(socket: &Path, limit: Duration, wanted: bool) -> bool {
    let end = Instant::now() + limit;
    loop {
        if is_ready(socket).await == wanted {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;
    use tokio::net::UnixListener;

    #[tokio::test]
    async fn silence_is_ready_and_hanging_up_speaking_or_absence_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        assert!(!is_ready(&path).await);
        let listener = UnixListener::bind(&path).unwrap();
        assert!(is_ready(&path).await, "accepted by the kernel, nobody speaks");
        drop(listener.accept().await.unwrap());
        let rude = tokio::spawn(async move {
            drop(listener.accept().await.unwrap());
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(b"hello").await.unwrap();
            let _ = stream.read(&mut [0; 1]).await;
        });
        assert!(!is_ready(&path).await, "hung up");
        assert!(!is_ready(&path).await, "spoke first");
        rude.await.unwrap();
        assert!(!is_ready(&path).await, "file without a listener");
    }
}
