//! Procfs.
