//! `server.*`: what the daemon says about itself.

use crate::gojson::push_string;

/// Every method, in the order in which they are told.
const METHODS: [&str; 19] = [
    "server.ping",
    "server.version",
    "server.capabilities",
    "server.shutdown",
    "files.list",
    "files.validate",
    "files.stat",
    "files.read",
    "files.extract_tar",
    "git.info",
    "git.status",
    "git.list_branches",
    "git.worktree_create",
    "git.worktree_remove",
    "process.spawn",
    "process.stdin",
    "process.kill",
    "process.killAndWait",
    "process.reattach",
];

/// This machine as clients name it.
pub const ARCH: &str = match std::env::consts::ARCH.as_bytes() {
    b"x86_64" => "amd64",
    b"aarch64" => "arm64",
    _ => std::env::consts::ARCH,
};

pub(crate) fn ping(out: &mut Vec<u8>) {
    out.extend_from_slice(br#"{"pong":true}"#);
}

pub(crate) fn version(version: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(br#"{"version":"#);
    push_string(out, version);
    out.extend_from_slice(br#","platform":"#);
    push_string(out, std::env::consts::OS);
    out.extend_from_slice(br#","arch":"#);
    push_string(out, ARCH);
    out.push(b'}');
}

pub(crate) fn capabilities(version: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(br#"{"version":"#);
    push_string(out, version);
    out.extend_from_slice(br#","methods":"#);
    for (index, method) in METHODS.iter().enumerate() {
        out.push(if index == 0 { b'[' } else { b',' });
        push_string(out, method);
    }
    out.extend_from_slice(br#"],"features":["process.stdin.offset"]}"#);
}
