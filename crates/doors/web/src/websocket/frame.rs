//! The frames of a WebSocket, RFC 6455, section 5: the bytes around what is said. Pure.

/// The most that a control frame carries.
const CONTROL_MAX: usize = 125;
/// These lengths say that the length follows, in so many bytes.
const TWO_BYTES: u8 = 126;
const EIGHT_BYTES: u8 = 127;
const FINAL: u8 = 0x80;
const MASKED: u8 = 0x80;
const RESERVED: u8 = 0x70;
const COMPRESSED: u8 = 0x40;

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opcode {
    Continue = 0,
    Text = 1,
    Binary = 2,
    Close = 8,
    Ping = 9,
    Pong = 10,
}

impl Opcode {
    fn is_control(self) -> bool {
        self as u8 >= Self::Close as u8
    }
}

/// What stands before the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) is_final: bool,
    /// The message that begins with it is.
    pub(super) is_compressed: bool,
    pub(super) opcode: Opcode,
    pub(super) mask: [u8; 4],
    /// Of the payload.
    pub(super) length: usize,
    /// Of the head itself.
    pub(super) size: usize,
}

/// Why a connection ends early; what each is called is in section 7.4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Violation {
    #[error("not as the protocol says")]
    Protocol = 1002,
    #[error("only text is understood")]
    NotText = 1003,
    #[error("the text is not UTF-8")]
    NotUtf8 = 1007,
    #[error("the message is too long")]
    TooLong = 1009,
}

/// The head of a client's frame with at most `max` bytes; nothing while it is not whole. Compressed ones only where that was
/// agreed on.
pub(super) fn read_head(bytes: &[u8], max: usize, deflate: bool) -> Result<Option<Head>, Violation> {
    let [first, second, rest @ ..] = bytes else { return Ok(None) };
    let opcode = match first & 0xf {
        0 => Opcode::Continue,
        1 => Opcode::Text,
        2 => Opcode::Binary,
        8 => Opcode::Close,
        9 => Opcode::Ping,
        10 => Opcode::Pong,
        _ => return Err(Violation::Protocol),
    };
    let is_final = first & FINAL != 0;
    let short = second & !MASKED;
    // Clients mask what they send; what is reserved is for extensions.
    let is_compressed = deflate && opcode == Opcode::Text && first & COMPRESSED != 0;
    let reserved = first & RESERVED & if is_compressed { !COMPRESSED } else { RESERVED };
    let is_odd = reserved != 0 || second & MASKED == 0;
    if is_odd || (opcode.is_control() && (!is_final || usize::from(short) > CONTROL_MAX)) {
        return Err(Violation::Protocol);
    }
    let (length, rest, extra) = match (short, rest) {
        (TWO_BYTES, [a, b, rest @ ..]) => (u64::from(u16::from_be_bytes([*a, *b])), rest, 2),
        (EIGHT_BYTES, [a, b, c, d, e, f, g, h, rest @ ..]) => {
            (u64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h]), rest, 8)
        }
        (TWO_BYTES | EIGHT_BYTES, _) => return Ok(None),
        (short, rest) => (u64::from(short), rest, 0),
    };
    let length = usize::try_from(length).ok().filter(|length| *length <= max).ok_or(Violation::TooLong)?;
    let [a, b, c, d, ..] = rest else { return Ok(None) };
    Ok(Some(Head { is_final, is_compressed, opcode, mask: [*a, *b, *c, *d], length, size: 2 + extra + 4 }))
}

/// Adds a whole frame of ours; servers do not mask.
pub(super) fn push(opcode: Opcode, payload: &[u8], out: &mut Vec<u8>) {
    push_with(FINAL | opcode as u8, payload, out);
}

/// Adds a text that was compressed.
pub(super) fn push_compressed(payload: &[u8], out: &mut Vec<u8>) {
    push_with(FINAL | COMPRESSED | Opcode::Text as u8, payload, out);
}

fn push_with(first: u8, payload: &[u8], out: &mut Vec<u8>) {
    out.push(first);
    match (u8::try_from(payload.len()), u16::try_from(payload.len())) {
        (Ok(short), _) if usize::from(short) <= CONTROL_MAX => out.push(short),
        (_, Ok(length)) => {
            out.push(TWO_BYTES);
            out.extend_from_slice(&length.to_be_bytes());
        }
        _ => {
            out.push(EIGHT_BYTES);
            out.extend_from_slice(&(payload.len() as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(payload);
}

/// Takes the mask off.
pub(super) fn unmask(mask: [u8; 4], payload: &mut [u8]) {
    for piece in payload.chunks_mut(mask.len()) {
        for (byte, mask) in piece.iter_mut().zip(mask) {
            *byte ^= mask;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: usize = 1 << 20;

    #[test]
    fn a_head_is_read_when_it_is_whole_and_not_before() {
        for (length, form) in
            [(5usize, vec![0x85]), (300, vec![0xfe, 1, 44]), (70_000, vec![0xff, 0, 0, 0, 0, 0, 1, 17, 112])]
        {
            let bytes = [vec![0x81], form, vec![1, 2, 3, 4]].concat();
            for short in 0..bytes.len() {
                assert_eq!(read_head(&bytes[..short], MAX, false), Ok(None), "{length}: {short}");
            }
            let head = Head {
                is_final: true,
                is_compressed: false,
                opcode: Opcode::Text,
                mask: [1, 2, 3, 4],
                length,
                size: bytes.len(),
            };
            assert_eq!(read_head(&bytes, MAX, false), Ok(Some(head)));
        }
    }

    #[test]
    fn what_the_protocol_does_not_allow_is_refused_at_its_first_bytes() {
        for (bytes, why) in [
            ([0x81, 0x05], "not masked"),
            ([0xc1, 0x85], "a reserved bit"),
            ([0x83, 0x85], "an opcode that means nothing"),
            ([0x09, 0x85], "a control frame in pieces"),
            ([0x89, 0xfe], "a long control frame"),
        ] {
            assert_eq!(read_head(&bytes, MAX, false), Err(Violation::Protocol), "{why}");
        }
        assert_eq!(
            read_head(&[0x81, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], MAX, false),
            Err(Violation::TooLong)
        );
        assert_eq!(read_head(&[0x81, 0x86], 5, false), Err(Violation::TooLong));
    }

    #[test]
    fn a_compressed_text_is_taken_where_that_was_agreed_on_and_no_other_frame() {
        assert!(read_head(&[0xc1, 0x80, 1, 2, 3, 4], MAX, true).unwrap().unwrap().is_compressed);
        for first in [0xe1, 0xc0, 0xc9, 0xd1] {
            assert_eq!(read_head(&[first, 0x80, 1, 2, 3, 4], MAX, true), Err(Violation::Protocol), "{first:x}");
        }
    }

    #[test]
    fn a_frame_of_ours_says_its_length_in_the_shortest_way() {
        for (length, head) in [(0usize, 2), (125, 2), (126, 4), (65_535, 4), (65_536, 10)] {
            let mut out = Vec::new();
            push(Opcode::Text, &vec![b'x'; length], &mut out);
            assert_eq!((out.len(), out[0]), (head + length, 0x81));
        }
    }

    #[test]
    fn a_mask_goes_round() {
        let mut bytes = *b"hello";
        unmask([1, 2, 3, 4], &mut bytes);
        unmask([1, 2, 3, 4], &mut bytes);
        assert_eq!(&bytes, b"hello");
        let mut bytes = [0; 6];
        unmask([1, 2, 3, 4], &mut bytes);
        assert_eq!(bytes, [1, 2, 3, 4, 1, 2]);
    }
}
