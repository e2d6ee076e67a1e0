//! Files of ignore rules; the check itself is shared with `bench fuzz --target ignores`.
#![no_main]

#[path = "../../bench/src/fuzz/porcelain.rs"]
#[allow(dead_code)]
mod porcelain;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    if let Err(why) = porcelain::ignores(input) {
        panic!("{why}");
    }
});
