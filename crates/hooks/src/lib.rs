//! Test hooks: stop a process exactly between two steps, or make one step fail.
//!
//! `hook!("journal.spliced")` marks a window in which the program may be killed. A shipped binary contains nothing of
//! it: without the feature `armed` the macros expand to nothing, and no environment variable can change that.
//!
//! Armed, with `OSTLER_HOOKS` naming a directory:
//! - a FIFO `<name>` there makes `hook!("<name>")` append its pid as a line to `<name>.hit`, then wait until somebody
//!   writes a byte into the FIFO (or removes it and lets go);
//! - a file `<name>.fault` holding an errno makes `fault!("<name>")` answer that errno.

#[cfg(feature = "armed")]
mod armed;

#[cfg(feature = "armed")]
pub use armed::{answer, pause, use_directory};

/// Pauses here when armed and asked to; else nothing.
#[cfg(feature = "armed")]
#[macro_export]
macro_rules! hook {
    ($name:literal) => {
        $crate::pause($name)
    };
}

/// Pauses here when armed and asked to; else nothing.
#[cfg(not(feature = "armed"))]
#[macro_export]
macro_rules! hook {
    ($name:literal) => {};
}

/// The errno a test wants this step to fail with; `None` unless armed.
#[cfg(feature = "armed")]
#[macro_export]
macro_rules! fault {
    ($name:literal) => {
        $crate::answer($name)
    };
}

/// The errno a test wants this step to fail with; `None` unless armed.
#[cfg(not(feature = "armed"))]
#[macro_export]
macro_rules! fault {
    ($name:literal) => {
        None::<i32>
    };
}
