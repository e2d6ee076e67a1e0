//! Every method: what a device must be allowed to do for it, and how it runs. Whoever is on this machine is judged by where it
//! comes from (`reach`), a device by its rights.

use ostler_api::{Method, methods};
use ostler_engine::access::device::{Required, Right};

use crate::dispatch::{Answered, Client, Out, Request};
use crate::git::{change, hosted as git_hosted, look};
use crate::{
    approval, arrival, changes, device, feed, finish, history, hosted, instance, notice, process, review, rules,
    search, session, session_read, setup, workspace,
};

/// A method.
pub(crate) struct Entry {
    name: &'static str,
    pub(crate) required: Required,
    /// Answers, or sees to it that somebody does.
    pub(crate) run: fn(&mut Client, &Request<'_>, &mut Out) -> Answered,
}

/// What describes the protocol, for tools; it is none of its methods.
const DESCRIPTION: Entry = Entry { name: "instance.openrpc", required: Required::Nothing, run: Client::describe };

/// The method of this name.
pub(crate) fn find(name: &str) -> Option<&'static Entry> {
    // What tools that know OpenRPC ask for by themselves.
    let name = if name == "rpc.discover" { DESCRIPTION.name } else { name };
    TABLE.iter().find(|entry| entry.name == name)
}

macro_rules! table {
    ($($method:ident: $required:ident, $how:ident($run:path);)*) => {
        const TABLE: &[Entry] = &[
            $(Entry { name: methods::$method::NAME, required: required!($required), run: run!($method $how $run) },)*
            DESCRIPTION,
        ];
    };
}

macro_rules! required {
    (Nothing) => {
        Required::Nothing
    };
    (Person) => {
        Required::Person
    };
    ($right:ident) => {
        Required::Right(Right::$right)
    };
}

/// How it runs is a method of [`Client`], or its own affair.
macro_rules! run {
    ($method:ident itself $run:path) => {
        |client, request, out| $run(client, request, out)
    };
    ($method:ident task $run:path) => {
        |client, request, out| client.task::<methods::$method, _>(request, out, $run)
    };
    ($method:ident $how:ident $run:path) => {
        |client, request, out| client.$how::<methods::$method>(request, out, $run)
    };
}

