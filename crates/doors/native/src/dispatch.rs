//! From a line to the method it asks for. What is quick is answered here and now, what may wait runs beside the
//! connection, and stdin is handed over in the order of its lines.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ostler_api::{ErrorKind, Method, RpcError, methods};
use ostler_door_rpc::{Envelope, Flow, Later, NotAMessage, Outbox, Session};
use ostler_engine::{EventHead, FrameHead, Kind, MayWait, Missing};
use serde_json::value::RawValue;

use crate::call::{Call, Who};
use crate::git::{change, hosted as git_hosted, look};
use crate::reply::Head;
use crate::watches::Watches;
use crate::{
    approval, arrival, changes, device, feed, finish, frame, history, hosted, instance, notice, page, pieces, process,
    record, review, rights, rules, search, session, setup, workspace,
};

/// What a watch is on, and its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tag {
    Process(u64),
    Session(u64),
    Feed(u64),
}

pub(crate) type Out = Outbox<Tag>;

/// A method that never waits.
type Quick<P, R> = fn(&Call, P) -> Result<R, RpcError>;

/// A method that changes what its connection has open.
type Here<P, R> = fn(&mut Client, P, &mut Out) -> Result<R, RpcError>;

/// A method that may wait for the disk.
type Waiting<P, R> = fn(&MayWait, &Call, P) -> Result<R, RpcError>;

/// The same, with a way to ask whether anybody still waits.
type Long<P, R> = fn(&MayWait, &Call, P, &dyn Fn() -> bool) -> Result<R, RpcError>;

/// One connection's session.
pub(crate) struct Client {
    /// Who is at the other end.
    pub(crate) call: Arc<Call>,
    /// The number of the newest watch.
    pub(crate) last_watch: u64,
    pub(crate) watches: Watches,
    /// What it follows of the feed.
    pub(crate) follows: feed::Follows,
    /// Workspaces of which it wants to be told.
    pub(crate) leases: search::Leases,
    /// What went wrong in its own program, so many times.
    pub(crate) troubles: u32,
    /// What it has in view, by its own word.
    pub(crate) looking: Vec<ostler_engine::notice::Looking>,
    /// Set when the connection has ended: nobody waits any more for what is worked on.
    gone: Arc<AtomicBool>,
}

impl Drop for Client {
    fn drop(&mut self) {
        self.gone.store(true, Ordering::Relaxed);
    }
}

/// A request on its way to its method.
pub(crate) struct Request<'a> {
    pub(crate) head: Head,
    params: Option<&'a RawValue>,
}

impl<'a> Request<'a> {
    /// The method that a line asks for, and the request; nothing, and the answer, where it asks for none.
    pub(crate) fn read(line: &'a [u8], out: &mut Out) -> Option<(Cow<'a, str>, Self)> {
        let no_method = || NotAMessage::Shape("`method` is missing, or no text".to_owned());
        let read = Envelope::read(line).and_then(|read| Ok((read.method().ok_or_else(no_method)?, read)));
        match read {
            // Here an id of null is none.
            Ok((method, read)) => {
                let head = Head::of(read.id().filter(|id| *id != b"null"));
                Some((method, Self { head, params: read.params }))
            }
            Err(error) => {
                let error = RpcError::new(ErrorKind::Invalid, format!("not a request: {error}"));
                out.ready.extend(Head::unreadable(&error));
                None
            }
        }
    }

    /// The parameters, as this method means them; none at all are as good as an empty object.
    pub(crate) fn params<M: Method>(&self) -> Result<M::Params, RpcError> {
        let text = self.params.map_or("{}", RawValue::get);
        M::read_params(if text == "null" { "{}" } else { text })
            .map_err(|error| RpcError::new(ErrorKind::BadParams, format!("{}: {error}", M::NAME)))
    }
}

impl Client {
    pub(crate) fn new(call: Call) -> Self {
        Self {
            call: Arc::new(call),
            last_watch: 0,
            watches: Watches::default(),
            follows: feed::Follows::default(),
            leases: search::Leases::default(),
            troubles: 0,
            looking: Vec::new(),
            gone: Arc::default(),
        }
    }

