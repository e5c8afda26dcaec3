//! The constants of §6.1 and §6.5, and the bounds that the paper leaves to the implementation.

use std::time::Duration;

/// §6.1: a key pair that has sent this many messages is replaced as soon as possible.
pub const REKEY_AFTER_MESSAGES: u64 = 1 << 60;

/// §6.1: a key pair sends no message with this counter or a higher one. It stays 2^13, the
/// replay window of Linux, away from the end of the counter, so that a receiver's arithmetic cannot
/// overflow.
pub const REJECT_AFTER_MESSAGES: u64 = u64::MAX - (1 << 13);

/// §6.1: the initiator of a session this old makes the next one when it has something to send.
pub const REKEY_AFTER_TIME: Duration = Duration::from_secs(120);

/// §6.1: a session this old neither sends nor receives.
pub const REJECT_AFTER_TIME: Duration = Duration::from_secs(180);

/// §6.1: for how long an unanswered handshake is tried again.
pub const REKEY_ATTEMPT_TIME: Duration = Duration::from_secs(90);

/// §6.1: the time between two attempts, and the least time between two initiations to one peer.
pub const REKEY_TIMEOUT: Duration = Duration::from_secs(5);

/// The least time between two initiations to one peer whose path is suspected
/// ([`Handshaker::handle_recheck`](crate::Handshaker::handle_recheck)). It is shorter than
/// [`REKEY_TIMEOUT`], which is made for many peers that are merely gone, and long compared with a
/// round trip.
pub const RECHECK_INTERVAL: Duration = Duration::from_secs(1);

/// §6.1: "an amount of jitter is added to this expiration, in order to prevent two peers from
/// repeatedly initiating handshakes at the same time". The kernel's bound: a third of a second.
pub const REKEY_TIMEOUT_JITTER_MAX: Duration = Duration::from_millis(334);

/// Data that arrives under the previous keys this long after they were replaced was not overtaken on
/// its way: the peer sends under them. Longer than any path reorders, and short beside the life of a
/// session.
pub(crate) const RESETTLE_AFTER: Duration = REKEY_TIMEOUT;

/// §6.5: a peer that has received data and sent nothing for this long sends a keepalive.
pub const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// The same, for peers that take silence for a dead path, as clients of a gateway do after two seconds.
/// With the ten seconds of §6.5, they would suspect a gateway that has nothing to send back, in one-way
/// UDP for example. Two keepalives fit into the two seconds, with half a second to spare. So neither one
/// lost keepalive nor a slow path raises a suspicion.
pub const PROMPT_KEEPALIVE_TIMEOUT: Duration = Duration::from_millis(750);

/// §6.3: keys and handshake state are wiped "after `Reject-After-BootTime × 3`" without a new session.
pub const ZERO_KEYS_AFTER: Duration = REJECT_AFTER_TIME.saturating_mul(3);

/// The interval at which a peer that goes on initiating has an initiation processed. A peer that
/// suspects its path sends them at this interval. With four Diffie-Hellman of 40 µs each, a peer
/// occupies us for 0.02 % of the time, so 1,000 hostile ones leave four fifths of it.
pub const INITIATION_INTERVAL: Duration = RECHECK_INTERVAL;

/// The number of initiations of a peer that may be processed in a row. The peer may have restarted,
/// and service managers start a program that ends at once five times in ten seconds
/// (`StartLimitBurst=` of systemd). The limit is four times that, for handshakes that cross and for
/// people who restart by hand: 3 ms of Diffie-Hellman.
pub const INITIATION_BURST: u32 = 20;

/// The time for which copies of an initiation from other sources are answered. The copies of one send arrive within the
/// difference of the paths' delays, and a sender that finds another path within a second or two sends the copy there.
pub const ANSWER_COPIES_FOR: Duration = REKEY_TIMEOUT;

/// The most sources that one initiation is answered to. A stranger who repeats a recorded initiation has at most
/// that many responses, each shorter than the initiation.
pub const ANSWERED_SOURCES_MAX: usize = 8;

/// §5.3: the responder's cookie secret "changes every two minutes".
pub const COOKIE_SECRET_MAX_AGE: Duration = Duration::from_secs(120);

/// A cookie is not used in the last seconds of its life: it would expire under way.
pub const COOKIE_LATENCY: Duration = Duration::from_secs(5);

/// The time after the last busy moment for which initiations still need a cookie. So a flood does
/// not switch the defence off whenever the queue happens to run empty.
pub const UNDER_LOAD_AFTER: Duration = Duration::from_secs(1);

/// The most peers of one interface. Each has at most four receiver indices, so 2^18 of 2^32 are
/// taken at most: a random index is free at the first try but for one in 16,000.
pub const MAX_PEERS: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_are_those_of_the_table_of_the_paper() {
        let messages = [REKEY_AFTER_MESSAGES, REJECT_AFTER_MESSAGES].map(u128::from);
        assert_eq!(messages, [1 << 60, (1 << 64) - (1 << 13) - 1]);
        let times = [
            REKEY_AFTER_TIME,
            REJECT_AFTER_TIME,
            REKEY_ATTEMPT_TIME,
            REKEY_TIMEOUT,
            KEEPALIVE_TIMEOUT,
        ];
        assert_eq!(times.map(|time| time.as_secs()), [120, 180, 90, 5, 10]);
    }
}
