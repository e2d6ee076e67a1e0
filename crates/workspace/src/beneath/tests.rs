use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::io::Errno;

use super::*;

const ALL: Range = Range::Whole { limit: READ_MAX };

fn missing(_: BorrowedFd<'_>, _: &Path, _: OFlags) -> Result<OwnedFd, Errno> {
    Err(Errno::NOSYS)
}

fn forbidden(_: BorrowedFd<'_>, _: &Path, _: OFlags) -> Result<OwnedFd, Errno> {
    Err(Errno::PERM)
}

/// A kernel that never gets a look between two renames of a neighbour.
fn restless(_: BorrowedFd<'_>, _: &Path, _: OFlags) -> Result<OwnedFd, Errno> {
    Err(Errno::AGAIN)
}

/// Every test holds for the kernel's way, and where that is missing, forbidden or never comes to an end.
fn everywhere(test: impl Fn(&Path, &dyn Fn(&Path) -> Root)) {
    let ways: [Option<resolve::Kernel>; 4] = [None, Some(missing), Some(forbidden), Some(restless)];
    for way in ways {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        fs::create_dir(base.join("root")).unwrap();
        fs::write(base.join("secret"), "secret").unwrap();
        test(&base, &|path| way.map_or_else(|| Root::open(path).unwrap(), |kernel| Root::on(kernel, path)));
    }
}

fn text(root: &Root, path: &str) -> Result<String, BeneathError> {
    root.read(Path::new(path), ALL).map(|shown| String::from_utf8(shown.content.bytes().to_vec()).unwrap())
}

fn mkfifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn no_path_leads_out_of_its_root() {
    everywhere(|base, open| {
        let top = base.join("root");
        fs::create_dir_all(top.join("a/b")).unwrap();
        fs::write(top.join("a/in"), "in").unwrap();
        symlink("../secret", top.join("out")).unwrap();
        symlink(base.join("secret"), top.join("absolute")).unwrap();
        symlink("/proc/self/fd", top.join("fds")).unwrap();
        symlink("../..", top.join("a/up")).unwrap();
        symlink(top.join("a/in"), top.join("inside-but-absolute")).unwrap();
        symlink("loop", top.join("loop")).unwrap();
        let root = open(&top);
        for path in [
            "..",
            "../secret",
            "a/../../secret",
            "a/b/../../../secret",
            "out",
            "absolute",
            "fds",
            "fds/0",
            "a/up/secret",
            "inside-but-absolute",
            "/etc/passwd",
            "//etc/passwd",
            "/",
        ] {
            let said = root.read(Path::new(path), ALL);
            assert!(matches!(said, Err(BeneathError::Outside(_))), "{path}: {said:?}");
            assert!(matches!(root.list(Path::new(path), None, 10, true), Err(BeneathError::Outside(_))), "{path}");
            let written = root.write(Path::new(path), b"x", Expected::Absent);
            assert!(written.is_err(), "{path}: {written:?}");
        }
        assert!(text(&root, "loop").is_err() && text(&root, "a\0b").is_err() && text(&root, "nothing").is_err());
        assert_eq!(fs::read_to_string(base.join("secret")).unwrap(), "secret");
    });
}

#[test]
fn what_stays_beneath_the_root_is_found() {
    everywhere(|base, open| {
        let top = base.join("root");
        fs::create_dir_all(top.join("a/b")).unwrap();
        symlink("b/../../deep", top.join("a/link")).unwrap();
        let odd = OsStr::from_bytes(b"\xff\xfe");
        for name in ["..hidden", "deep", "...", "-dash", "with\nline", "a/b/c"] {
            fs::write(top.join(name), name).unwrap();
        }
        fs::write(top.join(odd), "odd").unwrap();
        let root = open(&top);
        for name in ["..hidden", "deep", "...", "-dash", "with\nline", "a/b/c", "./a//b/./c", "a/../a/b/c"] {
            assert!(text(&root, name).unwrap().ends_with(name.rsplit('/').next().unwrap()), "{name}");
        }
        assert_eq!(text(&root, "a/link").unwrap(), "deep");
        assert_eq!(root.read(Path::new(odd), ALL).unwrap().content.bytes(), b"odd");
        assert!(matches!(text(&root, "deep/"), Err(BeneathError::NotAFolder(_))));
        assert!(matches!(text(&root, "a"), Err(BeneathError::Folder(_))));
        assert!(matches!(text(&root, ""), Err(BeneathError::Folder(_))));
        assert_eq!(root.stat(Path::new("")).unwrap().kind, FileKind::Folder);
    });
}

