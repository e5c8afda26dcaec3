//! Questions of gateways for names of devices at other sites that are under way, and how many there may be.

use super::limits::MAX_NAME_ASKS;
use super::output::SessionId;
use culvert_base::{TokenBucket, TokenRate, UnixTime};
use culvert_ids::{ClientId, GatewayId};
use culvert_store::MAX_PLAIN_CLIENTS;
use culvert_wire::Timestamp;
use culvert_wire::messages::{NAME_ASK_BURST, NAME_ASKS_PER_S, NameElsewhere};
use std::collections::BTreeMap;

/// A gateway may have fewer questions under way than this part of the free places (dynamic thresholds, Choudhury and Hahne,
/// 1998), so that one which asks without end leaves most of them.
const PART_PER_GATEWAY: usize = 4;

/// The questions that a device may have asked.
const RATE: TokenRate = TokenRate::per_second(NAME_ASKS_PER_S, NAME_ASK_BURST);

/// A question that waits for the answer of a name's gateway.
#[derive(Debug)]
pub(super) struct NameAsk {
    /// The gateway that the device asked, and its number of the question.
    pub(super) from: GatewayId,
    pub(super) number: u64,
    /// Its session, which alone is answered.
    pub(super) session: SessionId,
    /// The gateway that resolves the name.
    pub(super) to: GatewayId,
    pub(super) deadline: Timestamp,
}

/// The names at other sites that a gateway was told of for a device.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ToldNames {
    pub(super) session: SessionId,
    pub(super) place: u8,
    pub(super) names: Vec<NameElsewhere>,
}

/// Names of devices at other sites.
#[derive(Debug, Default)]
pub(super) struct NameAsks {
    /// One entry at most for each plain device.
    pub(super) told: BTreeMap<ClientId, ToldNames>,
    under_way: BTreeMap<u64, NameAsk>,
    of_gateway: BTreeMap<GatewayId, usize>,
    last: u64,
    /// Of each plain device that has asked.
    rates: BTreeMap<ClientId, TokenBucket<UnixTime>>,
}

impl NameAsks {
    /// Takes a device's token for a question, if it has one. `is_device` says of whom there still may be questions.
    pub(super) fn take_token(
        &mut self,
        client: ClientId,
        now: Timestamp,
        is_device: impl Fn(ClientId) -> bool,
    ) -> bool {
        if self.rates.len() as u64 >= MAX_PLAIN_CLIENTS && !self.rates.contains_key(&client) {
            self.rates.retain(|client, _| is_device(*client));
        }
        let rate = self.rates.entry(client).or_insert(TokenBucket::FULL);
        rate.take(RATE, now.unix_time()).is_ok()
    }

    /// Takes a place for a question, and returns its number. None where the gateway has its share.
    pub(super) fn begin(&mut self, ask: NameAsk) -> Option<u64> {
        let free = MAX_NAME_ASKS - self.under_way.len();
        let own = self.of_gateway.entry(ask.from).or_default();
        if *own >= free / PART_PER_GATEWAY {
            return None;
        }
        *own += 1;
        self.last += 1;
        self.under_way.insert(self.last, ask);
        Some(self.last)
    }

    /// A question is over: its answer is there, or its time. None for one that is over already, and for one of another gateway.
    pub(super) fn end(&mut self, number: u64, by: Option<GatewayId>) -> Option<NameAsk> {
        let ask = self.under_way.get(&number)?;
        if by.is_some_and(|by| by != ask.to) {
            return None;
        }
        let ask = self.under_way.remove(&number)?;
        if let Some(own) = self.of_gateway.get_mut(&ask.from) {
            *own -= 1;
            if *own == 0 {
                self.of_gateway.remove(&ask.from);
            }
        }
        Some(ask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gateway(number: u8) -> GatewayId {
        GatewayId::from_bytes([number; 16])
    }

    fn ask(from: u8) -> NameAsk {
        NameAsk {
            from: gateway(from),
            number: 1,
            session: SessionId(1),
            to: gateway(9),
            deadline: Timestamp::from_unix_ms(1),
        }
    }

    #[test]
    fn a_gateway_that_asks_without_end_leaves_most_places_to_others() {
        let mut asks = NameAsks::default();
        let mut begun = Vec::new();
        for number in 1..=8 {
            let mut own = 0;
            while asks.begin(ask(number)).is_some() {
                own += 1;
            }
            begun.push(own);
        }
        assert_eq!(begun[0], MAX_NAME_ASKS / 5 + 1);
        assert!(begun.iter().all(|own| *own > 0), "{begun:?}");
        // Only the gateway that was asked answers, and once.
        assert!(asks.end(1, Some(gateway(8))).is_none());
        assert!(asks.end(1, Some(gateway(9))).is_some());
        assert!(asks.end(1, None).is_none());
        for number in 2..=begun[0] as u64 {
            assert!(asks.end(number, None).is_some());
        }
        assert!(asks.begin(ask(1)).is_some());
    }

    #[test]
    fn a_device_that_asks_without_end_is_bounded_and_the_table_with_the_devices() {
        let mut asks = NameAsks::default();
        let device = |number: u64| {
            let mut id = [0; 16];
            id[8..].copy_from_slice(&number.to_be_bytes());
            ClientId::from_bytes(id)
        };
        let at = |ms: u64| Timestamp::from_unix_ms(1_000_000 + ms);
        let taken = (0..1_000).filter(|_| asks.take_token(device(0), at(0), |_| true));
        assert_eq!(taken.count(), NAME_ASK_BURST as usize);
        assert!(asks.take_token(device(1), at(0), |_| true));
        let later = (0..1_000).filter(|_| asks.take_token(device(0), at(1_000), |_| true));
        assert_eq!(later.count(), NAME_ASKS_PER_S as usize);
        for number in 0..2 * MAX_PLAIN_CLIENTS {
            asks.take_token(device(number), at(0), |_| false);
        }
        assert!(asks.rates.len() as u64 <= MAX_PLAIN_CLIENTS);
    }
}
