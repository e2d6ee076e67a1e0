//! Keeps the folder of versions from growing for ever.

use std::fs;
use std::path::PathBuf;
use std::time::SystemTime;

use super::stock::Stock;

/// Removes all but the `keep` files changed last; nothing when `keep` is not positive. The version that was asked for
/// stays, however old, and counts.
pub(super) fn prune(stock: &Stock, keep: i64) {
    let Ok(keep) = usize::try_from(keep) else { return };
    let Ok(entries) = fs::read_dir(stock.dir()) else { return };
    if keep == 0 {
        return;
    }
    let mut files: Vec<(bool, SystemTime, PathBuf)> = entries
        .flatten()
        .filter_map(|entry| {
            let about = entry.metadata().ok().filter(fs::Metadata::is_file)?;
            let wanted = Some(entry.file_name().as_os_str()) == stock.path().file_name();
            Some((wanted, about.modified().ok()?, entry.path()))
        })
        .collect();
    files.sort_by(|a, b| (b.0, b.1).cmp(&(a.0, a.1)).then_with(|| a.2.cmp(&b.2)));
    for (_, _, path) in files.into_iter().skip(keep) {
        let _ = fs::remove_file(path);
    }
}
