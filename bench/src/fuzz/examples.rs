//! What mutation begins with: requests of every shape, and scripts for journals.

/// Whole requests; the token is the one of private instances. Nothing here destroys anything, however it is changed.
pub(crate) fn requests() -> Vec<Vec<u8>> {
    let with = |method: &str, params: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params},"auth":"{}"}}"#,
            crate::instance::TOKEN
        )
    };
    let mut all: Vec<String> = [
        ("server.ping", "{}"),
        ("server.version", "null"),
        ("server.capabilities", "[]"),
        ("files.list", r#"{"path":"/"}"#),
        ("files.stat", r#"{"path":"/etc/passwd"}"#),
        ("files.validate", r#"{"path":"/nonexistent"}"#),
        ("files.read", r#"{"path":"/etc/hostname","maxBytes":100}"#),
        ("git.info", r#"{"path":"/"}"#),
        ("process.spawn", r#"{"id":"","command":""}"#),
        ("process.stdin", r#"{"id":"none","data":"aGVsbG8=","offset":0}"#),
        ("process.kill", r#"{"id":"none","signal":"SIGTERM"}"#),
        ("process.killAndWait", r#"{"id":"none","timeoutMs":1,"escalate":false}"#),
        ("process.reattach", r#"{"id":"none","fromSeq":0,"wantPid":true}"#),
        ("process.nothing", r#"{"a":{"b":[1,2.5e3,"\u00e9\n",null,true]}}"#),
    ]
    .iter()
    .map(|(method, params)| with(method, params))
    .collect();
    all.extend(
        [
            r#"{"jsonrpc":"2.0","id":"<a>&\u2028","method":"server.ping","auth":"wrong"}"#,
            r#"{"JSONRPC":"2.0","ID":{ "a" : [ 1, 2 ] },"Method":"x","auth":null}"#,
            r#"{"jsonrpc":"1.0","id":1.50,"method":"nodot"}"#,
            "null",
            "[]",
            "{}",
            "\"text\"",
            "12",
            " ",
            "",
        ]
        .map(str::to_owned),
    );
    all.into_iter().map(String::into_bytes).collect()
}

/// Requests as they arrive: a few bytes that say how the stream is cut, then lines.
pub(crate) fn lines() -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> =
        requests().into_iter().map(|line| [b"\x07", line.as_slice(), b"\r\n"].concat()).collect();
    all.push(b"\x01\n\n\r\n\nabc\r\r\n".to_vec());
    all.push(b"\x10no newline at the end".to_vec());
    all.push([b"\x40".as_slice(), &b"long".repeat(400), b"\nx\n"].concat());
    all
}

/// What `git status --porcelain=v2 -z` prints, in all its forms.
pub(crate) fn porcelain() -> Vec<Vec<u8>> {
    let hash = "0123456789abcdef0123456789abcdef01234567";
    let branch = format!("# branch.oid {hash}\0# branch.head main\0# branch.upstream origin/main\0# branch.ab +1 -2\0");
    [
        branch.clone(),
        format!("{branch}1 .M N... 100644 100644 100644 {hash} {hash} a b\0"),
        format!("{branch}2 R. N... 100644 100644 100644 {hash} {hash} R100 new\nname\0old\0? un\0"),
        format!("u UU N... 100644 100644 100644 100644 {hash} {hash} {hash} both\0! ignored/\0"),
        format!("1 .M SCMU 160000 160000 160000 {hash} {hash} sub\0"),
        "# branch.oid (initial)\0# branch.head (detached)\0".to_owned(),
    ]
    .map(String::into_bytes)
    .to_vec()
}

/// A path, and rules about it.
pub(crate) fn ignores() -> Vec<Vec<u8>> {
    [
        "src/x.rs\n*.log\n!keep.log\n/target/\n",
        "a/b/c\n**/b/**\n[a-c]?\\*\n# nothing\n\\#name\ntrailing\\ \n",
        "build\n{a,b}/**/*.[oa]\n!/build\n[!x]\n[[:alpha:]]*\n",
        "x\n**\n!**/\n/*/*/*/*\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}

/// Transcripts as agents write them, behind a byte that says whose; some lines of each, and some whole.
pub(crate) fn transcripts() -> Vec<Vec<u8>> {
    let recorded = [
        include_str!("../../../crates/agents/src/transcript/recorded/claude.jsonl"),
        include_str!("../../../crates/agents/src/transcript/recorded/codex.jsonl"),
        include_str!("../../../crates/agents/src/transcript/recorded/gemini.jsonl"),
    ];
    let mut all = Vec::new();
    for (whose, text) in (0_u8..).zip(recorded) {
        all.push([&[whose], text.as_bytes()].concat());
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        all.extend(lines.chunks(6).map(|lines| [&[whose], lines.concat().as_bytes()].concat()));
    }
    all.push(b"\x00\n\n{}\n[[[[\n".to_vec());
    all
}

/// Scripts for the journal target: see there for what a byte means.
pub(crate) fn journals() -> Vec<Vec<u8>> {
    vec![
        vec![3, 0, 200, 1, 50, 4, 0, 0, 5],
        vec![1, 0, 255, 2, 7, 255],
        vec![6, 0, 10, 0, 20, 1, 30, 0, 40, 1, 50, 2, 60, 4, 9, 3],
        vec![2, 0, 255, 0, 255, 5, 100, 2],
        vec![4, 1, 1, 1, 2, 0, 3, 2, 0, 6, 0, 31],
        vec![0, 8, 40, 200],
        vec![5, 0, 90, 1, 90, 0, 90, 1, 90, 2, 0, 4, 20, 1, 7, 3, 8],
    ]
}
