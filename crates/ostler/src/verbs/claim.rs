//! What a terminal program claims to be doing, in a few words that say whose claim it is.

use ostler_api::{Claim, ClaimState};

use crate::output::{Paint, visible};

/// Characters of the name that a program gives itself.
const APP_MAX: usize = 24;

pub(super) fn claimed(claim: &Claim) -> (String, Paint) {
    let (word, paint) = match (claim.state, claim.kind.as_deref()) {
        (ClaimState::Idle, _) => ("idle", Paint::Dim),
        (ClaimState::Working, _) => ("working", Paint::Good),
        (ClaimState::Done, _) => ("done", Paint::Good),
        (ClaimState::Failed, _) => ("failed", Paint::Bad),
        (ClaimState::NeedsYou, Some("permission")) => ("needs you: permission", Paint::Warn),
        (ClaimState::NeedsYou, Some("question")) => ("needs you: question", Paint::Warn),
        (ClaimState::NeedsYou, Some("auth")) => ("needs you: login", Paint::Warn),
        (ClaimState::NeedsYou, _) => ("needs you", Paint::Warn),
    };
    let progress = claim.progress.map_or(String::new(), |percent| format!(" {percent} %"));
    let by = match (&claim.app, claim.reported) {
        (Some(app), true) => {
            let short: String = app.chars().take(APP_MAX).collect();
            format!("says {}", visible(&short))
        }
        (None, true) => "says the program".to_owned(),
        (_, false) => "it seems".to_owned(),
    };
    (format!("{word}{progress} ({by})"), paint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_said_to_be_one_and_a_strangers_name_moves_no_cursor() {
        let mut claim = Claim {
            state: ClaimState::NeedsYou,
            kind: Some("permission".into()),
            app: Some("evil\u{202e}\u{9b}2J".into()),
            title: None,
            message: None,
            progress: None,
            since: None,
            reported: true,
        };
        assert_eq!(claimed(&claim).0, "needs you: permission (says evil\\u{202e}\\u{9b}2J)");
        claim =
            Claim { state: ClaimState::Working, kind: None, app: None, progress: Some(40), reported: false, ..claim };
        assert_eq!(claimed(&claim).0, "working 40 % (it seems)");
    }
}
