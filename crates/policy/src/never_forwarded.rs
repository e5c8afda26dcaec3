//! Destinations that no gateway forwards to, whatever is granted.
//!
//! One list for two guards: the gate judges each new flow by [`is_forwarded`], and the gateway's rules in
//! the kernel are written from [`NEVER_FORWARDED`] and [`EMBEDDINGS`].

use crate::Prefix;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Ranges that no client may reach through a gateway: the gateway itself, its links, multicast
/// groups, and the metadata services of clouds. Those hand out credentials of the gateway's machine
/// to anyone who asks. No two ranges overlap.
///
/// Metadata services at link-local addresses are those of Amazon, Google, Azure, DigitalOcean, Hetzner,
/// Oracle, OpenStack (also `fe80::a9fe:a9fe`), Tencent (`169.254.0.23`) and Scaleway (`169.254.42.42`).
/// Those of the others are as their documents and cloud-init's data sources name them.
pub const NEVER_FORWARDED: [Prefix; 19] = [
    // "This network" (RFC 791 §3.2).
    ipv4([0, 0, 0, 0], 8),
    // Alibaba Cloud: metadata.
    ipv4([100, 100, 100, 200], 32),
    // Loopback (RFC 1122 §3.2.1.3).
    ipv4([127, 0, 0, 0], 8),
    // Azure: the wire server, with certificates and secrets of extensions.
    ipv4([168, 63, 129, 16], 32),
    // Link-local (RFC 3927), and most metadata services.
    ipv4([169, 254, 0, 0], 16),
    // Oracle Cloud Classic: metadata.
    ipv4([192, 0, 0, 192], 32),
    // Multicast (RFC 5771).
    ipv4([224, 0, 0, 0], 4),
    // Reserved, and the limited broadcast (RFC 1112 §4, RFC 919 §7).
    ipv4([240, 0, 0, 0], 4),
    // The unspecified address, loopback, and IPv4-compatible addresses (RFC 4291 §2.5.5.1).
    ipv6([0; 8], 96),
    // IPv4-mapped addresses (RFC 4291 §2.5.5.2): a name for an IPv4 socket, never on the wire.
    ipv6([0, 0, 0, 0, 0, 0xffff, 0, 0], 96),
    // Scaleway: metadata.
    ipv6([0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42], 128),
    // Oracle Cloud: metadata.
    ipv6([0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe], 128),
    // Alibaba Cloud: metadata.
    ipv6([0xfd00, 0x100, 0, 0, 0, 0, 0x100, 0x200], 128),
    // Amazon: metadata at ::254, EKS Pod Identity at ::23, DNS and time.
    ipv6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0], 32),
    // Akamai (Linode): metadata.
    ipv6([0xfd00, 0xa9fe, 0xa9fe, 0, 0, 0, 0, 1], 128),
    // Google Cloud: metadata.
    ipv6([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254], 128),
    // Link-local (RFC 4291 §2.5.6).
    ipv6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10),
    // Site-local: deprecated, since nobody can tell which site is meant; routers do not forward it (RFC 3879 §4).
    ipv6([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10),
    // Multicast (RFC 4291 §2.7).
    ipv6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8),
];

