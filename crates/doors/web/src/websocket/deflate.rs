//! Compressed messages, RFC 7692, each by itself: nothing of one message is kept for the next, so a connection costs no window.
//! What a client compressed is bounded by what comes out of it, never by what went in.

use axum::http::{HeaderMap, HeaderValue, header};
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress};

use super::frame::Violation;

/// What every message ends with, and leaves out.
const TAIL: [u8; 4] = [0, 0, 0xff, 0xff];
/// One step of inflating.
const CHUNK: usize = 16 * 1024;
/// What is agreed on: of the parameters that a client may offer, none is needed.
pub(super) const AGREED: HeaderValue =
    HeaderValue::from_static("permessage-deflate; server_no_context_takeover; client_no_context_takeover");

/// Whether the client offers it in a way that we speak: with the largest window for what we send.
pub(super) fn is_offered(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::SEC_WEBSOCKET_EXTENSIONS).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|offer| {
        let mut words = offer.split(';').map(str::trim);
        words.next() == Some("permessage-deflate") && !words.any(|word| word.starts_with("server_max_window_bits"))
    })
}

/// What was compressed, unless that is longer than `max`.
pub(super) fn inflate(data: &[u8], max: usize) -> Result<Vec<u8>, Violation> {
    let mut inflater = Decompress::new(false);
    let mut out = Vec::new();
    for piece in [data, &TAIL] {
        let begun = inflater.total_in();
        loop {
            let taken = usize::try_from(inflater.total_in() - begun).unwrap_or(usize::MAX);
            let rest = piece.get(taken..).unwrap_or_default();
            out.reserve(CHUNK);
            let (before, full) = (out.len(), out.capacity());
            inflater.decompress_vec(rest, &mut out, FlushDecompress::Sync).map_err(|_| Violation::Protocol)?;
            if out.len() > max {
                return Err(Violation::TooLong);
            }
            let is_taken = usize::try_from(inflater.total_in() - begun).unwrap_or(usize::MAX) >= piece.len();
            if is_taken && out.len() < full {
                break;
            }
            if out.len() == before && usize::try_from(inflater.total_in() - begun) == Ok(taken) {
                return Err(Violation::Protocol);
            }
        }
    }
    Ok(out)
}

/// The same text, shorter; nothing where it is not.
pub(super) fn deflate(text: &[u8]) -> Option<Vec<u8>> {
    let mut deflater = Compress::new(Compression::fast(), false);
    // What does not fit is not worth it.
    let mut out = Vec::with_capacity(text.len());
    deflater.compress_vec(text, &mut out, FlushCompress::Sync).ok()?;
    let whole = deflater.total_in() == text.len() as u64 && out.ends_with(&TAIL);
    whole.then(|| {
        out.truncate(out.len() - TAIL.len());
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_compressed_comes_back_and_nothing_of_it_is_kept() {
        for text in ["hello hello hello hello hello ".repeat(3), "x".repeat(100_000), "{\"a\":1}".repeat(5000)] {
            let short = deflate(text.as_bytes()).unwrap();
            assert!(short.len() < text.len());
            assert_eq!(inflate(&short, text.len()).unwrap(), text.as_bytes());
        }
        assert_eq!(deflate(b"x"), None, "not worth it");
        assert_eq!(
            inflate(&[0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00], 10).unwrap(),
            b"Hello",
            "the RFC's own example"
        );
    }

    #[test]
    fn a_bomb_ends_at_its_bound_and_garbage_is_no_message() {
        let bomb = deflate(&vec![0; 16 << 20]).unwrap();
        assert!(bomb.len() < 100_000);
        assert_eq!(inflate(&bomb, 1 << 20), Err(Violation::TooLong));
        assert!(inflate(&[0xff; 64], 1 << 20).is_err());
    }

    #[test]
    fn an_offer_is_taken_as_browsers_make_it() {
        let offered = |value: &'static str| {
            let headers = [(header::SEC_WEBSOCKET_EXTENSIONS, HeaderValue::from_static(value))];
            is_offered(&HeaderMap::from_iter(headers))
        };
        assert!(offered("permessage-deflate; client_max_window_bits"));
        assert!(offered("x-other, permessage-deflate"));
        assert!(
            !offered("permessage-deflate; server_max_window_bits=10")
                && !offered("deflate")
                && !is_offered(&HeaderMap::new())
        );
    }
}
