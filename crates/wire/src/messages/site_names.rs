//! Names for plain WireGuard devices at other sites than that of the gateway that they ask (ADR 0061).
//!
//! A device sends a network to one gateway, so each place in its file has a share of the ranges for names. The gateway that
//! answers the device gives a name addresses of the share of its site's gateway.

use super::shared::Ranges;
use culvert_ids::ResourceId;
use culvert_policy::Prefix;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// Shares of the ranges for names: one for each gateway that a device's file may have.
pub const NAME_SHARES: u8 = 8;

/// Names at other sites that a device may ask for in a row: two pages of 64 names each.
pub const NAME_ASK_BURST: u32 = 128;

/// The same a second after that. A device may have 512 names in use, each of which is asked for again once a minute; that is
/// half of it. Both ends keep to it: the gateway for the sake of its session, the portal for the sake of the other gateway.
pub const NAME_ASKS_PER_S: u32 = 16;

/// Bits of an address that say the share.
const SHARE_BITS: u32 = NAME_SHARES.ilog2();

/// Bits of an index of a name, at most: a stub resolver counts its addresses in 31.
const MAX_INDEX_BITS: u32 = 31;

/// A resource by name that a device has at another site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameElsewhere {
    /// The resource.
    pub resource: ResourceId,
    /// Its name, or the pattern of its names.
    pub pattern: String,
    /// The place of its gateway in the device's file, counted from 0: names get addresses of this share.
    pub place: u8,
}

/// The answer of a name's gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum SiteAnswer {
    /// The name exists. If it has an address of a family, the device's packets to the name are led there from now on.
    Found {
        /// It has an A record that may be used.
        ipv4: bool,
        /// It has an AAAA record that may be used.
        ipv6: bool,
    },
    /// The name does not exist.
    Missing,
    /// The site's DNS did not say.
    Unanswered,
    /// The device may not use the name.
    Denied {
        /// The reason, in brief.
        text: String,
    },
    /// Nobody could be asked, or not now.
    #[serde(other)]
    Unreachable,
}

impl Ranges {
    /// The share of the ranges for names that a place in a device's file has. None for a place that no file has, and for
    /// ranges that can't be.
    #[must_use]
    pub fn name_share(&self, place: u8) -> Option<[Prefix; 2]> {
        let ranges = [&self.names_ipv4, &self.names_ipv6].map(|text| text.parse::<Prefix>().ok());
        let [Some(v4), Some(v6)] = ranges else {
            return None;
        };
        let (IpAddr::V4(first_v4), IpAddr::V6(first_v6)) = (v4.address(), v6.address()) else {
            return None;
        };
        let free = |bits: u32, prefix: Prefix| bits.checked_sub(prefix.len().into());
        let index_bits = free(u32::BITS, v4)?.min(free(u128::BITS, v6)?);
        let bits = index_bits.min(MAX_INDEX_BITS).checked_sub(SHARE_BITS)?;
        if place >= NAME_SHARES {
            return None;
        }
        let first_v4 = u32::from(first_v4) | (u32::from(place) << bits);
        let first_v6 = u128::from(first_v6) | (u128::from(place) << bits);
        let len = |all: u32| u8::try_from(all - bits).ok();
        Some([
            Prefix::new(IpAddr::V4(first_v4.into()), len(u32::BITS)?).ok()?,
            Prefix::new(IpAddr::V6(first_v6.into()), len(u128::BITS)?).ok()?,
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(v4: &str, v6: &str) -> Ranges {
        Ranges {
            machines_ipv4: "100.64.0.0/11".to_owned(),
            machines_ipv6: "fd00:2021:1111::/107".to_owned(),
            names_ipv4: v4.to_owned(),
            names_ipv6: v6.to_owned(),
        }
    }

    fn share(ranges: &Ranges, place: u8) -> Option<[String; 2]> {
        let share = ranges.name_share(place)?;
        Some(share.map(|prefix| prefix.to_string()))
    }

    #[test]
    fn the_shares_are_eighths_of_the_ranges_in_the_order_of_the_file() {
        let usual = ranges("100.96.0.0/11", "fd00:2021:1111:8000::/107");
        let expected = [
            (0, "100.96.0.0/14", "fd00:2021:1111:8000::/110"),
            (1, "100.100.0.0/14", "fd00:2021:1111:8000::4:0/110"),
            (7, "100.124.0.0/14", "fd00:2021:1111:8000::1c:0/110"),
        ];
        for (place, v4, v6) in expected {
            let expected = Some([v4.to_owned(), v6.to_owned()]);
            assert_eq!(share(&usual, place), expected, "{place}");
        }
        assert_eq!(share(&usual, 8), None);
    }

    #[test]
    fn shares_of_ranges_of_unlike_size_have_as_many_addresses_in_both_families() {
        let unlike = ranges("10.9.8.0/24", "fd00::/64");
        let expected = Some(["10.9.8.224/27".to_owned(), "fd00::e0/123".to_owned()]);
        assert_eq!(share(&unlike, 7), expected);
        for (v4, v6) in [
            ("10.9.8.0/30", "fd00::/64"),
            ("fd00::/64", "10.0.0.0/8"),
            ("", ""),
        ] {
            assert_eq!(share(&ranges(v4, v6), 0), None, "{v4} {v6}");
        }
    }
}
