//! From a line to the method it asks for. What is quick is answered here and now, what may wait runs beside the
//! connection, and stdin is handed over in the order of its lines.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ostler_api::{ErrorKind, Method, RpcError, methods};
use ostler_door_rpc::{Envelope, Flow, Later, NotAMessage, Outbox, Session};
use ostler_engine::{EventHead, FrameHead, Kind, MayWait, Missing, Origin, Target};
use serde_json::value::RawValue;

use crate::approval::Personal;
use crate::git::{change, hosted as git_hosted, look};
use crate::reply::Head;
use crate::watches::Watches;
use crate::who::Who;
use crate::{
    DoorState, approval, arrival, changes, device, feed, finish, frame, history, hosted, instance, notice, page,
    pieces, process, record, review, rights, rules, search, session, setup, workspace,
};

/// What a watch is on, and its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tag {
    Process(u64),
    Session(u64),
    Feed(u64),
}

pub(crate) type Out = Outbox<Tag>;

/// A method that asks what its caller may touch, and never waits.
type ReachingNow<P, R> = fn(&DoorState, &Origin, P) -> Result<R, RpcError>;

/// A method that asks what its caller may touch.
type Reaching<P, R> = fn(&MayWait, &DoorState, &Origin, P) -> Result<R, RpcError>;

/// The same, with a way to ask whether anybody still waits.
type Long<P, R> = fn(&MayWait, &DoorState, &Origin, P, &dyn Fn() -> bool) -> Result<R, RpcError>;

/// One connection's session.
pub(crate) struct Client {
    pub(crate) shared: Arc<DoorState>,
    /// Who is at the other end.
    pub(crate) who: Who,
    /// Where that is, for what it may touch.
    pub(crate) origin: Arc<Origin>,
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
pub(crate) struct Call<'a> {
    pub(crate) head: Head,
    params: Option<&'a RawValue>,
}

impl<'a> Call<'a> {
    /// The method that a line asks for, and the call; nothing, and the answer, where it asks for none.
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
    pub(crate) fn new(shared: Arc<DoorState>, who: Who) -> Self {
        Self {
            shared,
            origin: who.origin(),
            who,
            last_watch: 0,
            watches: Watches::default(),
            follows: feed::Follows::default(),
            leases: search::Leases::default(),
            troubles: 0,
            looking: Vec::new(),
            gone: Arc::default(),
        }
    }

    /// Refuses what is not the client's own.
    pub(crate) fn reaches(&self, target: Target<'_>) -> Result<(), RpcError> {
        crate::reach::check(&self.shared, &self.origin, target)
    }

