//! Packs the parts of the page: they are most of what the program carries along, and are sent packed anyway.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

use flate2::Compression;
use flate2::write::GzEncoder;

fn main() -> std::io::Result<()> {
    let dist = Path::new("../../../web/dist");
    println!("cargo:rerun-if-changed={}", dist.display());
    let packed = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    for entry in fs::read_dir(dist)? {
        let entry = entry?;
        let mut name = entry.file_name();
        name.push(".gz");
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&fs::read(entry.path())?)?;
        fs::write(packed.join(name), encoder.finish()?)?;
    }
    Ok(())
}
