//! The one line that `-install` prints.

use std::time::Duration;

use ostler_door_claustrum::{ARCH, push_json_string};
use ostler_engine::Forker;

/// What callers look for in the output.
const MARK: &str = "__INSTALL_RESULT__";

/// `ldd` is a short script.
const LDD_WITHIN: Duration = Duration::from_secs(5);

pub(super) struct Facts {
    server_version: String,
    libc: &'static str,
    pub(super) cli_path: String,
    pub(super) cli_was_present: bool,
    /// Empty when all went well.
    pub(super) cli_error: String,
}

impl Facts {
    pub(super) fn new(server_version: &str) -> Self {
        Self {
            server_version: server_version.to_owned(),
            libc: libc(),
            cli_path: String::new(),
            cli_was_present: false,
            cli_error: String::new(),
        }
    }

    /// The line with its mark and its end.
    pub(super) fn line(&self) -> Vec<u8> {
        let mut line = MARK.as_bytes().to_vec();
        for (name, value) in [
            (r#"{"serverVersion":"#, self.server_version.as_str()),
            (r#","os":"#, std::env::consts::OS),
            (r#","arch":"#, ARCH),
            (r#","libc":"#, self.libc),
            (r#","cliPath":"#, &self.cli_path),
        ] {
            line.extend_from_slice(name.as_bytes());
            push_json_string(&mut line, value);
        }
        line.extend_from_slice(br#","cliWasPresent":"#);
        line.extend_from_slice(if self.cli_was_present { b"true" } else { b"false" });
        if !self.cli_error.is_empty() {
            line.extend_from_slice(br#","cliError":"#);
            push_json_string(&mut line, &self.cli_error);
        }
        line.extend_from_slice(b"}\n");
        line
    }
}

/// Which C library programs find here: that decides which build of a CLI runs.
fn libc() -> &'static str {
    match Forker::here().says("ldd", &["--version"], LDD_WITHIN) {
        Some(text) if text.windows(4).any(|part| part == b"musl") => "musl",
        _ => "glibc",
    }
}
