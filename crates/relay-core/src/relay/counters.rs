//! The counts of a relay: records that passed, and those that did not, each by its reason.

use crate::message::RefusalReason;

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal,)+) => {
        /// The reason for which a datagram went no further.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum DropReason {
            $($(#[doc = $doc])+ $name,)+
        }

        impl DropReason {
            /// All of them, in order.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// The name in metrics.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)+
                }
            }
        }
    };
}

reasons! {
    /// Neither WireGuard nor a message of Culvert.
    Malformed = "malformed",
    /// A message that a relay sends, and does not receive.
    Unexpected = "unexpected",
    /// Its sender is not registered at this port.
    UnknownSender = "unknown_sender",
    /// The gateway of the port is not registered.
    NoGateway = "no_gateway",
    /// No client has the receiver index or tag.
    UnknownReceiver = "unknown_receiver",
    /// The sender index or tag belongs to another client.
    IndexTaken = "index_taken",
    /// An initiation of the gateway fits no client.
    NoSuchClient = "no_such_client",
    /// The gateway began too many sessions at once.
    SearchLimit = "search_limit",
    /// The sender used up its rate.
    EndRate = "end_rate",
    /// All senders together used up the relay's rate.
    TotalRate = "total_rate",
    /// Too many questions at once.
    AskLimit = "ask_limit",
    /// A registration was refused, and too many refusals were sent to send this one.
    RefusalLimit = "refusal_limit",
    /// A sign of life without the end's proof.
    ForgedRefresh = "forged_refresh",
    /// A sign of life that came before.
    ReplayedRefresh = "replayed_refresh",
}

const DROP_REASONS: usize = DropReason::ALL.len();
const REFUSAL_REASONS: usize = RefusalReason::ALL.len();

/// The counts of a relay since it began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Records that were forwarded.
    pub records: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Batches that they were forwarded in.
    pub batches: u64,
    /// Registrations that counted.
    pub registered: u64,
    /// Ends that left, because they were silent, their token expired, or the portal withdrew it.
    pub left: u64,
    dropped: [u64; DROP_REASONS],
    refused: [u64; REFUSAL_REASONS],
}

impl Counters {
    pub(crate) fn drop_one(&mut self, reason: DropReason) {
        self.drop_many(reason, 1);
    }

    pub(crate) fn drop_many(&mut self, reason: DropReason, records: u64) {
        self.dropped[reason as usize] += records;
    }

    pub(crate) fn refuse(&mut self, reason: RefusalReason) {
        let place = RefusalReason::ALL.iter().position(|known| *known == reason);
        if let Some(place) = place {
            self.refused[place] += 1;
        }
    }

    /// Datagrams that were dropped, by reason.
    pub fn dropped(&self) -> impl Iterator<Item = (DropReason, u64)> {
        DropReason::ALL.iter().copied().zip(self.dropped)
    }

    /// Registrations that were refused, by reason.
    pub fn refused(&self) -> impl Iterator<Item = (RefusalReason, u64)> {
        RefusalReason::ALL.into_iter().zip(self.refused)
    }

    /// Datagrams that were dropped for a reason.
    #[must_use]
    pub fn dropped_for(&self, reason: DropReason) -> u64 {
        self.dropped[reason as usize]
    }

    /// Registrations that were refused for a reason.
    #[must_use]
    pub fn refused_for(&self, reason: RefusalReason) -> u64 {
        self.refused()
            .find(|(known, _)| *known == reason)
            .map_or(0, |(_, count)| count)
    }

    /// Adds the counts of another worker.
    pub fn add(&mut self, other: &Self) {
        self.records += other.records;
        self.bytes += other.bytes;
        self.batches += other.batches;
        self.registered += other.registered;
        self.left += other.left;
        let sums = self.dropped.iter_mut().zip(other.dropped);
        for (sum, count) in sums.chain(self.refused.iter_mut().zip(other.refused)) {
            *sum += count;
        }
    }
}
