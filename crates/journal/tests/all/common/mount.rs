//! Small file systems for tests that need one of their own. Needs root; skipped without, but never in CI.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Makes an empty ext4 of `size` MiB in a file, or prints why not.
pub fn make_ext4(image: &Path, size: u64) -> bool {
    std::fs::File::create(image).unwrap().set_len(size << 20).unwrap();
    match Command::new("mkfs.ext4").args(["-q", "-F", "-m", "0"]).arg(image).output() {
        Ok(made) if made.status.success() => true,
        other => {
            assert!(std::env::var_os("CI").is_none(), "CI must be able to make an ext4: {other:?}");
            println!("skipped: no mkfs.ext4 here ({other:?})");
            false
        }
    }
}

/// A mounted file system; unmounted when dropped.
pub struct Mount(PathBuf);

impl Mount {
    /// A tmpfs of `size` MiB, or a printed reason.
    pub fn tmpfs(dir: &Path, size: u32) -> Option<Self> {
        let options = format!("size={size}m,mode=700");
        Self::at(dir, &["-t", "tmpfs", "-o", &options, "tmpfs"])
    }

    /// An ext4 of `size` MiB in a file, or a printed reason.
    pub fn ext4(dir: &Path, size: u64) -> Option<Self> {
        let image = dir.with_extension("image");
        let mount = if make_ext4(&image, size) { Self::image(dir, &image) } else { None };
        std::fs::remove_file(&image).unwrap();
        mount
    }

    /// An ext4 that is in a file already, or a printed reason.
    pub fn image(dir: &Path, image: &Path) -> Option<Self> {
        Self::at(dir, &["-o", "loop", image.to_str().unwrap()])
    }

    fn at(dir: &Path, what: &[&str]) -> Option<Self> {
        match Command::new("mount").args(what).arg(dir).output() {
            Ok(output) if output.status.success() => Some(Self(dir.to_owned())),
            other => {
                let why = other.map(|output| String::from_utf8_lossy(&output.stderr).into_owned());
                assert!(std::env::var_os("CI").is_none(), "CI must be able to mount: {why:?}");
                println!("skipped: no small file system here ({why:?})");
                None
            }
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // At once if nobody uses it, else when nobody does any more.
        if Command::new("umount").arg(&self.0).output().is_ok_and(|output| output.status.success()) {
            return;
        }
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
