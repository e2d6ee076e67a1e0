//! Whoever interrupts the bench finds nothing of it afterwards.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// A product that never listens, and starts something that leaves its session and its parent: as a keeper does.
const PRODUCT: &str = r#"#!/bin/sh
setsid sh -c 'echo $$ > "$OSTLER_STATE/left.new"; mv "$OSTLER_STATE/left.new" "$OSTLER_STATE/left"; exec sleep 600' &
exec sleep 600
"#;

fn start(bin: &Path, temporary: &Path) -> Child {
    Command::new(env!("CARGO_BIN_EXE_bench"))
        .args(["--rows", "rpc", "--bin"])
        .arg(bin)
        .env("TMPDIR", temporary)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn left(temporary: &Path) -> Option<PathBuf> {
    std::fs::read_dir(temporary)
        .unwrap()
        .flatten()
        .map(|entry| entry.path().join("state/left"))
        .find(|path| path.exists())
}

#[test]
fn an_interrupted_bench_ends_what_it_started_and_removes_its_folders() {
    for signal in ["-INT", "-TERM", "-HUP"] {
        let place = tempfile::tempdir().unwrap();
        let temporary = place.path().join("tmp");
        std::fs::create_dir(&temporary).unwrap();
        let product = place.path().join("product");
        std::fs::write(&product, PRODUCT).unwrap();
        std::fs::set_permissions(&product, std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut bench = start(&product, &temporary);
        let note = until("the product starts", || left(&temporary));
        let pid = std::fs::read_to_string(note).unwrap().trim().to_owned();
        assert!(Path::new("/proc").join(&pid).exists());
        assert!(Command::new("kill").args([signal, &bench.id().to_string()]).status().unwrap().success());
        let status = until("the bench ends", || bench.try_wait().unwrap());
        assert_eq!(status.code(), Some(130), "{signal}");
        assert!(!Path::new("/proc").join(&pid).exists(), "{signal}: {pid} still runs");
        let folders: Vec<_> = std::fs::read_dir(&temporary).unwrap().flatten().map(|entry| entry.path()).collect();
        assert!(folders.is_empty(), "{signal}: {folders:?}");
    }
}
