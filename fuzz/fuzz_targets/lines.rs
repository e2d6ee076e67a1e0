//! Framing and dispatcher; the check itself is shared with `bench fuzz --target lines`.
#![no_main]

#[path = "../../bench/src/fuzz/lines.rs"]
mod lines;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    if let Err(why) = lines::check(input) {
        panic!("{why}");
    }
});
