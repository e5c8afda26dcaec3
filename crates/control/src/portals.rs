//! The addresses of the portal: the one of the token, and those that the portal has told of since. And which of them an
//! attempt goes to.
//!
//! The token's own address is never given up, because what was told may be wrong or out of date. It is the last of a
//! round unless the portal told of it, because the portal tells of others when it moves. A machine whose session has
//! ended goes to another address first: the portal that it was at may be gone for good.

use culvert_base::Random;
use culvert_wire::messages::PortalSet;
use culvert_wire::token::{CertificatePin, Portal};
use std::time::Duration;

/// The time limit of any attempt, from the look-up of the name to the open WebSocket: several round trips of a slow
/// path, and the time limit of `hello` (`docs/access.md`).
pub const ATTEMPT_LIMIT: Duration = Duration::from_secs(10);

/// The same while another address may answer sooner. A silent portal then costs less than the five seconds within which
/// new access is to be back. A path with round trips of a second still gets through, and later rounds have more time.
const FIRST_ROUND_LIMIT: Duration = Duration::from_secs(4);

/// The certificates that count at an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trust {
    /// SHA-256 of certificates.
    pub pins: Vec<CertificatePin>,
    /// A certificate counts too if an authority that the machine trusts vouches for it.
    pub authorities: bool,
}

impl Trust {
    /// The certificates that count at the address of a token.
    #[must_use]
    pub fn of(portal: &Portal) -> Self {
        Self {
            pins: portal.pin.into_iter().collect(),
            authorities: portal.pin.is_none(),
        }
    }
}

/// An attempt to connect to the portal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// `https://host[:port]`.
    pub url: String,
    /// The certificates that count.
    pub trust: Trust,
    /// The time limit.
    pub limit: Duration,
    /// The number of attempts at this URL since the last `welcome`. Of several addresses of its host, each one comes first
    /// in one of them: the one that comes first always may refuse always.
    pub earlier: usize,
}

/// The addresses of the portal, and the state of the attempts.
#[derive(Clone, Debug)]
pub struct PortalAddresses {
    token: Portal,
    told: PortalSet,
    random: Random,
    /// The address of the session, or of the last attempt.
    current: String,
    state: State,
    /// The addresses that have failed in this round.
    failed: Vec<String>,
    /// The rounds that have failed since the last `welcome`.
    rounds: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// There was no attempt yet.
    New,
    /// There was no `welcome` since the last attempt began.
    Trying,
    /// There is a session, or there was one.
    Welcomed,
}

impl PortalAddresses {
    /// The address of a token, and those that were told of with this token before. `seed` is random: it spreads the
    /// machines of a portal that is gone over the others.
    #[must_use]
    pub fn new(token: Portal, told: &PortalSet, seed: u64) -> Self {
        let told = told.usable();
        Self {
            current: told.urls.first().unwrap_or(&token.url).clone(),
            token,
            told,
            random: Random::new(seed),
            state: State::New,
            failed: Vec::new(),
            rounds: 0,
        }
    }

    /// The attempt that begins now. One that began before and had no `welcome` has failed.
    pub fn begin_attempt(&mut self) -> Attempt {
        self.current = match self.state {
            State::New => self.current.clone(),
            State::Trying => {
                self.failed.push(self.current.clone());
                self.choose()
            }
            State::Welcomed => self.choose(),
        };
        self.state = State::Trying;
        let has_others = self.others().next().is_some();
        Attempt {
            url: self.current.clone(),
            trust: self.trust(&self.current),
            limit: match self.rounds == 0 && has_others {
                true => FIRST_ROUND_LIMIT,
                false => ATTEMPT_LIMIT,
            },
            // Each round has one attempt at each URL.
            earlier: self.rounds,
        }
    }

    /// The portal said `welcome` at the current address.
    pub fn welcomed(&mut self) {
        self.state = State::Welcomed;
        self.failed.clear();
        self.rounds = 0;
    }

    /// The portal told of its addresses. True if they are others than before, and are to be kept. A portal that tells of
    /// none is an older one.
    pub fn learn(&mut self, told: &PortalSet) -> bool {
        let told = told.usable();
        if told.is_empty() || told == self.told {
            return false;
        }
        self.told = told;
        true
    }