    fn call(&mut self, method: &str, call: &Call<'_>, out: &mut Out) -> Result<(), RpcError> {
        match method {
            methods::InstanceHello::NAME => self.now::<methods::InstanceHello>(call, out, instance::hello),
            methods::InstanceStatus::NAME => self.blocking::<methods::InstanceStatus>(call, out, instance::status),
            methods::InstanceAgents::NAME => self.blocking::<methods::InstanceAgents>(call, out, instance::agents),
            methods::InstanceMetrics::NAME => self.blocking::<methods::InstanceMetrics>(call, out, instance::metrics),
            methods::InstancePrune::NAME => self.reaching::<methods::InstancePrune>(call, out, instance::prune),
            methods::InstanceLeave::NAME => self.reaching_now::<methods::InstanceLeave>(call, out, instance::leave),
            methods::InstanceStop::NAME => instance::stop(self, call, out),
            methods::HostedList::NAME => self.reaching::<methods::HostedList>(call, out, hosted::list),
            methods::ProcessList::NAME => self.reaching_now::<methods::ProcessList>(call, out, process::list),
            methods::ProcessGet::NAME => self.reaching_now::<methods::ProcessGet>(call, out, process::get),
            methods::ProcessSignal::NAME => self.reaching::<methods::ProcessSignal>(call, out, process::signal),
            methods::ProcessResize::NAME => process::resize(self, call, out),
            methods::ProcessRename::NAME => self.reaching::<methods::ProcessRename>(call, out, process::rename),
            methods::ProcessAccess::NAME => self.personal::<methods::ProcessAccess>(call, out, process::access),
            methods::ProcessForget::NAME => self.reaching::<methods::ProcessForget>(call, out, process::forget),
            methods::ProcessSpawn::NAME => process::spawn(self, call, out),
            methods::ProcessStdin::NAME => process::stdin(self, call, out),
            methods::ProcessCloseStdin::NAME => process::close_stdin(self, call, out),
            methods::ProcessKill::NAME => process::kill(self, call, out),
            methods::ProcessAttach::NAME => process::attach(self, call, out),
            methods::ProcessDetach::NAME => process::detach(self, call, out),
            methods::SessionCreate::NAME => self.personal::<methods::SessionCreate>(call, out, session::create),
            methods::SessionList::NAME => self.reaching::<methods::SessionList>(call, out, session::list),
            methods::SessionGet::NAME => self.reaching::<methods::SessionGet>(call, out, session::get),
            methods::SessionPrompt::NAME => self.reaching::<methods::SessionPrompt>(call, out, session::prompt),
            methods::SessionEdit::NAME => self.reaching::<methods::SessionEdit>(call, out, session::edit),
            methods::SessionInterrupt::NAME => {
                self.reaching::<methods::SessionInterrupt>(call, out, session::interrupt)
            }
            methods::SessionContinue::NAME => self.reaching::<methods::SessionContinue>(call, out, session::go_on),
            methods::SessionScreen::NAME => self.personal::<methods::SessionScreen>(call, out, session::screen),
            methods::SessionChange::NAME => self.personal::<methods::SessionChange>(call, out, session::change),
            methods::SessionClose::NAME => session::close(self, call, out),
            methods::SessionForget::NAME => self.reaching::<methods::SessionForget>(call, out, session::forget),
            methods::SessionWatch::NAME => session::watch(self, call, out),
            methods::SessionUnwatch::NAME => session::unwatch(self, call, out),
            methods::SessionRead::NAME => self.reaching::<methods::SessionRead>(call, out, page::read),
            methods::SessionRaw::NAME => self.reaching::<methods::SessionRaw>(call, out, session::raw),
            methods::FeedRead::NAME => self.personal::<methods::FeedRead>(call, out, feed::read),
            methods::FeedFollow::NAME => feed::follow(self, call, out),
            methods::FeedUnfollow::NAME => feed::unfollow(self, call, out),
            methods::HistoryList::NAME => self.reaching::<methods::HistoryList>(call, out, history::list),
            methods::HistoryGet::NAME => self.reaching::<methods::HistoryGet>(call, out, history::get),
            methods::HistoryMessages::NAME => self.long::<methods::HistoryMessages>(call, out, history::messages),
            methods::HistorySearch::NAME => self.search::<methods::HistorySearch>(call, out, history::search),
            methods::ApprovalList::NAME => self.blocking::<methods::ApprovalList>(call, out, approval::list),
            methods::ApprovalGet::NAME => self.blocking::<methods::ApprovalGet>(call, out, approval::get),
            methods::ApprovalChanges::NAME => approval::changes(&self.shared, call, out),
            methods::ApprovalShown::NAME => self.reaching::<methods::ApprovalShown>(call, out, approval::shown),
            methods::ApprovalDecide::NAME => self.personal::<methods::ApprovalDecide>(call, out, approval::decide),
            methods::ApprovalTerminal::NAME => {
                self.personal::<methods::ApprovalTerminal>(call, out, approval::terminal)
            }
            methods::RuleList::NAME => self.now::<methods::RuleList>(call, out, rules::list),
            methods::RuleAdd::NAME => self.personal::<methods::RuleAdd>(call, out, rules::add),
            methods::ApprovalUnlock::NAME => self.personal::<methods::ApprovalUnlock>(call, out, approval::unlock),
            methods::RuleAffirm::NAME => self.personal::<methods::RuleAffirm>(call, out, rules::affirm),
            methods::RuleRevoke::NAME => self.personal::<methods::RuleRevoke>(call, out, rules::revoke),
            methods::SettingConfirm::NAME => self.personal::<methods::SettingConfirm>(call, out, rules::confirm),
            methods::AuditRead::NAME => self.reaching::<methods::AuditRead>(call, out, rules::audit),
            methods::AuditVerify::NAME => self.blocking::<methods::AuditVerify>(call, out, rules::verify),
            methods::DeviceTailnet::NAME => self.personal::<methods::DeviceTailnet>(call, out, device::tailnet),
            methods::DeviceOffer::NAME => self.personal::<methods::DeviceOffer>(call, out, device::offer),
            methods::DeviceOffers::NAME => device::offers(self, call, out),
            methods::DeviceAdmit::NAME => self.personal::<methods::DeviceAdmit>(call, out, device::admit),
            methods::DeviceRefuse::NAME => self.personal::<methods::DeviceRefuse>(call, out, device::refuse),
            methods::DeviceList::NAME => self.reaching::<methods::DeviceList>(call, out, device::list),
            methods::DeviceRevoke::NAME => self.personal::<methods::DeviceRevoke>(call, out, device::revoke),
            methods::DeviceAffirm::NAME => self.personal::<methods::DeviceAffirm>(call, out, device::affirm),
            methods::DeviceTrouble::NAME => device::trouble(self, call, out),
            methods::NoticeList::NAME => notice::list(self, call, out),
            methods::NoticeWays::NAME => self.reaching::<methods::NoticeWays>(call, out, notice::ways),
            methods::NoticeTest::NAME => self.reaching::<methods::NoticeTest>(call, out, notice::test),
            methods::NoticeLooking::NAME => notice::looking(self, call, out),
            methods::NoticeKey::NAME => self.personal::<methods::NoticeKey>(call, out, notice::key),
            methods::NoticeSubscribe::NAME => self.personal::<methods::NoticeSubscribe>(call, out, notice::subscribe),
            methods::NoticeUnsubscribe::NAME => {
                self.personal::<methods::NoticeUnsubscribe>(call, out, notice::unsubscribe)
            }
            methods::DeviceCode::NAME
            | methods::DeviceRedeem::NAME
            | methods::DeviceRefresh::NAME
            | methods::DeviceChallenge::NAME
            | methods::DeviceProve::NAME
            | methods::DeviceShow::NAME => Err(arrival::too_late()),
            // The second is what tools that know OpenRPC ask for by themselves.
            "instance.openrpc" | "rpc.discover" => {
                let program = self.shared.instance.identity().program;
                out.ready.extend(call.head.document(&ostler_api::document(&program)));
                Ok(())
            }
            _ => self.workspace_call(method, call, out),
        }
    }

