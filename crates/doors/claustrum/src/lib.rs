//! The claustrum door: newline-delimited JSON-RPC for remote desktops.

pub mod gojson;
