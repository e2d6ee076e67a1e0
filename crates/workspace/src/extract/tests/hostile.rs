//! Archives and destinations made to do harm.

use proptest::prelude::*;

use super::*;

#[test]
fn entries_that_lead_outside_are_refused() {
    for name in ["../evil", "a/../../evil", "..", "x/../../../evil/f", "/../evil"] {
        let case = Case::new();
        let tar = [file("ok", "1"), file(name, "E"), end()].concat();
        let failure = case.unpack(&tar).expect_err("refused");
        assert!(matches!(&failure.error, ExtractError::Unsafe(entry) if entry == name.as_bytes()), "{name}: {failure}");
        assert!(!case.path("evil").exists());
        assert!(!case.out().join(".synced").exists());
        assert!(!case.archive_is_there());
    }
}

#[test]
fn a_way_round_that_ends_inside_is_allowed() {
    let case = Case::new();
    let tar = [file("../out/f", "1"), end()].concat();
    assert_eq!(case.unpack(&tar).expect("unpacked"), 1);
    assert_eq!(text(&case.out().join("f")), "1");
}

#[test]
fn links_devices_and_the_rest_are_refused() {
    for kind in [b'1', b'2', b'3', b'4', b'6', b'7', b'S', b'g', b'A'] {
        let case = Case::new();
        let tar = [file("ok", "1"), entry("ln", kind, b""), end()].concat();
        assert!(
            matches!(error(case.unpack(&tar)), ExtractError::Unsupported { kind: seen, name }
                if seen == char::from(kind) && name == b"ln"),
            "{}",
            char::from(kind)
        );
        assert!(case.out().join("ln").symlink_metadata().is_err());
    }
}

#[test]
fn a_link_planted_meanwhile_is_not_followed() {
    let case = Case::new();
    let dest = Dest::check(&case.out(), None).expect("fine");
    let root = Root::create(&dest).expect("made");
    symlink(case.dir.path(), case.out().join("up")).expect("linked");
    symlink(case.path("evil"), case.out().join("ln")).expect("linked");
    assert!(root.create_file(&[b"up", b"evil"]).is_err());
    assert!(root.create_dir(&[b"up", b"evil"]).is_err());
    assert!(root.create_file(&[b"ln"]).is_err());
    assert!(!case.path("evil").exists());
}

#[test]
fn a_destination_that_appears_after_the_wipe_is_not_used() {
    let case = Case::new();
    let dest = Dest::check(&case.out(), None).expect("fine");
    fs::create_dir(case.out()).expect("made");
    let error = Root::create(&dest).map(drop).expect_err("refused");
    assert_eq!(error.op, Op::Mkdir);
}

#[test]
fn relative_and_root_destinations_are_refused() {
    for dest in ["rel/dir", ".", "", "/", "//", "/.", "/../..", "/a/.."] {
        let refused = Dest::check(Path::new(dest), None).expect_err("refused");
        assert_eq!(refused, DestError::NotBelowRoot(dest.into()));
    }
}

#[test]
fn a_refused_destination_leaves_the_archive() {
    let case = Case::new();
    let result = case.unpack_to(&end(), Path::new("relative-and-nowhere"), None);
    assert!(matches!(error(result), ExtractError::Dest(_)));
    assert!(case.archive_is_there());
}

#[test]
fn the_home_directory_and_its_parents_are_never_wiped() {
    let case = Case::new();
    let home = case.path("users/me");
    fs::create_dir_all(home.join("docs")).expect("made");
    fs::write(home.join("docs/precious"), "x").expect("written");
    symlink(case.path("users"), case.path("via")).expect("linked");
    symlink(&home, case.path("home-link")).expect("linked");
    let spelled = |text: &str| PathBuf::from(format!("{}/{text}", case.dir.path().display()));
    for home in [home.clone(), case.path("home-link"), case.path("via/me")] {
        for dest in [
            spelled("users/me"),
            spelled("users/me/"),
            spelled("users/./me/docs/.."),
            spelled("users"),
            spelled("via/me"),
            spelled(""),
        ] {
            let result = case.unpack_to(&end(), &dest, Some(&home));
            assert!(
                matches!(error(result), ExtractError::Dest(DestError::HoldsHome(_) | DestError::NotBelowRoot(_))),
                "{}",
                dest.display()
            );
            assert!(case.archive_is_there());
        }
    }
    assert_eq!(text(&home.join("docs/precious")), "x");
    let inside = home.join("docs/sync");
    case.unpack_to(&end(), &inside, Some(&home)).expect("a directory in the home directory is fine");
    assert_eq!(text(&home.join("docs/precious")), "x");
}

