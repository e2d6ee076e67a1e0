//! Append-only truth about what a process said.
