//! Questions to the portal's UDP port: from where does it see this end? Ends without relays learn their address so.

use culvert_base::BootTime;
use culvert_relay_core::Message;
use culvert_relay_core::mac::Mac;
use culvert_relay_core::message::{ASK_LEN, Ask, Transaction};
use std::net::SocketAddr;
use std::time::Duration;

/// The pauses after questions that nobody answers. Then the port is not reached, and is asked with the relays.
const UNANSWERED: [Duration; 3] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
];

/// The interval of questions that keep a NAT's mapping: NATs forget one after 30 s in the worst common case.
pub const KEEP_MAPPING_EVERY: Duration = Duration::from_secs(20);

/// The portal's UDP port, as this end sees it.
#[derive(Debug, Default)]
pub(super) struct PortalPort {
    at: Option<SocketAddr>,
    seed: [u8; 32],
    questions: u64,
    /// It was asked before.
    is_in_use: bool,
    /// The time of the last question.
    asked: BootTime,
    /// The last question, while it is not answered.
    open: Option<Transaction>,
    /// Questions since the last answer.
    unanswered: usize,
    /// True if the mapping is to be kept.
    keeps: bool,
    next: Option<BootTime>,
    mapped: Option<SocketAddr>,
    send: Option<(SocketAddr, [u8; ASK_LEN])>,
    has_changed: bool,
}

impl PortalPort {
    pub(super) fn new(seed: [u8; 32]) -> Self {
        Self {
            seed,
            ..Self::default()
        }
    }

    /// The portal answers there, or nowhere. It is asked now if it was asked before, or `at_once`.
    pub(super) fn set(&mut self, at: Option<SocketAddr>, at_once: bool, now: BootTime) {
        if at != self.at {
            self.at = at;
            self.next = None;
            self.has_changed |= self.mapped.take().is_some();
        }
        if at_once || self.is_in_use {
            self.begin(now);
        }
    }

    /// Asks now, if it was asked before: the network is another one.
    pub(super) fn renew(&mut self, now: BootTime) {
        if self.is_in_use {
            self.begin(now);
        }
    }

    /// Questions go on at [`KEEP_MAPPING_EVERY`], or no more often than relays are asked.
    pub(super) fn keep_mapping(&mut self, keeps: bool, now: BootTime) {
        if keeps && !self.keeps && self.at.is_some() && self.open.is_none() {
            self.next = Some(now.saturating_add(KEEP_MAPPING_EVERY));
        }
        self.keeps = keeps;
    }

    /// Asks, if the last question is so old that a NAT may have forgotten it.
    pub(super) fn refresh(&mut self, now: BootTime) {
        if now.has_passed(self.asked, KEEP_MAPPING_EVERY) {
            self.begin(now);
        }
    }

    /// Asks now.
    pub(super) fn begin(&mut self, now: BootTime) {
        self.unanswered = 0;
        self.is_in_use = true;
        self.next = self.at.map(|_| now);
        self.handle_timeout(now);
    }

    pub(super) fn handle_datagram(
        &mut self,
        source: SocketAddr,
        datagram: &[u8],
        now: BootTime,
    ) -> bool {
        let Some(Message::Challenge(challenge)) = Message::parse(datagram) else {
            return false;
        };
        if self.at != Some(source) || self.open != Some(challenge.transaction) {
            return false;
        }
        // A portal on this very machine says nothing about the outside.
        let mapped = Some(challenge.mapped).filter(|mapped| !mapped.ip().is_loopback());
        self.open = None;
        self.unanswered = 0;
        self.next = Some(now.saturating_add(self.pause()));
        self.has_changed |= self.mapped != mapped;
        self.mapped = mapped;
        true
    }

    pub(super) fn handle_timeout(&mut self, now: BootTime) {
        let (Some(at), true) = (self.at, self.next.is_some_and(|next| next <= now)) else {
            return;
        };
        self.questions += 1;
        self.asked = now;
        let number = self.questions.to_be_bytes();
        let mac = Mac::of(&self.seed, &[b"culvert portal port", &number]);
        let transaction = Transaction(*mac.as_bytes());
        self.open = Some(transaction);
        self.send = Some((at, Ask { transaction }.encode()));
        let pause = UNANSWERED.get(self.unanswered).copied();
        self.unanswered = self.unanswered.saturating_add(1);
        self.next = Some(now.saturating_add(pause.unwrap_or(super::SURVEY_EVERY)));
    }

