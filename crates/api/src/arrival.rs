//! How a device comes in over a WebSocket of the web port: by a code or link once, then by its key or its token.

use crate::device::Rights;
use crate::schema::wire;
use crate::time::Timestamp;

wire! {
    pub struct DeviceCodeParams {
        /// Six digits, as `ostler pair` shows them.
        pub code: String,
    }

    /// What a code is worth: redeemed as a link is.
    pub struct DeviceTicket {
        pub link: String,
    }

    pub struct DeviceRedeemParams {
        /// What stood behind the `#` of the address, or what `device.code` gave.
        pub link: String,
        /// What the device would be called.
        #[serde(default)]
        pub name: String,
        /// Its public key, where it can keep one: the uncompressed point of P-256 in base64url without padding.
        pub key: Option<String>,
    }

    /// Either it is paired, or a person is asked: come again with the same.
    pub struct DeviceRedeemed {
        #[serde(skip_serializing_if = "Option::is_none")]
        pub paired: Option<DevicePaired>,
        /// What the person sees it as.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub offer: Option<String>,
        /// For how long, at most.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub expires_in_ms: Option<u64>,
    }

    pub struct DevicePaired {
        pub id: String,
        pub name: String,
        pub rights: Rights,
        /// It has no key, so it was given less than was offered.
        pub limited: bool,
        /// Its tokens, if it has no key.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub tokens: Option<DeviceTokens>,
    }

    /// Told once.
    pub struct DeviceTokens {
        /// For `device.show`, or as `Authorization: Bearer`.
        pub access: String,
        pub access_until: Timestamp,
        /// For `device.refresh`, once.
        pub refresh: String,
        pub refresh_until: Timestamp,
    }

    pub struct DeviceRefreshParams {
        pub refresh: String,
    }

    /// What a device with a key signs: the lines `ostler connect`, challenge, device and host.
    pub struct DeviceChallenge {
        pub challenge: String,
        /// The host that it came to.
        pub host: String,
    }

    pub struct DeviceProveParams {
        pub device: String,
        /// ECDSA over P-256 with SHA-256: `r` and `s`, in base64url without padding.
        pub signature: String,
    }

    pub struct DeviceShowParams {
        /// An access token.
        pub token: String,
    }

    /// Who it is. From now on every other method answers, as far as its rights go.
    pub struct DeviceCame {
        pub id: String,
        pub name: String,
        pub rights: Rights,
    }
}
