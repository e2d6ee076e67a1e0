//! What a device must be allowed to do for each method: the one table. Whoever is on this machine is judged by where it comes
//! from (`reach`), a device by its rights.

use ostler_api::methods::*;
use ostler_api::{ErrorKind, Method, RpcError};
use ostler_engine::Engine;
use ostler_engine::access::device::{DeviceError, Guest, Right};

/// What a method needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Nothing: it tells nothing and changes nothing, or a device may always do it for itself.
    Nothing,
    /// This right. Some methods look further, at what they are asked to do.
    Right(Right),
    /// A person at a terminal of the machine itself: no device may.
    Person,
}

/// What this method needs; nothing at all for one that nobody has put here, which no device may call.
pub(crate) fn need(method: &str) -> Option<Need> {
    let right = |right| Some(Need::Right(right));
    match method {
        InstanceHello::NAME | "instance.openrpc" | "rpc.discover" => Some(Need::Nothing),

        InstanceStatus::NAME | InstanceAgents::NAME | InstanceMetrics::NAME => right(Right::View),
        HostedList::NAME | ProcessList::NAME | ProcessGet::NAME => right(Right::View),
        ProcessAttach::NAME | ProcessDetach::NAME => right(Right::View),
        SessionList::NAME | SessionGet::NAME | SessionRead::NAME | SessionRaw::NAME => right(Right::View),
        SessionWatch::NAME | SessionUnwatch::NAME => right(Right::View),
        FeedRead::NAME | FeedFollow::NAME | FeedUnfollow::NAME => right(Right::View),
        HistoryList::NAME | HistoryGet::NAME | HistoryMessages::NAME | HistorySearch::NAME => right(Right::View),
        ApprovalList::NAME | ApprovalGet::NAME | ApprovalChanges::NAME => right(Right::View),
        RuleList::NAME | AuditRead::NAME | AuditVerify::NAME => right(Right::View),
        SessionChanges::NAME | WorkspaceList::NAME | WorkspaceTree::NAME | WorkspaceRead::NAME => right(Right::View),
        WorkspaceWatch::NAME | WorkspaceUnwatch::NAME | SearchNames::NAME | SearchContent::NAME => right(Right::View),
        SearchStatus::NAME | SearchStats::NAME | SearchRebuild::NAME => right(Right::View),
        GitStatus::NAME | GitDiff::NAME | GitLog::NAME | GitBranches::NAME | GitRemotes::NAME => right(Right::View),
        GitStashes::NAME | GitWorktrees::NAME | GitKept::NAME => right(Right::View),
        // Which answers it may give, the inbox says.
        ApprovalDecide::NAME => right(Right::View),
        // Its time runs from then on: for who can answer it in that time. What runs as another user also needs that right.
        ApprovalShown::NAME => right(Right::AnswerOnce),

        // With a command, a program or variables of its own: also what starting a command needs. With more autonomy than to
        // ask: also what changing that needs.
        SessionCreate::NAME => right(Right::Prompt),
        SessionPrompt::NAME | SessionReview::NAME | SessionEdit::NAME => right(Right::Prompt),
        SessionInterrupt::NAME | SessionContinue::NAME | SessionClose::NAME => right(Right::Prompt),
        // How much the agent may do without asking needs `LoosenAutonomy` besides.
        SessionChange::NAME => right(Right::Prompt),

        RuleAdd::NAME | RuleRevoke::NAME => right(Right::AnswerLastingly),

        ProcessSpawn::NAME | ProcessStdin::NAME | ProcessCloseStdin::NAME => right(Right::TypeIntoTerminals),
        ProcessSignal::NAME | ProcessKill::NAME | ProcessResize::NAME => right(Right::TypeIntoTerminals),
        // A yes to what a repository says, too, is a command to be started: also this right.
        SessionSetup::NAME => right(Right::View),
        SessionRun::NAME => right(Right::TypeIntoTerminals),
        ProcessRename::NAME | SessionScreen::NAME => right(Right::TypeIntoTerminals),

        // What is merged or proposed: also what starting a command needs.
        SessionFinish::NAME | SessionUnfinish::NAME => right(Right::WriteFiles),
        // Which folders, the engine says.
        WorkspaceWrite::NAME | GitStage::NAME | GitUnstage::NAME | GitStagePatch::NAME => right(Right::WriteFiles),
        GitDiscard::NAME | GitRestore::NAME | GitStash::NAME | GitStashTake::NAME => right(Right::WriteFiles),
        GitBranchCreate::NAME | GitBranchDelete::NAME | GitMergeAbort::NAME => right(Right::WriteFiles),
        GitRemoteAdd::NAME | GitRemoteRemove::NAME => right(Right::WriteFiles),
        GitCommit::NAME | GitPush::NAME | GitPull::NAME | GitFetch::NAME => right(Right::WriteFiles),
        GitSwitch::NAME | GitMerge::NAME => right(Right::WriteFiles),

        DeviceOffer::NAME | DeviceOffers::NAME | DeviceAdmit::NAME | DeviceRefuse::NAME => right(Right::AdmitDevices),
        DeviceList::NAME => right(Right::AdmitDevices),
        DeviceTrouble::NAME => right(Right::View),
        NoticeList::NAME | NoticeLooking::NAME | NoticeKey::NAME => right(Right::View),
        NoticeSubscribe::NAME | NoticeUnsubscribe::NAME => right(Right::View),
        // How it came in; answered before anybody asks for rights.
        DeviceCode::NAME | DeviceRedeem::NAME | DeviceRefresh::NAME => Some(Need::Nothing),
        DeviceChallenge::NAME | DeviceProve::NAME | DeviceShow::NAME => Some(Need::Nothing),
        // Itself always; the engine asks about others.
        DeviceRevoke::NAME => Some(Need::Nothing),

        // Where notices go is named at the machine itself.
        DeviceTailnet::NAME => Some(Need::Person),
        NoticeWays::NAME | NoticeTest::NAME => Some(Need::Person),
        // What ends, deletes, or decides who may.
        InstanceLeave::NAME | InstanceStop::NAME | InstancePrune::NAME => Some(Need::Person),
        ProcessAccess::NAME | ProcessForget::NAME | SessionForget::NAME => Some(Need::Person),
        // A password is typed at the machine itself.
        ApprovalTerminal::NAME | ApprovalUnlock::NAME => Some(Need::Person),
        RuleAffirm::NAME | SettingConfirm::NAME | DeviceAffirm::NAME => Some(Need::Person),
        _ => None,
    }
}