#[test]
fn a_home_directory_that_does_not_exist_yet_is_protected_by_its_name() {
    let case = Case::new();
    fs::create_dir(case.path("users")).expect("made");
    let home = case.path("users/me");
    for dest in [case.path("users"), home.clone()] {
        let refused = Dest::check(&dest, Some(&home)).expect_err("refused");
        assert_eq!(refused, DestError::HoldsHome(dest));
    }
    assert!(Dest::check(&case.path("use"), Some(&home)).is_ok());
}

#[test]
fn a_protected_directory_that_turns_up_after_the_check_is_not_wiped() {
    let case = Case::new();
    let home = case.path("home");
    fs::create_dir(&home).expect("made");
    fs::write(home.join("precious"), "x").expect("written");
    let dest = Dest::check(&case.out(), Some(&home)).expect("fine");
    fs::rename(&home, case.out()).expect("renamed");
    assert!(wipe::wipe(&dest).is_err());
    assert_eq!(text(&case.out().join("precious")), "x");
}

#[test]
fn an_archive_that_is_no_regular_file_is_neither_waited_for_nor_removed() {
    let case = Case::new();
    let fifo = case.path("ff");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RUSR).expect("made");
    let dir = case.path("dir");
    fs::create_dir(&dir).expect("made");
    for archive in [&fifo, &dir] {
        let failure = extract(&request(archive, &case.out(), None)).expect_err("refused");
        assert!(matches!(failure.error, ExtractError::NotRegular(_)));
        assert!(archive.exists());
    }
}

#[test]
fn content_beyond_the_limit_is_refused_before_it_is_written() {
    let case = Case::new();
    let huge = [sized_entry("big", b'0', MAX_CONTENT + 1, b"x"), end()].concat();
    assert!(matches!(error(case.unpack(&huge)), ExtractError::TooLarge));
    assert!(!case.out().join("big").exists());

    let text = "x".repeat(3000);
    let archive = case.pack(&[file("a", &text), file("b", &text), end()].concat());
    let failure = extract_at_most(&request(&archive, &case.out(), None), 5000).expect_err("too much");
    assert!(matches!(failure.error, ExtractError::TooLarge));
    assert_eq!(failure.files, 1);
    assert!(!case.out().join("b").exists());
}

#[test]
fn headers_without_content_are_bounded_too() {
    let case = Case::new();
    let archive = case.pack(&file("f", "").repeat(100));
    let failure = extract_at_most(&request(&archive, &case.out(), None), 20 * 512).expect_err("too much");
    assert!(matches!(failure.error, ExtractError::TooLarge));
    assert!(failure.files <= 40);
}

#[test]
fn an_extended_header_cannot_claim_memory() {
    for kind in [b'x', b'L', b'K'] {
        let case = Case::new();
        let tar = sized_entry("long", kind, 1 << 40, &[b'a'; 4096]);
        assert!(matches!(error(case.unpack(&tar)), ExtractError::Header(StreamError::FieldTooLong)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn damaged_archives_never_write_outside(
        flips in prop::collection::vec((0usize..4096, any::<u8>()), 1..20),
        name in "[./a-c]{1,30}",
    ) {
        let case = Case::new();
        let mut tar = [file(&name, "1"), entry("d/", b'5', b""), file("d/f", "22"), end()].concat();
        for (at, byte) in flips {
            let at = at % tar.len();
            tar[at] = byte;
        }
        // Make the sums right again, so that more than the sum is tested.
        for at in [0, 1024, 1536] {
            let block = &mut tar[at..at + 512];
            block[148..156].fill(b' ');
            let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
            block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        }
        let _ = case.unpack(&tar);
        let names: Vec<_> = fs::read_dir(case.dir.path())
            .expect("listed")
            .map(|entry| entry.expect("listed").file_name())
            .collect();
        prop_assert!(names.iter().all(|name| name == "out"), "{names:?}");
    }
}
