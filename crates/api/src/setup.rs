//! `session.setup` and `session.run`: a new work tree made ready as the `.ostler.toml` of its repository says.

use crate::path::FilePath;
use crate::process::ProcessInfo;
use crate::schema::wire;

wire! {
    pub struct SessionSetupParams {
        pub id: String,
        /// The hash of the file that a person has read: a yes to it, for every work tree of the repository. Nobody hosted may.
        pub trust: Option<String>,
        /// Begin a setup that failed once more, also where the file is another by now.
        #[serde(default)]
        pub again: bool,
    }

    /// How far a session's work tree is made ready. What a trusted file says is done when the work tree is made.
    pub struct SessionSetup {
        /// Absent: the repository says nothing.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub file: Option<SetupFile>,
        /// Files that were copied from the repository's own folder.
        #[serde(default)]
        pub copied: Vec<FilePath>,
        /// Files that were not, with the reason.
        #[serde(default)]
        pub not_copied: Vec<String>,
        /// The first of its ports (`OSTLER_PORT`).
        #[serde(skip_serializing_if = "Option::is_none")]
        pub port: Option<u16>,
        /// The last (`OSTLER_PORT_LAST`).
        #[serde(skip_serializing_if = "Option::is_none")]
        pub port_last: Option<u16>,
        /// The newest setup.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub process: Option<ProcessInfo>,
    }

    /// The `.ostler.toml` of a repository.
    pub struct SetupFile {
        /// All of it.
        pub text: String,
        pub hash: String,
        /// A person has said yes to exactly this file; else nothing of it counts.
        pub trusted: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub setup: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub run: Option<String>,
        #[serde(default)]
        pub copy: Vec<FilePath>,
        #[serde(default)]
        pub ports: u16,
    }
}
