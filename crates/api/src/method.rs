//! The methods: each a type that ties a name to its parameters and its result.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::schema::Schema;
use crate::{
    approval, arrival, changes, device, feed, finish, git, history, hosted, instance, notice, piece, process, review,
    search, session, setup, workspace,
};

/// A call: name, what it takes, what it gives.
pub trait Method {
    const NAME: &'static str;
    const SUMMARY: &'static str;
    type Params: Serialize + DeserializeOwned + Schema + Send + 'static;
    type Result: Serialize + DeserializeOwned + Schema + 'static;

    // Written out for each method, here, where every program that speaks the protocol finds them compiled: what reads and
    // writes these types is most of the code of a client and of the door.

    /// Parameters, as they stand on a line.
    fn read_params(text: &str) -> serde_json::Result<Self::Params>;
    /// Parameters, for a line.
    fn write_params(params: &Self::Params, line: &mut Vec<u8>) -> serde_json::Result<()>;
    /// A result, as it stands on a line.
    fn read_result(text: &str) -> serde_json::Result<Self::Result>;
    /// A result, for a line.
    fn write_result(result: &Self::Result, line: &mut Vec<u8>) -> serde_json::Result<()>;
}

/// A method as the description sees it.
pub struct MethodInfo {
    pub name: &'static str,
    pub summary: &'static str,
    pub params: fn() -> serde_json::Value,
    pub result: fn() -> serde_json::Value,
}

/// What the daemon says without being asked.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "method", content = "params")]
pub enum Notification {
    #[serde(rename = "process.frame")]
    Frame(process::Frame),
    #[serde(rename = "process.exit")]
    Exit(process::Exited),
    #[serde(rename = "process.gap")]
    Gap(process::Gap),
    #[serde(rename = "process.lost")]
    Lost(process::Lost),
    #[serde(rename = "session.events")]
    Events(session::SessionEvents),
    #[serde(rename = "session.pieces")]
    Pieces(piece::SessionPieces),
    #[serde(rename = "session.gap")]
    SessionGap(session::SessionGap),
    #[serde(rename = "session.lost")]
    SessionLost(session::SessionLost),
    #[serde(rename = "feed.changes")]
    FeedChanges(feed::FeedChanges),
    #[serde(rename = "feed.gap")]
    FeedGap(feed::FeedGap),
    #[serde(rename = "feed.lost")]
    FeedLost(feed::FeedLost),
}