/// The places in IPv6 addresses at which translators or tunnels of the network find an IPv4
/// address. Each is judged by that IPv4 address.
///
/// A network's own translation prefix (RFC 6052 §2.2) may be any prefix, so it is not among them.
pub const EMBEDDINGS: [Embedding; 10] = [
    // IPv4-translated: SIIT (RFC 2765 §2.1).
    Embedding::new([0, 0, 0, 0, 0xffff, 0, 0, 0], 96, LAST_OCTETS),
    // NAT64, the well-known prefix (RFC 6052 §2.1).
    Embedding::new([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96, LAST_OCTETS),
    // NAT64, the prefix for local use (RFC 8215): every place that its operator may have chosen
    // (RFC 6052 §2.2). Octet 8 is not part of the IPv4 address.
    Embedding::local_nat64([6, 7, 9, 10]),
    Embedding::local_nat64([7, 9, 10, 11]),
    Embedding::local_nat64([9, 10, 11, 12]),
    Embedding::local_nat64(LAST_OCTETS),
    // 6to4 (RFC 3056 §2).
    Embedding::new([0x2002, 0, 0, 0, 0, 0, 0, 0], 16, [2, 3, 4, 5]),
    // Teredo (RFC 4380 §4): the server, and the client with all bits inverted.
    Embedding::new([0x2001, 0, 0, 0, 0, 0, 0, 0], 32, [4, 5, 6, 7]),
    Embedding::new([0x2001, 0, 0, 0, 0, 0, 0, 0], 32, LAST_OCTETS).inverted(),
    // ISATAP (RFC 5214 §6.1), with and without the bit for addresses that are unique.
    Embedding::isatap(),
];

const LAST_OCTETS: [u8; 4] = [12, 13, 14, 15];

/// True if packets are forwarded to the address at all, whatever is granted. A name that resolves
/// to any other address is refused likewise.
#[must_use]
pub fn is_forwarded(address: IpAddr) -> bool {
    let is_refused = |address: IpAddr| NEVER_FORWARDED.iter().any(|range| range.contains(address));
    let embeds_refused = |v6: Ipv6Addr| {
        EMBEDDINGS.iter().any(|embedding| {
            embedding
                .extract(v6)
                .is_some_and(|v4| is_refused(v4.into()) && !embedding.is_exempt(v4))
        })
    };
    !(is_refused(address) || matches!(address, IpAddr::V6(v6) if embeds_refused(v6)))
}

/// One way to write an IPv4 address within an IPv6 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Embedding {
    /// The bits by which it is known, and what they are.
    mask: u128,
    fixed: u128,
    /// The octets of the IPv6 address that are those of the IPv4 address, in order.
    octets: [u8; 4],
    /// All bits of the IPv4 address are inverted.
    is_inverted: bool,
    /// The IPv4 address may be in one of several places.
    is_ambiguous: bool,
}

impl Embedding {
    const fn new(prefix: [u16; 8], len: u8, octets: [u8; 4]) -> Self {
        Self {
            mask: u128::MAX << (128 - len as u32),
            fixed: bits(prefix),
            octets,
            is_inverted: false,
            is_ambiguous: false,
        }
    }