/// Refuses a device what it may not do.
pub(crate) fn check(engine: &Engine, guest: &Guest, method: &str) -> Result<(), RpcError> {
    match need(method) {
        None | Some(Need::Person) => {
            let message = format!("no device may call {method}");
            Err(RpcError::new(ErrorKind::Refused, message).hint("use a terminal of the machine itself"))
        }
        Some(Need::Nothing) => Ok(()),
        Some(Need::Right(right)) => engine.guest_may(guest, right).map_err(|error| refusal(&error)),
    }
}

/// Why a device, or a pairing, was refused, in the protocol's words.
pub(crate) fn refusal(error: &DeviceError) -> RpcError {
    let (kind, hint) = match error {
        DeviceError::NotFound(_) => (ErrorKind::NotFound, Some("list them: ostler devices")),
        DeviceError::Offer(_) => (ErrorKind::Refused, None),
        DeviceError::Store(_) | DeviceError::Random(_) => (ErrorKind::Failed, None),
        DeviceError::Hosted(_) | DeviceError::Unknown => (ErrorKind::Refused, Some("use a terminal of your own")),
        DeviceError::Right(_) => (ErrorKind::Refused, Some("pair it again with more rights: ostler pair --rights")),
        _ => (ErrorKind::Refused, None),
    };
    let refusal = RpcError::new(kind, error.to_string());
    match hint {
        Some(hint) => refusal.hint(hint),
        None => refusal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_says_what_a_device_needs_for_it() {
        for method in ostler_api::METHODS {
            assert!(need(method.name).is_some(), "{} has no line in the table", method.name);
        }
        assert_eq!(need("process.explode"), None, "what is not there is open to no device");
    }

    #[test]
    fn what_to_do_is_said_once() {
        let refused = refusal(&DeviceError::NotAPerson("pid 1 has no terminal: use a terminal of your own".into()));
        assert_eq!(refused.data.and_then(|data| data.hint), None);
    }

    #[test]
    fn who_only_watches_changes_nothing_and_who_answers_types_nothing() {
        use ostler_engine::access::device::Preset;
        let open = |preset: Preset| {
            let may = |need: Need| match need {
                Need::Nothing => true,
                Need::Right(right) => preset.rights().has(right),
                Need::Person => false,
            };
            let names = ostler_api::METHODS.iter().map(|method| method.name);
            names.filter(|name| need(name).is_some_and(may)).collect::<Vec<_>>()
        };
        let watch = open(Preset::Watch);
        for name in [
            "session.prompt",
            "session.review",
            "process.spawn",
            "session.create",
            "rule.add",
            "device.offer",
            "instance.stop",
        ] {
            assert!(!watch.contains(&name), "{name}");
        }
        assert!(watch.contains(&"git.diff") && !watch.contains(&"workspace.write") && !watch.contains(&"git.commit"));
        let answer = open(Preset::Answer);
        assert!(answer.contains(&"session.prompt") && answer.contains(&"approval.decide"));
        for name in ["process.stdin", "process.spawn", "session.screen", "rule.add", "device.admit", "process.kill"] {
            assert!(!answer.contains(&name), "{name}");
        }
        let full = open(Preset::Full);
        for name in ["instance.stop", "approval.terminal", "rule.affirm", "device.affirm", "process.access"] {
            assert!(!full.contains(&name), "{name} is for a person at the machine");
        }
    }
}
