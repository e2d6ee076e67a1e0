//! Custody.
