//! The ranges in which the addresses of a resource's names may be.

use crate::{Prefix, WithinError, is_forwarded};
use std::fmt;
use std::net::IpAddr;

/// Ranges of one resource: the networks of a site. They are looked at one after the other for each
/// address of each name.
pub const MAX_WITHIN: usize = 64;

/// The only ranges that names of a resource may lead into. Anyone who may change a record of the
/// zone could otherwise lead clients to every host that the gateway reaches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Within(Box<[Prefix]>);

impl Within {
    /// These ranges, in order and each once.
    ///
    /// # Errors
    /// [`WithinError`]: a list without a range would allow nothing, and is more likely a mistake than
    /// meant.
    pub fn new(ranges: impl IntoIterator<Item = Prefix>) -> Result<Self, WithinError> {
        let mut ranges: Vec<Prefix> = ranges.into_iter().collect();
        ranges.sort_unstable();
        ranges.dedup();
        match ranges.len() {
            0 => return Err(WithinError::Empty),
            1..=MAX_WITHIN => {}
            count => return Err(WithinError::TooMany { count }),
        }
        let is_refused = |range: &&Prefix| range.is_host() && !is_forwarded(range.address());
        if let Some(range) = ranges.iter().find(is_refused) {
            return Err(WithinError::NeverForwarded(*range));
        }
        Ok(Self(ranges.into()))
    }

    /// True if a name may lead to the address.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.iter().any(|range| range.contains(address))
    }

    /// The ranges.
    #[must_use]
    pub fn ranges(&self) -> &[Prefix] {
        &self.0
    }
}

impl fmt::Display for Within {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, range) in self.0.iter().enumerate() {
            let separator = if place == 0 { "" } else { ", " };
            write!(out, "{separator}{range}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn within(ranges: &[&str]) -> Result<Within, WithinError> {
        Within::new(ranges.iter().map(|range| range.parse().unwrap()))
    }

    #[test]
    fn ranges_are_in_order_and_each_is_there_once() {
        let found = within(&["fd00::/8", "10.1.0.0/16", "fd00::/8", "10.0.0.0/16"]).unwrap();
        assert_eq!(found.to_string(), "10.0.0.0/16, 10.1.0.0/16, fd00::/8");
        for (address, is_within) in [
            ("10.0.255.255", true),
            ("10.2.0.0", false),
            ("fd12::1", true),
            ("2001:db8::1", false),
            ("::ffff:10.0.0.1", false),
        ] {
            assert_eq!(
                found.contains(address.parse().unwrap()),
                is_within,
                "{address}"
            );
        }
    }

    #[test]
    fn no_range_and_too_many_are_refused() {
        assert_eq!(within(&[]), Err(WithinError::Empty));
        let range = |number: usize| Prefix::host(IpAddr::from([10, 0, 0, number as u8]));
        assert!(Within::new((0..MAX_WITHIN).map(range)).is_ok());
        let count = MAX_WITHIN + 1;
        let refused = Within::new((0..count).map(range));
        assert_eq!(refused, Err(WithinError::TooMany { count }));
        assert!(within(&["169.254.169.254/32"]).is_err());
        assert!(
            within(&["0.0.0.0/0"]).is_ok(),
            "the rest of it is forwarded to"
        );
    }
}
