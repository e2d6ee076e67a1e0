//! Processes shared by every door.
