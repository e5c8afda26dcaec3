//! Device codes: begun at one portal, approved and asked for at another.

use super::*;
use crate::memory_store::Memory;
use std::collections::BTreeSet;

const APPROVAL: Approval = Approval {
    actor: ActorId::from_bytes([1; 16]),
    session: TokenId::from_bytes([2; 16]),
    role: Some(Role::User),
};

/// Two portals on one database.
#[derive(Default)]
struct Portals {
    memory: Memory,
    one: DeviceCodes,
    other: DeviceCodes,
}

impl Portals {
    async fn begin_from(&self, last: u8) -> Result<(Zeroizing<String>, String), Fault> {
        let from = IpAddr::from([192, 0, 2, last]);
        let begun = self.one.begin(self.memory.db(), from, "laptop".to_owned());
        begun.await
    }

    async fn begin(&self) -> (Zeroizing<String>, String) {
        self.begin_from(1).await.unwrap()
    }

    async fn ask(&self, code: &str) -> Told {
        let asked = self.other.ask(self.memory.db(), code, self.other.start);
        asked.await.unwrap()
    }

    async fn answer(&self, code: &str, at: Instant) -> DeviceAnswer {
        match self.one.ask(self.memory.db(), code, at).await.unwrap() {
            Told::Answer(answer) => answer,
            Told::Approved { .. } => panic!("approved"),
        }
    }

    async fn decide(&self, code: &str, decision: Decision) -> bool {
        let decided = self.other.decide(self.memory.db(), code, decision);
        decided.await.unwrap()
    }
}

#[tokio::test]
async fn who_asks_too_soon_is_told_to_wait_longer_each_time() {
    let portals = Portals::default();
    let start = portals.one.start;
    let (code, _) = portals.begin().await;
    assert_eq!(portals.answer(&code, start).await, DeviceAnswer::Pending);
    let at = start + INTERVAL;
    assert_eq!(portals.answer(&code, at).await, DeviceAnswer::Pending);
    for interval_s in [7, 12] {
        let slower = DeviceAnswer::SlowDown { interval_s };
        assert_eq!(portals.answer(&code, at).await, slower);
    }
    let at = at + Duration::from_secs(12);
    assert_eq!(portals.answer(&code, at).await, DeviceAnswer::Pending);
    for _ in 0..20 {
        portals.answer(&code, at).await;
    }
    let most = DeviceAnswer::SlowDown { interval_s: 60 };
    assert_eq!(portals.answer(&code, at).await, most);
}

#[tokio::test]
async fn who_asks_half_a_second_early_is_not_too_fast() {
    let half_second = Duration::from_millis(500);
    for (early, told) in [
        (half_second, DeviceAnswer::Pending),
        (
            half_second + Duration::from_nanos(1),
            DeviceAnswer::SlowDown { interval_s: 7 },
        ),
    ] {
        let portals = Portals::default();
        let start = portals.one.start;
        let (code, _) = portals.begin().await;
        assert_eq!(portals.answer(&code, start).await, DeviceAnswer::Pending);
        let at = start + INTERVAL - early;
        assert_eq!(portals.answer(&code, at).await, told, "{early:?}");
    }
}

