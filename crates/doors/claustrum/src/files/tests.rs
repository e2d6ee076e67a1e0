use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use super::*;
use crate::error;
use crate::gojson::parse_object;

fn json(text: &str) -> String {
    let mut out = Vec::new();
    push_string(&mut out, text);
    String::from_utf8(out).unwrap()
}

fn ask(method: &str, params: &str) -> Result<String, RpcError> {
    ask_with(&Env::default(), method, params)
}

fn ask_with(env: &Env, method: &str, params: &str) -> Result<String, RpcError> {
    let params = parse_object(params.as_bytes()).unwrap().unwrap_or_default();
    let mut out = Vec::new();
    call(method, &params, env, &mut out).expect("a method")?;
    Ok(String::from_utf8(out).unwrap())
}

fn at(method: &str, path: &Path) -> Result<String, RpcError> {
    ask(method, &format!("{{\"path\":{}}}", json(path.to_str().unwrap())))
}

fn unpack(env: &Env, archive: &Path, dest: &str) -> String {
    let params = format!("{{\"archivePath\":{},\"destDir\":{}}}", json(archive.to_str().unwrap()), json(dest));
    ask_with(env, "extract_tar", &params).unwrap()
}

fn temp() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().canonicalize().unwrap();
    (dir, path)
}

#[test]
fn an_unknown_method_is_not_answered() {
    assert!(call("nope", &Object::default(), &Env::default(), &mut Vec::new()).is_none());
    assert!(call("", &Object::default(), &Env::default(), &mut Vec::new()).is_none());
}

