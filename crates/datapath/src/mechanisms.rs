//! The mechanisms that make the road fast, each of which can be left out.
//!
//! That is how one finds out what a mechanism is worth, and how one gets by on a host whose kernel or network card has a
//! fault in it. Nothing here changes what is carried, only how.

use std::str::FromStr;

macro_rules! mechanisms {
    ($($variant:ident, $name:literal, $doc:literal;)*) => {
        /// One mechanism.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u16)]
        pub enum Mechanism { $(#[doc = $doc] $variant,)* }

        impl Mechanism {
            /// Every mechanism, in the order of the road.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Its name on the command line.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Its effect, in a sentence without its full stop.
            pub fn about(self) -> &'static str {
                match self { $(Self::$variant => $doc,)* }
            }
        }
    };
}

mechanisms! {
    Steering, "steering", "Several TUN queues: interactive flows ahead of bulk ones, and each flow at one worker";
    TunOffload, "tun-offload", "Superframes from and to the TUN (TSO and USO), and unfinished checksums";
    SuperframeLimit, "superframe-limit", "Superframes from this host no larger than one segmented send carries (gso_max_segs)";
    QueueBound, "queue-bound", "TUN queues bounded in bytes, whose senders are told where they stand for long; without it, the kernel's 500 frames";
    Batching, "batching", "Packets that are queued behind each other leave in one batch; without it, each frame in a send of its own";
    Segmentation, "gso", "A batch leaves in one segmented send (UDP_SEGMENT)";
    SendLimit, "send-limit", "A send buffer just large enough for the link, so that what waits waits in the TUN; without it, the kernel's";
    ReceiveOffload, "gro", "The kernel hands over runs of datagrams in one piece (UDP_GRO)";
    Coalescing, "coalescing", "Packets of a flow are written to the TUN as one superframe";
    InterruptModeration, "interrupt-moderation", "A worker pauses under a stream of single UDP packets, so that batches come together";
    Priority, "priority", "Priority packets (ICMP, DNS, TCP SYN) are marked, received by sockets of their own and carried between superframes, and the answer is polled for";
    Affinity, "affinity", "A worker that has to wait for a processor stays on one, and leaves it to a thread that wants it as much";
}

impl Mechanism {
    /// An earlier name of it on the command line, which still works.
    pub fn former_name(self) -> Option<&'static str> {
        match self {
            Self::SendLimit => Some("backlog"),
            Self::InterruptModeration => Some("moderation"),
            Self::Priority => Some("express"),
            Self::Affinity => Some("placement"),
            _ => None,
        }
    }
}

/// A set of mechanisms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mechanisms(u16);

impl Mechanisms {
    /// All of them: what a device has unless told otherwise.
    pub const ALL: Self = Self((1 << Mechanism::ALL.len()) - 1);

    /// This set without `mechanism`.
    #[must_use]
    pub fn without(self, mechanism: Mechanism) -> Self {
        Self(self.0 & !(1 << mechanism as u16))
    }

    /// True if `mechanism` is in the set.
    pub fn has(self, mechanism: Mechanism) -> bool {
        self.0 & (1 << mechanism as u16) != 0
    }
}

/// A word that names no mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no such mechanism")]
pub struct NoSuchMechanism;

impl FromStr for Mechanism {
    type Err = NoSuchMechanism;

    fn from_str(word: &str) -> Result<Self, NoSuchMechanism> {
        let found = Self::ALL
            .iter()
            .find(|mechanism| mechanism.name() == word || mechanism.former_name() == Some(word));
        found.copied().ok_or(NoSuchMechanism)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mechanism_can_be_left_out_alone() {
        for &left_out in Mechanism::ALL {
            let set = Mechanisms::ALL.without(left_out);
            for &mechanism in Mechanism::ALL {
                assert_eq!(set.has(mechanism), mechanism != left_out);
            }
            assert_eq!(left_out.name().parse(), Ok(left_out));
            if let Some(former) = left_out.former_name() {
                assert_eq!(former.parse(), Ok(left_out));
            }
        }
        assert_eq!("speed".parse::<Mechanism>(), Err(NoSuchMechanism));
    }
}
