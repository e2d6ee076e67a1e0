use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::*;

struct Machine {
    dir: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    fn put(&self, name: &str, content: &[u8]) -> String {
        fs::write(self.path(name), content).unwrap();
        self.text(name)
    }

    /// The flags for version 1.0 in the folder `cli`.
    fn flags(&self) -> Flags {
        Flags { cli_dir: self.text("cli"), cli_version: "1.0".into(), ..Flags::default() }
    }

    fn installed(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path("cli")) else { return Vec::new() };
        let mut names: Vec<_> = entries.flatten().map(|entry| entry.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn printed(flags: &Flags) -> String {
    let mut out = Vec::new();
    run(flags, "v<1>", &mut out);
    String::from_utf8(out).unwrap()
}

/// What is told as the error; empty when there is none.
fn error(flags: &Flags) -> String {
    let line = printed(flags);
    let facts: serde_json::Value = serde_json::from_str(line.strip_prefix("__INSTALL_RESULT__").unwrap()).unwrap();
    facts.get("cliError").map_or_else(String::new, |error| error.as_str().unwrap().to_owned())
}

fn script(status: i32) -> Vec<u8> {
    format!("#!/bin/sh\nexit {status}\n").into_bytes()
}

fn zst(content: &[u8]) -> Vec<u8> {
    zstd::encode_all(content, 1).unwrap()
}

fn sum(content: &[u8]) -> String {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(content).unwrap();
    unpack::verify(&file, "").unwrap_err().rsplit('=').next().unwrap().to_owned()
}

/// Answers every request for a known path with its body, until the test ends.
fn serve(files: &[(&str, &str, &[u8])]) -> String {
    let files: HashMap<String, (String, Vec<u8>)> =
        files.iter().map(|(path, head, body)| (path.to_string(), (head.to_string(), body.to_vec()))).collect();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
            let path = lines.next().unwrap_or_default().split(' ').nth(1).unwrap_or_default().to_owned();
            lines.find(String::is_empty);
            let (head, body) =
                files.get(&path).cloned().unwrap_or(("404 Not Found\r\nContent-Length: 0".into(), Vec::new()));
            let _ = write!(stream, "HTTP/1.1 {head}\r\nConnection: close\r\n\r\n");
            let _ = stream.write_all(&body);
        }
    });
    url
}

fn ok(length: usize) -> String {
    format!("200 OK\r\nContent-Length: {length}")
}

#[test]
fn an_uploaded_archive_is_installed_and_consumed() {
    let machine = Machine::new();
    let blob = machine.put("a.zst", &zst(&script(0)));
    let flags = Flags { cli_zst: blob.clone(), ..machine.flags() };
    let line = printed(&flags);
    assert!(line.starts_with("__INSTALL_RESULT__{\"serverVersion\":\"v\\u003c1\\u003e\",\"os\":\"linux\",\"arch\":\""));
    let path = machine.text("cli/1.0");
    assert!(line.ends_with(&format!("\"cliPath\":\"{path}\",\"cliWasPresent\":false}}\n")), "{line}");
    assert_eq!(machine.installed(), ["1.0"]);
    assert!(!Path::new(&blob).exists());
    let again = printed(&flags);
    assert!(again.ends_with("\"cliWasPresent\":true}\n"), "{again}");
}

#[test]
fn without_folder_or_version_nothing_is_done() {
    let machine = Machine::new();
    for flags in [Flags::default(), Flags { cli_version: String::new(), ..machine.flags() }] {
        let line = printed(&flags);
        assert!(line.ends_with("\"cliPath\":\"\",\"cliWasPresent\":false}\n"), "{line}");
    }
    assert!(!machine.path("cli").exists());
}

#[test]
fn a_version_cannot_lead_out_of_the_folder() {
    let machine = Machine::new();
    let blob = machine.put("a.zst", &zst(&script(0)));
    for version in ["../x", "..", ".", "a/b", "/etc/x", "x/", "a\0b"] {
        let flags = Flags { cli_version: version.into(), cli_zst: blob.clone(), ..machine.flags() };
        assert!(error(&flags).starts_with("invalid cli version"), "{version}");
    }
    assert!(Path::new(&blob).exists());
    assert!(!machine.path("x").exists());
}

#[test]
fn what_cannot_be_read_or_unpacked_is_said_and_nothing_is_left() {
    let machine = Machine::new();
    let from = |zst: String| error(&Flags { cli_zst: zst, ..machine.flags() });
    assert_eq!(error(&machine.flags()), "cli 1.0 missing and no --cli-url or --cli-zst provided");
    let none = machine.text("none");
    assert_eq!(from(none.clone()), format!("opening input: open {none}: no such file or directory"));
    let folder = machine.text("");
    assert_eq!(from(folder.clone()), format!("opening input: read {folder}: is a directory"));
    let bad = machine.put("bad", b"not a zstd frame, surely");
    assert_eq!(from(bad.clone()), "decompressing: invalid input: magic number mismatch");
    assert!(Path::new(&bad).exists());
    let whole = zst(&script(0).repeat(1000));
    let cut = machine.put("cut", &whole[..whole.len() - 5]);
    assert_eq!(from(cut), "decompressing: unexpected EOF");
    let broken = machine.put("broken", &zst(&script(1)));
    assert_eq!(from(broken), format!("installed cli at {} is not runnable", machine.text("cli/1.0")));
    assert!(machine.installed().is_empty());
}