#[test]
fn a_mount_beneath_the_root_is_not_entered() {
    // `/proc` is another mount than `/` everywhere; nothing has to be mounted for this.
    for root in [Root::open(Path::new("/")).unwrap(), Root::on(missing, Path::new("/"))] {
        for path in ["proc/self/status", "proc/self/fd/0", "proc", "proc/self/root/etc/passwd"] {
            let said = root.read(Path::new(path), ALL);
            assert!(matches!(said, Err(BeneathError::Outside(_))), "{path}: {said:?}");
        }
        assert!(root.stat(Path::new("etc/passwd")).is_ok());
        let page = root.list(Path::new(""), None, 1000, true).unwrap();
        let proc = page.entries.iter().find(|entry| entry.name == "proc").unwrap();
        assert_eq!(proc.count, Some(Count::Unreadable), "nor counted");
    }
}

#[test]
fn pipes_sockets_and_devices_are_named_and_wait_for_nobody() {
    everywhere(|base, open| {
        let top = base.join("root");
        mkfifo(&top.join("pipe"));
        let _socket = UnixListener::bind(top.join("socket")).unwrap();
        let root = open(&top);
        for path in ["pipe", "socket"] {
            assert!(matches!(text(&root, path), Err(BeneathError::Special(_))), "{path}");
            let changed = root.write(Path::new(path), b"", Expected::Hash(""));
            assert!(matches!(changed, Err(BeneathError::Special(_))), "{changed:?}");
        }
        let kinds: Vec<_> = root.list(Path::new(""), None, 10, false).unwrap().entries;
        assert!(kinds.iter().all(|entry| entry.stat.unwrap().kind == FileKind::Special));
    });
    let devices = Root::open(Path::new("/dev")).unwrap();
    for path in ["zero", "null", "urandom"] {
        assert!(matches!(text(&devices, path), Err(BeneathError::Special(_))), "{path}");
    }
}

#[test]
fn a_huge_file_says_its_size_and_is_read_in_parts() {
    everywhere(|base, open| {
        let top = base.join("root");
        let size = 4 << 30;
        let file = fs::File::create(top.join("huge")).unwrap();
        file.set_len(size).unwrap();
        std::os::unix::fs::FileExt::write_at(&file, b"end", size - 3).unwrap();
        let root = open(&top);
        let said = root.read(Path::new("huge"), ALL).unwrap_err().to_string();
        assert!(said.contains("4294967296 bytes") && said.contains(&READ_MAX.to_string()), "{said}");
        let part = |offset, length| root.read(Path::new("huge"), Range::Part { offset, length });
        assert_eq!(part(size - 3, 100).unwrap().content, Content::Text("end".into()));
        assert_eq!(part(1 << 31, 4).unwrap().content, Content::Bytes(vec![0; 4]));
        assert_eq!(part(size + 5, 4).unwrap().content.bytes(), b"");
        assert_eq!(part(u64::MAX, 4).unwrap().content.bytes(), b"");
        assert!(matches!(part(0, READ_MAX + 1), Err(BeneathError::TooLarge { .. })));
        assert_eq!(part(0, 4).unwrap().hash, None, "what was not seen whole has no hash");
    });
}

#[test]
fn content_is_text_or_bytes_and_says_its_type() {
    everywhere(|base, open| {
        let top = base.join("root");
        for (name, content, kind, is_text) in [
            ("text", "grüße\n".as_bytes(), "text/plain", true),
            ("empty", b"", "text/plain", true),
            ("nul", b"a\0b", "application/octet-stream", false),
            ("latin", b"gr\xfc\xdfe", "application/octet-stream", false),
            ("png", b"\x89PNG\r\n\x1a\nrest", "image/png", false),
        ] {
            fs::write(top.join(name), content).unwrap();
            let shown = open(&top).read(Path::new(name), ALL).unwrap();
            assert_eq!((shown.media_type, matches!(shown.content, Content::Text(_))), (Some(kind), is_text), "{name}");
            assert_eq!(shown.hash.as_deref(), Some(content_hash(content).as_str()));
            assert_eq!(shown.stat.size, content.len() as u64);
        }
    });
}

/// Names a folder to page through, for a process of its own whose memory is nobody else's.
const PAGED: &str = "OSTLER_TEST_PAGED";
/// A page is made of no more than itself, however large the folder is.
const PAGED_KIB: u64 = 8 << 10;

