//! Exits: of our own children by wait, of imported ones by their process descriptors. A pid is
//! forgotten in the same step in which the kernel may give it to somebody else.

use std::rc::Rc;

use ostler_story::Exit;
use rustix::process::{WaitOptions, wait};

use super::Server;
use crate::{procfs, sys};

impl Server {
    /// Reaps whatever there is: children, helpers, the daemon we restarted, and orphans that the
    /// kernel gave us because we are their subreaper.
    pub(super) fn reap(&mut self) {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            let pid = pid.as_raw_nonzero().get().unsigned_abs();
            if let Some(key) = self.children.reaped(pid) {
                // Dead, so its error pipe has said all it will ever say.
                self.look_at_start(&key);
                self.exited(&key, sys::exit_of(status.as_raw()));
                continue;
            }
            for errand in &mut self.errands {
                if errand.pid == Some(pid) {
                    errand.pid = None;
                }
            }
            self.guarded_died(pid);
        }
    }

    /// Looks at an imported child whose descriptor says that it ended.
    pub(super) fn look_at_watched(&mut self, key: &str) {
        let Some((_, child)) = self.children.get(key) else {
            return;
        };
        let Some(watch) = &child.watch else { return };
        // A zombie shows its exit; a reaped one only where the kernel remembers it for us.
        let zombie = procfs::stat(child.pid)
            .ok()
            .filter(|stat| stat.start_ticks == child.start_ticks)
            .and_then(|stat| stat.exit());
        let exit = zombie.or_else(|| sys::pidfd_exit(watch));
        self.children.unwatch(key);
        self.exited(key, exit.unwrap_or(Exit::Unknown));
    }

    fn exited(&mut self, key: &str, exit: Exit) {
        if let Some(child) = self.children.get_mut(key) {
            child.exit = Some(exit);
            child.told = false;
        }
        if let Some((key, _)) = self.children.get(key)
            && let Some(daemon) = &mut self.daemon
        {
            daemon.tell_exit(Rc::clone(key));
        }
        self.forget_void();
    }

    /// Forgets children that did nothing, if there is nobody to be told of them: whoever comes finds that in their folders.
    pub(super) fn forget_void(&mut self) {
        if self.daemon.is_none() {
            let void = self.children.iter().filter(|(_, child)| child.is_void());
            for key in void.map(|(key, _)| Rc::clone(key)).collect::<Vec<_>>() {
                self.forget(&key);
            }
        }
    }
}
