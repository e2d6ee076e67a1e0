//! Files by name: by letters that fit, by a part of the path, by its beginning, or by its ending; and filters on top of each.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::names::{Flag, Known, file};
use super::{Index, IndexedFile, binary, fuzzy::Fuzzy};
use crate::beneath::Root;

/// Files of one answer.
pub const QUERY_MAX: usize = 1000;
/// How far into a ranking one may go: what is kept while the best are looked for.
const DEEP_MAX: usize = 100_000;
/// First bytes that are looked at for one question; files beyond are taken for text until somebody asks again.
const SNIFF_MAX: usize = 10_000;

/// How a name is looked for. Small letters fit capitals, but for a fuzzy query that has capitals itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum QueryMode {
    /// Letters in their order, best first.
    #[default]
    Fuzzy,
    /// A part of the path.
    Exact,
    /// The beginning of the name or of the path.
    Prefix,
    /// The ending, with or without its dot.
    Extension,
}

/// Which files are wanted at all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filters {
    /// Only with one of these endings, without dots; all when empty.
    pub extensions: Vec<String>,
    /// At least so many bytes.
    pub min_size: Option<u64>,
    /// At most so many bytes.
    pub max_size: Option<u64>,
    /// Only what git has, or only what it has not.
    pub tracked: Option<bool>,
    /// Only what is no text, or only text.
    pub binary: Option<bool>,
    /// Only names under which secrets are kept, or only others.
    pub sensitive: Option<bool>,
}

/// A question for names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NameQuery {
    /// What is looked for; everything when empty.
    pub text: String,
    /// How.
    pub mode: QueryMode,
    /// Among which files.
    pub filters: Filters,
    /// At most so many, up to [`QUERY_MAX`].
    pub limit: usize,
    /// Leave out so many of the best.
    pub offset: usize,
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FoundNames {
    /// Best first; what fits equally well, shortest first.
    pub files: Vec<IndexedFile>,
    /// How many fit in all.
    pub total: u64,
}

impl Filters {
    /// Whether a file passes; what is not known of its content counts as text.
    pub(super) fn pass(&self, path: &[u8], known: Known) -> bool {
        let is = |wanted: Option<bool>, flag| wanted.is_none_or(|wanted| wanted == known.has(flag));
        self.min_size.is_none_or(|least| known.size >= least)
            && self.max_size.is_none_or(|most| known.size <= most)
            && is(self.tracked, Flag::Tracked)
            && is(self.sensitive, Flag::Sensitive)
            && is(self.binary, Flag::Binary)
            && (self.extensions.is_empty() || self.has_extension(path))
    }

    fn has_extension(&self, path: &[u8]) -> bool {
        let name = name_of(path);
        let wanted = |ending: &String| ends_with(name, ending);
        self.extensions.iter().any(wanted)
    }

    /// Without what must be read first.
    fn by_name(&self) -> Self {
        Self { binary: None, ..self.clone() }
    }
}

/// Whether a name has this ending, which may have a dot of its own before it or in it.
fn ends_with(name: &[u8], ending: &str) -> bool {
    let ending = ending.trim_start_matches('.').as_bytes();
    let Some(at) = name.len().checked_sub(ending.len() + 1).filter(|at| *at > 0) else { return false };
    let (_, tail) = name.split_at(at);
    tail.split_first().is_some_and(|(dot, tail)| *dot == b'.' && tail.eq_ignore_ascii_case(ending))
}

pub(super) fn name_of(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}

/// A question, ready to be held against many paths.
enum Matching {
    All,
    Fuzzy(Box<Fuzzy>),
    Exact(Vec<u8>),
    Prefix(Vec<u8>),
    Extension(String),
}

impl Matching {
    fn of(query: &NameQuery) -> Self {
        match query.mode {
            _ if query.text.is_empty() => Self::All,
            QueryMode::Fuzzy => Self::Fuzzy(Box::new(Fuzzy::new(&query.text))),
            QueryMode::Exact => Self::Exact(query.text.to_lowercase().into_bytes()),
            QueryMode::Prefix => Self::Prefix(query.text.to_lowercase().into_bytes()),
            QueryMode::Extension => Self::Extension(query.text.clone()),
        }
    }

