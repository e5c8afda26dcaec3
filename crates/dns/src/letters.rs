//! The case of letters in forwarded questions ("DNS 0x20": Dagon and others, Increased DNS Forgery Resistance
//! Through 0x20-Bit Encoding, 2008).
//!
//! A server copies the question into its answer, letter by letter, and compares names without their case. So
//! each letter of a name has a random bit, which a forger of an answer has to guess besides id and port.
//!
//! Some servers do not keep the case. An answer by UDP in other letters is not believed; the same server is
//! asked by TCP instead, where a forger would have to guess sequence numbers. Only where it does not answer
//! that either, its answers by UDP are believed in any letters for a while, and the owner is told so.

use crate::constants::CASE_RULES_MAX;
use crate::ids::Ids;
use crate::query::{HEADER_LEN, Question};
use crate::{CASE_RULE_LIFETIME, Transport};
use culvert_base::BootTime;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Servers that are known not to keep the case of letters.
#[derive(Debug, Default)]
pub(crate) struct CaseRules(BTreeMap<SocketAddr, Rule>);

#[derive(Clone, Copy, Debug)]
struct Rule {
    fallback: Fallback,
    until: BootTime,
}

/// The way to ask a server that does not keep the case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fallback {
    /// By TCP.
    Tcp,
    /// By UDP, without comparing the case: it does not answer by TCP.
    AnyCase,
}

/// The way to ask a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    pub(crate) transport: Transport,
    /// True if the answer must have exactly the letters of the question.
    pub(crate) is_compared: bool,
}

impl CaseRules {
    /// The way to ask a server a question that came by `asker`.
    pub(crate) fn way(&self, upstream: SocketAddr, asker: Transport, now: BootTime) -> Way {
        let rule = self.0.get(&upstream).filter(|rule| now < rule.until);
        let (transport, is_compared) = match (asker, rule.map(|rule| rule.fallback)) {
            (Transport::Tcp, _) | (_, Some(Fallback::Tcp)) => (Transport::Tcp, false),
            (Transport::Udp, Some(Fallback::AnyCase)) => (Transport::Udp, false),
            (Transport::Udp, None) => (Transport::Udp, true),
        };
        Way {
            transport,
            is_compared,
        }
    }

    /// A server that changed the letters has answered by TCP, or has not. True where that was not known.
    pub(crate) fn learn(&mut self, upstream: SocketAddr, answers_tcp: bool, now: BootTime) -> bool {
        self.0.retain(|_, rule| now < rule.until);
        let fallback = match answers_tcp {
            true => Fallback::Tcp,
            false => Fallback::AnyCase,
        };
        let before = self.0.get(&upstream).map(|rule| rule.fallback);
        if before.is_none() && self.0.len() >= CASE_RULES_MAX {
            return false;
        }
        // The lifetime of a known rule is not extended: after a while the server is tried again.
        if before != Some(fallback) {
            let until = now.saturating_add(CASE_RULE_LIFETIME);
            self.0.insert(upstream, Rule { fallback, until });
        }
        before != Some(fallback)
    }
}

/// Gives each letter of the name in a query a case of its own. `None` where there is no randomness left.
pub(crate) fn mix(query: &mut [u8], question: &Question, random: &mut Ids) -> Option<()> {
    let name = name_of(query, question)?;
    for letter in name.iter_mut().filter(|byte| byte.is_ascii_alphabetic()) {
        *letter ^= random.draw_bit()? << 5;
    }
    Some(())
}

/// True if the name in an answer has exactly the letters of the name in the query.
pub(crate) fn are_same(answer: &[u8], query: &[u8], question: &Question) -> bool {
    let range = HEADER_LEN..HEADER_LEN + question.qname().as_slice().len();
    let letters = answer.get(range.clone());
    letters.is_some() && letters == query.get(range)
}

/// Gives the name in an answer the letters of the question.
pub(crate) fn restore(answer: &mut [u8], question: &Question) {
    if let Some(place) = name_of(answer, question) {
        place.copy_from_slice(question.qname().as_slice());
    }
}

fn name_of<'a>(message: &'a mut [u8], question: &Question) -> Option<&'a mut [u8]> {
    let len = question.qname().as_slice().len();
    message.get_mut(HEADER_LEN..HEADER_LEN + len)
}
