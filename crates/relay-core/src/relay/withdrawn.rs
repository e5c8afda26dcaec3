//! Tokens that the portal withdrew before they expired.

use crate::token::{Issue, TOKEN_LIFETIME_MOST};
use culvert_base::UnixTime;
use culvert_ids::{ClientId, GatewayId};
use culvert_wire::Timestamp;
use culvert_wire::messages::RelayClaims;
use std::collections::BTreeMap;

/// The most pairs whose tokens are withdrawn at one time.
pub const WITHDRAWN_MOST: usize = 65_536;

/// For each pair the issue up to which tokens count no more; `None` for a client means the gateway and all its clients.
#[derive(Debug, Default)]
pub(super) struct Withdrawn {
    until: BTreeMap<(GatewayId, Option<ClientId>), Issue>,
    /// Tokens up to this issue count no more, whoever has them: the table was full.
    floor: Issue,
}

impl Withdrawn {
    pub(super) fn add(&mut self, gateway: GatewayId, client: Option<ClientId>, until: Issue) {
        let entry = self.until.entry((gateway, client)).or_default();
        *entry = until.max(*entry);
        if self.until.len() > WITHDRAWN_MOST {
            self.forget_oldest();
        }
    }

    /// Makes room, so that no token counts that was withdrawn: all tokens as old as the oldest withdrawal go with it.
    fn forget_oldest(&mut self) {
        let oldest = self.until.iter().min_by_key(|(_, until)| **until);
        if let Some((&pair, &until)) = oldest {
            self.until.remove(&pair);
            self.floor = self.floor.max(until);
        }
    }

    pub(super) fn covers(&self, claims: &RelayClaims, issue: Issue) -> bool {
        let pairs = [claims.client, None];
        let covered = |client| {
            let until = self.until.get(&(claims.gateway, client));
            until.is_some_and(|until| issue <= *until)
        };
        issue <= self.floor || pairs.into_iter().any(covered)
    }

    /// Forgets what is so old that no token of that time counts any more.
    pub(super) fn expire(&mut self, now: UnixTime) {
        let oldest = Timestamp::from(now.saturating_sub(TOKEN_LIFETIME_MOST));
        self.until.retain(|_, until| until.at >= oldest);
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.until.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use culvert_base::{PresharedKey, PublicKey};
    use culvert_ids::RelayId;
    use std::time::Duration;

    fn gateway(number: u8) -> GatewayId {
        GatewayId::from_bytes([number; 16])
    }

    fn client(number: u32) -> ClientId {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&number.to_be_bytes());
        ClientId::from_bytes(bytes)
    }

    fn issue(key: u64, at_ms: u64) -> Issue {
        let at = Timestamp::from_unix_ms(at_ms);
        Issue { key, at }
    }

    fn claims(client: Option<ClientId>) -> RelayClaims {
        RelayClaims {
            relay: RelayId::from_bytes([1; 16]),
            port: 3479,
            gateway: gateway(1),
            client,
            public_key: PublicKey::from_bytes([1; 32]),
            key: PresharedKey::from_bytes([1; 32]),
            rate_bytes_per_s: 1,
            iat: Timestamp::MAX,
            exp: Timestamp::MAX,
        }
    }

    #[test]
    fn a_token_that_was_issued_after_the_withdrawal_counts() {
        let mut withdrawn = Withdrawn::default();
        withdrawn.add(gateway(1), Some(client(1)), issue(1, 10));
        assert!(withdrawn.covers(&claims(Some(client(1))), issue(1, 10)));
        assert!(!withdrawn.covers(&claims(Some(client(1))), issue(1, 11)));
        assert!(!withdrawn.covers(&claims(Some(client(2))), issue(1, 10)));
        assert!(!withdrawn.covers(&claims(None), issue(1, 10)));
    }

    #[test]
    fn tokens_of_a_later_key_count_and_those_of_an_earlier_one_do_not_whatever_their_times() {
        let mut withdrawn = Withdrawn::default();
        withdrawn.add(gateway(1), Some(client(1)), issue(2, 10));
        let claims = claims(Some(client(1)));
        assert!(withdrawn.covers(&claims, issue(1, 1_000)));
        assert!(withdrawn.covers(&claims, issue(2, 10)));
        assert!(!withdrawn.covers(&claims, issue(3, 1)));
        // An earlier time of a later key is no step back.
        withdrawn.add(gateway(1), Some(client(1)), issue(3, 5));
        assert!(withdrawn.covers(&claims, issue(2, 11)));
        assert!(!withdrawn.covers(&claims, issue(3, 6)));
    }

    #[test]
    fn a_gateway_is_withdrawn_with_all_its_clients() {
        let mut withdrawn = Withdrawn::default();
        withdrawn.add(gateway(1), None, issue(1, 10));
        assert!(withdrawn.covers(&claims(None), issue(1, 10)));
        assert!(withdrawn.covers(&claims(Some(client(2))), issue(1, 10)));
    }

    #[test]
    fn an_earlier_withdrawal_does_not_undo_a_later_one() {
        let mut withdrawn = Withdrawn::default();
        for until in [10, 5] {
            withdrawn.add(gateway(1), None, issue(1, until));
        }
        assert!(withdrawn.covers(&claims(None), issue(1, 10)));
    }

    #[test]
    fn a_full_table_withdraws_more_rather_than_less() {
        let mut withdrawn = Withdrawn::default();
        for number in 0..=WITHDRAWN_MOST as u32 {
            let until = issue(1, 1_000 + u64::from(number));
            withdrawn.add(gateway(1), Some(client(number)), until);
        }
        assert_eq!(withdrawn.len(), WITHDRAWN_MOST);
        assert!(withdrawn.covers(&claims(Some(client(0))), issue(1, 1_000)));
        assert!(withdrawn.covers(&claims(Some(client(1))), issue(1, 1_001)));
    }

    #[test]
    fn a_withdrawal_is_forgotten_once_its_tokens_have_expired() {
        let mut withdrawn = Withdrawn::default();
        withdrawn.add(gateway(1), None, issue(1, 10));
        let end = UnixTime::from_millis(10).saturating_add(TOKEN_LIFETIME_MOST);
        withdrawn.expire(end);
        assert_eq!(withdrawn.len(), 1);
        withdrawn.expire(end.saturating_add(Duration::from_millis(1)));
        assert_eq!(withdrawn.len(), 0);
    }
}