#[test]
fn every_field_of_the_namespace_must_be_well_typed_even_when_unused() {
    for params in [
        r#"{"path":123}"#,
        r#"{"maxBytes":"4"}"#,
        r#"{"maxBytes":5.0}"#,
        r#"{"archivePath":[]}"#,
        r#"{"destDir":{}}"#,
        r#"{"PATH":false}"#,
    ] {
        for method in ["stat", "list", "read", "validate", "extract_tar"] {
            assert_eq!(ask(method, params), Err(error::invalid_params()), "{method} {params}");
        }
    }
    assert!(ask("stat", r#"{"path":null,"other":[1],"branchName":5}"#).is_ok());
}

#[test]
fn stat_tells_kind_size_and_mode() {
    let (_guard, dir) = temp();
    fs::write(dir.join("f"), "hello").unwrap();
    let set =
        |path: &Path, mode| fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    set(&dir.join("f"), 0o640);
    assert_eq!(at("stat", &dir.join("f")).unwrap(), r#"{"exists":true,"isDir":false,"size":5,"mode":"-rw-r-----"}"#);
    let missing = r#"{"exists":false,"isDir":false,"size":0,"mode":""}"#;
    let long = dir.join("x".repeat(5000));
    for path in [dir.join("none"), dir.join("f/under"), dir.join("a\0b"), long, PathBuf::new()] {
        assert_eq!(at("stat", &path).unwrap(), missing);
    }
}

#[test]
fn a_listing_joins_the_path_as_given_and_cleaned() {
    let (_guard, dir) = temp();
    fs::create_dir(dir.join("sub")).unwrap();
    fs::write(dir.join("sub/<f>"), "").unwrap();
    fs::write(dir.join("sub/.hidden"), "").unwrap();
    let bad = std::ffi::OsString::from_vec(b"z\xff".to_vec());
    fs::write(dir.join("sub").join(bad), "").unwrap();
    let text = dir.to_str().unwrap();
    let want = format!(
        r#"{{"entries":[{{"name":"\u003cf\u003e","path":"{text}/sub/\u003cf\u003e","isDir":false}},{{"name":"z\ufffd","path":"{text}/sub/z\ufffd","isDir":false}}]}}"#
    );
    assert_eq!(at("list", &dir.join("./sub//")).unwrap(), want);
    let gone = at("list", &dir.join("none")).unwrap_err();
    assert_eq!(gone, RpcError::internal(format!("open {text}/none: no such file or directory")));
    let empty = ask("list", "{}").unwrap_err();
    assert_eq!(empty, RpcError::internal("open : no such file or directory"));
    let nul = at("list", Path::new("a\0b")).unwrap_err();
    assert_eq!(nul, RpcError::internal("open a\0b: invalid argument"));
}

#[test]
fn a_listing_of_here_and_of_the_root_names_no_extra_slash() {
    let here = ask("list", r#"{"path":"."}"#).unwrap();
    assert!(here.contains(r#""path":"Cargo.toml""#), "{here}");
    let root = ask("list", r#"{"path":"/"}"#).unwrap();
    assert!(root.contains(r#""path":"/proc""#), "{root}");
}

#[test]
fn read_gives_text_and_names_its_refusals() {
    let (_guard, dir) = temp();
    fs::write(dir.join("f"), b"<a>\xff\n").unwrap();
    assert_eq!(at("read", &dir.join("f")).unwrap(), r#"{"content":"\u003ca\u003e\ufffd\n","exists":true}"#);
    assert_eq!(at("read", &dir.join("none")).unwrap(), r#"{"content":"","exists":false}"#);
    assert_eq!(at("read", &dir).unwrap_err(), RpcError::params("files.read: path is a directory"));
    assert_eq!(at("read", Path::new("/dev/zero")).unwrap_err(), RpcError::params("files.read: not a regular file"));
    let limited =
        |max: i64| ask("read", &format!("{{\"path\":{},\"maxBytes\":{max}}}", json(dir.join("f").to_str().unwrap())));
    assert_eq!(limited(4).unwrap_err(), RpcError::params("files.read: file exceeds maxBytes"));
    assert!(limited(5).is_ok() && limited(0).is_ok() && limited(-1).is_ok());
}

#[test]
fn a_file_larger_than_a_reply_can_be_is_refused_unread() {
    let (_guard, dir) = temp();
    let file = fs::File::create(dir.join("big")).unwrap();
    file.set_len(READ_MAX + 1).unwrap();
    assert_eq!(at("read", &dir.join("big")).unwrap_err(), RpcError::params("files.read: file exceeds maxBytes"));
}

#[test]
fn validate_tells_files_from_directories() {
    let (_guard, dir) = temp();
    fs::write(dir.join("f"), "").unwrap();
    assert_eq!(at("validate", &dir).unwrap(), r#"{"valid":true,"isDir":true}"#);
    assert_eq!(at("validate", &dir.join("f")).unwrap(), r#"{"valid":true,"isDir":false}"#);
    assert_eq!(
        at("validate", &dir.join("x")).unwrap(),
        r#"{"valid":false,"isDir":false,"error":"Path does not exist"}"#
    );
}

#[test]
fn both_ends_of_an_extraction_are_required() {
    for params in ["{}", r#"{"destDir":"/x"}"#, r#"{"archivePath":"/x"}"#, r#"{"archivePath":"","destDir":""}"#] {
        assert_eq!(ask("extract_tar", params).unwrap_err(), RpcError::params("archivePath and destDir are required"));
    }
}

#[test]
fn extraction_errors_are_results_in_known_words() {
    let (_guard, dir) = temp();
    let text = dir.to_str().unwrap();
    let env = Env { home: Some(dir.join("home")), ..Env::default() };
    fs::create_dir(dir.join("home")).unwrap();
    let bad = dir.join("bad.tgz");
    fs::write(&bad, "this is not gzip").unwrap();
    let failed = |error: &str| format!(r#"{{"success":false,"fileCount":0,"error":{}}}"#, json(error));
    let relative = "rel\"ative";
    assert_eq!(unpack(&env, &bad, relative), failed("destDir must be an absolute, non-root path: \"rel\\\"ative\""));
    let home = format!("{text}/home/");
    assert_eq!(
        unpack(&env, &bad, &home),
        failed(&format!("destDir must be neither the home directory nor a parent of it: \"{home}\""))
    );
    assert!(bad.exists());
    let out = format!("{text}/out");
    assert_eq!(unpack(&env, &dir.join("none"), &out), failed(&format!("open {text}/none: no such file or directory")));
    assert_eq!(unpack(&env, &bad, &out), failed("gzip: gzip: invalid header"));
    assert!(!bad.exists());
    fs::write(&bad, "").unwrap();
    assert_eq!(unpack(&env, &bad, &out), failed("gzip: EOF"));
    assert_eq!(unpack(&env, &dir, &out), failed(&format!("gzip: read {text}: is a directory")));
    assert_eq!(unpack(&env, Path::new("/dev/null"), &out), failed("open /dev/null: not a regular file"));
    // What a joined program's clients name is in its folder, under the name that they know.
    let env = Env { folder: Some(dir.clone()), ..env };
    assert_eq!(unpack(&env, Path::new("none"), &out), failed("open none: no such file or directory"));
    assert_eq!(unpack(&env, Path::new("bad.tgz"), &out), failed("open bad.tgz: no such file or directory"));
    fs::write(&bad, "").unwrap();
    assert_eq!(unpack(&env, Path::new("bad.tgz"), &out), failed("gzip: EOF"));
}
