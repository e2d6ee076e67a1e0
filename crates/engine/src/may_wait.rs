//! Who may wait: for the disk, for a program, for whoever holds a lock across either.
//!
//! What may wait takes a [`MayWait`]. Only threads that are started here are given one, and none leaves its thread: on an
//! async thread, where a wait would hold up clients that need no disk, such a call does not compile.
//!
//! On a thread of the pool it does:
//! ```
//! # fn example(inbox: ostler_engine::Inbox) {
//! ostler_engine::MayWait::pool(move |wait| inbox.get(wait, "a1").is_ok());
//! # }
//! ```
//! In a task there is nothing to call it with:
//! ```compile_fail
//! # fn example(inbox: ostler_engine::Inbox) {
//! tokio::spawn(async move { inbox.get("a1").is_ok() });
//! # }
//! ```
//! Nobody else makes one:
//! ```compile_fail
//! let wait = ostler_engine::MayWait { stays: std::marker::PhantomData };
//! ```
//! None is brought along by a task, which may go on on any thread:
//! ```compile_fail
//! # fn example(inbox: ostler_engine::Inbox, wait: &'static ostler_engine::MayWait) {
//! tokio::spawn(async move { inbox.get(wait, "a1").is_ok() });
//! # }
//! ```
//! And none comes back from the pool:
//! ```compile_fail
//! # async fn example() {
//! let wait = ostler_engine::MayWait::pool(|wait| wait).await;
//! # }
//! ```

use std::io;
use std::marker::PhantomData;

use tokio::runtime::Handle;
use tokio::task::{JoinError, JoinHandle};

/// Work, boxed: what carries it to a thread is compiled once for each result, and not for every piece of work.
type Work<T> = Box<dyn FnOnce(&MayWait) -> T + Send>;

/// The word that this thread may wait. Neither sent nor shared: a raw pointer is neither.
pub struct MayWait {
    stays: PhantomData<*const ()>,
}

impl MayWait {
    const fn here() -> Self {
        Self { stays: PhantomData }
    }

    /// Does `work` on a thread of the pool of the runtime that this is called in.
    pub fn pool<T: Send + 'static>(work: impl FnOnce(&Self) -> T + Send + 'static) -> JoinHandle<T> {
        fn pool<T: Send + 'static>(work: Work<T>) -> JoinHandle<T> {
            tokio::task::spawn_blocking(move || work(&MayWait::here()))
        }
        pool(Box::new(work))
    }

    /// The same, and waits for it. A thread that ended in the middle is an error of the work's own kind.
    pub async fn run<T, E>(work: impl FnOnce(&Self) -> Result<T, E> + Send + 'static) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<JoinError> + Send + 'static,
    {
        Self::pool(work).await.unwrap_or_else(|lost| Err(lost.into()))
    }

    /// Does `work` on a thread of the pool of this runtime.
    pub fn pool_of<T: Send + 'static>(
        runtime: &Handle,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let work: Work<T> = Box::new(work);
        runtime.spawn_blocking(move || work(&Self::here()))
    }

    /// Does `work` on a thread of its own.
    pub fn thread<T: Send + 'static>(
        name: &str,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> io::Result<std::thread::JoinHandle<T>> {
        let work: Work<T> = Box::new(work);
        std::thread::Builder::new().name(name.to_owned()).spawn(move || work(&Self::here()))
    }
}

/// A test's own thread is nobody else's.
#[cfg(test)]
pub(crate) const IN_A_TEST: &MayWait = &MayWait::here();

#[cfg(test)]
mod tests {
    use super::*;

    /// Which of two it is cannot be said of what is both: then this does not compile.
    trait Leaves<Way> {
        const NEVER: () = ();
    }
    struct Anyhow;
    struct Sent;
    struct Lent;
    impl<T: ?Sized> Leaves<Anyhow> for T {}
    impl<T: Send + ?Sized> Leaves<Sent> for T {}
    impl<T: Sync + ?Sized> Leaves<Lent> for T {}

    #[tokio::test]
    async fn the_word_is_given_to_threads_that_may_wait_and_never_leaves_them() {
        let () = <MayWait as Leaves<_>>::NEVER;
        let here = std::thread::current().id();
        let elsewhere = move |_: &MayWait| std::thread::current().id() != here;
        assert!(MayWait::pool(elsewhere).await.unwrap());
        assert!(MayWait::run(move |wait| Ok::<_, JoinError>(elsewhere(wait))).await.unwrap());
        assert!(MayWait::thread("waits", elsewhere).unwrap().join().unwrap());
    }

    #[tokio::test]
    async fn work_that_dies_is_an_error_of_its_own_kind() {
        let died: io::Result<()> = MayWait::run(|_| panic!("as it may")).await;
        assert!(died.is_err());
    }
}
