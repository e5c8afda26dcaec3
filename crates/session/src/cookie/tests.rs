use super::*;
use crate::parse::{RESPONSE_LEN, RESPONSE_TYPE, Response};
use std::time::Duration;

const SOURCE: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 51820);
const START: BootTime = BootTime::from_nanos(1_000_000_000_000);

struct Ends {
    adder: MacAdder,
    checker: CookieChecker,
    random: Random,
}

impl Ends {
    fn new() -> Self {
        let responder = PublicKey::from_bytes([7; 32]);
        Self {
            adder: MacAdder::new(&responder),
            checker: CookieChecker::new(&responder),
            random: Random::from_seed([1; 32]),
        }
    }

    fn message(&mut self, now: BootTime) -> [u8; RESPONSE_LEN] {
        let mut message = [0x33; RESPONSE_LEN];
        message[..4].copy_from_slice(&RESPONSE_TYPE);
        message[RESPONSE_LEN - 32..].fill(0);
        self.adder.add(&mut message, now);
        message
    }

    fn reply(&mut self, message: &[u8], now: BootTime) -> [u8; COOKIE_REPLY_LEN] {
        let macs = Response::parse(message).unwrap().macs;
        self.checker
            .reply(&macs, Index(5), SOURCE, &mut self.random, now)
    }

    fn take(&mut self, reply: &[u8], now: BootTime) -> Result<(), InvalidCookieReply> {
        self.adder
            .take_reply(&CookieReply::parse(reply).unwrap(), now)
    }

    fn with_cookie() -> Self {
        let mut ends = Self::new();
        let message = ends.message(START);
        let reply = ends.reply(&message, START);
        ends.take(&reply, START).unwrap();
        ends
    }

    fn is_mac2_valid(&self, message: &[u8], source: SocketAddr, now: BootTime) -> bool {
        let macs = Response::parse(message).unwrap().macs;
        self.checker.is_mac2_valid(&macs, source, now)
    }
}

fn after(seconds: u64) -> BootTime {
    START.saturating_add(Duration::from_secs(seconds))
}

#[test]
fn mac1_is_always_there_and_mac2_is_zero_without_a_cookie() {
    let mut ends = Ends::new();
    let mut message = ends.message(START);
    assert!(
        ends.checker
            .is_mac1_valid(&Response::parse(&message).unwrap().macs)
    );
    assert_eq!(message[RESPONSE_LEN - 16..], [0; 16]);
    assert!(!ends.is_mac2_valid(&message, SOURCE, START));
    message[20] ^= 1;
    assert!(
        !ends
            .checker
            .is_mac1_valid(&Response::parse(&message).unwrap().macs)
    );
}

#[test]
fn a_cookie_makes_mac2_valid_for_its_address_and_port_alone() {
    let mut ends = Ends::with_cookie();
    let message = ends.message(START);
    assert!(ends.is_mac2_valid(&message, SOURCE, START));
    let other_port = SocketAddr::new(SOURCE.ip(), 51821);
    assert!(!ends.is_mac2_valid(&message, other_port, START));
    let other_address = SocketAddr::new([127, 0, 0, 2].into(), 51820);
    assert!(!ends.is_mac2_valid(&message, other_address, START));
}

#[test]
fn the_secret_changes_after_two_minutes() {
    let mut ends = Ends::with_cookie();
    let message = ends.message(after(114));
    assert!(ends.is_mac2_valid(&message, SOURCE, after(119)));
    assert!(!ends.is_mac2_valid(&message, SOURCE, after(120)));
    let other = ends.message(after(120));
    ends.reply(&other, after(120));
    assert!(!ends.is_mac2_valid(&message, SOURCE, after(120)));
}

#[test]
fn a_cookie_is_valid_whoever_else_was_given_one_since_and_however_old_the_secret_before_it_was() {
    // The second at which a cookie is given, and another after it.
    for (given_at, other_at) in [(0, 0), (0, 114), (120, 120), (500, 510)] {
        let mut ends = Ends::with_cookie();
        let message = ends.message(after(given_at));
        let reply = ends.reply(&message, after(given_at));
        ends.take(&reply, after(given_at)).unwrap();
        let message = ends.message(after(other_at));
        ends.reply(&message, after(other_at));
        let is_valid = ends.is_mac2_valid(&message, SOURCE, after(other_at));
        assert!(is_valid, "given at {given_at} s, used at {other_at} s");
    }
}

#[test]
fn a_cookie_is_not_used_in_the_last_five_seconds_of_its_life() {
    let mut ends = Ends::with_cookie();
    assert_ne!(ends.message(after(114))[RESPONSE_LEN - 16..], [0; 16]);
    assert_eq!(ends.message(after(115))[RESPONSE_LEN - 16..], [0; 16]);
}

#[test]
fn a_reply_answers_the_last_message_once() {
    let mut ends = Ends::new();
    let first = ends.message(START);
    let reply = ends.reply(&first, START);
    let mut tampered = reply;
    tampered[40] ^= 1;
    assert_eq!(ends.take(&tampered, START), Err(InvalidCookieReply));
    assert_eq!(ends.take(&reply, START), Ok(()));
    assert_eq!(ends.take(&reply, START), Err(InvalidCookieReply));

    let mut other = Ends::new();
    other.message(START);
    let mut different = [0x44; RESPONSE_LEN];
    other.adder.add(&mut different, START);
    assert_eq!(other.take(&reply, START), Err(InvalidCookieReply));
}
