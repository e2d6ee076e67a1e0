//! What git prints about a work tree; the check itself is shared with `bench fuzz --target porcelain`.
#![no_main]

#[path = "../../bench/src/fuzz/porcelain.rs"]
#[allow(dead_code)]
mod porcelain;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    if let Err(why) = porcelain::porcelain(input) {
        panic!("{why}");
    }
});