macro_rules! methods {
    ($($(#[doc = $doc:literal])* $type:ident = $name:literal ($params:ty) -> $result:ty;)*) => {
        $(
            $(#[doc = $doc])*
            pub struct $type;

            impl Method for $type {
                const NAME: &'static str = $name;
                const SUMMARY: &'static str = concat!($($doc),*);
                type Params = $params;
                type Result = $result;

                fn read_params(text: &str) -> serde_json::Result<Self::Params> {
                    serde_json::from_str(text)
                }

                fn write_params(params: &Self::Params, line: &mut Vec<u8>) -> serde_json::Result<()> {
                    serde_json::to_writer(line, params)
                }

                fn read_result(text: &str) -> serde_json::Result<Self::Result> {
                    serde_json::from_str(text)
                }

                fn write_result(result: &Self::Result, line: &mut Vec<u8>) -> serde_json::Result<()> {
                    serde_json::to_writer(line, result)
                }
            }
        )*

        /// Every method, in the order of the description.
        pub const METHODS: &[MethodInfo] = &[
            $(MethodInfo {
                name: $name,
                summary: concat!($($doc),*),
                params: <$params as Schema>::schema,
                result: <$result as Schema>::schema,
            }),*
        ];
    };
}

pub mod methods {
    //! One type per method.
    use super::*;

    methods! {
        /// Agrees on the protocol version and says who answers.
        InstanceHello = "instance.hello" (instance::HelloParams) -> instance::Hello;
        /// How the instance is doing.
        InstanceStatus = "instance.status" (instance::Empty) -> instance::Status;
        /// The agents that it can host: where each is, and whether it is logged in.
        InstanceAgents = "instance.agents" (instance::AgentsParams) -> instance::AgentList;
        /// Metrics in the text form that Prometheus reads.
        InstanceMetrics = "instance.metrics" (instance::Empty) -> instance::Metrics;
        /// The daemon ends; the keeper and every child stay.
        InstanceLeave = "instance.leave" (instance::KeyParams) -> instance::Empty;
        /// Every child is ended, then the daemon and the keeper end.
        InstanceStop = "instance.stop" (instance::KeyParams) -> instance::Stopped;
        /// Lets go of exited processes' journals that are past their retention.
        InstancePrune = "instance.prune" (instance::PruneParams) -> instance::PruneResult;
        /// Lists sessions, terminal programs and commands together, oldest first.
        HostedList = "hosted.list" (hosted::HostedListParams) -> hosted::HostedList;
        /// Starts a process. The answer comes once it runs, or says why it cannot.
        ProcessSpawn = "process.spawn" (process::SpawnParams) -> process::ProcessInfo;
        /// Lists processes, oldest first.
        ProcessList = "process.list" (process::ListParams) -> process::ProcessList;
        /// One process.
        ProcessGet = "process.get" (process::IdParams) -> process::ProcessInfo;
        /// Hands bytes to stdin. The answer comes when they are accepted: recorded, and sure to be delivered in order.
        ProcessStdin = "process.stdin" (process::StdinParams) -> process::StdinResult;
        /// Closes stdin after everything accepted so far.
        ProcessCloseStdin = "process.close_stdin" (process::IdKeyParams) -> instance::Empty;
        /// Sends a signal.
        ProcessSignal = "process.signal" (process::SignalParams) -> instance::Empty;
        /// Ends a process and waits for its exit.
        ProcessKill = "process.kill" (process::KillParams) -> process::Killed;
        /// Watches a process from any point of its journal.
        ProcessAttach = "process.attach" (process::AttachParams) -> process::Attached;
        /// Ends a watch; the process is not touched.
        ProcessDetach = "process.detach" (process::DetachParams) -> instance::Empty;
        /// Tells a terminal process its new size.
        ProcessResize = "process.resize" (process::ResizeParams) -> process::WinSize;
        /// Calls a process something else.
        ProcessRename = "process.rename" (process::RenameParams) -> process::ProcessInfo;
        /// Lets a hosted process reach everything, or only what is its own. For a person to say.
        ProcessAccess = "process.access" (process::AccessParams) -> process::ProcessInfo;
        /// Deletes an exited process and its journal now.
        ProcessForget = "process.forget" (process::IdKeyParams) -> instance::Empty;
        /// Begins a session with an agent. Nothing is started before the first prompt.
        SessionCreate = "session.create" (session::SessionCreateParams) -> session::SessionInfo;
        /// Lists sessions, oldest first.
        SessionList = "session.list" (session::SessionListParams) -> session::SessionList;
        /// One session.
        SessionGet = "session.get" (session::SessionIdParams) -> session::SessionInfo;
        /// Hands a prompt to a session. The answer comes when it is accepted: recorded, and sure to get its turn.
        SessionPrompt = "session.prompt" (session::PromptParams) -> session::PromptAccepted;
        /// Gives a prompt that waits other words, in its place, or takes it back.
        SessionEdit = "session.edit" (session::SessionEditParams) -> session::SessionEdited;
        /// Stops the running turn: the agent is asked, then its processes get SIGTERM, then SIGKILL.
        SessionInterrupt = "session.interrupt" (session::InterruptParams) -> session::Interrupted;
        /// Goes on with a session that a restart of the machine stopped.
        SessionContinue = "session.continue" (session::SessionIdKeyParams) -> session::Continued;
        /// Opens the agent's own screen on the conversation, as a hosted terminal program; until it ends the session takes no
        /// prompts. Not for hosted processes.
        SessionScreen = "session.screen" (session::ScreenParams) -> process::ProcessInfo;
        /// Changes what holds from the next turn on.
        SessionChange = "session.change" (session::SessionChangeParams) -> session::SessionInfo;
        /// Closes a session and ends its process; what was said is kept.
        SessionClose = "session.close" (session::SessionIdKeyParams) -> session::SessionClosed;
        /// Deletes a closed session and everything that was said in it now.
        SessionForget = "session.forget" (session::SessionIdKeyParams) -> instance::Empty;
        /// Watches a session from any record of its journal.
        SessionWatch = "session.watch" (session::WatchParams) -> session::Watching;
        /// Ends a watch; the session is not touched.
        SessionUnwatch = "session.unwatch" (session::UnwatchParams) -> instance::Empty;
        /// Records of a session from the newest backwards, a page at a time.
        SessionRead = "session.read" (session::SessionReadParams) -> session::SessionPage;
        /// The line of the agent that a record was made from.
        SessionRaw = "session.raw" (session::SessionRawParams) -> session::SessionRaw;
        /// What a session changed, turn by turn, from its tools and from git.
        SessionChanges = "session.changes" (changes::SessionChangesParams) -> changes::SessionChanges;
        /// Sends comments on lines of a difference to a session, together as its next prompt.
        SessionReview = "session.review" (review::ReviewParams) -> session::PromptAccepted;
        /// Makes a session's work tree ready as its repository's `.ostler.toml` says, once a person has said yes to that very
        /// file. Like the next, not for hosted processes.
        SessionSetup = "session.setup" (setup::SessionSetupParams) -> setup::SessionSetup;
        /// Runs in a session's work tree what its repository's `.ostler.toml` says is to be run.
        SessionRun = "session.run" (session::SessionIdParams) -> process::ProcessInfo;
        /// Does the next step of finishing a session that has a work tree of its own: merged, proposed or discarded, and then its
        /// tree and branch go. Like the next, not for hosted processes.
        SessionFinish = "session.finish" (finish::SessionFinishParams) -> finish::SessionFinishing;
        /// Puts back a work tree that was discarded within the last day.
        SessionUnfinish = "session.unfinish" (session::SessionIdParams) -> finish::SessionFinished;
        /// The names in a folder of a workspace, a page at a time.
        WorkspaceList = "workspace.list" (workspace::WorkspaceListParams) -> workspace::WorkspaceList;
        /// A folder of a workspace and what is beneath it, to a depth.
        WorkspaceTree = "workspace.tree" (workspace::WorkspaceTreeParams) -> workspace::WorkspaceTree;
        /// A file of a workspace, whole or a range of it.
        WorkspaceRead = "workspace.read" (workspace::WorkspaceReadParams) -> workspace::WorkspaceFile;
        /// Writes one file: makes it, or replaces the content that was read. Not for hosted processes.
        WorkspaceWrite = "workspace.write" (workspace::WorkspaceWriteParams) -> workspace::WorkspaceWritten;
        /// Has the feed tell what changes in a workspace, for as long as this connection wants it.
        WorkspaceWatch = "workspace.watch" (search::WorkspaceWatchParams) -> search::WorkspaceWatching;
        /// Ends a watch of a workspace.
        WorkspaceUnwatch = "workspace.unwatch" (search::WorkspaceUnwatchParams) -> instance::Empty;
        /// Looks for files by name.
        SearchNames = "search.names" (search::SearchNamesParams) -> search::SearchNames;
        /// Looks for lines in files; goes on from where it left off.
        SearchContent = "search.content" (search::SearchContentParams) -> search::SearchContent;
        /// How the index of a workspace stands; the first to ask has it made.
        SearchStatus = "search.status" (search::SearchParams) -> search::SearchStatus;
        /// Figures about a workspace: endings, largest files, what git has and ignores.
        SearchStats = "search.stats" (search::SearchParams) -> search::SearchStats;
        /// Has everything in a workspace looked at again; does not wait for it.
        SearchRebuild = "search.rebuild" (search::SearchParams) -> instance::Empty;
        /// How a work tree stands: branch, and what is staged, not staged, not known, in conflict.
        GitStatus = "git.status" (git::GitStatusParams) -> git::GitStatus;
        /// Differences, file by file.
        GitDiff = "git.diff" (git::GitDiffParams) -> git::GitDiff;
        /// Commits, newest first.
        GitLog = "git.log" (git::GitLogParams) -> git::GitLog;
        /// Branches, here and of remotes.
        GitBranches = "git.branches" (git::GitParams) -> git::GitBranchList;
        /// Remotes.
        GitRemotes = "git.remotes" (git::GitParams) -> git::GitRemoteList;
        /// Changes that were put aside.
        GitStashes = "git.stashes" (git::GitParams) -> git::GitStashList;
        /// Work trees of the repository, with the sessions that work in them.
        GitWorktrees = "git.worktrees" (git::GitParams) -> git::GitWorktreeList;
        /// Takes paths into the index. Like all that follow, not for hosted processes.
        GitStage = "git.stage" (git::GitPathsParams) -> instance::Empty;
        /// Takes paths back out of the index.
        GitUnstage = "git.unstage" (git::GitPathsParams) -> instance::Empty;
        /// Takes the hunks of a patch into the index, or back out of it.
        GitStagePatch = "git.stage_patch" (git::GitPatchParams) -> instance::Empty;
        /// Throws changes away; they are kept for a day.
        GitDiscard = "git.discard" (git::GitDiscardParams) -> git::GitDiscarded;
        /// What was thrown away and can be put back.
        GitKept = "git.kept" (git::GitParams) -> git::GitKeptList;
        /// Puts back what was thrown away.
        GitRestore = "git.restore" (git::GitRestoreParams) -> git::GitPaths;
        /// Makes a branch; it is not checked out.
        GitBranchCreate = "git.branch_create" (git::GitBranchCreateParams) -> instance::Empty;
        /// Deletes a branch.
        GitBranchDelete = "git.branch_delete" (git::GitBranchDeleteParams) -> instance::Empty;
        /// Puts all changes aside.
        GitStash = "git.stash" (git::GitStashParams) -> instance::Empty;
        /// Puts changes back that were put aside, or forgets them.
        GitStashTake = "git.stash_take" (git::GitStashTakeParams) -> instance::Empty;
        /// Goes back to before a merge that is not over.
        GitMergeAbort = "git.merge_abort" (git::GitParams) -> instance::Empty;
        /// Adds a remote.
        GitRemoteAdd = "git.remote_add" (git::GitRemoteAddParams) -> instance::Empty;
        /// Removes a remote.
        GitRemoteRemove = "git.remote_remove" (git::GitRemoteRemoveParams) -> instance::Empty;
        /// Commits what is staged, as a hosted process: with hooks, and an output to watch.
        GitCommit = "git.commit" (git::GitCommitParams) -> process::ProcessInfo;
        /// Sends commits, as a hosted process.
        GitPush = "git.push" (git::GitPushParams) -> process::ProcessInfo;
        /// Fetches and takes in, as a hosted process.
        GitPull = "git.pull" (git::GitPullParams) -> process::ProcessInfo;
        /// Fetches, as a hosted process.
        GitFetch = "git.fetch" (git::GitFetchParams) -> process::ProcessInfo;
        /// Checks something else out, as a hosted process.
        GitSwitch = "git.switch" (git::GitSwitchParams) -> process::ProcessInfo;
        /// Takes another branch in, as a hosted process.
        GitMerge = "git.merge" (git::GitMergeParams) -> process::ProcessInfo;
        /// Changes of the whole instance after a position, in one order.
        FeedRead = "feed.read" (feed::FeedReadParams) -> feed::FeedPage;
        /// Changes of the whole instance as they come, from any position.
        FeedFollow = "feed.follow" (feed::FeedFollowParams) -> feed::FeedFollowing;
        /// Ends a watch of the feed.
        FeedUnfollow = "feed.unfollow" (feed::FeedUnfollowParams) -> instance::Empty;
        /// Lists every conversation that was had here: sessions, and what agents recorded in a terminal.
        HistoryList = "history.list" (history::HistoryListParams) -> history::HistoryList;
        /// One conversation, with its messages counted and whether somebody is at it elsewhere.
        HistoryGet = "history.get" (history::HistoryIdParams) -> history::HistoryEntry;
        /// Messages of a conversation, from either end or any place, and as they come.
        HistoryMessages = "history.messages" (history::HistoryMessagesParams) -> history::HistoryMessages;
        /// Looks for words in every conversation.
        HistorySearch = "history.search" (history::HistorySearchParams) -> history::HistoryFound;
        /// Lists requests that wait for a person, oldest first.
        ApprovalList = "approval.list" (approval::ApprovalListParams) -> approval::ApprovalList;
        /// One request.
        ApprovalGet = "approval.get" (approval::ApprovalIdParams) -> approval::ApprovalInfo;
        /// Says that a surface shows a request: its time begins to run.
        ApprovalShown = "approval.shown" (approval::ShownParams) -> instance::Empty;
        /// Decides a request. Only a person's place may.
        ApprovalDecide = "approval.decide" (approval::DecideParams) -> approval::ApprovalInfo;
        /// The terminal on which an approved command may ask for a password. Only a person's place may.
        ApprovalTerminal = "approval.terminal" (approval::TerminalParams) -> approval::TerminalOutput;
        /// Lists standing answers.
        RuleList = "rule.list" (instance::Empty) -> approval::RuleList;
        /// Makes a standing answer. Only a person's place may.
        RuleAdd = "rule.add" (approval::RuleAddParams) -> approval::RuleInfo;
        /// Takes a standing answer back. Only a person's place may.
        RuleRevoke = "rule.revoke" (approval::RuleNameParams) -> instance::Empty;
        /// Lets suspended rules count again. Only a person's place may.
        RuleAffirm = "rule.affirm" (approval::RuleAffirmParams) -> approval::RuleNames;
        /// Lets a setting count that loosens something; from the next start on. Only a person's place may.
        SettingConfirm = "setting.confirm" (instance::SettingInfo) -> instance::Empty;
        /// Opens deciding again after the loss of a keeper, or says how.
        ApprovalUnlock = "approval.unlock" (instance::Empty) -> approval::Unlock;
        /// Makes a code or link by which one device can be paired. Only a person's place may, or a device with that right.
        DeviceOffer = "device.offer" (device::DeviceOfferParams) -> device::DeviceOffered;
        /// Asks tailscale how this machine is found from elsewhere, and lets devices come that way. Only a person's place may.
        DeviceTailnet = "device.tailnet" (device::DeviceTailnetParams) -> device::DeviceTailnet;
        /// Pairings that are under way; waits for something new if asked to.
        DeviceOffers = "device.offers" (instance::Empty) -> device::DeviceOffers;
        /// Lets in the device that waits for an offer. Only a person's place may, or a device with that right.
        DeviceAdmit = "device.admit" (device::OfferParams) -> instance::Empty;
        /// Refuses the device that waits, or takes the offer back. Only a person's place may, or a device with that right.
        DeviceRefuse = "device.refuse" (device::OfferParams) -> instance::Empty;
        /// Lists paired devices.
        DeviceList = "device.list" (instance::Empty) -> device::DeviceList;
        /// Puts out one device or all; its connections end. Only a person's place may, or a device with that right.
        DeviceRevoke = "device.revoke" (device::DeviceRevokeParams) -> device::DeviceRevoked;
        /// Lets suspended devices count again. Only a person's place may.
        DeviceAffirm = "device.affirm" (device::DeviceAffirmParams) -> device::DeviceNames;
        /// Writes into the log what went wrong in a device's own program.
        DeviceTrouble = "device.trouble" (device::DeviceTroubleParams) -> instance::Empty;
        /// Exchanges a code for a link. Like the next five only on a WebSocket of the web port, before anything else.
        DeviceCode = "device.code" (arrival::DeviceCodeParams) -> arrival::DeviceTicket;
        /// Claims an offer by its link: paired, or a person is asked.
        DeviceRedeem = "device.redeem" (arrival::DeviceRedeemParams) -> arrival::DeviceRedeemed;
        /// New tokens for a refresh token, which is used up.
        DeviceRefresh = "device.refresh" (arrival::DeviceRefreshParams) -> arrival::DeviceTokens;
        /// Something to sign, for a device with a key.
        DeviceChallenge = "device.challenge" (instance::Empty) -> arrival::DeviceChallenge;
        /// Shows by a signature which device this is.
        DeviceProve = "device.prove" (arrival::DeviceProveParams) -> arrival::DeviceCame;
        /// Shows by a token which device this is.
        DeviceShow = "device.show" (arrival::DeviceShowParams) -> arrival::DeviceCame;
        /// What somebody was told while nobody looked; waits for something newer if asked to.
        NoticeList = "notice.list" (notice::NoticeListParams) -> notice::NoticeList;
        /// The ways by which somebody is told.
        NoticeWays = "notice.ways" (instance::Empty) -> notice::NoticeWays;
        /// Tries every way, and says what happened.
        NoticeTest = "notice.test" (instance::Empty) -> notice::NoticeWays;
        /// Says what is in view on this connection: nobody is told of it meanwhile.
        NoticeLooking = "notice.looking" (notice::NoticeLookingParams) -> instance::Empty;
        /// The key that pushes to devices are signed with.
        NoticeKey = "notice.key" (instance::Empty) -> notice::NoticeKey;
        /// Has notices pushed to the device that asks, without what they say.
        NoticeSubscribe = "notice.subscribe" (notice::NoticeSubscribeParams) -> instance::Empty;
        /// Ends that.
        NoticeUnsubscribe = "notice.unsubscribe" (instance::Empty) -> instance::Empty;
        /// Reads the audit.
        AuditRead = "audit.read" (approval::AuditReadParams) -> approval::AuditPage;
        /// Walks the whole audit and says whether it holds.
        AuditVerify = "audit.verify" (instance::Empty) -> approval::AuditVerified;
    }
}
pub use methods::METHODS;
