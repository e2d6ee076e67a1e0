//! A blocking server that takes frames of a WebSocket on a port and answers each with a frame of the size that the product's
//! answer has: the mask is taken off, nothing is parsed, there is no handshake. The unix socket only tells the port.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;

use anyhow::Result;

use crate::args::Args;

/// Of a client's frame with a payload below 126 bytes: two bytes and the mask.
pub(crate) const HEAD: usize = 6;

pub(crate) fn run(socket: &Path, mut args: Args) -> Result<()> {
    let request: usize = args.required("--request")?;
    let answer: usize = args.required("--answer")?;
    args.finish()?;
    let port = TcpListener::bind("127.0.0.1:0")?;
    let told = super::listen(socket)?;
    let (mut client, _) = told.accept()?;
    writeln!(client, "{}", port.local_addr()?.port())?;
    let answer = vec![b'x'; answer];
    let (mut buffer, mut answers) = (vec![0; 64 << 10], Vec::new());
    loop {
        let (mut stream, _) = port.accept()?;
        stream.set_nodelay(true)?;
        let mut held = 0;
        while let Some(room) = buffer.get_mut(held..) {
            let n = stream.read(room)?;
            if n == 0 {
                break;
            }
            held += n;
            answers.clear();
            let whole = held / request * request;
            for frame in buffer.get_mut(..whole).unwrap_or_default().chunks_exact_mut(request) {
                let (head, payload) = frame.split_at_mut(HEAD);
                let mask = head.last_chunk::<4>().copied().unwrap_or_default();
                for (byte, mask) in payload.iter_mut().zip(mask.iter().cycle()) {
                    *byte ^= mask;
                }
                answers.extend_from_slice(&answer);
            }
            buffer.copy_within(whole..held, 0);
            held -= whole;
            stream.write_all(&answers)?;
        }
    }
}
