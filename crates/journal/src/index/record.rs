//! One record: four words of which the last holds a check. 32 bytes, so that no record ever crosses a page and none is
//! ever torn by a kill. Its number goes into the check, so a record at the wrong place is noticed too.

/// Bytes of a record.
pub(crate) const RECORD: usize = 32;

/// CRC-16/CCITT: every flip of up to three bits and every burst of up to 16 is noticed.
const CRC: [u16; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = (i as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
            bit += 1;
        }
        #[expect(clippy::indexing_slicing, reason = "i < 256, checked when compiled")]
        {
            table[i] = crc;
        }
        i += 1;
    }
    table
};

/// The check of `bytes` standing at position `number` - 1.
pub(crate) fn check(bytes: &[u8], number: u64) -> u16 {
    let mut crc = 0xffff_u16;
    for byte in bytes.iter().chain(&number.to_le_bytes()) {
        let slot = CRC.get(usize::from((crc >> 8) as u8 ^ byte));
        crc = (crc << 8) ^ slot.copied().unwrap_or(0);
    }
    crc
}

/// What an index file is made of. The default stands before the first record.
pub(crate) trait Record: Copy + Default {
    /// The lowest bit of the check in the last word.
    const CHECK_AT: u32;

    /// Its words, the bits of the check left zero.
    fn words(&self) -> [u64; 4];

    /// What these words say; `None` for something that no version ever wrote.
    fn of_words(words: [u64; 4]) -> Option<Self>;

    /// As written at position `number` - 1.
    fn encode(&self, number: u64) -> [u8; RECORD] {
        let [first, second, third, last] = self.words();
        let sum = u64::from(check(&bytes_of([first, second, third, last]), number));
        bytes_of([first, second, third, last | sum << Self::CHECK_AT])
    }

    /// Reads what stands at position `number` - 1, at the beginning of `bytes`; `None` if it was never written there by us.
    fn decode(bytes: &[u8], number: u64) -> Option<Self> {
        let mut words = bytes.chunks_exact(8).filter_map(|chunk| Some(u64::from_le_bytes(*chunk.first_chunk()?)));
        let (first, second, third, last) = (words.next()?, words.next()?, words.next()?, words.next()?);
        let sum = (last >> Self::CHECK_AT) as u16;
        let words = [first, second, third, last & !(u64::from(u16::MAX) << Self::CHECK_AT)];
        if sum != check(&bytes_of(words), number) {
            return None;
        }
        Self::of_words(words)
    }
}

fn bytes_of(words: [u64; 4]) -> [u8; RECORD] {
    let mut bytes = [0; RECORD];
    for (slot, word) in bytes.chunks_exact_mut(8).zip(words) {
        slot.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}
