//! `notice.*`: what somebody was told while they were not looking, how, and where devices are pushed to.

use crate::schema::{wire, words};
use crate::time::Timestamp;

words! {
    /// What a notice is about, the most urgent of several.
    pub enum NoticeKind {
        /// Somebody is needed.
        Needs = "needs",
        Failed = "failed",
        Ended = "ended",
    }
}

wire! {
    pub struct NoticeListParams {
        /// Those with a larger number.
        #[serde(default)]
        pub after: u64,
    }

    pub struct NoticeList {
        /// The number of the newest.
        pub revision: u64,
        /// Whether notices are pushed to the device that asks.
        pub subscribed: bool,
        /// Whether terminals ring for them.
        pub bell: bool,
        /// Newest last.
        pub notices: Vec<NoticeInfo>,
    }

    pub struct NoticeInfo {
        pub number: u64,
        pub time: Timestamp,
        /// Of how many sessions, programs and requests.
        pub count: u64,
        pub kind: NoticeKind,
        /// In words, on one line.
        pub text: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub session: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub process: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub approval: Option<String>,
        /// Where to look, in a browser.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub link: Option<String>,
        /// It can be answered from the notice, which says all of it: allowed once, or denied.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub answer: Option<NoticeAnswer>,
        /// What came of it by each way; one that is missing was not heard of.
        pub ways: Vec<NoticeWay>,
    }

    /// The request that a notice says all of.
    pub struct NoticeAnswer {
        pub approval: String,
        /// Of the content that was told.
        pub hash: String,
    }

    /// A way to tell somebody, and what came of it.
    pub struct NoticeWay {
        pub way: String,
        /// Where it leads.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub to: Option<String>,
        /// What happened, where it worked.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub done: Option<String>,
        /// Why it does not work.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub trouble: Option<String>,
    }

    pub struct NoticeWays {
        pub ways: Vec<NoticeWay>,
    }

    pub struct NoticeKey {
        /// An uncompressed point of P-256, in base64url: the `applicationServerKey` of a subscription.
        pub key: String,
    }

    pub struct NoticeSubscribeParams {
        /// Where the browser's push service wants to be told.
        pub endpoint: String,
    }

    /// All that is in view on this connection, until the next call; left out: nothing.
    pub struct NoticeLookingParams {
        #[serde(default)]
        pub sessions: Vec<String>,
        #[serde(default)]
        pub processes: Vec<String>,
        /// Requests that no session asks: those of sessions are theirs.
        #[serde(default)]
        pub approvals: Vec<String>,
    }
}
