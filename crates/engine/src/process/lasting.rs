//! Work that is finished whether or not somebody waits for it to the end.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::Handle;

/// Runs within whoever awaits it, and becomes a task of its own when that one leaves. A task from the start would cost every
/// caller two more turns of the scheduler.
pub(super) struct Lasting<T: Send + 'static> {
    work: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
    runtime: Handle,
}

impl<T: Send + 'static> Lasting<T> {
    /// To be called inside a runtime.
    pub(super) fn new(work: impl Future<Output = T> + Send + 'static) -> Self {
        Self { work: Some(Box::pin(work)), runtime: Handle::current() }
    }
}

impl<T: Send + 'static> Future for Lasting<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let Some(work) = &mut self.work else { return Poll::Pending };
        let outcome = work.as_mut().poll(context);
        if outcome.is_ready() {
            self.work = None;
        }
        outcome
    }
}

impl<T: Send + 'static> Drop for Lasting<T> {
    fn drop(&mut self) {
        if let Some(work) = self.work.take() {
            // Nobody hears how it ends.
            drop(self.runtime.spawn(work));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn what_nobody_waits_for_any_more_is_finished_all_the_same() {
        let (go, gone) = oneshot::channel::<()>();
        let (tell, told) = oneshot::channel();
        let work = Lasting::new(async move {
            let _ = gone.await;
            let _ = tell.send(7);
        });
        assert!(tokio::time::timeout(Duration::from_millis(10), work).await.is_err());
        go.send(()).unwrap();
        assert_eq!(told.await, Ok(7));
        assert_eq!(Lasting::new(async { 8 }).await, 8);
    }
}
