//! Test hooks: stop a process exactly between two steps.