    fn dispatch(&mut self, method: &str, request: &Request<'_>, out: &mut Out) -> Result<(), RpcError> {
        match method {
            methods::InstanceHello::NAME => self.now::<methods::InstanceHello>(request, out, instance::hello),
            methods::InstanceStatus::NAME => self.waits::<methods::InstanceStatus>(request, out, instance::status),
            methods::InstanceAgents::NAME => self.waits::<methods::InstanceAgents>(request, out, instance::agents),
            methods::InstanceMetrics::NAME => self.waits::<methods::InstanceMetrics>(request, out, instance::metrics),
            methods::InstancePrune::NAME => self.waits::<methods::InstancePrune>(request, out, instance::prune),
            methods::InstanceLeave::NAME => self.now::<methods::InstanceLeave>(request, out, instance::leave),
            methods::InstanceStop::NAME => self.task::<methods::InstanceStop, _>(request, out, instance::stop),
            methods::HostedList::NAME => self.waits::<methods::HostedList>(request, out, hosted::list),
            methods::ProcessList::NAME => self.now::<methods::ProcessList>(request, out, process::list),
            methods::ProcessGet::NAME => self.now::<methods::ProcessGet>(request, out, process::get),
            methods::ProcessSignal::NAME => self.waits::<methods::ProcessSignal>(request, out, process::signal),
            methods::ProcessResize::NAME => self.here::<methods::ProcessResize>(request, out, process::resize),
            methods::ProcessRename::NAME => self.waits::<methods::ProcessRename>(request, out, process::rename),
            methods::ProcessAccess::NAME => self.waits::<methods::ProcessAccess>(request, out, process::access),
            methods::ProcessForget::NAME => self.waits::<methods::ProcessForget>(request, out, process::forget),
            methods::ProcessSpawn::NAME => self.task::<methods::ProcessSpawn, _>(request, out, process::spawn),
            methods::ProcessStdin::NAME => process::stdin(self, request, out),
            methods::ProcessCloseStdin::NAME => {
                self.task::<methods::ProcessCloseStdin, _>(request, out, process::close_stdin)
            }
            methods::ProcessKill::NAME => process::kill(self, request, out),
            methods::ProcessAttach::NAME => process::attach(self, request, out),
            methods::ProcessDetach::NAME => self.here::<methods::ProcessDetach>(request, out, process::detach),
            methods::SessionCreate::NAME => self.waits::<methods::SessionCreate>(request, out, session::create),
            methods::SessionList::NAME => self.waits::<methods::SessionList>(request, out, session::list),
            methods::SessionGet::NAME => self.waits::<methods::SessionGet>(request, out, session::get),
            methods::SessionPrompt::NAME => self.waits::<methods::SessionPrompt>(request, out, session::prompt),
            methods::SessionEdit::NAME => self.waits::<methods::SessionEdit>(request, out, session::edit),
            methods::SessionInterrupt::NAME => {
                self.waits::<methods::SessionInterrupt>(request, out, session::interrupt)
            }
            methods::SessionContinue::NAME => self.waits::<methods::SessionContinue>(request, out, session::go_on),
            methods::SessionScreen::NAME => self.waits::<methods::SessionScreen>(request, out, session::screen),
            methods::SessionChange::NAME => self.waits::<methods::SessionChange>(request, out, session::change),
            methods::SessionClose::NAME => self.task::<methods::SessionClose, _>(request, out, session::close),
            methods::SessionForget::NAME => self.waits::<methods::SessionForget>(request, out, session::forget),
            methods::SessionWatch::NAME => session::watch(self, request, out),
            methods::SessionUnwatch::NAME => self.here::<methods::SessionUnwatch>(request, out, session::unwatch),
            methods::SessionRead::NAME => self.waits::<methods::SessionRead>(request, out, page::read),
            methods::SessionRaw::NAME => self.waits::<methods::SessionRaw>(request, out, session::raw),
            methods::FeedRead::NAME => self.waits::<methods::FeedRead>(request, out, feed::read),
            methods::FeedFollow::NAME => feed::follow(self, request, out),
            methods::FeedUnfollow::NAME => self.here::<methods::FeedUnfollow>(request, out, feed::unfollow),
            methods::HistoryList::NAME => self.waits::<methods::HistoryList>(request, out, history::list),
            methods::HistoryGet::NAME => self.waits::<methods::HistoryGet>(request, out, history::get),
            methods::HistoryMessages::NAME => self.long::<methods::HistoryMessages>(request, out, history::messages),
            methods::HistorySearch::NAME => self.search::<methods::HistorySearch>(request, out, history::search),
            methods::ApprovalList::NAME => self.waits::<methods::ApprovalList>(request, out, approval::list),
            methods::ApprovalGet::NAME => self.waits::<methods::ApprovalGet>(request, out, approval::get),
            methods::ApprovalChanges::NAME => self.task::<methods::ApprovalChanges, _>(request, out, approval::changes),
            methods::ApprovalShown::NAME => self.waits::<methods::ApprovalShown>(request, out, approval::shown),
            methods::ApprovalDecide::NAME => self.waits::<methods::ApprovalDecide>(request, out, approval::decide),
            methods::ApprovalTerminal::NAME => {
                self.waits::<methods::ApprovalTerminal>(request, out, approval::terminal)
            }
            methods::RuleList::NAME => self.now::<methods::RuleList>(request, out, rules::list),
            methods::RuleAdd::NAME => self.waits::<methods::RuleAdd>(request, out, rules::add),
            methods::ApprovalUnlock::NAME => self.waits::<methods::ApprovalUnlock>(request, out, approval::unlock),
            methods::RuleAffirm::NAME => self.waits::<methods::RuleAffirm>(request, out, rules::affirm),
            methods::RuleRevoke::NAME => self.waits::<methods::RuleRevoke>(request, out, rules::revoke),
            methods::SettingConfirm::NAME => self.waits::<methods::SettingConfirm>(request, out, rules::confirm),
            methods::AuditRead::NAME => self.waits::<methods::AuditRead>(request, out, rules::audit),
            methods::AuditVerify::NAME => self.waits::<methods::AuditVerify>(request, out, rules::verify),
            methods::DeviceTailnet::NAME => self.waits::<methods::DeviceTailnet>(request, out, device::tailnet),
            methods::DeviceOffer::NAME => self.waits::<methods::DeviceOffer>(request, out, device::offer),
            methods::DeviceOffers::NAME => self.task::<methods::DeviceOffers, _>(request, out, device::offers),
            methods::DeviceAdmit::NAME => self.waits::<methods::DeviceAdmit>(request, out, device::admit),
            methods::DeviceRefuse::NAME => self.waits::<methods::DeviceRefuse>(request, out, device::refuse),
            methods::DeviceList::NAME => self.waits::<methods::DeviceList>(request, out, device::list),
            methods::DeviceRevoke::NAME => self.waits::<methods::DeviceRevoke>(request, out, device::revoke),
            methods::DeviceAffirm::NAME => self.waits::<methods::DeviceAffirm>(request, out, device::affirm),
            methods::DeviceTrouble::NAME => self.here::<methods::DeviceTrouble>(request, out, device::trouble),
            methods::NoticeList::NAME => self.task::<methods::NoticeList, _>(request, out, notice::list),
            methods::NoticeWays::NAME => self.waits::<methods::NoticeWays>(request, out, notice::ways),
            methods::NoticeTest::NAME => self.waits::<methods::NoticeTest>(request, out, notice::test),
            methods::NoticeLooking::NAME => self.here::<methods::NoticeLooking>(request, out, notice::looking),
            methods::NoticeKey::NAME => self.waits::<methods::NoticeKey>(request, out, notice::key),
            methods::NoticeSubscribe::NAME => self.waits::<methods::NoticeSubscribe>(request, out, notice::subscribe),
            methods::NoticeUnsubscribe::NAME => {
                self.waits::<methods::NoticeUnsubscribe>(request, out, notice::unsubscribe)
            }
            methods::DeviceCode::NAME
            | methods::DeviceRedeem::NAME
            | methods::DeviceRefresh::NAME
            | methods::DeviceChallenge::NAME
            | methods::DeviceProve::NAME
            | methods::DeviceShow::NAME => Err(arrival::too_late()),
            // The second is what tools that know OpenRPC ask for by themselves.
            "instance.openrpc" | "rpc.discover" => {
                let program = self.call.shared.instance.identity().program;
                out.ready.extend(request.head.document(&ostler_api::document(&program)));
                Ok(())
            }
            _ => self.workspace_call(method, request, out),
        }
    }