#[tokio::test]
async fn a_code_is_good_for_ten_minutes_and_for_one_machine() {
    let portals = Portals::default();
    let start = portals.one.start;
    let (code, user_code) = portals.begin().await;
    let second = Duration::from_secs(1);
    portals.memory.pass(LIFETIME - second);
    assert_eq!(portals.answer(&code, start).await, DeviceAnswer::Pending);
    portals.memory.pass(second);
    assert_eq!(portals.answer(&code, start).await, DeviceAnswer::Expired);
    let approved = Decision::Approved(APPROVAL);
    assert!(!portals.decide(&user_code, approved).await, "it is gone");
    for code in ["", ".", &*user_code, "BCDF-GHJK.secret"] {
        let answer = portals.answer(code, start).await;
        assert_eq!(answer, DeviceAnswer::Expired, "{code}");
    }

    let (code, user_code) = portals.begin().await;
    let guessed = format!("{user_code}{SEPARATOR}guessed");
    assert!(portals.decide(&user_code, approved).await);
    assert!(!portals.decide(&user_code, approved).await, "decided once");
    assert_eq!(portals.answer(&guessed, start).await, DeviceAnswer::Expired);
    let Told::Approved { machine, approval } = portals.ask(&code).await else {
        panic!("not approved");
    };
    assert_eq!((&*machine, approval), ("laptop", APPROVAL));
    let meanwhile = portals.answer(&code, start).await;
    assert_eq!(meanwhile, DeviceAnswer::Pending, "one gets the token");
    let issued = async |again| {
        let issued = portals.other.issued(portals.memory.db(), &code, again);
        issued.await.unwrap();
    };
    issued(Some(APPROVAL)).await;
    assert!(matches!(portals.ask(&code).await, Told::Approved { .. }));
    issued(None).await;
    assert_eq!(portals.answer(&code, start).await, DeviceAnswer::Expired);

    let (code, user_code) = portals.begin().await;
    assert!(portals.decide(&user_code, Decision::Denied).await);
    assert_eq!(portals.answer(&code, start).await, DeviceAnswer::Denied);
    assert_eq!(portals.answer(&code, start).await, DeviceAnswer::Expired);
}

#[tokio::test]
async fn a_token_that_a_portal_did_not_make_is_made_by_another_two_minutes_later() {
    let portals = Portals::default();
    let (code, user_code) = portals.begin().await;
    portals.memory.pass(INTERVAL);
    assert!(
        portals
            .decide(&user_code, Decision::Approved(APPROVAL))
            .await
    );
    let asked = async || matches!(portals.ask(&code).await, Told::Approved { .. });
    assert!(asked().await);
    let second = Duration::from_secs(1);
    portals.memory.pass(MADE_WITHIN - second);
    assert!(!asked().await);
    portals.memory.pass(second);
    assert!(asked().await);
    assert!(!asked().await, "once");
}

#[tokio::test]
async fn a_subscriber_with_all_codes_of_its_share_is_told_how_long_to_wait() {
    let portals = Portals::default();
    for _ in 0..MAX_CODES_FROM {
        assert!(portals.begin_from(1).await.is_ok());
    }
    let refused = portals.begin_from(1).await.err();
    assert_eq!(refused, Some(Fault::TooMany { wait: LIFETIME }));
    let evictions = portals.one.evictions();
    assert_eq!(evictions, ("device_codes", 1), "it is counted");
    portals.memory.pass(LIFETIME);
    assert!(portals.begin_from(1).await.is_ok());
}

#[test]
fn a_code_is_read_however_people_write_it() {
    for text in ["BCDF-GHJK", "bcdfghjk", " bcdf ghjk ", "B-C-D-F-G-H-J-K"] {
        assert_eq!(written(text).as_deref(), Some("BCDF-GHJK"), "{text}");
    }
    for text in [
        "",
        "BCDF-GHJ",
        "BCDF-GHJKL",
        "ACDF-GHJK",
        "BCDF-GHJ\u{e9}",
        "<script>",
    ] {
        assert_eq!(written(text), None, "{text}");
    }
    let code = user_code().ok().unwrap();
    assert_eq!(written(&code), Some(code));
}

#[test]
fn codes_are_of_all_twenty_letters() {
    // One of the letters is in none of 500 codes with a chance of 20 · 0.95^4000, less than 10^-87.
    let codes = (0..500).map(|_| user_code().ok().unwrap());
    let letters: BTreeSet<char> = codes
        .flat_map(|code| code.chars().collect::<Vec<_>>())
        .collect();
    let letters: String = letters.into_iter().collect();
    assert_eq!(letters, "-BCDFGHJKLMNPQRSTVWXZ");
}
