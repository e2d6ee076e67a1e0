//! Figures about this program, as they are: its age, its memory, its compiler.
//!
//! Resident memory is the kernel's figure. The heap is what the allocator says of itself: what it has handed out, and what
//! it holds for that.

use ostler_engine::heap;

/// The compiler that built this.
pub(crate) const RUSTC: &str = env!("OSTLER_RUSTC");
const MIB: u64 = 1 << 20;

/// Memory in MiB, rounded up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Memory {
    pub(crate) rss: u64,
    pub(crate) heap_used: u64,
    pub(crate) heap_total: u64,
}

impl Memory {
    pub(crate) fn now() -> Self {
        let rss = resident().unwrap_or_default();
        let (used, total) = heap().unwrap_or_default();
        Self { rss: rss.div_ceil(MIB), heap_used: used.div_ceil(MIB), heap_total: total.div_ceil(MIB) }
    }
}

fn resident() -> Option<u64> {
    let pages = std::fs::read_to_string("/proc/self/statm").ok()?.split_whitespace().nth(1)?.parse::<u64>().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_are_those_of_this_program() {
        let before = Memory::now();
        assert!(before.rss > 0 && before.heap_used > 0 && before.heap_total >= before.heap_used, "{before:?}");
        let much = std::hint::black_box(vec![1u8; 64 << 20]);
        let after = Memory::now();
        assert!(
            after.rss >= before.rss + 32 && after.heap_used >= before.heap_used + 32,
            "{before:?} {after:?} {}",
            much.len()
        );
    }

    #[test]
    fn the_compiler_is_known() {
        assert!(RUSTC.split('.').count() >= 3 && RUSTC != "0.0.0", "{RUSTC}");
    }
}