    /// Methods about files and git, and what a session did to them.
    fn workspace_call(&mut self, method: &str, request: &Request<'_>, out: &mut Out) -> Result<(), RpcError> {
        match method {
            methods::SessionChanges::NAME => self.waits::<methods::SessionChanges>(request, out, changes::changes),
            methods::SessionReview::NAME => self.waits::<methods::SessionReview>(request, out, review::review),
            methods::SessionSetup::NAME => self.waits::<methods::SessionSetup>(request, out, setup::setup),
            methods::SessionRun::NAME => self.waits::<methods::SessionRun>(request, out, setup::run),
            methods::SessionFinish::NAME => self.task::<methods::SessionFinish, _>(request, out, finish::finish),
            methods::SessionUnfinish::NAME => self.waits::<methods::SessionUnfinish>(request, out, finish::unfinish),
            methods::WorkspaceList::NAME => self.waits::<methods::WorkspaceList>(request, out, workspace::list),
            methods::WorkspaceTree::NAME => self.waits::<methods::WorkspaceTree>(request, out, workspace::tree),
            methods::WorkspaceRead::NAME => self.waits::<methods::WorkspaceRead>(request, out, workspace::read),
            methods::WorkspaceWrite::NAME => self.waits::<methods::WorkspaceWrite>(request, out, workspace::write),
            methods::WorkspaceWatch::NAME => search::watch(self, request, out),
            methods::WorkspaceUnwatch::NAME => self.here::<methods::WorkspaceUnwatch>(request, out, search::unwatch),
            methods::SearchNames::NAME => self.waits::<methods::SearchNames>(request, out, search::names),
            methods::SearchContent::NAME => self.search::<methods::SearchContent>(request, out, search::content),
            methods::SearchStatus::NAME => self.waits::<methods::SearchStatus>(request, out, search::status),
            methods::SearchStats::NAME => self.waits::<methods::SearchStats>(request, out, search::stats),
            methods::SearchRebuild::NAME => self.waits::<methods::SearchRebuild>(request, out, search::rebuild),
            methods::GitStatus::NAME => self.waits::<methods::GitStatus>(request, out, look::status),
            methods::GitDiff::NAME => self.waits::<methods::GitDiff>(request, out, look::diff),
            methods::GitLog::NAME => self.waits::<methods::GitLog>(request, out, look::log),
            methods::GitBranches::NAME => self.waits::<methods::GitBranches>(request, out, look::branches),
            methods::GitRemotes::NAME => self.waits::<methods::GitRemotes>(request, out, look::remotes),
            methods::GitStashes::NAME => self.waits::<methods::GitStashes>(request, out, look::stashes),
            methods::GitWorktrees::NAME => self.waits::<methods::GitWorktrees>(request, out, look::worktrees),
            methods::GitKept::NAME => self.waits::<methods::GitKept>(request, out, look::kept),
            methods::GitStage::NAME => self.waits::<methods::GitStage>(request, out, change::stage),
            methods::GitUnstage::NAME => self.waits::<methods::GitUnstage>(request, out, change::unstage),
            methods::GitStagePatch::NAME => self.waits::<methods::GitStagePatch>(request, out, change::stage_patch),
            methods::GitDiscard::NAME => self.waits::<methods::GitDiscard>(request, out, change::discard),
            methods::GitRestore::NAME => self.waits::<methods::GitRestore>(request, out, change::restore),
            methods::GitBranchCreate::NAME => {
                self.waits::<methods::GitBranchCreate>(request, out, change::branch_create)
            }
            methods::GitBranchDelete::NAME => {
                self.waits::<methods::GitBranchDelete>(request, out, change::branch_delete)
            }
            methods::GitStash::NAME => self.waits::<methods::GitStash>(request, out, change::stash),
            methods::GitStashTake::NAME => self.waits::<methods::GitStashTake>(request, out, change::stash_take),
            methods::GitMergeAbort::NAME => self.waits::<methods::GitMergeAbort>(request, out, change::merge_abort),
            methods::GitRemoteAdd::NAME => self.waits::<methods::GitRemoteAdd>(request, out, change::remote_add),
            methods::GitRemoteRemove::NAME => {
                self.waits::<methods::GitRemoteRemove>(request, out, change::remote_remove)
            }
            methods::GitCommit::NAME => self.task::<methods::GitCommit, _>(request, out, git_hosted::start),
            methods::GitPush::NAME => self.task::<methods::GitPush, _>(request, out, git_hosted::start),
            methods::GitPull::NAME => self.task::<methods::GitPull, _>(request, out, git_hosted::start),
            methods::GitFetch::NAME => self.task::<methods::GitFetch, _>(request, out, git_hosted::start),
            methods::GitSwitch::NAME => self.task::<methods::GitSwitch, _>(request, out, git_hosted::start),
            methods::GitMerge::NAME => self.task::<methods::GitMerge, _>(request, out, git_hosted::start),
            _ => {
                Err(RpcError::new(ErrorKind::UnknownMethod, format!("no method `{method}`"))
                    .hint("list them: ostler api"))
            }
        }
    }

