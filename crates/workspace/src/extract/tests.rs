use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;

mod hostile;

/// A directory with an archive to be and a destination in it.
struct Case {
    dir: tempfile::TempDir,
}

impl Case {
    fn new() -> Self {
        Case { dir: tempfile::tempdir().expect("a temporary directory") }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn out(&self) -> PathBuf {
        self.path("out")
    }

    fn pack(&self, tar: &[u8]) -> PathBuf {
        let path = self.path("a.tgz");
        fs::write(&path, gzip(tar)).expect("written");
        path
    }

    fn unpack(&self, tar: &[u8]) -> Result<u64, Failure> {
        self.unpack_to(tar, &self.out(), None)
    }

    fn unpack_to(&self, tar: &[u8], dest: &Path, home: Option<&Path>) -> Result<u64, Failure> {
        let archive = self.pack(tar);
        extract(&request(&archive, dest, home))
    }

    fn archive_is_there(&self) -> bool {
        self.path("a.tgz").exists()
    }
}

fn request<'a>(archive: &'a Path, dest: &'a Path, home: Option<&'a Path>) -> Request<'a> {
    Request { archive, dest, marker: OsStr::new(".synced"), home }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("compressed");
    encoder.finish().expect("compressed")
}

/// An entry whose name is taken as it is: archive builders refuse the wicked ones.
fn entry(name: &str, kind: u8, content: &[u8]) -> Vec<u8> {
    sized_entry(name, kind, content.len() as u64, content)
}

fn sized_entry(name: &str, kind: u8, size: u64, content: &[u8]) -> Vec<u8> {
    let mut header = ::tar::Header::new_gnu();
    let field = &mut header.as_old_mut().name;
    field[..name.len()].copy_from_slice(name.as_bytes());
    header.set_entry_type(::tar::EntryType::new(kind));
    header.set_mode(0o755);
    header.set_size(size);
    header.set_cksum();
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

fn end() -> Vec<u8> {
    vec![0; 1024]
}

fn file(name: &str, content: &str) -> Vec<u8> {
    entry(name, b'0', content.as_bytes())
}

fn mode(path: &Path) -> u32 {
    path.symlink_metadata().expect("there").permissions().mode() & 0o7777
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).expect("read")
}

fn error(result: Result<u64, Failure>) -> ExtractError {
    result.expect_err("refused").error
}

#[test]
fn files_and_directories_land_with_owner_only_modes() {
    let case = Case::new();
    let tar = [
        entry("d/", b'5', b""),
        file("d/f.txt", "hello"),
        file("x/y/run.sh", "#!"),
        file("/abs/f", "A"),
        file("a/../b.txt", "in"),
        end(),
    ]
    .concat();
    assert_eq!(case.unpack(&tar).expect("unpacked"), 4);
    assert_eq!(text(&case.out().join("d/f.txt")), "hello");
    assert_eq!(text(&case.out().join("b.txt")), "in");
    assert_eq!(text(&case.out().join("abs/f")), "A");
    assert!(!case.out().join("a").exists());
    for dir in ["", "d", "x", "x/y", "abs"] {
        assert_eq!(mode(&case.out().join(dir)), 0o700, "{dir}");
    }
    for file in ["d/f.txt", "x/y/run.sh", ".synced"] {
        assert_eq!(mode(&case.out().join(file)), 0o600, "{file}");
    }
    assert!(!case.archive_is_there());
}

#[test]
fn the_destination_holds_nothing_but_the_archive_afterwards() {
    let case = Case::new();
    fs::create_dir_all(case.out().join("old/deep")).expect("made");
    fs::write(case.out().join("old/deep/f"), "x").expect("written");
    fs::set_permissions(case.out(), fs::Permissions::from_mode(0o755)).expect("set");
    let keep = case.path("keep");
    fs::write(&keep, "precious").expect("written");
    symlink(&keep, case.out().join("link")).expect("linked");
    symlink(case.dir.path(), case.out().join("old/up")).expect("linked");
    case.unpack(&[file("only", "1"), end()].concat()).expect("unpacked");
    let mut names: Vec<_> =
        fs::read_dir(case.out()).expect("listed").map(|entry| entry.expect("listed").file_name()).collect();
    names.sort();
    assert_eq!(names, [".synced", "only"]);
    assert_eq!(mode(&case.out()), 0o700);
    assert_eq!(text(&keep), "precious", "links are removed, not followed");
}

