//! Figures about a whole root.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::names::{Flag, file};
use super::query::name_of;
use super::{Index, IndexedFile, Totals, binary};
use crate::beneath::Root;

/// Endings that are told; the rarest of more are left out.
const EXTENSIONS_MAX: usize = 500;
/// Endings that are counted: who makes up more names than this gets no figures for the rest.
const COUNTED_MAX: usize = 50_000;
/// Largest files that are told.
const LARGEST_MAX: usize = 20;

/// Figures about a root.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IndexStats {
    /// How much there is.
    pub totals: Totals,
    /// How many files have each ending, most frequent first; the empty one is for files without.
    pub extensions: Vec<(String, u64)>,
    /// The largest files, largest first.
    pub largest: Vec<IndexedFile>,
    /// Files that git has.
    pub tracked: u64,
    /// Files that are no text, as far as was looked.
    pub binary: u64,
    /// Files whose names are those of secrets.
    pub sensitive: u64,
}

impl Index {
    /// Figures; first bytes of files whose names do not say what they are may be read.
    pub fn stats(&self, root: &Root) -> IndexStats {
        self.sniff_all(root);
        let names = self.read();
        let mut stats = IndexStats { totals: names.totals(), ..IndexStats::default() };
        let (mut extensions, mut largest) = (HashMap::<String, u64>::new(), BinaryHeap::new());
        for (path, known) in names.iter().filter(|(_, known)| !known.is_folder()) {
            let ending = binary::extension(name_of(path)).unwrap_or_default();
            if let Some(count) = extensions.get_mut(&ending) {
                *count += 1;
            } else if extensions.len() < COUNTED_MAX {
                extensions.insert(ending, 1);
            }
            largest.push((Reverse(known.size), path));
            if largest.len() > LARGEST_MAX {
                largest.pop();
            }
            stats.tracked += u64::from(known.has(Flag::Tracked));
            stats.binary += u64::from(known.has(Flag::Binary));
            stats.sensitive += u64::from(known.has(Flag::Sensitive));
        }
        let known = |path| names.from(path).next().map(|(path, known)| file(path, known, None));
        stats.largest = largest.into_sorted_vec().into_iter().filter_map(|(_, path)| known(path)).collect();
        stats.extensions = extensions.into_iter().collect();
        stats.extensions.sort_by(|one, two| two.1.cmp(&one.1).then_with(|| one.0.cmp(&two.0)));
        stats.extensions.truncate(EXTENSIONS_MAX);
        stats
    }
}
