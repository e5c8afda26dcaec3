//! The addresses and certificates of a portal, for the machines that know it.

use crate::model::understood;
use crate::token::{CertificatePin, Portal};
use culvert_ids::TokenId;
use serde::{Deserialize, Serialize};

/// URLs of a portal that a machine keeps. An organisation has two or three portals. While they move, each has an
/// old and a new URL. They take 4 KiB at most ([`MAX_URL_LEN`](crate::token::MAX_URL_LEN)).
pub const MAX_PORTAL_URLS: usize = 8;

/// Certificates of a portal that a machine keeps: the present one and the next one, and as many of a proxy in front
/// of it.
pub const MAX_PORTAL_PINS: usize = 4;

/// Most bytes of a set that a machine has stored: its URLs, its pins and the id of a token take 5 KiB, and later versions
/// may add fields.
pub const MAX_STORED_PORTALS_LEN: usize = 16 << 10;

/// The addresses at which a portal is reached, and the certificates by which it is known at each of them. The portal
/// hands it out; a machine keeps it beside the address of its token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PortalSet {
    /// `https://host[:port]` each, the preferred one first.
    pub urls: Vec<String>,
    /// SHA-256 of certificates, in any order.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "understood")]
    pub pins: Vec<CertificatePin>,
    /// A certificate counts too if an authority that the machine trusts vouches for it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub authorities: bool,
}

impl PortalSet {
    /// The part that can be used: URLs of portals, each once, within the bounds. Nothing of it where no URL or no
    /// certificate is left.
    #[must_use]
    pub fn usable(&self) -> Self {
        let mut usable = Self {
            authorities: self.authorities,
            ..Self::default()
        };
        for url in self
            .urls
            .iter()
            .filter_map(|url| Portal::new(url, None).ok())
        {
            if usable.urls.len() < MAX_PORTAL_URLS && !usable.urls.contains(&url.url) {
                usable.urls.push(url.url);
            }
        }
        for pin in &self.pins {
            if usable.pins.len() < MAX_PORTAL_PINS && !usable.pins.contains(pin) {
                usable.pins.push(*pin);
            }
        }
        let trusts_none = usable.pins.is_empty() && !usable.authorities;
        match usable.urls.is_empty() || trusts_none {
            true => Self::default(),
            false => usable,
        }
    }

    /// The form in which a machine keeps it: with the id of the token that led to it, and without a secret.
    #[must_use]
    pub fn stored(&self, token: TokenId) -> String {
        let stored = Stored {
            token,
            portals: self.clone(),
        };
        serde_json::to_string(&stored).unwrap_or_default()
    }

    /// The set that was stored with this token. Nothing of another token counts, which may be one of another portal. Nor does a
    /// text that is not understood: the address of the token is always there.
    #[must_use]
    pub fn from_stored(text: &[u8], token: TokenId) -> Self {
        let stored = serde_json::from_slice::<Stored>(text).ok();
        let stored = stored.filter(|stored| stored.token == token);
        stored.map_or_else(Self::default, |stored| stored.portals.usable())
    }

    /// True if it says nothing.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.urls.is_empty()
    }
}

/// The set as a machine keeps it.
#[derive(Serialize, Deserialize)]
struct Stored {
    token: TokenId,
    #[serde(flatten)]
    portals: PortalSet,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pin(byte: u8) -> CertificatePin {
        CertificatePin::of(&[byte])
    }

    fn set(urls: &[&str], pins: &[CertificatePin]) -> PortalSet {
        PortalSet {
            urls: urls.iter().map(ToString::to_string).collect(),
            pins: pins.to_vec(),
            authorities: false,
        }
    }

    #[test]
    fn urls_and_pins_that_are_none_are_left_out_and_the_rest_counts() {
        let told = r#"{"urls": ["https://a.example/", "http://a.example", "https://b.example:443", "https://b.example"],
            "pins": ["x", "n4bQgYhMfWWaL-qgxVrQFaO_TxsrC4Is0V1sFbDwCgg", 7], "later": true}"#;
        let told: PortalSet = serde_json::from_str(told).unwrap();
        let usable = told.usable();
        assert_eq!(usable.urls, ["https://a.example", "https://b.example"]);
        assert_eq!(usable.pins, [CertificatePin::of(b"test")]);
        let text = serde_json::to_string(&usable).unwrap();
        let read: PortalSet = serde_json::from_str(&text).unwrap();
        assert_eq!(read, usable);
    }

    #[test]
    fn a_set_without_an_address_or_without_a_certificate_says_nothing() {
        assert!(set(&[], &[pin(1)]).usable().is_empty());
        assert!(set(&["https://a.example"], &[]).usable().is_empty());
        assert!(set(&["a.example"], &[pin(1)]).usable().is_empty());
        let by_authorities = PortalSet {
            authorities: true,
            ..set(&["https://a.example"], &[])
        };
        assert_eq!(by_authorities.usable(), by_authorities);
    }

    #[test]
    fn what_was_kept_counts_for_the_token_that_led_to_it_alone() {
        let token = TokenId::from_bytes([1; 16]);
        let told = set(&["https://a.example"], &[pin(1)]);
        let text = told.stored(token);
        assert_eq!(PortalSet::from_stored(text.as_bytes(), token), told);
        let other = TokenId::from_bytes([2; 16]);
        assert!(PortalSet::from_stored(text.as_bytes(), other).is_empty());
        for damaged in ["", "{}", &text[..text.len() - 1], "null"] {
            assert!(PortalSet::from_stored(damaged.as_bytes(), token).is_empty());
        }
    }

    #[test]
    fn no_more_is_kept_than_the_bounds_say() {
        let urls: Vec<String> = (0..20).map(|n| format!("https://{n}.example")).collect();
        let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
        let pins: Vec<_> = (0..20).map(pin).collect();
        let usable = set(&urls, &pins).usable();
        assert_eq!(usable.urls.len(), MAX_PORTAL_URLS);
        assert_eq!(usable.pins.len(), MAX_PORTAL_PINS);
        assert_eq!(usable.urls[0], "https://0.example", "in the portal's order");
    }
}