table! {
    InstanceHello: Nothing, now(instance::hello);
    InstanceStatus: View, waits(instance::status);
    InstanceAgents: View, waits(instance::agents);
    InstanceMetrics: View, waits(instance::metrics);
    // Here as below: what ends, deletes, or decides who may, is for a person.
    InstanceLeave: Person, now(instance::leave);
    InstanceStop: Person, task(instance::stop);
    InstancePrune: Person, waits(instance::prune);
    HostedList: View, waits(hosted::list);

    ProcessSpawn: TypeIntoTerminals, task(process::spawn);
    ProcessList: View, now(process::list);
    ProcessGet: View, now(process::get);
    ProcessStdin: TypeIntoTerminals, itself(process::stdin);
    ProcessCloseStdin: TypeIntoTerminals, task(process::close_stdin);
    ProcessSignal: TypeIntoTerminals, waits(process::signal);
    ProcessKill: TypeIntoTerminals, itself(process::kill);
    ProcessAttach: View, itself(process::attach);
    ProcessDetach: View, here(process::detach);
    ProcessResize: TypeIntoTerminals, here(process::resize);
    ProcessRename: TypeIntoTerminals, waits(process::rename);
    ProcessAccess: Person, waits(process::access);
    ProcessForget: Person, waits(process::forget);

    // With a command, a program or variables of its own: also what starting a command needs. With more autonomy than to ask:
    // also what changing that needs.
    SessionCreate: Prompt, waits(session::create);
    SessionList: View, waits(session::list);
    SessionGet: View, waits(session::get);
    SessionPrompt: Prompt, waits(session::prompt);
    SessionEdit: Prompt, waits(session::edit);
    SessionInterrupt: Prompt, waits(session::interrupt);
    SessionContinue: Prompt, waits(session::go_on);
    SessionScreen: TypeIntoTerminals, waits(session::screen);
    // How much the agent may do without asking needs `LoosenAutonomy` besides.
    SessionChange: Prompt, waits(session::change);
    SessionClose: Prompt, task(session::close);
    SessionForget: Person, waits(session::forget);
    SessionWatch: View, itself(session::watch);
    SessionUnwatch: View, here(session::unwatch);
    SessionRead: View, waits(session_read::read);
    SessionRaw: View, waits(session::raw);
    SessionChanges: View, waits(changes::changes);
    SessionReview: Prompt, waits(review::review);
    // A yes to what a repository says is a command to be started: also what that needs.
    SessionSetup: View, waits(setup::setup);
    SessionRun: TypeIntoTerminals, waits(setup::run);
    // What is merged or proposed: also what starting a command needs.
    SessionFinish: WriteFiles, task(finish::finish);
    SessionUnfinish: WriteFiles, waits(finish::unfinish);

    // Which folders, here and of git, the engine says.
    WorkspaceList: View, waits(workspace::list);
    WorkspaceTree: View, waits(workspace::tree);
    WorkspaceRead: View, waits(workspace::read);
    WorkspaceWrite: WriteFiles, waits(workspace::write);
    WorkspaceWatch: View, itself(search::watch);
    WorkspaceUnwatch: View, here(search::unwatch);
    SearchNames: View, waits(search::names);
    SearchContent: View, search(search::content);
    SearchStatus: View, waits(search::status);
    SearchStats: View, waits(search::stats);
    SearchRebuild: View, waits(search::rebuild);

    GitStatus: View, waits(look::status);
    GitDiff: View, waits(look::diff);
    GitLog: View, waits(look::log);
    GitBranches: View, waits(look::branches);
    GitRemotes: View, waits(look::remotes);
    GitStashes: View, waits(look::stashes);
    GitWorktrees: View, waits(look::worktrees);
    GitStage: WriteFiles, waits(change::stage);
    GitUnstage: WriteFiles, waits(change::unstage);
    GitStagePatch: WriteFiles, waits(change::stage_patch);
    GitDiscard: WriteFiles, waits(change::discard);
    GitKept: View, waits(look::kept);
    GitRestore: WriteFiles, waits(change::restore);
    GitBranchCreate: WriteFiles, waits(change::branch_create);
    GitBranchDelete: WriteFiles, waits(change::branch_delete);
    GitStash: WriteFiles, waits(change::stash);
    GitStashTake: WriteFiles, waits(change::stash_take);
    GitMergeAbort: WriteFiles, waits(change::merge_abort);
    GitRemoteAdd: WriteFiles, waits(change::remote_add);
    GitRemoteRemove: WriteFiles, waits(change::remote_remove);
    GitCommit: WriteFiles, task(git_hosted::start);
    GitPush: WriteFiles, task(git_hosted::start);
    GitPull: WriteFiles, task(git_hosted::start);
    GitFetch: WriteFiles, task(git_hosted::start);
    GitSwitch: WriteFiles, task(git_hosted::start);
    GitMerge: WriteFiles, task(git_hosted::start);

    FeedRead: View, waits(feed::read);
    FeedFollow: View, itself(feed::follow);
    FeedUnfollow: View, here(feed::unfollow);
    HistoryList: View, waits(history::list);
    HistoryGet: View, waits(history::get);
    HistoryMessages: View, long(history::messages);
    HistorySearch: View, search(history::search);

    ApprovalList: View, waits(approval::list);
    ApprovalGet: View, waits(approval::get);
    // Its time runs from then on: for who can answer it in that time. What runs as another user also needs that right.
    ApprovalShown: AnswerOnce, waits(approval::shown);
    // Which answers it may give, the inbox says.
    ApprovalDecide: View, waits(approval::decide);
    // A password is typed at the machine itself.
    ApprovalTerminal: Person, waits(approval::terminal);
    ApprovalUnlock: Person, waits(approval::unlock);
    RuleList: View, now(rules::list);
    RuleAdd: AnswerLastingly, waits(rules::add);
    RuleRevoke: AnswerLastingly, waits(rules::revoke);
    RuleAffirm: Person, waits(rules::affirm);
    SettingConfirm: Person, waits(rules::confirm);
    AuditRead: View, waits(rules::audit);
    AuditVerify: View, waits(rules::verify);

    DeviceOffer: AdmitDevices, waits(device::offer);
    DeviceTailnet: Person, waits(device::tailnet);
    DeviceOffers: AdmitDevices, now(device::offers);
    DeviceAdmit: AdmitDevices, waits(device::admit);
    DeviceRefuse: AdmitDevices, waits(device::refuse);
    DeviceList: AdmitDevices, waits(device::list);
    // Itself always; the engine asks about others.
    DeviceRevoke: Nothing, waits(device::revoke);
    DeviceAffirm: Person, waits(device::affirm);
    DeviceTrouble: View, here(device::trouble);
    // How it came in; answered before anybody asks for rights.
    DeviceCode: Nothing, itself(arrival::too_late);
    DeviceRedeem: Nothing, itself(arrival::too_late);
    DeviceRefresh: Nothing, itself(arrival::too_late);
    DeviceChallenge: Nothing, itself(arrival::too_late);
    DeviceProve: Nothing, itself(arrival::too_late);
    DeviceShow: Nothing, itself(arrival::too_late);

    NoticeList: View, waits(notice::list);
    // Where notices go is named at the machine itself.
    NoticeWays: Person, waits(notice::ways);
    NoticeTest: Person, waits(notice::test);
    NoticeLooking: View, here(notice::looking);
    NoticeKey: View, waits(notice::key);
    NoticeSubscribe: View, waits(notice::subscribe);
    NoticeUnsubscribe: View, waits(notice::unsubscribe);
}
