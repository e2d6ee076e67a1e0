//! A daemon that stops exactly between two steps, and is killed there.

use std::path::PathBuf;

use super::{Home, kill, wait_for};

/// A daemon that stops at whichever hook is set.
pub(crate) struct Hooked {
    pub(crate) home: Home,
}

impl Hooked {
    pub(crate) fn up() -> Self {
        let home = Home::new();
        std::fs::create_dir(home.path("hooks")).unwrap();
        let up = home.command(&["up"]).env("OSTLER_HOOKS", home.path("hooks")).output().unwrap();
        assert!(up.status.success(), "{up:?}");
        Self { home }
    }

    fn fifo(&self, hook: &str) -> PathBuf {
        self.home.path("hooks").join(hook)
    }

    pub(crate) fn set(&self, hook: &str) {
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, self.fifo(hook), rustix::fs::FileType::Fifo, mode, 0).unwrap();
    }

    /// Waits until a daemon stands at the hook.
    pub(crate) fn wait_at(&self, hook: &str) -> u32 {
        let hit = self.fifo(&format!("{hook}.hit"));
        let mut pid = 0;
        wait_for(&format!("a daemon at {hook}"), || {
            let text = std::fs::read_to_string(&hit).unwrap_or_default();
            pid = text.lines().next().and_then(|line| line.trim().parse().ok()).unwrap_or(0);
            pid != 0
        });
        pid
    }

    /// Waits until a daemon stands at the hook, kills it there, and waits until its successor answers.
    pub(crate) fn kill_at(&self, hook: &str) {
        let pid = self.wait_at(hook);
        std::fs::remove_file(self.fifo(hook)).unwrap();
        kill(pid, 9);
        wait_for("the next daemon", || {
            let said = self.home.run(&["status", "--json"]);
            said.code == 0 && !said.out.contains(&format!("\"pid\":{pid},"))
        });
    }
}
