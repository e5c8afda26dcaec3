//! Fair shares of bounded tables and rates among subscribers, without I/O.
//!
//! Every table that a stranger can fill has a bound, and every bound raises a question: who is refused
//! once it is reached? A table that refuses newcomers belongs to the one who fills it. Here the
//! largest holder gives way instead:
//!
//! - [`Subscriber`] says who a holder is: an IPv4 address, or an IPv6 /64 within its /56, /48 and /32. A
//!   wider network has a larger share, by a growing multiple, so that a /48 of 65,536 /64s is not 65,536
//!   subscribers.
//! - [`FairTable`] holds entries of subscribers. When it is full, the oldest entry of the largest holder is
//!   evicted. [`FairMap`] finds entries by a key and lets them expire.
//! - [`RateLimit`] is a token bucket for each network of a subscriber, in constant memory.
//!
//! There is no clock in here: time is an argument, by whatever clock its owner counts ([`ClockTime`](culvert_base::ClockTime)).

#![forbid(unsafe_code)]

mod map;
mod rate;
mod subscriber;
mod table;

pub use map::FairMap;
pub use rate::{BUCKETS, RateLimit};
pub use subscriber::{MULTIPLES, SUBSCRIBER_LEN, Subscriber};
pub use table::{Bounds, FairTable, Place, Refused};
