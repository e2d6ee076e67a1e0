//! What the demo's agents are told to do, and the text that one of them reads out.

use ostler_api::{Autonomy, SessionStatus};

/// The file that is read out.
pub(super) const FILE: &str = "STORY.md";

/// Its words. The daemon is killed in the middle of them.
pub(super) const TEXT: &str = "\
I am a scripted agent, and I read this out to you, one word after the other. \
Every word was on the disk before it was on your screen. \
In a moment ostler itself is killed, without a warning, as a crash would do it. \
I will not notice: another process holds my pipes, and it stays. \
So I read on while nobody listens, and what I say waits for you. \
Then ostler comes back by itself, finds me where I am, \
and you hear the rest of the sentence from the very word where it stopped. \
Count the words if you like; the program does so, too, below.\n";

/// One session of the demo.
pub(super) struct Role {
    pub(super) name: &'static str,
    /// What the agent is told; see the words that the echo agent obeys.
    pub(super) prompt: &'static str,
    pub(super) autonomy: Autonomy,
    /// It works on a branch of its own.
    pub(super) worktree: bool,
    /// How it stands when it has done that.
    pub(super) then: SessionStatus,
    /// The same in words.
    pub(super) about: &'static str,
}

/// The one whose words are counted.
pub(super) const WRITER: Role = Role {
    name: "demo-writes",
    prompt: "READ:STORY.md",
    autonomy: Autonomy::Ask,
    worktree: false,
    then: SessionStatus::Running,
    about: "reads a text out, word by word",
};

/// Those that stand beside it.
pub(super) const OTHERS: [Role; 3] = [
    Role {
        name: "demo-asks",
        prompt: "Finish the release. ASK:push_the_release",
        autonomy: Autonomy::Ask,
        worktree: false,
        then: SessionStatus::Waiting,
        about: "waits for your yes before it pushes",
    },
    Role {
        name: "demo-changes",
        prompt: "Add a line to the notes. WRITE:NOTES.md",
        autonomy: Autonomy::All,
        worktree: true,
        then: SessionStatus::Idle,
        about: "has changed a file, on a branch of its own",
    },
    Role {
        name: "demo-fails",
        prompt: "Run the tests. FAIL:2_of_31_tests_failed",
        autonomy: Autonomy::Ask,
        worktree: false,
        then: SessionStatus::Failed,
        about: "failed: 2 of 31 tests failed",
    },
];
