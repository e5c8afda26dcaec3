//! The rate of ICMP messages.

use culvert_base::TokenRate;
use std::time::Duration;

/// The time to one more message, as Linux itself has it (`icmp_msgs_per_sec`): one a millisecond, of each worker.
pub(crate) const INTERVAL: Duration = Duration::from_millis(1);

/// Messages at once after silence (Linux's `icmp_msgs_burst`): the connections that a program opens together each hear
/// theirs.
const BURST: u32 = 50;

/// The rate of a worker's messages, and of its answers to each peer.
pub(crate) const ICMP_RATE: TokenRate = TokenRate::new(INTERVAL, BURST);
