use super::*;
use crate::code::Alphabet;
use crate::rng::Rng;

const CODES: [Alphabet; 2] = [Alphabet::Binary, Alphabet::Text];

fn stream(alphabet: Alphabet, length: usize) -> (Code, Vec<u8>) {
    let code = Code::new(0x0571_e400, alphabet);
    let mut bytes = vec![0; length];
    code.fill(0, &mut bytes);
    (code, bytes)
}

/// Feeds `received` in random pieces, as frames of any size would arrive.
fn judge(code: Code, received: &[u8], written: usize, seed: u64) -> Tally {
    let mut rng = Rng::new(seed);
    let mut verifier = Verifier::new(code);
    let mut rest = received;
    while !rest.is_empty() {
        let most = if rng.percent(50) { 3 } else { 40_000 };
        let (piece, tail) = rest.split_at(rng.size(1, most).min(rest.len()));
        verifier.feed(piece);
        rest = tail;
    }
    verifier.finish(written as u64)
}

#[test]
fn an_intact_stream_is_clean() {
    for alphabet in CODES {
        let (code, bytes) = stream(alphabet, 300_000);
        for seed in 0..20 {
            assert_eq!(judge(code, &bytes, bytes.len(), seed), Tally::default());
        }
    }
}

#[test]
fn every_lost_range_is_counted_exactly() {
    for alphabet in CODES {
        let (code, bytes) = stream(alphabet, 200_000);
        for (start, length) in [(0, 1), (0, 70_000), (1, 1), (4095, 2), (65_536, 32_768), (100_000, 1), (199_900, 60)] {
            let received = [&bytes[..start], &bytes[start + length..]].concat();
            for seed in 0..5 {
                let tally = judge(code, &received, bytes.len(), seed);
                assert_eq!(tally, Tally { lost: length as u64, ..Tally::default() }, "{start}+{length}");
            }
        }
    }
}

#[test]
fn a_lost_tail_is_counted_exactly() {
    for alphabet in CODES {
        let (code, bytes) = stream(alphabet, 10_000);
        for cut in [1, 23, 24, 4096, 10_000] {
            let tally = judge(code, &bytes[..bytes.len() - cut], bytes.len(), 1);
            assert_eq!(tally, Tally { lost: cut as u64, ..Tally::default() });
        }
    }
}

#[test]
fn a_loss_just_before_the_end_is_never_clean() {
    let (code, bytes) = stream(Alphabet::Binary, 10_000);
    for tail in 1..30 {
        let received = [&bytes[..9_000], &bytes[10_000 - tail..]].concat();
        assert!(judge(code, &received, bytes.len(), 1).lost >= (1000 - tail) as u64, "{tail}");
    }
}

#[test]
fn every_repeated_range_is_counted_exactly() {
    for alphabet in CODES {
        let (code, bytes) = stream(alphabet, 200_000);
        for (start, length) in [(0, 30), (0, 40_000), (4096, 4096), (65_536, 32_768), (150_000, 49_000)] {
            let received = [&bytes[..start + length], &bytes[start..]].concat();
            for seed in 0..2 {
                let tally = judge(code, &received, bytes.len(), seed);
                assert_eq!(tally, Tally { duplicated: length as u64, ..Tally::default() }, "{start}+{length}");
            }
        }
    }
}

#[test]
fn one_repeated_byte_is_found() {
    for alphabet in CODES {
        let (code, bytes) = stream(alphabet, 50_000);
        for at in [0, 1, 4_095, 25_000, 49_900, 49_998, 49_999] {
            let received = [&bytes[..=at], &bytes[at..]].concat();
            let tally = judge(code, &received, bytes.len(), 3);
            assert!(!tally.is_clean(), "byte {at} came twice");
            // A tail of a few bytes cannot be placed, so there the kind is not told.
            if at < 49_950 {
                assert_eq!((tally.lost, tally.duplicated + tally.foreign), (0, 1), "byte {at}");
            }
        }
    }
}

#[test]
fn swapped_ranges_are_reordered_and_not_lost() {
    for alphabet in CODES {
        let (code, bytes) = stream(alphabet, 100_000);
        let received = [&bytes[..10_000], &bytes[30_000..60_000], &bytes[10_000..30_000], &bytes[60_000..]].concat();
        for seed in 0..5 {
            let tally = judge(code, &received, bytes.len(), seed);
            assert_eq!(tally.lost, 0);
            // A chance match at a seam may shift a border by a byte or two.
            assert!(tally.reordered.abs_diff(20_000) < 8, "{tally:?}");
            assert!(tally.duplicated < 8, "{tally:?}");
        }
    }
}

#[test]
fn a_changed_byte_is_never_clean() {
    for alphabet in CODES {
        let (code, bytes) = stream(alphabet, 50_000);
        for at in [0, 1, 4_095, 25_000, 49_980, 49_999] {
            let mut received = bytes.clone();
            received[at] ^= 0x40;
            assert!(!judge(code, &received, bytes.len(), 4).is_clean(), "byte {at} was changed");
        }
    }
}

#[test]
fn bytes_beyond_what_was_written_are_foreign() {
    let (code, bytes) = stream(Alphabet::Binary, 1_000);
    assert_eq!(judge(code, &bytes, 990, 5), Tally { foreign: 10, ..Tally::default() });
}

#[test]
fn noise_ends_the_search_soon_and_is_foreign() {
    let (code, bytes) = stream(Alphabet::Binary, 1_000);
    let noise = vec![0; 100_000];
    let received = [&bytes[..500], &noise[..]].concat();
    let tally = judge(code, &received, bytes.len(), 6);
    assert_eq!(tally.lost, 500);
    assert!(tally.foreign > 99_000, "{tally:?}");
}
