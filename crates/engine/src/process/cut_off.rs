//! Children that outlived both their keeper and their daemon. Nobody holds their pipes any more: what they said since is
//! lost, nothing can be said to them, and how they end is not always told. But they live, and are listed, signalled and
//! ended like any other.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ostler_journal::{Journal, PumpIo};
use ostler_keeper::{Adopted, ChildIo, Import, Orphan};

use super::adopt::FoundOnDisk;
use super::end::KILL;
use super::{About, Process, Registry};

impl Registry {
    /// Looks for children that the keeper does not hold (their own one is gone), and takes up those that live: of the
    /// `found`, whose description says how the kernel knows them, and of the `bare` folders, whose spawn nobody heard the
    /// end of.
    pub(super) fn find_cut_off(
        self: &Arc<Self>,
        held: &HashMap<String, Adopted>,
        found: &mut Vec<FoundOnDisk>,
        bare: &mut Vec<PathBuf>,
    ) {
        let unheard = |folder: &PathBuf| Some(folder.file_name()?.to_str()?.to_owned());
        let unheard = bare.iter().filter_map(unheard).map(|key| Orphan { key, ..Orphan::default() });
        let described = found.iter().map(|found| &found.about).filter(|about| about.may_live()).map(About::orphan);
        let orphans: Vec<Orphan> = described.chain(unheard).filter(|orphan| !held.contains_key(&orphan.key)).collect();
        let alive = ostler_keeper::find(&orphans);
        found.extend(bare.extract_if(.., |folder| is_among(&alive, folder)).filter_map(|folder| of_bare(&folder)));
        for (id, (pid, start_ticks)) in alive {
            let Some(FoundOnDisk { about, end, .. }) = found.iter_mut().find(|found| found.about.id == id) else {
                continue;
            };
            about.runs_as(pid, start_ticks);
            let (about, end) = (about.clone(), *end);
            let taken = self.roll.describe(&id, &about.for_roll()).and_then(|()| {
                let journal = match about.private {
                    true => None,
                    false => {
                        let options = self.journal_options(&about);
                        let at = self.dir_of(&id);
                        Some(Journal::open_on(&at, options, &self.roll, end).map_err(io::Error::other)?)
                    }
                };
                let (about, journal) = self.in_public(about, journal)?;
                // Somebody saw its end: whoever has its number now is another.
                let lives = journal.bounds().exit.is_none();
                lives.then(|| self.take_up_cut_off(about, journal)).transpose()
            });
            match taken {
                Ok(None) => {}
                Ok(Some(_)) => tracing::warn!("{id} (pid {pid}) lives on without its pipes"),
                Err(error) => tracing::error!("{id} (pid {pid}) lives on, but is not taken up: {error}"),
            }
        }
    }

    /// One that was private has nothing more to hide once its pipes are gone, and what was said of it went with them: a journal
    /// on the disk holds that, and how it ends. Any other stays as it is.
    pub(super) fn in_public(
        &self,
        mut about: About,
        journal: Option<Arc<Journal>>,
    ) -> io::Result<(About, Arc<Journal>)> {
        if let (false, Some(journal)) = (about.private, journal) {
            return Ok((about, journal));
        }
        about = About::decode(&about.for_roll()).map_err(io::Error::other)?;
        about.private = false;
        let journal = Journal::later(&self.dir_of(&about.id), self.journal_options(&about), &self.roll, None);
        journal.to_be_described(about.encode());
        Ok((about, journal))
    }

    /// Takes up a child that lives without its pipes.
    pub(super) fn take_up_cut_off(self: &Arc<Self>, about: About, journal: Arc<Journal>) -> io::Result<Process> {
        journal.record_lost()?;
        let orphan = about.orphan();
        let hosted = self.pumps.host(Arc::clone(&journal), PumpIo::default(), true);
        let import = Import {
            key: about.id.clone(),
            pid: about.pid,
            start_ticks: orphan.start_ticks,
            meta: about.for_keeper(),
            io: ChildIo::default(),
            exit: None,
            group: ostler_keeper::group_of(about.pid),
        };
        let id = about.id.clone();
        let process = self.enter(about, orphan.start_ticks, journal, Some(hosted));
        self.keeper().import(vec![import], move |result| {
            if let Err(error) = result {
                tracing::error!("{id} is not watched: {error}");
            }
        });
        if process.about().session.is_some() {
            // An agent that can neither hear nor be heard.
            process.kill(KILL);
        }
        Ok(process)
    }
}

fn is_among<T>(alive: &HashMap<String, T>, folder: &Path) -> bool {
    folder.file_name().and_then(|id| id.to_str()).is_some_and(|id| alive.contains_key(id))
}

/// The description of a child whose spawn nobody heard the end of; all that is known is that it lives.
fn of_bare(folder: &Path) -> Option<FoundOnDisk> {
    let since = folder.metadata().and_then(|folder| folder.modified()).unwrap_or(std::time::SystemTime::UNIX_EPOCH);
    let about = About::lost(folder.file_name()?.to_str()?.to_owned(), since);
    Some(FoundOnDisk { about, end: None, on_roll: false })
}