#[test]
fn a_very_deep_tree_is_wiped_without_recursion() {
    let case = Case::new();
    fs::create_dir(case.out()).expect("made");
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut at = rustix::fs::open(case.out(), flags, rustix::fs::Mode::empty()).expect("opened");
    for _ in 0..5_000 {
        rustix::fs::mkdirat(&at, "d", rustix::fs::Mode::RWXU).expect("made");
        at = rustix::fs::openat(&at, "d", flags, rustix::fs::Mode::empty()).expect("opened");
    }
    drop(at);
    assert_eq!(case.unpack(&end()).expect("unpacked"), 0);
    assert!(!case.out().join("d").exists());
}

#[test]
fn a_file_or_link_at_the_destination_is_replaced_and_its_target_left_alone() {
    let case = Case::new();
    fs::write(case.out(), "file").expect("written");
    case.unpack(&[file("f", "1"), end()].concat()).expect("unpacked");
    fs::remove_dir_all(case.out()).expect("removed");
    let target = case.path("target");
    fs::create_dir(&target).expect("made");
    fs::write(target.join("precious"), "x").expect("written");
    symlink(&target, case.out()).expect("linked");
    case.unpack(&[file("f", "2"), end()].concat()).expect("unpacked");
    assert!(case.out().symlink_metadata().expect("there").is_dir());
    assert_eq!(text(&target.join("precious")), "x");
    assert!(!target.join("f").exists());
}

#[test]
fn links_above_the_destination_are_followed() {
    let case = Case::new();
    fs::create_dir(case.path("real")).expect("made");
    symlink(case.path("real"), case.path("via")).expect("linked");
    case.unpack_to(&[file("f", "1"), end()].concat(), &case.path("via/new/deep"), None).expect("unpacked");
    assert_eq!(text(&case.path("real/new/deep/f")), "1");
    assert_eq!(mode(&case.path("real/new")), 0o700);
}

#[test]
fn a_missing_archive_touches_nothing() {
    let case = Case::new();
    fs::create_dir(case.out()).expect("made");
    fs::write(case.out().join("keep"), "x").expect("written");
    let gone = case.path("gone");
    let failure = extract(&request(&gone, &case.out(), None)).expect_err("refused");
    assert!(matches!(&failure.error, ExtractError::Archive(error)
            if error.op == Op::Open && error.path == gone));
    assert!(case.out().join("keep").exists());
}

#[test]
fn what_is_no_gzip_is_consumed_but_leaves_the_destination_alone() {
    for (bytes, want) in [
        (&b"this is not gzip at all"[..], "not a gzip header"),
        (b"", "the file is empty"),
        (b"\x1f\x8b\x08", "the archive is cut short"),
        (b"\x1f\x8b\x07\0\0\0\0\0\0\0\0\0", "not a gzip header"),
    ] {
        let case = Case::new();
        fs::create_dir(case.out()).expect("made");
        fs::write(case.out().join("keep"), "x").expect("written");
        let archive = case.path("bad.tgz");
        fs::write(&archive, bytes).expect("written");
        let failure = extract(&request(&archive, &case.out(), None)).expect_err("refused");
        match failure.error {
            ExtractError::Gzip(error) => assert_eq!(error.to_string(), want),
            other => panic!("{other}"),
        }
        assert!(!archive.exists());
        assert!(case.out().join("keep").exists());
    }
}

#[test]
fn damage_is_reported_where_it_is() {
    let case = Case::new();
    assert!(matches!(error(case.unpack(&[1; 2048])), ExtractError::Header(StreamError::TarHeader)));
    let mut changed = [file("a", "1"), end()].concat();
    changed[0] = b'b';
    assert!(
        matches!(error(case.unpack(&changed)), ExtractError::Header(StreamError::TarHeader)),
        "a header that does not match its sum"
    );
    let whole = [file("a", "1"), file("b", &"x".repeat(2000)), end()].concat();
    let cut = case.unpack(&whole[..1024 + 512 + 700]).expect_err("cut");
    assert_eq!(cut.files, 1);
    assert!(matches!(cut.error, ExtractError::Content(StreamError::CutShort)));
    assert!(matches!(error(case.unpack(&whole[..1024 + 100])), ExtractError::Header(StreamError::CutShort)));
    assert!(!case.out().join(".synced").exists());
    assert_eq!(case.unpack(&whole[..1024]).expect("an end without zeros is fine"), 1);
    let broken = case.unpack(&[file("a", "1"), vec![0; 512], file("b", "2"), end()].concat()).expect_err("half an end");
    assert_eq!(broken.files, 1);
    assert!(matches!(broken.error, ExtractError::Header(StreamError::TarHeader)), "one block of zeros, then more");

    let archive = case.path("cut.tgz");
    let packed = gzip(&whole);
    fs::write(&archive, &packed[..packed.len() / 2]).expect("written");
    let failure = extract(&request(&archive, &case.out(), None)).expect_err("cut");
    assert!(failure.to_string().contains("cut short"), "{failure}");
    fs::write(&archive, &packed[..packed.len() - 8]).expect("written");
    assert_eq!(extract(&request(&archive, &case.out(), None)).expect("only the trailer is missing"), 2);
}

