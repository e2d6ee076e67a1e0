//! `git.*`: the repository around a workspace. `look` answers at once, `change` in the repository's turn, `hosted` with a process.

pub(crate) mod change;
pub(crate) mod hosted;
pub(crate) mod look;