    /// The addresses that the portal has told of.
    #[must_use]
    pub const fn told(&self) -> &PortalSet {
        &self.told
    }

    /// All addresses.
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        self.all().cloned().collect()
    }

    /// The address of the session, or of the last attempt.
    #[must_use]
    pub fn current(&self) -> &str {
        &self.current
    }

    /// True if every address has failed since the last `welcome` once the current one has. Until then, a refusal may come
    /// from a portal that is no longer the right one.
    #[must_use]
    pub fn is_last(&self) -> bool {
        self.rounds > 0 || self.others().all(|url| self.failed.contains(url))
    }

    fn all(&self) -> impl Iterator<Item = &String> {
        let told = &self.told.urls;
        let own = Some(&self.token.url).filter(|own| !told.contains(own));
        told.iter().chain(own)
    }

    fn others(&self) -> impl Iterator<Item = &String> {
        self.all().filter(|url| **url != self.current)
    }

    /// The next address: one of those that were told of, at random, then the current one, then the token's.
    fn choose(&mut self) -> String {
        if self.all().all(|url| self.failed.contains(url)) {
            self.failed.clear();
            self.rounds = self.rounds.saturating_add(1);
        }
        let is_open = |url: &&String| !self.failed.contains(url);
        let told: Vec<String> = self.told.urls.iter().filter(is_open).cloned().collect();
        let others: Vec<&String> = told.iter().filter(|url| **url != self.current).collect();
        let most = u64::try_from(others.len()).unwrap_or(u64::MAX);
        let index = match most {
            0 | 1 => 0,
            most => self.random.up_to(most - 1),
        };
        let chosen = usize::try_from(index)
            .ok()
            .and_then(|index| others.get(index));
        match (chosen, told.first()) {
            (Some(other), _) => (*other).clone(),
            (None, Some(current)) => current.clone(),
            (None, None) => self.token.url.clone(),
        }
    }

    /// The token's certificate counts at its own address alone.
    fn trust(&self, url: &str) -> Trust {
        let mut trust = Trust {
            pins: self.told.pins.clone(),
            authorities: self.told.authorities,
        };
        if url == self.token.url {
            let own = Trust::of(&self.token);
            trust.authorities |= own.authorities;
            trust.pins.extend(own.pins);
        }
        trust
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const OWN: &str = "https://own.example";

    fn pin(byte: u8) -> CertificatePin {
        CertificatePin::of(&[byte])
    }

    fn set(urls: &[&str]) -> PortalSet {
        PortalSet {
            urls: urls.iter().map(ToString::to_string).collect(),
            pins: vec![pin(1), pin(2)],
            authorities: false,
        }
    }

    fn addresses(urls: &[&str]) -> PortalAddresses {
        let token = Portal::new(OWN, Some(pin(0))).unwrap();
        PortalAddresses::new(token, &set(urls), 7)
    }

    fn attempts(addresses: &mut PortalAddresses, count: usize) -> Vec<String> {
        let attempts = (0..count).map(|_| addresses.begin_attempt().url);
        attempts.collect()
    }

    #[test]
    fn without_any_others_each_attempt_goes_to_the_tokens_address_and_has_its_time() {
        let mut addresses = addresses(&[]);
        for _ in 0..3 {
            let attempt = addresses.begin_attempt();
            assert_eq!((&*attempt.url, attempt.limit), (OWN, ATTEMPT_LIMIT));
            assert_eq!(attempt.trust.pins, [pin(0)]);
            assert!(addresses.is_last());
        }
    }

    #[test]
    fn the_preferred_address_comes_first_and_the_tokens_own_last_in_every_round() {
        let told = ["https://a.example", "https://b.example"];
        let mut addresses = addresses(&told);
        let tried = attempts(&mut addresses, 6);
        assert_eq!(tried[..3], [told[0], told[1], OWN]);
        assert_eq!(tried[5], OWN);
    }

    #[test]
    fn attempts_at_a_url_are_counted_until_the_portal_says_welcome() {
        let mut addresses = addresses(&["https://a.example"]);
        let mut counts = Vec::new();
        for _ in 0..6 {
            let attempt = addresses.begin_attempt();
            counts.push((attempt.url == OWN, attempt.earlier));
        }
        counts.sort_unstable();
        let expected = [false, true].map(|own| [0, 1, 2].map(|earlier| (own, earlier)));
        assert_eq!(counts, expected.concat());
        addresses.welcomed();
        assert_eq!(addresses.begin_attempt().earlier, 0);
    }

    #[test]
    fn a_set_that_leads_nowhere_costs_one_attempt_of_four_seconds() {
        let mut addresses = addresses(&["https://wrong.example"]);
        let wrong = addresses.begin_attempt();
        assert_eq!(wrong.limit, Duration::from_secs(4));
        assert!(!addresses.is_last());
        let own = addresses.begin_attempt();
        assert_eq!(own.url, OWN);
        assert_eq!(own.trust.pins, [pin(1), pin(2), pin(0)]);
        assert!(addresses.is_last());
        // Nothing answers quickly: from now on, all have their time.
        assert_eq!(addresses.begin_attempt().limit, ATTEMPT_LIMIT);
    }

    #[test]
    fn a_session_that_ends_leads_to_another_address_and_to_its_own_before_the_tokens() {
        let told = ["https://a.example", "https://b.example"];
        let mut addresses = addresses(&told);
        addresses.begin_attempt();
        addresses.welcomed();
        assert_eq!(attempts(&mut addresses, 3), [told[1], told[0], OWN]);
        let mut alone = self::addresses(&told[..1]);
        alone.begin_attempt();
        alone.welcomed();
        assert_eq!(attempts(&mut alone, 2), [told[0], OWN]);
    }

    #[test]
    fn machines_of_a_portal_that_is_gone_spread_over_the_others() {
        let told = [
            "https://a.example",
            "https://b.example",
            "https://c.example",
        ];
        let mut chosen = BTreeSet::new();
        for seed in 0..50 {
            let token = Portal::new(OWN, None).unwrap();
            let mut addresses = PortalAddresses::new(token, &set(&told), seed);
            addresses.begin_attempt();
            addresses.welcomed();
            chosen.insert(addresses.begin_attempt().url);
        }
        assert_eq!(chosen, told[1..].iter().map(ToString::to_string).collect());
    }

    #[test]
    fn the_tokens_certificate_counts_at_no_other_address() {
        let mut addresses = addresses(&["https://a.example", OWN]);
        let attempt = addresses.begin_attempt();
        assert_eq!(attempt.trust.pins, [pin(1), pin(2)]);
        let attempt = addresses.begin_attempt();
        assert_eq!(attempt.url, OWN);
        assert!(attempt.trust.pins.contains(&pin(0)));
        assert!(!attempt.trust.authorities);
    }

    #[test]
    fn a_portal_that_tells_of_nothing_usable_changes_nothing() {
        let mut addresses = addresses(&["https://a.example"]);
        assert!(!addresses.learn(&PortalSet::default()));
        assert!(!addresses.learn(&set(&["http://b.example"])));
        assert!(!addresses.learn(&set(&["https://a.example/"])));
        assert!(addresses.learn(&set(&["https://b.example"])));
        assert_eq!(addresses.told(), &set(&["https://b.example"]));
        assert_eq!(addresses.current(), "https://a.example");
    }

    proptest! {
        #[test]
        fn every_round_tries_every_address_once(count in 0_usize..8, seed: u64, welcome: bool) {
            let urls: Vec<String> = (0..count).map(|n| format!("https://{n}.example")).collect();
            let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
            let token = Portal::new(OWN, None).unwrap();
            let mut addresses = PortalAddresses::new(token, &set(&urls), seed);
            if welcome {
                addresses.begin_attempt();
                addresses.welcomed();
            }
            for _ in 0..3 {
                let tried: BTreeSet<_> = attempts(&mut addresses, count + 1).into_iter().collect();
                prop_assert_eq!(tried.len(), count + 1);
                prop_assert!(addresses.is_last());
            }
        }
    }
}