    /// Methods about files and git, and what a session did to them.
    fn workspace_call(&mut self, method: &str, call: &Call<'_>, out: &mut Out) -> Result<(), RpcError> {
        match method {
            methods::SessionChanges::NAME => self.reaching::<methods::SessionChanges>(call, out, changes::changes),
            methods::SessionReview::NAME => self.reaching::<methods::SessionReview>(call, out, review::review),
            methods::SessionSetup::NAME => self.personal::<methods::SessionSetup>(call, out, setup::setup),
            methods::SessionRun::NAME => self.personal::<methods::SessionRun>(call, out, setup::run),
            methods::SessionFinish::NAME => finish::finish(self, call, out),
            methods::SessionUnfinish::NAME => self.reaching::<methods::SessionUnfinish>(call, out, finish::unfinish),
            methods::WorkspaceList::NAME => self.reaching::<methods::WorkspaceList>(call, out, workspace::list),
            methods::WorkspaceTree::NAME => self.reaching::<methods::WorkspaceTree>(call, out, workspace::tree),
            methods::WorkspaceRead::NAME => self.reaching::<methods::WorkspaceRead>(call, out, workspace::read),
            methods::WorkspaceWrite::NAME => self.reaching::<methods::WorkspaceWrite>(call, out, workspace::write),
            methods::WorkspaceWatch::NAME => search::watch(self, call, out),
            methods::WorkspaceUnwatch::NAME => search::unwatch(self, call, out),
            methods::SearchNames::NAME => self.reaching::<methods::SearchNames>(call, out, search::names),
            methods::SearchContent::NAME => self.search::<methods::SearchContent>(call, out, search::content),
            methods::SearchStatus::NAME => self.reaching::<methods::SearchStatus>(call, out, search::status),
            methods::SearchStats::NAME => self.reaching::<methods::SearchStats>(call, out, search::stats),
            methods::SearchRebuild::NAME => self.reaching::<methods::SearchRebuild>(call, out, search::rebuild),
            methods::GitStatus::NAME => self.reaching::<methods::GitStatus>(call, out, look::status),
            methods::GitDiff::NAME => self.reaching::<methods::GitDiff>(call, out, look::diff),
            methods::GitLog::NAME => self.reaching::<methods::GitLog>(call, out, look::log),
            methods::GitBranches::NAME => self.reaching::<methods::GitBranches>(call, out, look::branches),
            methods::GitRemotes::NAME => self.reaching::<methods::GitRemotes>(call, out, look::remotes),
            methods::GitStashes::NAME => self.reaching::<methods::GitStashes>(call, out, look::stashes),
            methods::GitWorktrees::NAME => self.reaching::<methods::GitWorktrees>(call, out, look::worktrees),
            methods::GitKept::NAME => self.reaching::<methods::GitKept>(call, out, look::kept),
            methods::GitStage::NAME => self.reaching::<methods::GitStage>(call, out, change::stage),
            methods::GitUnstage::NAME => self.reaching::<methods::GitUnstage>(call, out, change::unstage),
            methods::GitStagePatch::NAME => self.reaching::<methods::GitStagePatch>(call, out, change::stage_patch),
            methods::GitDiscard::NAME => self.reaching::<methods::GitDiscard>(call, out, change::discard),
            methods::GitRestore::NAME => self.reaching::<methods::GitRestore>(call, out, change::restore),
            methods::GitBranchCreate::NAME => {
                self.reaching::<methods::GitBranchCreate>(call, out, change::branch_create)
            }
            methods::GitBranchDelete::NAME => {
                self.reaching::<methods::GitBranchDelete>(call, out, change::branch_delete)
            }
            methods::GitStash::NAME => self.reaching::<methods::GitStash>(call, out, change::stash),
            methods::GitStashTake::NAME => self.reaching::<methods::GitStashTake>(call, out, change::stash_take),
            methods::GitMergeAbort::NAME => self.reaching::<methods::GitMergeAbort>(call, out, change::merge_abort),
            methods::GitRemoteAdd::NAME => self.reaching::<methods::GitRemoteAdd>(call, out, change::remote_add),
            methods::GitRemoteRemove::NAME => {
                self.reaching::<methods::GitRemoteRemove>(call, out, change::remote_remove)
            }
            methods::GitCommit::NAME => git_hosted::start::<methods::GitCommit>(self, call, out),
            methods::GitPush::NAME => git_hosted::start::<methods::GitPush>(self, call, out),
            methods::GitPull::NAME => git_hosted::start::<methods::GitPull>(self, call, out),
            methods::GitFetch::NAME => git_hosted::start::<methods::GitFetch>(self, call, out),
            methods::GitSwitch::NAME => git_hosted::start::<methods::GitSwitch>(self, call, out),
            methods::GitMerge::NAME => git_hosted::start::<methods::GitMerge>(self, call, out),
            _ => {
                Err(RpcError::new(ErrorKind::UnknownMethod, format!("no method `{method}`"))
                    .hint("list them: ostler api"))
            }
        }
    }