    const fn local_nat64(octets: [u8; 4]) -> Self {
        Self {
            is_ambiguous: true,
            ..Self::new([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48, octets)
        }
    }

    const fn isatap() -> Self {
        Self {
            mask: bits([0, 0, 0, 0, 0xfdff, 0xffff, 0, 0]),
            fixed: bits([0, 0, 0, 0, 0, 0x5efe, 0, 0]),
            octets: LAST_OCTETS,
            is_inverted: false,
            is_ambiguous: false,
        }
    }

    const fn inverted(self) -> Self {
        Self {
            is_inverted: true,
            ..self
        }
    }

    /// The IPv4 address that the IPv6 address holds in this way.
    #[must_use]
    pub fn extract(self, address: Ipv6Addr) -> Option<Ipv4Addr> {
        let octets = address.octets();
        let found = self.octets.map(|at| octets[usize::from(at)]);
        (address.to_bits() & self.mask == self.fixed).then(|| self.turned(found.into()))
    }

    /// The ranges that hold a refused IPv4 address, each by its first and last address. In both, the bits outside of
    /// [`known_by`](Self::known_by) and [`place`](Self::place) are zero.
    pub fn refused(self) -> impl Iterator<Item = (Ipv6Addr, Ipv6Addr)> {
        NEVER_FORWARDED.into_iter().filter_map(move |range| {
            let IpAddr::V4(first) = range.address() else {
                return None;
            };
            let rest = u32::MAX.checked_shr(range.len().into()).unwrap_or(0);
            let last = Ipv4Addr::from_bits(first.to_bits() | rest);
            let (first, last) = if self.is_inverted {
                (last, first)
            } else {
                (first, last)
            };
            (!self.is_exempt(first)).then(|| (self.embed(first), self.embed(last)))
        })
    }

    /// The bits of an address that show that it is written in this way, as a mask, and their values
    /// then.
    #[must_use]
    pub const fn known_by(self) -> (Ipv6Addr, Ipv6Addr) {
        (
            Ipv6Addr::from_bits(self.mask),
            Ipv6Addr::from_bits(self.fixed),
        )
    }

    /// The bits that are the IPv4 address.
    #[must_use]
    pub fn place(self) -> Ipv6Addr {
        self.written(Ipv4Addr::BROADCAST)
    }

    /// If the place is not known, octets that hold no IPv4 address are often zero: "this network" is
    /// no reason to refuse then, or nobody could use the prefix.
    const fn is_exempt(self, v4: Ipv4Addr) -> bool {
        self.is_ambiguous && v4.octets()[0] == 0
    }

    fn embed(self, v4: Ipv4Addr) -> Ipv6Addr {
        Ipv6Addr::from_bits(self.fixed | self.written(self.turned(v4)).to_bits())
    }

    fn written(self, v4: Ipv4Addr) -> Ipv6Addr {
        let mut octets = [0; 16];
        for (at, octet) in self.octets.into_iter().zip(v4.octets()) {
            octets[usize::from(at)] = octet;
        }
        octets.into()
    }

    fn turned(self, v4: Ipv4Addr) -> Ipv4Addr {
        match self.is_inverted {
            true => Ipv4Addr::from_bits(!v4.to_bits()),
            false => v4,
        }
    }
}

const fn ipv4(octets: [u8; 4], len: u8) -> Prefix {
    let [a, b, c, d] = octets;
    range(IpAddr::V4(Ipv4Addr::new(a, b, c, d)), len)
}

const fn ipv6(segments: [u16; 8], len: u8) -> Prefix {
    range(IpAddr::V6(Ipv6Addr::from_bits(bits(segments))), len)
}

/// Evaluated by the compiler alone, which refuses a length that is none.
const fn range(address: IpAddr, len: u8) -> Prefix {
    match Prefix::around(address, len) {
        Ok(range) => range,
        Err(_) => panic!("the length exceeds the address"),
    }
}

const fn bits(segments: [u16; 8]) -> u128 {
    let [a, b, c, d, e, f, g, h] = segments;
    Ipv6Addr::new(a, b, c, d, e, f, g, h).to_bits()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ranges_are_well_formed_and_none_overlaps_another() {
        for (place, range) in NEVER_FORWARDED.iter().enumerate() {
            assert_eq!(Prefix::new(range.address(), range.len()), Ok(*range));
            for other in &NEVER_FORWARDED[..place] {
                assert!(
                    !range.contains(other.address()) && !other.contains(range.address()),
                    "{range} {other}"
                );
            }
        }
    }

    /// Judges an address as the kernel's rules do.
    fn is_in_refused_range(v6: Ipv6Addr) -> bool {
        EMBEDDINGS.iter().any(|embedding| {
            let (mask, fixed) = embedding.known_by();
            let (mask, place) = (mask.to_bits(), embedding.place().to_bits());
            v6.to_bits() & mask == fixed.to_bits()
                && embedding.refused().any(|(first, last)| {
                    let remaining = v6.to_bits() & (mask | place);
                    (first.to_bits()..=last.to_bits()).contains(&remaining)
                })
        })
    }

    proptest! {
        #[test]
        fn masked_ranges_hold_the_addresses_that_embed_a_refused_one(
            embedding in 0..EMBEDDINGS.len(),
            range in prop::sample::select(NEVER_FORWARDED.to_vec()),
            noise in any::<u128>(),
            flipped in 0_u32..32,
        ) {
            let embedding = EMBEDDINGS[embedding];
            let (mask, fixed) = embedding.known_by();
            let place = embedding.place().to_bits();
            let IpAddr::V4(v4) = range.address() else { return Ok(()) };
            for v4 in [v4, Ipv4Addr::from_bits(v4.to_bits() ^ 1 << flipped), Ipv4Addr::from_bits(noise as u32)] {
                let written = embedding.embed(v4).to_bits();
                let other = noise & !(mask.to_bits() | place);
                let v6 = Ipv6Addr::from_bits(written & (mask.to_bits() | place) | other);
                prop_assert_eq!(v6.to_bits() & mask.to_bits(), fixed.to_bits());
                prop_assert_eq!(embedding.extract(v6), Some(v4));
                let is_plainly_refused = NEVER_FORWARDED.iter().any(|range| range.contains(v6.into()));
                prop_assert_eq!(!is_forwarded(v6.into()), is_plainly_refused || is_in_refused_range(v6));
            }
        }
    }
}