    pub(super) fn poll_timeout(&self) -> Option<BootTime> {
        self.next
    }

    pub(super) fn poll_send(&mut self) -> Option<(SocketAddr, [u8; ASK_LEN])> {
        self.send.take()
    }

    pub(super) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.has_changed)
    }

    /// The address at which the portal has seen this end.
    pub(super) const fn mapped(&self) -> Option<SocketAddr> {
        self.mapped
    }

    const fn pause(&self) -> Duration {
        match self.keeps {
            true => KEEP_MAPPING_EVERY,
            false => super::SURVEY_EVERY,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use culvert_relay_core::cookie::Cookies;

    const PORTAL: &str = "203.0.113.7:8443";
    const MAPPED: &str = "198.51.100.9:40000";

    fn at(seconds: u64) -> BootTime {
        BootTime::from_millis(seconds * 1_000)
    }

    /// The portal's answer to the question that is to be sent.
    fn answer(port: &mut PortalPort, mapped: &str, now: BootTime) -> [u8; ASK_LEN] {
        let (to, question) = port.poll_send().unwrap();
        assert_eq!(to, PORTAL.parse().unwrap());
        let mut cookies = Cookies::new([7; 32]);
        let answer = cookies.answer(&question, mapped.parse().unwrap(), 8443, now);
        answer.unwrap()
    }

    fn asked() -> PortalPort {
        let mut port = PortalPort::new([1; 32]);
        port.set(PORTAL.parse().ok(), true, at(10));
        port
    }

    #[test]
    fn an_answer_tells_the_address_once_and_a_second_time_if_it_is_another_one() {
        let mut port = asked();
        let said = answer(&mut port, MAPPED, at(10));
        let portal = PORTAL.parse().unwrap();
        let other = "203.0.113.8:8443".parse().unwrap();
        assert!(!port.handle_datagram(other, &said, at(10)));
        assert!(port.handle_datagram(portal, &said, at(10)));
        assert!(
            !port.handle_datagram(portal, &said, at(10)),
            "it came twice"
        );
        assert_eq!(port.mapped(), MAPPED.parse().ok());
        assert!(port.take_changed());
        for (mapped, is_news) in [(MAPPED, false), ("198.51.100.9:40001", true)] {
            port.begin(at(20));
            let said = answer(&mut port, mapped, at(20));
            assert!(port.handle_datagram(portal, &said, at(20)));
            assert_eq!(port.take_changed(), is_news, "{mapped}");
        }
    }

    #[test]
    fn a_port_that_does_not_answer_is_asked_again_a_few_times_and_then_seldom() {
        let mut port = asked();
        let mut times = Vec::new();
        while let Some(due) = port.poll_timeout().filter(|due| *due < at(2_000)) {
            port.handle_timeout(due);
            assert!(port.poll_send().is_some());
            times.push(due.saturating_since(at(10)).as_secs());
        }
        assert_eq!(times, [1, 3, 7, 607, 1_207, 1_807]);
        port.set(None, true, at(2_000));
        assert_eq!(port.poll_timeout(), None);
    }

    #[test]
    fn an_end_that_need_not_be_found_yet_asks_when_it_is_told_to() {
        let mut port = PortalPort::new([1; 32]);
        port.set(PORTAL.parse().ok(), false, at(100));
        port.renew(at(101));
        assert!(port.poll_send().is_none());
        assert_eq!(port.poll_timeout(), None);
        port.refresh(at(102));
        assert!(port.poll_send().is_some());
        port.renew(at(103));
        assert!(port.poll_send().is_some());
    }

    #[test]
    fn a_mapping_that_is_kept_is_asked_for_before_a_nat_forgets_it() {
        let mut port = asked();
        port.keep_mapping(true, at(10));
        let said = answer(&mut port, MAPPED, at(10));
        assert!(port.handle_datagram(PORTAL.parse().unwrap(), &said, at(11)));
        assert_eq!(port.poll_timeout(), Some(at(31)));
    }
}
