//! Work that goes on with whoever wakes it. A task of the runtime would cost one wake-up more: of a thread that has nothing
//! to do but to pass on what the waking thread knows already.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};

use tokio::runtime::Handle;

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Lives for as long as somebody may wake it.
pub(crate) struct InlineTask {
    /// Nothing once it is done.
    work: Mutex<Option<Work>>,
    woken: AtomicBool,
    runtime: Handle,
}

impl InlineTask {
    /// Begins here and now. To be called inside a runtime.
    pub(crate) fn start(work: impl Future<Output = ()> + Send + 'static) {
        let work = Mutex::new(Some(Box::pin(work) as Work));
        Arc::new(Self { work, woken: AtomicBool::new(false), runtime: Handle::current() }).go_on();
    }

    fn go_on(self: &Arc<Self>) {
        self.woken.store(true, Ordering::SeqCst);
        // Whoever is at it already looks once more before leaving.
        while self.woken.load(Ordering::SeqCst)
            && let Ok(mut slot) = self.work.try_lock()
        {
            self.woken.store(false, Ordering::SeqCst);
            let Some(work) = slot.as_mut() else { return };
            let _inside = self.runtime.enter();
            let waker = Waker::from(Arc::clone(self));
            // As a task of the runtime: a panic ends this work, not the thread of somebody else.
            let polled = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(&mut Context::from_waker(&waker))));
            if polled.is_ok_and(|polled| polled.is_pending()) {
                continue;
            }
            *slot = None;
        }
    }
}

impl Wake for InlineTask {
    fn wake(self: Arc<Self>) {
        self.go_on();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn work_goes_on_on_the_thread_that_wakes_it() {
        let (tell, told) = oneshot::channel::<()>();
        let (seen, threads) = mpsc::channel();
        InlineTask::start(async move {
            seen.send(thread::current().id()).unwrap();
            told.await.unwrap();
            // What needs a runtime has one.
            drop(tokio::spawn(async {}));
            seen.send(thread::current().id()).unwrap();
        });
        assert_eq!(threads.recv().unwrap(), thread::current().id());
        let waker = thread::spawn(move || tell.send(()).unwrap());
        let id = waker.thread().id();
        waker.join().unwrap();
        assert_eq!(threads.try_recv(), Ok(id));
    }

    #[tokio::test]
    async fn a_wake_in_the_middle_of_the_work_is_not_missed() {
        let (seen, polls) = mpsc::channel();
        let mut left = 3;
        InlineTask::start(std::future::poll_fn(move |context| {
            seen.send(()).unwrap();
            left -= 1;
            if left == 0 {
                return std::task::Poll::Ready(());
            }
            context.waker().wake_by_ref();
            std::task::Poll::Pending
        }));
        assert_eq!(polls.try_iter().count(), 3);
    }

    #[tokio::test]
    async fn a_panic_ends_the_work_and_nobody_else() {
        let (tell, told) = oneshot::channel::<()>();
        InlineTask::start(async move {
            told.await.unwrap();
            panic!("on purpose");
        });
        assert!(thread::spawn(move || tell.send(())).join().is_ok());
    }
}
