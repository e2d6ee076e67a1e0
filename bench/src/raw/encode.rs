//! One stream frame, written by hand around base64 text: the least that reaches a client.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::PAD;
use base64::engine::simd::Simd;

/// The frame size that clients know: at most one read of 32 KiB.
pub(crate) const FRAME: usize = 32 << 10;

pub(crate) struct Encoder {
    engine: Simd,
    line: String,
}

impl Encoder {
    pub(crate) fn new() -> Self {
        Self { engine: Simd::standard(PAD), line: String::with_capacity(FRAME * 2) }
    }

    pub(crate) fn frame(&mut self, seq: u64, data: &[u8]) -> &[u8] {
        self.line.clear();
        // Writing to a String cannot fail.
        let _ = write!(self.line, r#"{{"type":"stream","processId":"raw","stream":"stdout","seq":{seq},"data":""#);
        self.engine.encode_string(data, &mut self.line);
        self.line.push_str("\"}\n");
        self.line.as_bytes()
    }
}

pub(crate) fn exit(seq: u64) -> String {
    format!("{{\"type\":\"stream\",\"processId\":\"raw\",\"stream\":\"exit\",\"seq\":{seq},\"exitCode\":0}}\n")
}
