//! The native door: what the command line speaks.
