//! `device.*`: phones, browsers and other machines that are paired, and how they come to be.

use ostler_story::By;
pub use ostler_story::{Right, Rights};

use crate::schema::{wire, words};
use crate::time::Timestamp;

words! {
    /// Where a pairing stands.
    pub enum OfferState {
        /// Nobody has come yet.
        Open = "open",
        /// A device is there, and waits for `device.admit`.
        Claimed = "claimed",
        /// It was let in, and has not come back for its answer yet.
        Admitted = "admitted",
        Refused = "refused",
        Paired = "paired",
        Expired = "expired",
    }
}

wire! {
    /// What a new device will be.
    pub struct DeviceOfferParams {
        /// What it will be called; left out, it says so itself.
        pub name: Option<String>,
        /// What it will be allowed to do, and nothing that the caller may not; left out: view, prompt, answer_once.
        #[serde(default)]
        pub rights: Rights,
        /// Make a code of six digits too. `device.admit` is needed then, wherever the device is; else only where it is not on
        /// this machine.
        #[serde(default)]
        pub code: bool,
    }

    /// A code and a link by which one device can be paired, once. They are told only here.
    pub struct DeviceOffered {
        pub offer: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub code: Option<String>,
        /// Goes behind the `#` of an address.
        pub link: String,
        pub expires_in_ms: u64,
    }

    pub struct DeviceTailnetParams {
        /// Devices may come by that name from now on; only where it is served.
        #[serde(default)]
        pub allow: bool,
    }

    /// How this machine is found in a tailnet.
    pub struct DeviceTailnet {
        /// What is there; nothing where tailscale is not installed, or does not work.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub tailnet: Option<TailnetInfo>,
        /// Why it does not work.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub why_not: Option<String>,
    }

    pub struct TailnetInfo {
        /// `https://` and the name of this machine.
        pub url: String,
        /// What a person has to run once, so that tailscale passes on what comes to that name.
        pub command: String,
        /// It does.
        pub served: bool,
        /// Also what comes from the internet.
        pub public: bool,
        /// Devices may come by that name.
        pub allowed: bool,
    }

    /// Pairings that are under way, or were settled a moment ago.
    pub struct DeviceOffers {
        pub offers: Vec<OfferInfo>,
    }

    pub struct OfferInfo {
        pub offer: String,
        pub state: OfferState,
        /// What the device will be called, or what it calls itself.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub name: Option<String>,
        /// Where it is, once it is there.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub address: Option<String>,
        pub rights: Rights,
        pub expires_in_ms: u64,
        /// The device that it became.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub device: Option<String>,
    }

    pub struct OfferParams {
        pub offer: String,
    }

    pub struct DeviceList {
        pub devices: Vec<DeviceInfo>,
    }

    pub struct DeviceInfo {
        pub id: String,
        pub name: String,
        pub rights: Rights,
        /// It signs with a key of its own; else it shows tokens.
        pub key: bool,
        pub paired: Timestamp,
        /// Who let it in.
        #[serde(with = "ostler_story::by_in_words")]
        pub paired_by: By,
        /// When it was last here.
        pub seen: Timestamp,
        /// From where.
        pub address: String,
        /// It has to be paired again unless it comes before.
        pub expires: Timestamp,
        /// It may do nothing until a person affirms it.
        pub suspended: bool,
        /// What `device.affirm` names.
        pub digest: String,
    }

    pub struct DeviceRevokeParams {
        /// Its name or id.
        pub device: Option<String>,
        /// Every device.
        #[serde(default)]
        pub all: bool,
    }

    pub struct DeviceRevoked {
        pub revoked: u64,
    }

    /// What went wrong in a device's own program.
    pub struct DeviceTroubleParams {
        pub message: String,
        /// Where, as the program tells it.
        #[serde(default)]
        pub stack: String,
    }

    pub struct DeviceAffirmParams {
        /// Of the devices that the person has seen.
        pub digests: Vec<String>,
    }

    pub struct DeviceNames {
        pub names: Vec<String>,
    }

    /// An answer of a device that has a key.
    pub struct SignedAnswer {
        /// JSON with `id`, `hash`, `verdict`, what belongs to the verdict, and `until_ms`: milliseconds since 1970 after which
        /// it does not count. What is said here is what is decided.
        pub text: String,
        /// ECDSA over P-256 with SHA-256 of the text: `r` and `s`, in base64url without padding.
        pub signature: String,
    }
}
