//! Every method: what it takes and gives, and what a device needs for it. To add one, write what it does beside its like and add a
//! line here.

use ostler_engine::access::device::Right;

use crate::method::{Entry, Method, Run, entry};
use crate::{agent, events, file, git, lifecycle, permission, repository, session, status, upload, workspace};

macro_rules! methods {
    ($($method:ident = $name:literal, $summary:literal, $needs:ident, $how:ident($run:expr): $params:ty => $result:ty;)*) => {
        $(
            #[doc = concat!("`", $name, "`.")]
            pub(crate) struct $method;

            impl Method for $method {
                const NAME: &'static str = $name;
                const SUMMARY: &'static str = $summary;
                const NEEDS: Option<Right> = needs!($needs);
                const RUN: Run<Self> = Run::$how($run);
                type Params = $params;
                type Result = $result;
            }
        )*
    };
    ([$all:ident] $($method:ident = $name:literal, $summary:literal, $needs:ident, $how:ident($run:expr): $params:ty => $result:ty;)*) => {
        methods! { $($method = $name, $summary, $needs, $how($run): $params => $result;)* }

        /// What JSON-RPC answers to, in the order in which it is described.
        pub(crate) const $all: &[Entry] = &[$(entry::<$method>()),*];
    };
}

macro_rules! needs {
    (Nothing) => {
        None
    };
    ($right:ident) => {
        Some(Right::$right)
    };
}