    /// A method that never waits.
    fn now<M: Method>(
        &self,
        call: &Call<'_>,
        out: &mut Out,
        answer: fn(&DoorState, M::Params) -> Result<M::Result, RpcError>,
    ) -> Result<(), RpcError> {
        let result = answer(&self.shared, call.params::<M>()?);
        out.ready.extend(call.head.answer::<M>(&result));
        Ok(())
    }

    /// A method that touches or shows what may not be the client's own, and never waits.
    fn reaching_now<M: Method>(
        &self,
        call: &Call<'_>,
        out: &mut Out,
        answer: ReachingNow<M::Params, M::Result>,
    ) -> Result<(), RpcError> {
        let result = answer(&self.shared, &self.origin, call.params::<M>()?);
        out.ready.extend(call.head.answer::<M>(&result));
        Ok(())
    }

    /// A method that touches or shows what may not be the client's own; it may wait for the disk.
    fn reaching<M: Method>(
        &self,
        call: &Call<'_>,
        out: &mut Out,
        answer: Reaching<M::Params, M::Result>,
    ) -> Result<(), RpcError> {
        let origin = Arc::clone(&self.origin);
        self.blocking::<M>(call, out, move |wait, shared, params| answer(wait, shared, &origin, params))
    }

    /// The same, for what may take long: it is told when nobody waits for the answer any more.
    fn long<M: Method>(
        &self,
        call: &Call<'_>,
        out: &mut Out,
        answer: Long<M::Params, M::Result>,
    ) -> Result<(), RpcError> {
        let (origin, gone) = (Arc::clone(&self.origin), Arc::clone(&self.gone));
        self.blocking::<M>(call, out, move |wait, shared, params| {
            answer(wait, shared, &origin, params, &|| gone.load(Ordering::Relaxed))
        })
    }

