//! The hooks themselves, in an armed build.
#![cfg(feature = "armed")]

use std::fs;
use std::sync::mpsc;
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, mknodat};

#[test]
fn a_hook_reports_and_waits_until_it_is_released() {
    let dir = tempfile::tempdir().unwrap();
    ostler_hooks::use_directory(dir.path());
    mknodat(CWD, dir.path().join("step"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    fs::write(dir.path().join("disk.fault"), "28\n").unwrap();

    let (passed, wait) = mpsc::channel();
    let worker = std::thread::spawn(move || {
        ostler_hooks::hook!("other");
        ostler_hooks::hook!("step");
        passed.send(()).unwrap();
    });
    while !dir.path().join("step.hit").exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(wait.recv_timeout(Duration::from_millis(50)).is_err());
    fs::write(dir.path().join("step"), "x").unwrap();
    wait.recv_timeout(Duration::from_secs(5)).unwrap();
    worker.join().unwrap();
    assert!(fs::read_to_string(dir.path().join("step.hit")).unwrap().contains(&std::process::id().to_string()));
    assert_eq!(ostler_hooks::fault!("disk"), Some(28));
    assert_eq!(ostler_hooks::fault!("other"), None);
}
