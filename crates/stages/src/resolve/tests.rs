use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use super::*;

/// Nobody has these ids, so no file of the system is theirs.
const ANN: u32 = 41_234;
const STAFF: u32 = 41_235;

/// A tree of root's that ANN can only look at, with one program in it.
struct Tree(tempfile::TempDir);

impl Tree {
    /// Needs root, which gives files away; skipped without, but never in CI.
    fn new() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            assert!(std::env::var_os("CI").is_none(), "CI must run this as root");
            println!("skipped: only root can give files away");
            return None;
        }
        // Not below /tmp, whose sticky bit would have its own say.
        let tree = Self(tempfile::tempdir_in("/var").unwrap());
        fs::create_dir(tree.path("bin")).unwrap();
        fs::write(tree.path("bin/tool"), "#!/bin/sh\n").unwrap();
        for path in ["", "bin", "bin/tool"] {
            tree.mode(path, 0o755);
        }
        Some(tree)
    }

    fn path(&self, name: &str) -> PathBuf {
        if name.is_empty() { self.0.path().to_owned() } else { self.0.path().join(name) }
    }

    fn mode(&self, name: &str, mode: u32) {
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(mode)).unwrap();
    }

    fn writable(&self, name: &str) -> Option<PathBuf> {
        resolve(self.path(name).to_str().unwrap(), ANN).unwrap().writable_by_asker
    }
}

#[test]
fn a_name_is_found_in_the_fixed_path_and_nowhere_else() {
    let found = resolve("sh", 0).unwrap();
    assert!(PATH.split(':').any(|folder| found.path == Path::new(folder).join("sh")), "{found:?}");
    assert_eq!(found.canonical, fs::canonicalize("/bin/sh").unwrap());
    assert_eq!(found.seal, Some(Seal::of(&fs::metadata("/bin/sh").unwrap())));
    for name in ["no-such-command-here", "", ".", "..", "-n", "A=b"] {
        assert_eq!(resolve(name, 0), Err(ResolveError::NotFound { name: name.into() }));
    }
}

#[test]
fn a_relative_path_is_refused() {
    for name in ["./sh", "bin/sh", "../bin/sh"] {
        assert_eq!(resolve(name, 0), Err(ResolveError::Relative { name: name.into() }));
    }
}

#[test]
fn a_path_with_detours_is_executed_by_its_plain_name() {
    for name in ["/usr/bin/../bin/env", "//usr/bin/env", "/usr/./bin/env"] {
        let found = resolve(name, 0).unwrap();
        assert_eq!(found.path, found.canonical, "{name}");
        assert_eq!(found.canonical, fs::canonicalize("/usr/bin/env").unwrap());
    }
}

#[test]
fn a_directory_or_a_text_is_not_a_program() {
    assert!(matches!(resolve("/usr/bin", 0), Err(ResolveError::Unusable { .. })));
    assert!(matches!(resolve("/etc/passwd", 0), Err(ResolveError::Unusable { .. })));
    assert!(matches!(resolve("/etc/passwd/x", 0), Err(ResolveError::Unusable { .. })));
    assert!(matches!(resolve("/no/such/thing", 0), Err(ResolveError::NotFound { .. })));
}

#[test]
fn a_program_of_root_in_directories_of_root_is_nobodys_to_replace() {
    let Some(tree) = Tree::new() else { return };
    assert_eq!(tree.writable("bin/tool"), None);
    assert_eq!(resolve("sh", ANN).unwrap().writable_by_asker, None);
}

#[test]
fn a_file_that_the_asker_owns_or_may_write_is_named() {
    let Some(tree) = Tree::new() else { return };
    let tool = Some(tree.path("bin/tool"));
    tree.mode("bin/tool", 0o757);
    assert_eq!(tree.writable("bin/tool"), tool);
    tree.mode("bin/tool", 0o555);
    assert_eq!(tree.writable("bin/tool"), None);
    chown(tree.path("bin/tool"), Some(ANN), None).unwrap();
    assert_eq!(tree.writable("bin/tool"), tool, "an owner can give himself the right");
}

#[test]
fn any_parent_that_the_asker_may_write_is_named() {
    let Some(tree) = Tree::new() else { return };
    for folder in ["bin", ""] {
        tree.mode(folder, 0o757);
        assert_eq!(tree.writable("bin/tool"), Some(tree.path(folder)));
        tree.mode(folder, 0o755);
        chown(tree.path(folder), Some(ANN), None).unwrap();
        assert_eq!(tree.writable("bin/tool"), Some(tree.path(folder)));
        chown(tree.path(folder), Some(0), None).unwrap();
    }
}

#[test]
fn in_a_sticky_directory_only_what_is_the_askers_own_can_be_replaced() {
    let Some(tree) = Tree::new() else { return };
    tree.mode("bin", 0o1777);
    assert_eq!(tree.writable("bin/tool"), None);
    symlink("tool", tree.path("bin/link")).unwrap();
    assert_eq!(tree.writable("bin/link"), None);
    std::os::unix::fs::lchown(tree.path("bin/link"), Some(ANN), None).unwrap();
    assert_eq!(tree.writable("bin/link"), Some(tree.path("bin/link")));
    chown(tree.path("bin"), Some(ANN), None).unwrap();
    assert_eq!(tree.writable("bin/tool"), Some(tree.path("bin")), "the owner of a sticky directory replaces all");
}

#[test]
fn the_directory_of_a_link_on_the_way_counts_too() {
    let Some(tree) = Tree::new() else { return };
    fs::create_dir(tree.path("open")).unwrap();
    tree.mode("open", 0o777);
    symlink("../bin/tool", tree.path("open/tool")).unwrap();
    symlink("open/tool", tree.path("tool")).unwrap();
    let found = resolve(tree.path("tool").to_str().unwrap(), ANN).unwrap();
    assert_eq!((found.path, found.canonical), (tree.path("tool"), tree.path("bin/tool")));
    assert_eq!(found.writable_by_asker, Some(tree.path("open")));
}

#[test]
fn a_group_counts_for_its_members_only() {
    let Some(tree) = Tree::new() else { return };
    tree.mode("bin/tool", 0o775);
    chown(tree.path("bin/tool"), None, Some(STAFF)).unwrap();
    assert_eq!(tree.writable("bin/tool"), None);
    let mut walk = walk::Walk::new(ANN);
    walk.add_group(STAFF);
    let _ = walk.follow(&tree.path("bin/tool"));
    assert_eq!(walk.into_writable(), Some(tree.path("bin/tool")));
}

#[test]
fn a_loop_of_links_ends() {
    let Some(tree) = Tree::new() else { return };
    symlink("b", tree.path("a")).unwrap();
    symlink("a", tree.path("b")).unwrap();
    assert!(matches!(resolve(tree.path("a").to_str().unwrap(), ANN), Err(ResolveError::Unusable { .. })));
}

#[test]
fn root_needs_no_trick() {
    let Some(tree) = Tree::new() else { return };
    tree.mode("bin/tool", 0o777);
    let found = resolve(tree.path("bin/tool").to_str().unwrap(), 0).unwrap();
    assert_eq!(found.writable_by_asker, None);
}
