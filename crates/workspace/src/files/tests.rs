use std::os::unix::fs::symlink;

use super::*;

const ANY: u64 = 1 << 30;

fn temp() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

#[test]
fn links_are_followed_and_dangling_ones_are_missing() {
    let dir = temp();
    fs::write(dir.path().join("f"), "hello").expect("written");
    symlink(dir.path().join("f"), dir.path().join("to-file")).expect("linked");
    symlink(dir.path().join("gone"), dir.path().join("dangling")).expect("linked");
    let seen = stat(&dir.path().join("to-file")).expect("there");
    assert!(seen.is_file && !seen.is_dir);
    assert_eq!(seen.size, 5);
    assert!(stat(&dir.path().join("dangling")).is_err());
    assert!(stat(Path::new("a\0b")).is_err());
}

#[test]
fn a_directory_is_listed_in_byte_order() {
    let dir = temp();
    for name in ["b", "Z", "a", ".hidden", "10", "9", "é"] {
        fs::write(dir.path().join(name), "").expect("written");
    }
    fs::create_dir(dir.path().join("sub")).expect("made");
    symlink("sub", dir.path().join("to-dir")).expect("linked");
    symlink("nowhere", dir.path().join("dangling")).expect("linked");
    let names = |hidden| -> Vec<(String, bool)> {
        list(dir.path(), hidden)
            .expect("listed")
            .into_iter()
            .map(|entry| (entry.name.into_string().expect("UTF-8"), entry.is_dir))
            .collect()
    };
    let shown: Vec<String> = names(Hidden::Skip).into_iter().map(|(name, _)| name).collect();
    assert_eq!(shown, ["10", "9", "Z", "a", "b", "dangling", "sub", "to-dir", "é"]);
    assert!(names(Hidden::Skip).contains(&("to-dir".into(), true)));
    assert!(names(Hidden::Skip).contains(&("dangling".into(), false)));
    assert!(names(Hidden::Show).contains(&(".hidden".into(), false)));
}

#[test]
fn listing_what_is_no_directory_names_the_call_and_the_path() {
    let dir = temp();
    let file = dir.path().join("f");
    fs::write(&file, "").expect("written");
    for (path, errno) in [
        (file.as_path(), rustix::io::Errno::NOTDIR),
        (&dir.path().join("gone"), rustix::io::Errno::NOENT),
        (Path::new(""), rustix::io::Errno::NOENT),
    ] {
        let error = list(path, Hidden::Skip).expect_err("refused");
        assert_eq!(error.op, Op::Open);
        assert_eq!(error.path, path);
        assert_eq!(error.source.raw_os_error(), Some(errno.raw_os_error()));
    }
}

#[test]
fn a_file_is_read_up_to_the_limit_and_not_beyond() {
    let dir = temp();
    let file = dir.path().join("five");
    fs::write(&file, "12345").expect("written");
    assert_eq!(read(&file, 5).expect("read"), b"12345");
    assert!(matches!(read(&file, 4), Err(ReadError::TooLarge)));
    assert!(matches!(read(&dir.path().join("gone"), 4), Err(ReadError::Missing)));
    assert!(matches!(read(&file.join("under"), 4), Err(ReadError::Missing)));
    assert!(matches!(read(dir.path(), 4), Err(ReadError::Directory)));
}

#[test]
fn a_file_that_states_no_size_is_still_held_to_the_limit() {
    let status = Path::new("/proc/self/status");
    assert!(read(status, ANY).expect("read").starts_with(b"Name:"));
    assert!(matches!(read(status, 4), Err(ReadError::TooLarge)));
}

#[test]
fn pipes_and_devices_are_refused_without_waiting() {
    let dir = temp();
    let fifo = dir.path().join("ff");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RUSR).expect("made");
    assert!(matches!(read(&fifo, ANY), Err(ReadError::Special)));
    assert!(matches!(read(Path::new("/dev/zero"), ANY), Err(ReadError::Special)));
}
