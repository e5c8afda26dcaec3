//! Cookies: the proof that a sender receives at its address, without a table of addresses.

use crate::mac::{KEY_LEN, Mac, derive};
use crate::message::{ASK_LEN, Challenge, Message};
use culvert_base::BootTime;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use zeroize::Zeroizing;

/// A secret makes cookies for this long. It is checked for as long again.
pub const SECRET_LIFETIME: Duration = Duration::from_secs(120);

type Secret = Zeroizing<[u8; KEY_LEN]>;

/// Makes cookies, and recognises them.
pub struct Cookies {
    seed: Secret,
    period: u64,
    current: Secret,
    previous: Secret,
}

impl Cookies {
    /// Of a seed that is secret and random.
    #[must_use]
    pub fn new(seed: [u8; KEY_LEN]) -> Self {
        let seed = Zeroizing::new(seed);
        let [current, previous] = [0, u64::MAX].map(|period| secret(&seed, period));
        Self {
            seed,
            period: 0,
            current,
            previous,
        }
    }

    /// The cookie of a sender that asks at `port`.
    #[must_use]
    pub fn make(&mut self, source: SocketAddr, port: u16, now: BootTime) -> Mac {
        self.turn(now);
        mac(&self.current, source, port)
    }

    /// The answer to an [`Ask`](crate::message::Ask) of a sender that asks at `port`; `None` for any other datagram.
    ///
    /// It is all that a server needs that tells ends their address from outside, and registers nobody.
    #[must_use]
    pub fn answer(
        &mut self,
        datagram: &[u8],
        source: SocketAddr,
        port: u16,
        now: BootTime,
    ) -> Option<[u8; ASK_LEN]> {
        let Some(Message::Ask(ask)) = Message::parse(datagram) else {
            return None;
        };
        let challenge = Challenge {
            transaction: ask.transaction,
            cookie: self.make(source, port, now),
            mapped: source,
        };
        Some(challenge.encode())
    }

    /// True if it was made for the sender and port, four minutes ago at most.
    #[must_use]
    pub fn is_valid(&mut self, cookie: Mac, source: SocketAddr, port: u16, now: BootTime) -> bool {
        self.turn(now);
        cookie == mac(&self.current, source, port) || cookie == mac(&self.previous, source, port)
    }

    /// Moves to the secret of this instant. A clock that stands or goes back keeps the secret.
    fn turn(&mut self, now: BootTime) {
        let period = now.as_nanos() / SECRET_LIFETIME.as_nanos() as u64;
        if period > self.period {
            self.period = period;
            self.current = secret(&self.seed, period);
            self.previous = secret(&self.seed, period.wrapping_sub(1));
        }
    }
}

fn secret(seed: &[u8; KEY_LEN], period: u64) -> Secret {
    derive(seed, &[b"culvert relay cookies", &period.to_be_bytes()])
}

fn mac(secret: &[u8; KEY_LEN], source: SocketAddr, port: u16) -> Mac {
    let ip = match source.ip().to_canonical() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let parts: [&[u8]; 3] = [
        &ip.octets(),
        &source.port().to_be_bytes(),
        &port.to_be_bytes(),
    ];
    Mac::of(secret, &parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Ask, Transaction};

    const PORT: u16 = 3479;

    fn at(seconds: u64) -> BootTime {
        BootTime::from_millis(seconds * 1_000)
    }

    fn source(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_cookie_is_good_for_its_sender_and_port_alone() {
        let mut cookies = Cookies::new([1; KEY_LEN]);
        let ours = source("198.51.100.7:9");
        let cookie = cookies.make(ours, PORT, at(10));
        assert!(cookies.is_valid(cookie, ours, PORT, at(10)));
        assert!(!cookies.is_valid(cookie, ours, PORT + 1, at(10)));
        assert!(!cookies.is_valid(cookie, source("198.51.100.7:10"), PORT, at(10)));
        assert!(!cookies.is_valid(cookie, source("198.51.100.8:9"), PORT, at(10)));
        let mut others = Cookies::new([2; KEY_LEN]);
        assert!(!others.is_valid(cookie, ours, PORT, at(10)));
    }

    #[test]
    fn a_cookie_outlives_one_change_of_the_secret_and_not_two() {
        let mut cookies = Cookies::new([1; KEY_LEN]);
        let ours = source("[2001:db8::7]:9");
        let cookie = cookies.make(ours, PORT, at(239));
        assert!(cookies.is_valid(cookie, ours, PORT, at(359)));
        assert!(!cookies.is_valid(cookie, ours, PORT, at(360)));
    }

    #[test]
    fn a_clock_that_goes_back_brings_no_old_secret_back() {
        let mut cookies = Cookies::new([1; KEY_LEN]);
        let ours = source("198.51.100.7:9");
        let old = cookies.make(ours, PORT, at(10));
        let new = cookies.make(ours, PORT, at(1_000));
        assert!(!cookies.is_valid(old, ours, PORT, at(10)));
        assert!(cookies.is_valid(new, ours, PORT, at(10)));
    }

    #[test]
    fn a_question_is_answered_with_the_senders_address_and_nothing_else_is() {
        let mut cookies = Cookies::new([1; KEY_LEN]);
        let ours = source("198.51.100.7:9");
        let transaction = Transaction([4; 16]);
        let question = Ask { transaction }.encode();
        let answer = cookies.answer(&question, ours, PORT, at(10)).unwrap();
        let Some(Message::Challenge(challenge)) = Message::parse(&answer) else {
            panic!("it is a challenge");
        };
        assert_eq!(
            (challenge.transaction, challenge.mapped),
            (transaction, ours)
        );
        assert!(cookies.is_valid(challenge.cookie, ours, PORT, at(10)));
        assert_eq!(cookies.answer(&answer, ours, PORT, at(10)), None);
        assert_eq!(cookies.answer(&question[..63], ours, PORT, at(10)), None);
    }

    #[test]
    fn an_ipv4_mapped_sender_is_the_ipv4_sender() {
        let mut cookies = Cookies::new([1; KEY_LEN]);
        let cookie = cookies.make(source("[::ffff:198.51.100.7]:9"), PORT, at(10));
        assert!(cookies.is_valid(cookie, source("198.51.100.7:9"), PORT, at(10)));
    }
}