#[test]
fn names_that_collide_are_reported_with_the_path() {
    let case = Case::new();
    let check = |tar: &[u8], op: Op, path: &str, errno: rustix::io::Errno| match error(case.unpack(tar)) {
        ExtractError::Entry(error) => {
            assert_eq!(error.op, op);
            assert_eq!(error.path, case.out().join(path));
            assert_eq!(error.source.raw_os_error(), Some(errno.raw_os_error()));
        }
        other => panic!("{other}"),
    };
    use rustix::io::Errno;
    check(&[file("f", "1"), file("f/g", "2"), end()].concat(), Op::Mkdir, "f", Errno::NOTDIR);
    check(&[entry("d/", b'5', b""), file("d", "1"), end()].concat(), Op::Open, "d", Errno::ISDIR);
    check(&[file(".", "1"), end()].concat(), Op::Open, "", Errno::ISDIR);
    let marker = case.unpack(&[entry(".synced/", b'5', b""), end()].concat());
    assert!(matches!(error(marker), ExtractError::Marker(_)));
    let twice = case.unpack(&[file("f", "1"), file("f", "22"), end()].concat());
    assert_eq!(twice.expect("unpacked"), 2);
    assert_eq!(text(&case.out().join("f")), "22");
}

#[test]
fn a_destination_under_a_file_names_what_is_in_the_way() {
    let case = Case::new();
    fs::write(case.path("plain"), "").expect("written");
    let dest = case.path("plain/under");
    match error(case.unpack_to(&end(), &dest, None)) {
        ExtractError::Clean(error) => {
            assert_eq!(error.op, Op::Unlink);
            assert_eq!(error.path, dest);
        }
        other => panic!("{other}"),
    }
    assert!(case.path("plain").is_file());
}

#[test]
fn long_names_of_both_kinds_are_understood() {
    let long = format!("{}/{}", "n".repeat(90), "m".repeat(150));
    let case = Case::new();
    let mut builder = ::tar::Builder::new(Vec::new());
    let mut header = ::tar::Header::new_gnu();
    header.set_size(1);
    builder.append_data(&mut header, &long, &b"L"[..]).expect("packed");
    case.unpack(&builder.into_inner().expect("packed")).expect("unpacked");
    assert_eq!(text(&case.out().join(&long)), "L");

    let record = |key: &str, value: &str| {
        let body = format!(" {key}={value}\n");
        let total = (body.len()..).find(|total| total.to_string().len() + body.len() == *total).expect("a length");
        format!("{total}{body}")
    };
    let pax = |records: &str| {
        let tar = [entry("pax", b'x', records.as_bytes()), file("short", "P"), end()];
        let case = Case::new();
        let result = case.unpack(&tar.concat());
        (case, result)
    };
    let (case, result) = pax(&record("path", &long));
    assert_eq!(result.expect("unpacked"), 1);
    assert_eq!(text(&case.out().join(&long)), "P");
    let (_, result) = pax(&record("path", "../evil"));
    assert!(matches!(error(result), ExtractError::Unsafe(_)));
    let (_, result) = pax(&record("path", "a\0b"));
    assert!(matches!(error(result), ExtractError::Header(StreamError::TarHeader)));
    let (_, result) = pax(&record("GNU.sparse.major", "1"));
    assert!(matches!(error(result), ExtractError::Unsupported { kind: 'S', .. }));
    let (_, result) = pax("no record at all");
    assert!(matches!(error(result), ExtractError::Header(StreamError::TarHeader)));
    let (_, result) = pax(&record("path", &"d/".repeat(3000)));
    assert!(matches!(error(result), ExtractError::Entry(_)));
}

#[test]
fn real_archives_of_every_format_are_unpacked() {
    for format in ["v7", "oldgnu", "gnu", "ustar", "pax"] {
        let case = Case::new();
        let source = case.path("src");
        fs::create_dir_all(source.join("sub/dir")).expect("made");
        fs::write(source.join("sub/dir/é"), "x".repeat(5000)).expect("written");
        fs::write(source.join("top"), "").expect("written");
        let archive = case.path("a.tgz");
        let status = std::process::Command::new("tar")
            .arg(format!("--format={format}"))
            .arg("-czf")
            .args([&archive, Path::new("-C"), &source, Path::new(".")])
            .status();
        assert!(status.expect("tar runs").success());
        let count = extract(&request(&archive, &case.out(), None)).expect("unpacked");
        assert_eq!(count, 2, "{format}");
        let seen = case.out().join("sub/dir/é").metadata().expect("there");
        assert_eq!(seen.size(), 5000, "{format}");
    }
}