    fn now<M: Method>(
        &self,
        request: &Request<'_>,
        out: &mut Out,
        answer: Quick<M::Params, M::Result>,
    ) -> Result<(), RpcError> {
        let result = answer(&self.call, request.params::<M>()?);
        out.ready.extend(request.head.answer::<M>(&result));
        Ok(())
    }

    fn here<M: Method>(
        &mut self,
        request: &Request<'_>,
        out: &mut Out,
        answer: Here<M::Params, M::Result>,
    ) -> Result<(), RpcError> {
        let result = answer(self, request.params::<M>()?, out);
        out.ready.extend(request.head.answer::<M>(&result));
        Ok(())
    }

    /// A method that waits for others, in a task of its own.
    fn task<M: Method, F: Future<Output = Result<M::Result, RpcError>> + Send + 'static>(
        &self,
        request: &Request<'_>,
        out: &mut Out,
        answer: fn(Arc<Call>, M::Params) -> F,
    ) -> Result<(), RpcError> {
        let (head, answered) = (request.head.clone(), answer(Arc::clone(&self.call), request.params::<M>()?));
        out.spawn(async move { Later::reply(head.answer::<M>(&answered.await)) });
        Ok(())
    }

    fn waits<M: Method>(
        &self,
        request: &Request<'_>,
        out: &mut Out,
        answer: Waiting<M::Params, M::Result>,
    ) -> Result<(), RpcError> {
        let (params, head, call) = (request.params::<M>()?, request.head.clone(), Arc::clone(&self.call));
        out.spawn_blocking(move |wait| Later::reply(head.answer::<M>(&answer(wait, &call, params))));
        Ok(())
    }

    /// What may take long is told when nobody waits for the answer any more.
    fn long<M: Method>(
        &self,
        request: &Request<'_>,
        out: &mut Out,
        answer: Long<M::Params, M::Result>,
    ) -> Result<(), RpcError> {
        let (params, head, call) = (request.params::<M>()?, request.head.clone(), Arc::clone(&self.call));
        let gone = Arc::clone(&self.gone);
        out.spawn_blocking(move |wait| {
            let gone = || gone.load(Ordering::Relaxed);
            Later::reply(head.answer::<M>(&answer(wait, &call, params, &gone)))
        });
        Ok(())
    }

    /// The same for what takes all the processors that it can get: a client has few of them at once.
    fn search<M: Method>(
        &self,
        request: &Request<'_>,
        out: &mut Out,
        answer: Long<M::Params, M::Result>,
    ) -> Result<(), RpcError> {
        let (params, head, call) = (request.params::<M>()?, request.head.clone(), Arc::clone(&self.call));
        let (gone, share) = (Arc::clone(&self.gone), Arc::clone(out.share()));
        out.spawn(async move {
            let place = share.search().await;
            let found = MayWait::pool(move |wait| {
                let gone = || gone.load(Ordering::Relaxed);
                let found = head.answer::<M>(&answer(wait, &call, params, &gone));
                drop((place, share));
                found
            });
            // A thread that died has said so in the log.
            Later::reply(found.await.unwrap_or_default())
        });
        Ok(())
    }
}