#[test]
fn an_uploaded_archive_is_verified_only_when_a_checksum_is_given() {
    let machine = Machine::new();
    let good = zst(&script(0));
    let blob = machine.put("a.zst", &good);
    let with = |sum: &str| error(&Flags { cli_zst: blob.clone(), cli_checksum: sum.into(), ..machine.flags() });
    assert_eq!(with("ab"), format!("checksum mismatch: expected=ab, actual={}", sum(&good)));
    assert!(Path::new(&blob).exists() && machine.installed().is_empty());
    assert_eq!(with(&sum(&good).to_uppercase()), "");
    let bad = machine.put("bad.zst", b"garbage");
    let flags = Flags { cli_zst: bad, cli_checksum: "ab".into(), cli_version: "2".into(), ..machine.flags() };
    assert!(error(&flags).starts_with("checksum mismatch"));
}

#[test]
fn a_download_is_always_verified() {
    let machine = Machine::new();
    let good = zst(&script(0));
    let url = serve(&[
        ("/cli", &ok(good.len()), &good),
        ("/moved", "302 Found\r\nLocation: /cli\r\nContent-Length: 0", b""),
        ("/short", &ok(good.len() + 5), &good),
    ]);
    let from = |path: &str, sum: &str| {
        error(&Flags { cli_url: format!("{url}{path}"), cli_checksum: sum.into(), ..machine.flags() })
    };
    assert_eq!(from("/cli", ""), format!("checksum mismatch: expected=, actual={}", sum(&good)));
    assert_eq!(from("/nope", "ab"), format!("download failed: download {url}/nope: 404 Not Found"));
    assert!(from("/short", &sum(&good)).starts_with("download failed: "));
    assert!(machine.installed().is_empty());
    assert_eq!(from("/moved", &sum(&good)), "");
    assert_eq!(machine.installed(), ["1.0"]);
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let machine = Machine::new();
    let from = |url: &str| error(&Flags { cli_url: url.into(), cli_checksum: "ab".into(), ..machine.flags() });
    assert_eq!(
        from("http://127.0.0.1:1/x"),
        "download failed: Get \"http://127.0.0.1:1/x\": dial tcp 127.0.0.1:1: connect: connection refused"
    );
    assert_eq!(
        from("http://[::1]:1/x"),
        "download failed: Get \"http://[::1]:1/x\": dial tcp [::1]:1: connect: connection refused"
    );
    assert_eq!(
        from("http://nowhere.invalid/x"),
        "download failed: Get \"http://nowhere.invalid/x\": dial tcp: lookup nowhere.invalid: no such host"
    );
    assert_eq!(from("ftp://h/x"), "download failed: Get \"ftp://h/x\": unsupported protocol scheme \"ftp\"");
    assert!(from("no url").starts_with("download failed: Get \"no url\": "));
}

#[test]
fn a_bomb_is_cut_off() {
    let machine = Machine::new();
    let bomb = machine.put("bomb", &zst(&vec![0; 1 << 20]));
    let mut out = Vec::new();
    let refused = unpack::decompress(&File::open(&bomb).unwrap(), &mut out, 1000).unwrap_err();
    assert_eq!(refused, "more than 0 MiB");
    assert_eq!(out.len(), 1001);
}

#[test]
fn a_link_in_place_of_the_half_made_file_is_not_written_through() {
    let machine = Machine::new();
    fs::create_dir(machine.path("cli")).unwrap();
    let victim = machine.put("victim", b"precious");
    std::os::unix::fs::symlink(&victim, machine.path("cli/1.0.tmp")).unwrap();
    let blob = machine.put("a.zst", &zst(&script(0)));
    assert_eq!(error(&Flags { cli_zst: blob, ..machine.flags() }), "");
    assert_eq!(fs::read(victim).unwrap(), b"precious");
    assert_eq!(machine.installed(), ["1.0"]);
}

#[test]
fn the_newest_files_stay_and_so_does_the_one_asked_for() {
    let machine = Machine::new();
    let stock = Stock::open(&machine.text("cli"), "1.0").unwrap();
    fs::create_dir_all(machine.path("cli/folder")).unwrap();
    let make = |name: &str, age: u64| {
        let file = File::create(machine.path("cli").join(name)).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
    };
    let fill = || ["a", "b", "c", "1.0"].iter().zip(1..).for_each(|(name, age)| make(name, age * 100));
    fill();
    prune::prune(&stock, 0);
    prune::prune(&stock, -1);
    assert_eq!(machine.installed(), ["1.0", "a", "b", "c", "folder"]);
    prune::prune(&stock, 3);
    assert_eq!(machine.installed(), ["1.0", "a", "b", "folder"]);
    prune::prune(&stock, 1);
    assert_eq!(machine.installed(), ["1.0", "folder"]);
}

#[test]
fn a_failed_attempt_prunes_too() {
    let machine = Machine::new();
    fs::create_dir(machine.path("cli")).unwrap();
    for name in ["a", "b"] {
        machine.put(&format!("cli/{name}"), b"");
    }
    let flags = Flags { cli_keep: 1, ..machine.flags() };
    assert!(!error(&flags).is_empty());
    assert_eq!(machine.installed().len(), 1);
}