methods! {
    [METHODS]

    Initialize = "initialize", "Capability negotiation (LSP-style)", Nothing, Waits(lifecycle::initialize): lifecycle::InitializeParams => lifecycle::Initialized;
    InitializedNotice = "initialized", "Confirm initialization complete", Nothing, Now(lifecycle::initialized): status::Nothing => lifecycle::Done;
    Shutdown = "shutdown", "Graceful shutdown of this client's connection", Nothing, Now(lifecycle::shutdown): status::Nothing => lifecycle::Done;
    StatusGet = "status/get", "Get server status", View, Waits(status::get): status::Nothing => status::Status;

    AgentRun = "agent/run", "Start AI agent with prompt", Prompt, Waits(agent::run): agent::RunParams => agent::Started;
    AgentStop = "agent/stop", "Stop running agent", Prompt, Waits(agent::stop): agent::WhichParams => agent::Stopped;
    // Which answers a device may give, the inbox says.
    AgentRespond = "agent/respond", "Respond to tool use request", View, Waits(permission::respond): permission::RespondParams => permission::Sent;
    AgentStatus = "agent/status", "Get what the agent is at", View, Now(agent::status): agent::WhichParams => agent::AgentStatus;
    PermissionRespond = "permission/respond", "Decide about a tool use", View, Waits(permission::respond_permission): permission::DecideParams => permission::Success;
    PermissionPending = "permission/pending", "List what waits for an answer", View, Now(permission::pending): agent::WhichParams => permission::Pending;

    SessionList = "session/list", "List sessions", View, Waits(session::list): session::ListParams => session::Sessions;
    SessionHistory = "session/history", "List sessions of a workspace", View, Waits(session::list): session::ListParams => session::Sessions;
    SessionGet = "session/get", "Get session details", View, Waits(session::get): session::IdParams => session::SessionInfo;
    SessionMessages = "session/messages", "Get session messages", View, Waits(session::messages): session::MessagesParams => session::Messages;
    SessionElements = "session/elements", "Get UI elements for rendering", View, Waits(session::elements): session::ElementsParams => session::Elements;
    SessionWatch = "session/watch", "Watch session for updates", View, Waits(session::watch): session::IdParams => session::Watching;
    SessionUnwatch = "session/unwatch", "Stop watching", View, Waits(session::unwatch): session::UnwatchParams => session::Watching;
    SessionStart = "session/start", "Start a session, with a prompt or without", Prompt, Waits(session::start): session::StartParams => session::SessionStarted;
    SessionSend = "session/send", "Send a prompt to a session", Prompt, Waits(session::send): session::SendParams => agent::Started;
    SessionStop = "session/stop", "Stop what a session is doing", Prompt, Waits(agent::stop): agent::WhichParams => agent::Stopped;
    SessionInput = "session/input", "Answer or prompt a session", Prompt, Waits(session::input): session::InputParams => session::InputTaken;
    SessionRespond = "session/respond", "Answer what a session asks", View, Waits(session::respond): session::AnswerParams => permission::Sent;
    SessionState = "session/state", "Get where a session stands", View, Now(session::state): session::IdParams => session::SessionState;

    FileGet = "file/get", "Get file content", View, Waits(file::get): file::GetParams => file::File;
    FileList = "file/list", "List a directory", View, Waits(file::list): file::ListParams => file::List;

    GitStatus = "git/status", "Get git status", View, Waits(git::status): workspace::WhichParams => git::GitStatus;
    GitDiff = "git/diff", "Get file diff", View, Waits(git::diff): git::DiffParams => git::GitDiff;
    GitBranches = "git/branches", "List branches", View, Waits(git::branches): workspace::WhichParams => git::GitBranches;
    GitLog = "git/log", "List commits", View, Waits(git::log): git::LogParams => git::GitLog;
    GitStage = "git/stage", "Stage files", WriteFiles, Waits(git::stage): git::PathsParams => git::Staged;
    GitUnstage = "git/unstage", "Unstage files", WriteFiles, Waits(git::unstage): git::PathsParams => git::Unstaged;
    GitDiscard = "git/discard", "Discard changes", WriteFiles, Waits(git::discard): git::DiscardParams => git::Discarded;
    GitRestore = "git/restore", "Put back what was discarded", WriteFiles, Waits(git::restore): git::RestoreParams => git::Restored;
    GitCommit = "git/commit", "Create commit", WriteFiles, Waits(git::commit): git::CommitParams => git::Committed;
    GitPush = "git/push", "Push to remote", WriteFiles, Waits(git::push): git::PushParams => git::Pushed;
    GitPull = "git/pull", "Pull from remote", WriteFiles, Waits(git::pull): git::PullParams => git::Pulled;
    GitFetch = "git/fetch", "Fetch from remote", WriteFiles, Waits(git::fetch): git::FetchParams => git::Fetched;
    GitCheckout = "git/checkout", "Checkout branch", WriteFiles, Waits(git::checkout): git::CheckoutParams => git::CheckedOut;
    GitStash = "git/stash", "Put changes aside", WriteFiles, Waits(git::stash): git::StashParams => git::Done;
    GitStashList = "git/stash/list", "List what was put aside", View, Waits(git::stashes): workspace::WhichParams => git::GitStashes;
    GitStashPop = "git/stash/pop", "Put changes back and forget them", WriteFiles, Waits(git::stash_pop): git::StashTakeParams => git::Done;
    GitStashApply = "git/stash/apply", "Put changes back and keep them", WriteFiles, Waits(git::stash_apply): git::StashTakeParams => git::Done;
    GitStashDrop = "git/stash/drop", "Forget changes that were put aside", WriteFiles, Waits(git::stash_drop): git::StashTakeParams => git::Done;
    GitMergeAbort = "git/merge/abort", "Give a merge up", WriteFiles, Waits(git::merge_abort): workspace::WhichParams => git::Done;
    GitBranchDelete = "git/branch/delete", "Delete a branch", WriteFiles, Waits(git::branch_delete): git::BranchDeleteParams => git::Done;

    IndexStatus = "repository/index/status", "Get repository index status", View, Waits(repository::status): workspace::WhichParams => repository::IndexStatus;
    Search = "repository/search", "Search files in repository", View, Waits(repository::search): repository::SearchParams => repository::Search;
    FilesList = "repository/files/list", "List files in directory", View, Waits(repository::list): repository::ListParams => repository::List;
    FilesTree = "repository/files/tree", "Get directory tree", View, Waits(repository::tree): repository::TreeParams => repository::Tree;
    Stats = "repository/stats", "Get repository statistics", View, Waits(repository::stats): workspace::WhichParams => repository::Stats;
    IndexRebuild = "repository/index/rebuild", "Trigger index rebuild", View, Waits(repository::rebuild): workspace::WhichParams => repository::Rebuild;

    WorkspaceList = "workspace/list", "List workspaces", View, Waits(workspace::list): status::Nothing => workspace::Workspaces;
    WorkspaceGet = "workspace/get", "Get a workspace", View, Waits(workspace::get): workspace::WhichParams => workspace::Workspace;
    WorkspaceStatus = "workspace/status", "Get what a workspace is at", View, Waits(workspace::get): workspace::WhichParams => workspace::Workspace;
    WorkspaceAdd = "workspace/add", "Serve another folder", View, Waits(workspace::add): workspace::AddParams => workspace::Workspace;
    WorkspaceRemove = "workspace/remove", "Serve a folder no more", View, Waits(workspace::remove): workspace::WhichParams => permission::Success;
    // As today's clients call what has a name above.
    WorkspaceHistory = "workspace/session/history", "List sessions of a workspace", View, Waits(session::list): session::ListParams => session::Sessions;
    WorkspaceMessages = "workspace/session/messages", "Get session messages", View, Waits(session::messages): session::MessagesParams => session::Messages;
    WorkspaceWatch = "workspace/session/watch", "Watch session for updates", View, Waits(session::watch): session::IdParams => session::Watching;
    WorkspaceUnwatch = "workspace/session/unwatch", "Stop watching", View, Waits(session::unwatch): session::UnwatchParams => session::Watching;
    WorkspaceActivate = "workspace/session/activate", "Make a session the current one of its workspace", Prompt, Waits(session::activate): session::IdParams => session::SessionState;
    WorkspaceFiles = "workspace/files/list", "List a directory", View, Waits(file::list): file::ListParams => file::List;
    WorkspaceFile = "workspace/file/get", "Get file content", View, Waits(file::get): file::GetParams => file::File;
    WorkspaceSubscribe = "workspace/subscribe", "Be told of this workspace, and of others that were named", View, Now(workspace::subscribe): workspace::WhichParams => workspace::Subscriptions;
    WorkspaceUnsubscribe = "workspace/unsubscribe", "Be told of a workspace no more", View, Now(workspace::unsubscribe): workspace::WhichParams => workspace::Subscriptions;
    WorkspaceSubscribeAll = "workspace/subscribeAll", "Be told of every workspace", View, Now(workspace::subscribe_all): status::Nothing => workspace::Subscriptions;
    WorkspaceSubscriptions = "workspace/subscriptions", "Which workspaces this connection is told of", View, Now(workspace::subscriptions): status::Nothing => workspace::Subscriptions;

    EventsResume = "events/resume", "Go on after the last event that was seen", View, Waits(events::resume): events::ResumeParams => events::Resumed;
    EventsSubscribe = "events/subscribe", "Choose which events come", View, Now(events::subscribe): events::SubscribeParams => events::Subscribed;

    UploadStart = "upload/start", "Announce a file that comes in pieces", WriteFiles, Waits(upload::start): upload::StartParams => upload::Progress;
    UploadChunk = "upload/chunk", "Send one piece", WriteFiles, Waits(upload::chunk): upload::ChunkParams => upload::Progress;
    UploadStatus = "upload/status", "Ask how far an upload has come", WriteFiles, Waits(upload::status): upload::IdParams => upload::Progress;
    UploadFinish = "upload/finish", "Write the file once all of it is there", WriteFiles, Waits(upload::finish): upload::IdParams => upload::Uploaded;
    UploadCancel = "upload/cancel", "Forget an upload", WriteFiles, Waits(upload::cancel): upload::IdParams => upload::Progress;
    ImageAdd = "image/add", "Put a picture where a prompt can name it", WriteFiles, Waits(upload::image): upload::ImageParams => upload::Image;
}

// What REST answers in another form.
methods! {
    RestSessions = "session/list", "List Claude sessions", View, Waits(session::rest_list): session::ListParams => session::RestSessions;
    RestCommit = "git/commit", "Create commit", WriteFiles, Waits(|wait, call, params| git::softened(git::commit(wait, call, params))): git::CommitParams => git::Outcome<git::Committed>;
    RestPush = "git/push", "Push to remote", WriteFiles, Waits(|wait, call, params| git::softened(git::push(wait, call, params))): git::PushParams => git::Outcome<git::Pushed>;
    RestPull = "git/pull", "Pull from remote", WriteFiles, Waits(|wait, call, params| git::softened(git::pull(wait, call, params))): git::PullParams => git::Outcome<git::Pulled>;
    RestCheckout = "git/checkout", "Checkout branch", WriteFiles, Waits(|wait, call, params| git::softened(git::checkout(wait, call, params))): git::CheckoutParams => git::Outcome<git::CheckedOut>;
}