impl Session for Client {
    type Tag = Tag;

    fn line(&mut self, line: &[u8], out: &mut Out) -> Flow {
        self.call.shared.counters.requests.fetch_add(1, Ordering::Relaxed);
        let Some((method, request)) = Request::read(line, out) else { return Flow::Continue };
        if let Who::Device(guest) = &self.call.who
            && let Err(error) = rights::check(self.call.engine(), guest, &method)
        {
            // Who was refused goes on record, which may wait for the disk.
            let (call, guest) = (Arc::clone(&self.call), Arc::clone(guest));
            out.spawn_blocking(move |wait| {
                call.engine().guest_refused(wait, &guest, "devices", &error.message);
                Later::reply(request.head.refuse(&error))
            });
            return Flow::Continue;
        }
        if let Err(error) = self.dispatch(&method, &request, out) {
            out.ready.extend(request.head.refuse(&error));
        }
        Flow::Continue
    }

    fn frame(&mut self, tag: &Tag, head: &FrameHead, data: &[u8], out: &mut Vec<u8>) -> bool {
        let (Tag::Process(watch) | Tag::Session(watch) | Tag::Feed(watch)) = *tag;
        if head.kind != Kind::Exit {
            frame::push_frame(watch, head, data, out);
            return true;
        }
        frame::push_exit(watch, head, out);
        self.watches.leave(*tag);
        false
    }