/// What the kernel says of this process, in KiB.
fn memory(what: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(what)?.strip_prefix(':')).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// CPU time of this thread.
fn cpu() -> Duration {
    let told = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(told.split(' ').next().unwrap().parse().unwrap())
}

/// 50,000 names; with `./test --full` a million.
#[test]
fn a_folder_of_fifty_thousand_names_is_paged() {
    let count: u32 = if std::env::var_os("OSTLER_TEST_FULL").is_some() { 1_000_000 } else { 50_000 };
    if let Some(dir) = std::env::var_os(PAGED) {
        let (before, began) = (memory("VmRSS"), cpu());
        page_through(Path::new(&dir), count);
        let (grown, took) = (memory("VmHWM") - before, cpu() - began);
        // Five looks at each name, twenty times slower than they are.
        let most = Duration::from_micros(50) * count;
        assert!(took < most, "{took:?} of CPU, not {most:?}");
        assert!(grown < PAGED_KIB, "{grown} KiB");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for number in 0..count {
        fs::File::create(dir.path().join(format!("f{number:06}"))).unwrap();
    }
    let own = "beneath::tests::a_folder_of_fifty_thousand_names_is_paged";
    let mut again = Command::new(std::env::current_exe().unwrap());
    let ran = again.args(["--exact", own, "--nocapture"]).env(PAGED, dir.path()).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && said.contains("1 passed"), "{said}{}", String::from_utf8_lossy(&ran.stderr));
}

fn page_through(dir: &Path, count: u32) {
    let root = Root::open(dir).unwrap();
    let first = root.list(Path::new(""), None, 700, true).unwrap();
    assert_eq!((first.entries.len(), first.total, first.more), (700, u64::from(count), true));
    let last = &first.entries.last().unwrap().name;
    assert_eq!(last, "f000699");
    let next = root.list(Path::new(""), Some(last), 2, true).unwrap();
    assert_eq!(next.entries.iter().map(|entry| &entry.name).collect::<Vec<_>>(), ["f000700", "f000701"]);
    let end = root.list(Path::new(""), Some(OsStr::new(&format!("f{:06}", count - 2))), usize::MAX, true).unwrap();
    assert_eq!((end.entries.len(), end.more), (1, false));
    assert!(root.list(Path::new(""), None, usize::MAX, false).unwrap().entries.len() == LIST_MAX);
    let tree = root.tree(Path::new(""), 1, 10).unwrap();
    assert!(tree.cut && tree.entries.len() == 10 && tree.entries[9].path == Path::new("f000009"));
}

#[test]
fn a_folder_tells_size_time_and_how_much_is_in_it() {
    everywhere(|base, open| {
        let top = base.join("root");
        fs::create_dir_all(top.join("d/e")).unwrap();
        fs::write(top.join("d/f"), "12345").unwrap();
        symlink("/nowhere", top.join("link")).unwrap();
        fs::write(top.join("file"), "123").unwrap();
        let page = open(&top).list(Path::new(""), None, 10, true).unwrap();
        let [d, file, link] = page.entries.as_slice() else { panic!("{page:?}") };
        assert_eq!((d.name.as_os_str(), d.count), (OsStr::new("d"), Some(Count::Exactly(2))));
        let stat = file.stat.unwrap();
        assert_eq!((stat.kind, stat.size, file.count), (FileKind::File, 3, None));
        let modified = fs::metadata(top.join("file")).unwrap().modified().unwrap();
        let modified = modified.duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos();
        assert_eq!(u128::try_from(stat.modified_ns).unwrap(), modified);
        assert_eq!(link.target.as_deref(), Some(OsStr::new("/nowhere")));
        assert!(matches!(open(&top).list(Path::new("file"), None, 1, true), Err(BeneathError::NotAFolder(_))));
    });
}

#[test]
fn a_tree_goes_as_deep_as_asked_and_says_what_is_missing() {
    everywhere(|base, open| {
        let top = base.join("root");
        fs::create_dir_all(top.join("a/b/c")).unwrap();
        fs::create_dir_all(top.join(".git/objects")).unwrap();
        fs::write(top.join("a/b/c/deep"), "").unwrap();
        symlink("..", top.join("a/up")).unwrap();
        let root = open(&top);
        let shown = |depth, limit| {
            let tree = root.tree(Path::new(""), depth, limit).unwrap();
            let entry = |entry: &TreeEntry| format!("{}{}", entry.path.display(), if entry.cut { " …" } else { "" });
            (tree.entries.iter().map(entry).collect::<Vec<_>>().join(", "), tree.cut)
        };
        assert_eq!(shown(2, 100), (".git …, a, a/b …, a/up".into(), false));
        assert_eq!(shown(9, 100), (".git …, a, a/b, a/b/c, a/b/c/deep, a/up".into(), false));
        assert_eq!(shown(9, 3), (".git …, a …, a/b …".into(), true));
        let below = root.tree(Path::new("a/b"), 9, 100).unwrap();
        assert_eq!(below.entries.last().unwrap().path, Path::new("c/deep"));
    });
}

