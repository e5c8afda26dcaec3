//! The unfinished packets that the kernel may hand us. Each kind is probed by itself; a kind that is off has a
//! reason.

use std::ffi::c_uint;
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;

use crate::ioctl;

/// The state of a feature: in use, or off for a reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feature {
    /// In use.
    On,
    /// Not in use.
    Off(OffReason),
}

/// The reason why a feature is off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OffReason {
    /// The configuration turned it off.
    ByConfiguration,
    /// The running kernel does not offer it.
    NotInThisKernel,
    /// It depends on another feature that is off.
    NeedsAnother,
    /// It was on, and the kernel refused a superframe of that kind.
    FailedInUse,
}

/// The offloads of a device. Names follow `TUN_F_…` of `linux/if_tun.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offloads {
    /// Packets may arrive with an unfinished transport checksum.
    pub checksum: Feature,
    /// TCP superframes over IPv4.
    pub tso4: Feature,
    /// TCP superframes over IPv6.
    pub tso6: Feature,
    /// TCP superframes that carry CWR; without it the kernel segments those itself.
    pub tso_ecn: Feature,
    /// UDP superframes over IPv4.
    pub uso4: Feature,
    /// UDP superframes over IPv6.
    pub uso6: Feature,
}

/// The offloads that can be turned off while the device is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OffloadGroup {
    /// UDP superframes, IPv4 and IPv6 (the kernel only has them together).
    UdpSegmentation,
    /// Everything: every packet arrives finished and no longer than the MTU.
    All,
}

impl Feature {
    /// True if the feature is in use.
    pub fn is_on(self) -> bool {
        self == Self::On
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::On => formatter.write_str("on"),
            Self::Off(reason) => write!(formatter, "off: {reason}"),
        }
    }
}

impl fmt::Display for OffReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::ByConfiguration => "turned off by configuration",
            Self::NotInThisKernel => "not offered by this kernel",
            Self::NeedsAnother => "needs another offload that is off",
            Self::FailedInUse => "the kernel refused such a frame",
        })
    }
}

impl Offloads {
    /// All off, for `reason`.
    pub fn off(reason: OffReason) -> Self {
        let off = Feature::Off(reason);
        Self {
            checksum: off,
            tso4: off,
            tso6: off,
            tso_ecn: off,
            uso4: off,
            uso6: off,
        }
    }

    /// Turns on, one after the other, what the kernel behind `tun` offers.
    pub(crate) fn probe(tun: BorrowedFd<'_>) -> Self {
        let mut features = 0;
        let mut turn_on = |bits: c_uint| match ioctl::set_offload(tun, features | bits) {
            Ok(()) => {
                features |= bits;
                Feature::On
            }
            Err(_) => Feature::Off(OffReason::NotInThisKernel),
        };
        let checksum = turn_on(libc::TUN_F_CSUM);
        if !checksum.is_on() {
            return Self {
                checksum,
                ..Self::off(OffReason::NeedsAnother)
            };
        }
        let tso4 = turn_on(libc::TUN_F_TSO4);
        let tso6 = turn_on(libc::TUN_F_TSO6);
        let tso_ecn = match (tso4, tso6) {
            (Feature::Off(_), Feature::Off(_)) => Feature::Off(OffReason::NeedsAnother),
            _ => turn_on(libc::TUN_F_TSO_ECN),
        };
        // "For now USO4 and USO6 should work simultaneously" (drivers/net/tun.c): one alone is refused.
        let uso = turn_on(libc::TUN_F_USO4 | libc::TUN_F_USO6);
        Self {
            checksum,
            tso4,
            tso6,
            tso_ecn,
            uso4: uso,
            uso6: uso,
        }
    }

    /// Tells the kernel behind `tun` to use exactly these.
    pub(crate) fn apply(self, tun: BorrowedFd<'_>) -> io::Result<()> {
        ioctl::set_offload(tun, self.bits())
    }

    /// These, without `group`; what is off already keeps its reason.
    pub(crate) fn without(mut self, group: OffloadGroup, reason: OffReason) -> Self {
        let affected: &mut [&mut Feature] = match group {
            OffloadGroup::UdpSegmentation => &mut [&mut self.uso4, &mut self.uso6],
            OffloadGroup::All => &mut [
                &mut self.checksum,
                &mut self.tso4,
                &mut self.tso6,
                &mut self.tso_ecn,
                &mut self.uso4,
                &mut self.uso6,
            ],
        };
        for feature in affected {
            if feature.is_on() {
                **feature = Feature::Off(reason);
            }
        }
        self
    }

    fn bits(self) -> c_uint {
        [
            (self.checksum, libc::TUN_F_CSUM),
            (self.tso4, libc::TUN_F_TSO4),
            (self.tso6, libc::TUN_F_TSO6),
            (self.tso_ecn, libc::TUN_F_TSO_ECN),
            (self.uso4, libc::TUN_F_USO4),
            (self.uso6, libc::TUN_F_USO6),
        ]
        .into_iter()
        .filter(|(feature, _)| feature.is_on())
        .fold(0, |bits, (_, bit)| bits | bit)
    }
}