    /// A session's watch goes on: more may be said after it was closed.
    fn record(&mut self, tag: &Tag, head: &EventHead, data: &[u8], out: &mut Vec<u8>) -> bool {
        match *tag {
            Tag::Feed(watch) => return feed::push_entry(self, watch, head, data, out),
            Tag::Process(watch) | Tag::Session(watch) => {
                let tell = |story: &mut _| pieces::push(watch, story, head, data, out);
                if !self.watches.go_on(*tag, tell) {
                    record::push_record(watch, head, data, out);
                }
            }
        }
        true
    }

    fn gap(&mut self, tag: &Tag, first: u64, missing: Missing, out: &mut Vec<u8>) {
        match *tag {
            Tag::Process(watch) => frame::push_gap(watch, first, missing, out),
            Tag::Session(watch) => record::push_gap(watch, first, missing, out),
            Tag::Feed(watch) => feed::push_gap(watch, first, missing, out),
        }
    }

    fn lost(&mut self, tag: &Tag, error: &std::io::Error, out: &mut Vec<u8>) {
        let why = self.call.engine().disk_trouble(error).message;
        match *tag {
            Tag::Process(watch) => frame::push_lost(watch, &why, out),
            Tag::Session(watch) => record::push_lost(watch, &why, out),
            Tag::Feed(watch) => return feed::push_lost(self, watch, why, out),
        }
        self.watches.leave(*tag);
    }

    /// Here processes are known by their own ids: a watcher sees every one to its end.
    fn leaves_superseded(&self) -> bool {
        false
    }
}
