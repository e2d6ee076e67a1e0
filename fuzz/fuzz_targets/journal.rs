//! Journal recovery; the check itself is shared with `bench fuzz --target journal`.
#![no_main]

use std::sync::LazyLock;

#[path = "../../bench/src/fuzz/journal.rs"]
mod journal;

static WORKSHOP: LazyLock<std::io::Result<journal::Workshop>> = LazyLock::new(journal::Workshop::new);

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let workshop = WORKSHOP.as_ref().unwrap_or_else(|error| panic!("a folder for journals: {error}"));
    if let Err(why) = workshop.check(input) {
        panic!("{why}");
    }
});
