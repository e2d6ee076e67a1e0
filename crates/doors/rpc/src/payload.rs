//! Base64 both ways, with the widest instructions that the machine has: output is mostly this.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::{GeneralPurposeConfig, Simd};

/// Standard alphabet, padded; bits after the last whole byte are nobody's business.
static STANDARD: LazyLock<Simd> =
    LazyLock::new(|| Simd::standard(GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true)));

/// The text is not padded standard base64.
#[derive(Debug, PartialEq, Eq)]
pub struct NotBase64;

/// Appends `data`, encoded.
pub fn push_base64(data: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + data.len().div_ceil(3) * 4, 0);
    if let Some(room) = out.get_mut(start..) {
        // The room is exactly what padded base64 takes.
        let _ = STANDARD.encode_slice(data, room);
    }
}

/// What `text` stands for. Line breaks inside are passed over, as everybody's decoder does.
pub fn decode_base64(text: &[u8]) -> Result<Vec<u8>, NotBase64> {
    if memchr::memchr2(b'\r', b'\n', text).is_none() {
        return STANDARD.decode(text).map_err(|_| NotBase64);
    }
    let joined: Vec<u8> = text.iter().copied().filter(|byte| !matches!(byte, b'\r' | b'\n')).collect();
    STANDARD.decode(joined).map_err(|_| NotBase64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_comes_back() {
        for length in [0, 1, 2, 3, 31, 32, 33, 32768] {
            let data: Vec<u8> = (0..length).map(|at| (at * 7) as u8).collect();
            let mut text = b"x".to_vec();
            push_base64(&data, &mut text);
            assert_eq!(decode_base64(&text[1..]), Ok(data));
        }
    }

    #[test]
    fn only_padded_standard_base64_is_taken() {
        assert_eq!(decode_base64(b"aGk=\r\n"), Ok(b"hi".to_vec()));
        assert_eq!(decode_base64(b"aGl="), Ok(b"hi".to_vec()));
        for bad in [&b"aGk"[..], b"-_8=", b"aG k=", b"!!!", b"a"] {
            assert_eq!(decode_base64(bad), Err(NotBase64));
        }
    }
}
