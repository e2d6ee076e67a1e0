//! Transcripts of other programs; the check itself is shared with `bench fuzz --target transcripts`.
#![no_main]

use std::sync::LazyLock;

#[path = "../../bench/src/fuzz/transcripts.rs"]
mod transcripts;

static HOME: LazyLock<std::io::Result<transcripts::Home>> = LazyLock::new(transcripts::Home::new);

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let home = HOME.as_ref().unwrap_or_else(|error| panic!("a folder for transcripts: {error}"));
    if let Err(why) = home.check(input) {
        panic!("{why}");
    }
});