#[test]
fn an_unreadable_folder_is_said_to_be_one() {
    if rustix::process::geteuid().is_root() {
        // Root reads everything; the suites try this as an ordinary user.
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("closed")).unwrap();
    fs::set_permissions(dir.path().join("closed"), fs::Permissions::from_mode(0o000)).unwrap();
    let root = Root::open(dir.path()).unwrap();
    let page = root.list(Path::new(""), None, 10, true).unwrap();
    assert_eq!(page.entries[0].count, Some(Count::Unreadable));
    assert!(matches!(root.list(Path::new("closed"), None, 10, true), Err(BeneathError::Denied(_))));
    assert!(root.tree(Path::new(""), 5, 10).unwrap().entries[0].cut);
}

#[test]
fn a_file_is_made_once_and_replaced_only_as_it_was_seen() {
    everywhere(|base, open| {
        let top = base.join("root");
        let root = open(&top);
        let path = Path::new("new");
        let first = root.write(path, b"one", Expected::Absent).unwrap();
        assert!(matches!(root.write(path, b"x", Expected::Absent), Err(BeneathError::Exists(_))));
        fs::set_permissions(top.join(path), fs::Permissions::from_mode(0o751)).unwrap();
        let second = root.write(path, b"two", Expected::Hash(&first.hash)).unwrap();
        assert_eq!(second.hash, content_hash(b"two"));
        assert_eq!(fs::metadata(top.join(path)).unwrap().permissions().mode() & 0o7777, 0o751);
        let stale = root.write(path, b"three", Expected::Hash(&first.hash));
        assert!(matches!(stale, Err(BeneathError::Changed(_))), "{stale:?}");
        assert_eq!(text(&root, "new").unwrap(), "two");
        symlink("new", top.join("link")).unwrap();
        let link = root.write(Path::new("link"), b"x", Expected::Hash(&second.hash));
        assert!(matches!(link, Err(BeneathError::Link(_))), "{link:?}");
        assert!(matches!(root.write(Path::new("no/x"), b"", Expected::Absent), Err(BeneathError::Missing(_))));
        let large = root.write(path, &vec![0; WRITE_MAX + 1], Expected::Absent);
        assert!(matches!(large, Err(BeneathError::TooLarge { .. })));
        let names: Vec<_> = fs::read_dir(&top).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names.len(), 2, "nothing of ours is left: {names:?}");
    });
}

#[test]
fn nothing_that_belongs_to_git_is_written() {
    everywhere(|base, open| {
        let top = base.join("root");
        for folder in [".git/hooks", "sub/.git/hooks", "bare.git/hooks", "bare.git/objects", "bare.git/refs"] {
            fs::create_dir_all(top.join(folder)).unwrap();
        }
        fs::write(top.join("bare.git/HEAD"), "ref: refs/heads/main\n").unwrap();
        symlink(".git/hooks", top.join("hooks")).unwrap();
        symlink(".git", top.join("g")).unwrap();
        let root = open(&top);
        for path in [
            ".git/hooks/pre-commit",
            ".git",
            ".GIT/config",
            "sub/.git/hooks/x",
            "hooks/pre-commit",
            "g/config",
            "sub/../g/hooks/x",
            "bare.git/hooks/x",
            "new/.git",
        ] {
            fs::create_dir_all(top.join("new")).unwrap();
            fs::create_dir_all(top.join(".GIT")).unwrap();
            let said = root.write(Path::new(path), b"#!/bin/sh", Expected::Absent);
            assert!(matches!(said, Err(BeneathError::Git(_))), "{path}: {said:?}");
        }
        let inside = open(&top.join(".git/hooks")).write(Path::new("x"), b"", Expected::Absent);
        assert!(matches!(inside, Err(BeneathError::Git(_))), "{inside:?}");
        root.write(Path::new(".gitignore"), b"x", Expected::Absent).unwrap();
        root.write(Path::new("new/.github"), b"x", Expected::Absent).unwrap();
    });
}
