//! Who has what in front of them: whoever looks at something need not be told of it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::approval::clock;

/// What was looked at lately and is not any more: as many as people have windows, many times over.
const LEFT_MAX: usize = 1024;

/// What is looked at, by the id of a session, process or request. A cheap handle.
#[derive(Clone, Default)]
pub struct Onlookers {
    at: Arc<Mutex<HashMap<String, Looked>>>,
}

#[derive(Debug, Default)]
struct Looked {
    present: usize,
    /// When the last one left, in milliseconds since 1970.
    left_ms: u64,
}

/// Somebody looks; until this is dropped.
pub struct Looking {
    onlookers: Onlookers,
    id: String,
}

impl Onlookers {
    fn at(&self) -> MutexGuard<'_, HashMap<String, Looked>> {
        self.at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody looks at this from now on.
    pub fn look(&self, id: &str) -> Looking {
        self.at().entry(id.to_owned()).or_default().present += 1;
        Looking { onlookers: self.clone(), id: id.to_owned() }
    }

    /// When somebody last looked, in milliseconds since 1970: now, while they do.
    pub(super) fn looked(&self, id: &str, now_ms: u64) -> Option<u64> {
        let at = self.at();
        let looked = at.get(id)?;
        Some(if looked.present > 0 { now_ms } else { looked.left_ms })
    }
}

impl Drop for Looking {
    fn drop(&mut self) {
        let mut at = self.onlookers.at();
        if let Some(looked) = at.get_mut(&self.id) {
            looked.present = looked.present.saturating_sub(1);
            looked.left_ms = clock::wall_ms();
        }
        if at.len() > LEFT_MAX {
            let oldest = at.iter().filter(|(_, looked)| looked.present == 0).min_by_key(|(_, looked)| looked.left_ms);
            if let Some(id) = oldest.map(|(id, _)| id.clone()) {
                at.remove(&id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_looks_is_there_until_they_leave() {
        let onlookers = Onlookers::default();
        assert_eq!(onlookers.looked("s1", 7), None);
        let (one, two) = (onlookers.look("s1"), onlookers.look("s1"));
        drop(one);
        assert_eq!(onlookers.looked("s1", 7), Some(7));
        drop(two);
        let left = onlookers.looked("s1", 7).unwrap();
        assert!(left > 7 && left <= clock::wall_ms());
    }

    #[test]
    fn what_was_left_is_forgotten_when_there_is_too_much_of_it() {
        let onlookers = Onlookers::default();
        let _stays = onlookers.look("stays");
        for number in 0..LEFT_MAX + 10 {
            drop(onlookers.look(&number.to_string()));
        }
        assert_eq!(onlookers.at().len(), LEFT_MAX);
        assert_eq!(onlookers.looked("stays", 7), Some(7));
    }
}