    /// The same for what takes all the processors that it can get: a client has few of them at once.
    fn search<M: Method>(
        &self,
        call: &Call<'_>,
        out: &mut Out,
        answer: Long<M::Params, M::Result>,
    ) -> Result<(), RpcError> {
        let (params, head, shared) = (call.params::<M>()?, call.head.clone(), Arc::clone(&self.shared));
        let (origin, gone, share) = (Arc::clone(&self.origin), Arc::clone(&self.gone), Arc::clone(out.share()));
        out.spawn(async move {
            let place = share.search().await;
            let found = MayWait::pool(move |wait| {
                let gone = || gone.load(Ordering::Relaxed);
                let found = head.answer::<M>(&answer(wait, &shared, &origin, params, &gone));
                drop((place, share));
                found
            });
            // A thread that died has said so in the log.
            Later::reply(found.await.unwrap_or_default())
        });
        Ok(())
    }

    /// A method that may wait for the disk.
    fn blocking<M: Method>(
        &self,
        call: &Call<'_>,
        out: &mut Out,
        answer: impl FnOnce(&MayWait, &DoorState, M::Params) -> Result<M::Result, RpcError> + Send + 'static,
    ) -> Result<(), RpcError> {
        let (params, head, shared) = (call.params::<M>()?, call.head.clone(), Arc::clone(&self.shared));
        out.spawn_blocking(move |wait| Later::reply(head.answer::<M>(&answer(wait, &shared, params))));
        Ok(())
    }

    /// A method that asks who calls; it may wait for the disk.
    fn personal<M: Method>(
        &self,
        call: &Call<'_>,
        out: &mut Out,
        answer: Personal<M::Params, M::Result>,
    ) -> Result<(), RpcError> {
        let who = self.who.clone();
        self.blocking::<M>(call, out, move |wait, shared, params| answer(wait, shared, &who, params))
    }
}

impl Session for Client {
    type Tag = Tag;

    fn line(&mut self, line: &[u8], out: &mut Out) -> Flow {
        self.shared.counters.requests.fetch_add(1, Ordering::Relaxed);
        let Some((method, call)) = Call::read(line, out) else { return Flow::Continue };
        if let Who::Device(guest) = &self.who
            && let Err(error) = rights::check(&self.shared.engine, guest, &method)
        {
            // Who was refused goes on record, which may wait for the disk.
            let (shared, guest) = (Arc::clone(&self.shared), Arc::clone(guest));
            out.spawn_blocking(move |wait| {
                shared.engine.guest_refused(wait, &guest, "devices", &error.message);
                Later::reply(call.head.refuse(&error))
            });
            return Flow::Continue;
        }
        if let Err(error) = self.call(&method, &call, out) {
            out.ready.extend(call.head.refuse(&error));
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
        let why = self.shared.engine.disk_trouble(error).message;
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