    fn score(&mut self, path: &[u8], known: Known) -> Option<u32> {
        let lower = |path: &[u8]| {
            let ascii = path.is_ascii();
            if ascii { path.to_ascii_lowercase() } else { String::from_utf8_lossy(path).to_lowercase().into_bytes() }
        };
        match self {
            Self::All => Some(0),
            Self::Fuzzy(fuzzy) => fuzzy.score(path, known.letters),
            Self::Exact(part) => memchr::memmem::find(&lower(path), part).map(|_| 0),
            Self::Prefix(begin) => {
                let path = lower(path);
                (path.starts_with(begin) || name_of(&path).starts_with(begin)).then_some(0)
            }
            Self::Extension(ending) => ends_with(name_of(path), ending).then_some(0),
        }
    }
}

/// Best first: score, then the shorter path, then its bytes.
type Rank<'a> = (Reverse<u32>, usize, &'a [u8]);

impl Index {
    /// The files that a question means. Where it asks for text or not, first bytes of files whose names say neither are read.
    pub fn search(&self, root: &Root, query: &NameQuery) -> FoundNames {
        if query.filters.binary.is_some() {
            self.sniff(root, query);
        }
        let names = self.read();
        let (mut matching, mut best, mut total) = (Matching::of(query), BinaryHeap::<(Rank<'_>, u64)>::new(), 0_u64);
        let limit = query.limit.clamp(1, QUERY_MAX);
        let keep = query.offset.min(DEEP_MAX) + limit;
        let mut known_of = Vec::new();
        for (path, known) in names.iter() {
            if known.is_folder() || !query.filters.pass(path, known) {
                continue;
            }
            let Some(score) = matching.score(path, known) else { continue };
            total += 1;
            let rank = (Reverse(score), path.len(), path);
            if best.len() < keep {
                best.push((rank, known_of.len() as u64));
                known_of.push(known);
            } else if best.peek().is_some_and(|(worst, _)| rank < *worst)
                && let Some((_, slot)) = best.pop()
                && let Some(place) = known_of.get_mut(usize::try_from(slot).unwrap_or(usize::MAX))
            {
                *place = known;
                best.push((rank, slot));
            }
        }
        let scored = query.mode == QueryMode::Fuzzy && !query.text.is_empty();
        let ranked = best.into_sorted_vec().into_iter().skip(query.offset).take(limit);
        let files = ranked.filter_map(|((Reverse(score), _, path), slot)| {
            let known = known_of.get(usize::try_from(slot).unwrap_or(usize::MAX))?;
            Some(file(path, *known, scored.then_some(score)))
        });
        FoundNames { files: files.collect(), total }
    }

    /// Looks at the first bytes of what fits and is not known yet.
    fn sniff(&self, root: &Root, query: &NameQuery) {
        let unknown: Vec<(Box<[u8]>, Known)> = {
            let (names, mut matching, filters) = (self.read(), Matching::of(query), query.filters.by_name());
            let fits = |(path, known): &(&[u8], Known)| {
                !known.has(Flag::Sniffed)
                    && !known.is_folder()
                    && filters.pass(path, *known)
                    && matching.score(path, *known).is_some()
            };
            names.iter().filter(fits).take(SNIFF_MAX).map(|(path, known)| (path.into(), known)).collect()
        };
        self.look_at(root, unknown);
    }

    /// Looks at the first bytes of all that are not known yet, as far as there is time for one question.
    pub(super) fn sniff_all(&self, root: &Root) {
        let unknown = {
            let names = self.read();
            let unknown = names.iter().filter(|(_, known)| !known.has(Flag::Sniffed) && !known.is_folder());
            unknown.take(SNIFF_MAX).map(|(path, known)| (path.into(), known)).collect()
        };
        self.look_at(root, unknown);
    }

    fn look_at(&self, root: &Root, unknown: Vec<(Box<[u8]>, Known)>) {
        // Without the lock: a disk may be slow.
        let seen: Vec<_> = unknown
            .into_iter()
            .map(|(path, known)| {
                let is_binary = binary::by_content(root, Path::new(OsStr::from_bytes(&path)));
                (path, known, is_binary)
            })
            .collect();
        let mut names = self.write();
        for (path, known, is_binary) in seen {
            names.set_binary(Path::new(OsStr::from_bytes(&path)), known, is_binary);
        }
    }
}
