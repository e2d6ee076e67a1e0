//! Asks the linker for a smaller program, where it and the machine know how: each wish is tried on a program of one line, which
//! must run here. Where it does not, the product is linked as ever and is 2 MB larger.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};

const WISHES: [&str; 2] = [
    // Functions that came out the same are one. Nobody here asks whether two have the same address.
    "-Wl,--icf=all",
    // Places that the loader fills in, as a map of bits instead of 24 bytes each.
    "-Wl,-z,pack-relative-relocs",
];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for wish in WISHES {
        if is_granted(wish).unwrap_or(false) {
            println!("cargo:rustc-link-arg-bins={wish}");
        }
    }
}

fn is_granted(wish: &str) -> Option<bool> {
    let folder = PathBuf::from(env::var_os("OUT_DIR")?);
    let (source, program) = (folder.join("wish.rs"), folder.join("wish"));
    std::fs::write(&source, "fn main() { println!(\"granted\"); }").ok()?;
    let mut rustc = Command::new(env::var_os("RUSTC")?);
    rustc.arg("--target").arg(env::var_os("TARGET")?).arg("-C").arg(format!("link-arg={wish}"));
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        let mut choice = OsString::from("linker=");
        choice.push(linker);
        rustc.arg("-C").arg(choice);
    }
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    rustc.args(flags.split('\x1f').filter(|flag| !flag.is_empty()));
    let linked = rustc.arg("-o").arg(&program).arg(&source).stderr(Stdio::null()).status().ok()?.success();
    Some(linked && Command::new(&program).output().ok()?.stdout == b"granted\n")
}
