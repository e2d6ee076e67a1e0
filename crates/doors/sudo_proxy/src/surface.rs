//! The program around the door: a foreground daemon with a prompt, or an instance whose inbox decides. The door tells it
//! what happens and asks it what only it knows; none of these calls may wait. That program may be another process, so what it is
//! told can be written down.

use std::pin::Pin;
use std::sync::Arc;

use ostler_engine::Terminal;
use serde::{Deserialize, Serialize};

use crate::Request;
use crate::excerpt::Excerpt;
use crate::plan::Stage;

/// A request that waits for a decision, as it must be shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// The approval's id.
    pub approval: String,
    /// What a decision must name.
    pub hash: String,
    /// What was asked.
    pub request: Request,
    /// What would run.
    pub stages: Vec<Stage>,
    /// Who connected.
    pub peer: Peer,
}

/// Who connected, as the system tells it: what counts, whatever the client says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    /// Its user.
    pub uid: u32,
    /// Its process.
    pub pid: Option<u32>,
    /// What hosts it: the session that it belongs to, or else the process.
    pub hosted: Option<String>,
    /// Where that session works.
    pub workspace: Option<String>,
}

/// How a question ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    /// Somebody said no.
    Denied,
    /// Nobody decided in time.
    Expired,
    /// The client hung up before anything ran.
    Withdrawn,
    /// It ran.
    Ran {
        /// One per stage.
        codes: Vec<i32>,
        /// What the last stage wrote.
        stdout: Excerpt,
        /// What each stage wrote to its stderr.
        stderr: Vec<Excerpt>,
    },
    /// It could not be run, or not to its end.
    Failed(String),
}

/// Resolves when it is known whether somebody can be asked; an error ends the request with these words.
pub type Asking = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// What the door needs of the program around it.
pub trait Surface: Send + Sync {
    /// A connection of this user was closed without a word.
    fn stranger(&self, uid: u32);

    /// A request has passed every check.
    fn received(&self, request: &Request);

    /// Somebody asked whether we are there.
    fn pinged(&self, request: &Request);

    /// A client asks the daemon to end: whether it will.
    fn stop(&self, request: &Request) -> Result<(), String>;

    /// Somebody must decide, through the inbox.
    fn ask(&self, question: Arc<Question>) -> Asking;

    /// Whether a password can be asked for where this was approved.
    fn has_terminal(&self, approval: &str) -> bool;

    /// An approved command runs; passwords are asked for on its terminal.
    fn running(&self, approval: &str, terminal: Option<Arc<Terminal>>);

    /// The question is over.
    fn over(&self, approval: &str, end: End);

    /// Whether anybody looks at the output that comes with [`Surface::over`].
    fn shows_output(&self) -> bool;
}
