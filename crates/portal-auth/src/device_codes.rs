//! Device codes (RFC 8628): a machine shows a code, a person who has signed in compares and approves it, and the
//! machine gets a token of that person.

use crate::pending::{Attempts, Found, PendingDb, PendingTable};
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use culvert_base::Uptime;
use culvert_fair::{Bounds, FairMap, Subscriber};
use culvert_ids::{ActorId, TokenId};
use culvert_portal_base::{Fault, RateLimit, now};
use culvert_store::{Author, PendingBounds, PendingKind, PutPending, Role, WhenFull};
use culvert_wire::Timestamp;
use culvert_wire::api::DeviceAnswer;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// The lifetime of a code: a person finds a browser and signs in there.
pub const LIFETIME: Duration = Duration::from_secs(10 * 60);

/// The interval at which a machine asks, and its increase after a request that came too soon (RFC
/// 8628 §3.5).
pub const INTERVAL: Duration = Duration::from_secs(2);
const SLOWER_BY: Duration = Duration::from_secs(5);

/// The longest interval: a machine that never waits comes to it.
const LONGEST_INTERVAL: Duration = Duration::from_secs(60);

/// A machine that asks this much early is not too fast: packets do not all take as long.
const EARLY: Duration = Duration::from_millis(500);

/// Codes at once: all machines of a small company on one morning. Of some 700 bytes each they take 3 MiB of the
/// database.
const MAX_CODES: usize = 4_096;

/// Codes of one subscriber at once. A subscriber with as many has to wait. When there are too many
/// in all, the oldest of the largest holder gives way.
const MAX_CODES_FROM: usize = 64;

const BOUNDS: PendingBounds = PendingBounds {
    all: MAX_CODES,
    of_one: MAX_CODES_FROM,
    full: WhenFull::OwnIsRefused,
};

/// Tries to find a user code that no other machine shows. One is another's with a chance of one in six million.
const TRIES_FOR_A_CODE: u32 = 8;

/// Tries to decide about a machine that somebody else decides about at the same moment.
const TRIES_TO_DECIDE: u32 = 3;

/// The time after which a token that was not made is made anew: the portal that was about to is gone. It is longer than
/// the database takes for a write, all its limits of time together.
const MADE_WITHIN: Duration = Duration::from_secs(120);

/// Codes that a person tries: 20, then one in ten seconds. With [`MAX_CODES`] that are good of 2·10¹⁰, a
/// guess hits one in six million.
const TRIALS: Attempts = Attempts::new("device codes", ONE_CODE_EVERY, 20);
const ONE_CODE_EVERY: Duration = Duration::from_secs(10);

/// Codes that an address begins: as many as [`MAX_CODES_FROM`] at once, then one in ten seconds.
const BEGUN_AT_ONCE: u32 = 64;

/// Letters of codes, as RFC 8628 §6.1 has them: no vowels, so that no words come of them.
const LETTERS: &[u8; 20] = b"BCDFGHJKLMNPQRSTVWXZ";
const CODE_LEN: usize = 8;

/// Between the user code and the secret of a device code.
const SEPARATOR: char = '.';

/// Machines that wait.
pub struct DeviceCodes {
    /// By the user code, which is a part of the device code too.
    waiting: PendingTable,
    /// When machines asked this portal, by the hash of the device code. A machine that asks several portals may ask
    /// each as often.
    paces: Mutex<FairMap<[u8; 32], Pace>>,
    start: Instant,
    begun_from: RateLimit,
}

/// A machine, as the database has it.
#[derive(Clone, Serialize, Deserialize)]
struct Device {
    /// The hash of the device code.
    device_code: [u8; 32],
    machine: String,
    from: IpAddr,
    began_at: Timestamp,
    decision: Decision,
}

struct Pace {
    asked: Instant,
    interval: Duration,
}

/// The decision about a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Decision {
    /// Nobody has decided yet.
    Open,
    /// The machine gets nothing.
    Denied,
    /// The machine gets a token.
    Approved(Approval),
    /// Its token is being made: nobody else gets one by this code.
    Issuing {
        /// The approval.
        approval: Approval,
        /// The machine's age at which that began, in milliseconds.
        since_ms: u64,
    },
}

/// An approval of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// The person, whose token the machine gets.
    pub actor: ActorId,
    /// The session in which they approved it.
    pub session: TokenId,
    /// The role by which they did.
    pub role: Option<Role>,
}

impl Approval {
    /// The author of the token.
    #[must_use]
    pub const fn author(self) -> Author {
        Author {
            actor: Some(self.actor),
            token: Some(self.session),
            role: self.role,
        }
    }
}

/// A machine that waits, for the person who decides.
#[derive(Clone, Debug)]
pub struct WaitingDevice {
    /// As people write it.
    pub code: String,
    /// The name that it gives itself; anybody could give that name.
    pub machine: String,
    /// The address that it asks from.
    pub from: IpAddr,
    /// The time at which it began to wait.
    pub since: Timestamp,
}

impl Default for DeviceCodes {
    fn default() -> Self {
        let paces = Bounds {
            capacity: MAX_CODES,
            per_subscriber: MAX_CODES_FROM,
            settling: Duration::ZERO,
        };
        Self {
            waiting: PendingTable::keeping("device_codes", PendingKind::Device, BOUNDS, LIFETIME),
            paces: Mutex::new(FairMap::new(paces, LIFETIME)),
            start: Instant::now(),
            begun_from: RateLimit::new(ONE_CODE_EVERY, BEGUN_AT_ONCE),
        }
    }
}

impl fmt::Debug for DeviceCodes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("DeviceCodes").finish_non_exhaustive()
    }
}

impl DeviceCodes {
    /// The table's name, and the number of codes that gave way to others or were refused because of their network's
    /// share.
    pub fn evictions(&self) -> (&'static str, u64) {
        self.waiting.evictions()
    }

    /// Counts a code that this address begins.
    ///
    /// # Errors
    /// The time to wait.
    pub fn take_beginning(&self, from: IpAddr, at: Instant) -> Result<(), Duration> {
        self.begun_from.take(from, at)
    }

    /// Counts a code that this person tries.
    ///
    /// # Errors
    /// [`Fault::TooMany`], and faults of the database.
    pub async fn take_trial(&self, db: PendingDb<'_>, actor: ActorId) -> Result<(), Fault> {
        db.take_attempt(&TRIALS, actor.as_bytes()).await
    }

    /// Takes in a machine. Returns the device code, by which it asks, and the user code, which it shows.
    ///
    /// # Errors
    /// [`Fault::TooMany`] where there is no room, [`Fault::Internal`] without random bytes, and faults of the database.
    pub async fn begin(
        &self,
        db: PendingDb<'_>,
        from: IpAddr,
        machine: String,
    ) -> Result<(Zeroizing<String>, String), Fault> {
        let mut secret = Zeroizing::new([0; 32]);
        getrandom::fill(secret.as_mut_slice())?;
        let secret = Zeroizing::new(URL_SAFE_NO_PAD.encode(*secret));
        let mut device = Device {
            device_code: [0; 32],
            machine,
            from,
            began_at: now(),
            decision: Decision::Open,
        };
        for _ in 0..TRIES_FOR_A_CODE {
            let user_code = user_code()?;
            let device_code = Zeroizing::new(format!("{user_code}{SEPARATOR}{}", *secret));
            device.device_code = hash(&device_code);
            let from = Subscriber::of(from);
            let put = self.waiting.put(db, from, user_code.as_bytes(), &device);
            match put.await? {
                PutPending::Waits { .. } => return Ok((device_code, user_code)),
                PutPending::IsThere => {}
                PutPending::Refused { wait } => {
                    // Others of its network have all.
                    let wait = if wait.is_zero() { LIFETIME } else { wait };
                    return Err(Fault::TooMany { wait });
                }
            }
        }
        Err(Fault::internal("no device code is free"))
    }

    /// The answer to a machine that asks. The first one that asks after the approval gets the
    /// token.
    pub async fn ask(
        &self,
        db: PendingDb<'_>,
        device_code: &str,
        at: Instant,
    ) -> Result<Told, Fault> {
        let expired = Ok(Told::Answer(DeviceAnswer::Expired));
        let Some((user_code, found)) = self.of_machine(db, device_code).await? else {
            return expired;
        };
        let (device, age) = (found.value, found.age);
        let approval = match device.decision {
            Decision::Denied => {
                self.waiting.forget(db, user_code.as_bytes()).await;
                return Ok(Told::Answer(DeviceAnswer::Denied));
            }
            Decision::Approved(approval) => Some(approval),
            Decision::Issuing { approval, since_ms } => {
                let since = Duration::from_millis(since_ms);
                (age.saturating_sub(since) >= MADE_WITHIN).then_some(approval)
            }
            Decision::Open => None,
        };
        if let Some(approval) = approval {
            let since_ms = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
            let issuing = Device {
                decision: Decision::Issuing { approval, since_ms },
                ..device.clone()
            };
            let shown = user_code.as_bytes();
            let replaced = self.waiting.replace(db, shown, found.version, &issuing);
            if replaced.await? {
                let machine = device.machine;
                return Ok(Told::Approved { machine, approval });
            }
        }
        Ok(Told::Answer(self.pace(&device, at)))
    }

    /// The answer to a machine that is not decided about, by the time since it asked before.
    fn pace(&self, device: &Device, at: Instant) -> DeviceAnswer {
        let since = Uptime::after(at.saturating_duration_since(self.start));
        let mut paces = self.paces.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(pace) = paces.get_mut(&device.device_code, since) else {
            let pace = Pace {
                asked: at,
                interval: INTERVAL,
            };
            let from = Subscriber::of(device.from);
            // One that gave way is asked no more slowly than a new one.
            let _ = paces.insert(from, device.device_code, pace, since);
            return DeviceAnswer::Pending;
        };
        let last = std::mem::replace(&mut pace.asked, at);
        if at.saturating_duration_since(last) + EARLY >= pace.interval {
            return DeviceAnswer::Pending;
        }
        pace.interval = (pace.interval + SLOWER_BY).min(LONGEST_INTERVAL);
        let interval_s = pace.interval.as_secs();
        DeviceAnswer::SlowDown { interval_s }
    }

    /// Forgets a machine that has its token, or has it ask again where there was none to be had.
    pub async fn issued(
        &self,
        db: PendingDb<'_>,
        device_code: &str,
        again: Option<Approval>,
    ) -> Result<(), Fault> {
        let Some((user_code, found)) = self.of_machine(db, device_code).await? else {
            return Ok(());
        };
        let (shown, version) = (user_code.as_bytes(), found.version);
        let Some(approval) = again else {
            self.waiting.forget(db, shown).await;
            return Ok(());
        };
        let device = Device {
            decision: Decision::Approved(approval),
            ..found.value
        };
        let replaced = self.waiting.replace(db, shown, version, &device);
        replaced.await.map(drop)
    }

    /// The machine that shows this code, and is not decided about.
    pub async fn waiting(
        &self,
        db: PendingDb<'_>,
        code: &str,
    ) -> Result<Option<WaitingDevice>, Fault> {
        let Some(code) = written(code) else {
            return Ok(None);
        };
        let found = self.open(db, &code).await?;
        Ok(found.map(|Found { value: device, .. }| WaitingDevice {
            code,
            machine: device.machine,
            from: device.from,
            since: device.began_at,
        }))
    }

    /// Decides about the machine that shows this code. False where there is no such machine.
    pub async fn decide(
        &self,
        db: PendingDb<'_>,
        code: &str,
        decision: Decision,
    ) -> Result<bool, Fault> {
        let Some(code) = written(code) else {
            return Ok(false);
        };
        for _ in 0..TRIES_TO_DECIDE {
            let Some(found) = self.open(db, &code).await? else {
                return Ok(false);
            };
            let device = Device {
                decision,
                ..found.value
            };
            let shown = code.as_bytes();
            let replaced = self.waiting.replace(db, shown, found.version, &device);
            if replaced.await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn open(&self, db: PendingDb<'_>, code: &str) -> Result<Option<Found<Device>>, Fault> {
        let found = self.waiting.get::<Device>(db, code.as_bytes()).await?;
        Ok(found.filter(|found| found.value.decision == Decision::Open))
    }

    /// The machine that asks by this device code, and its user code.
    async fn of_machine<'a>(
        &self,
        db: PendingDb<'_>,
        device_code: &'a str,
    ) -> Result<Option<(&'a str, Found<Device>)>, Fault> {
        let Some((user_code, _)) = device_code.split_once(SEPARATOR) else {
            return Ok(None);
        };
        let found = self.waiting.get::<Device>(db, user_code.as_bytes()).await?;
        let asked = hash(device_code);
        // The hashes may be compared in any time: nobody chooses one.
        let found = found.filter(|found| found.value.device_code == asked);
        Ok(found.map(|found| (user_code, found)))
    }
}

/// The answer to a machine that asks.
#[derive(Clone, Debug)]
pub enum Told {
    /// This.
    Answer(DeviceAnswer),
    /// Its token, which is yet to be made.
    Approved {
        /// The name that it gives itself.
        machine: String,
        /// The approval.
        approval: Approval,
    },
}

/// A code in the form in which it is kept, however people write it.
#[must_use]
pub fn written(code: &str) -> Option<String> {
    let letters = code.chars().filter(|char| !matches!(char, '-' | ' '));
    let letters: String = letters.take(CODE_LEN + 1).collect();
    let letters = letters.to_ascii_uppercase();
    let is_code =
        letters.len() == CODE_LEN && letters.bytes().all(|letter| LETTERS.contains(&letter));
    is_code.then(|| format!("{}-{}", &letters[..4], &letters[4..]))
}

fn user_code() -> Result<String, Fault> {
    let mut letters = String::with_capacity(CODE_LEN);
    while letters.len() < CODE_LEN {
        let mut random = [0; CODE_LEN];
        getrandom::fill(&mut random)?;
        // Above 240 the first letters would come up more often than the others.
        let fair = random.iter().filter(|byte| **byte < 240);
        letters.extend(fair.map(|byte| char::from(LETTERS[usize::from(*byte) % LETTERS.len()])));
    }
    letters.truncate(CODE_LEN);
    letters.insert(CODE_LEN / 2, '-');
    Ok(letters)
}

fn hash(code: &str) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, code.as_bytes()).as_ref());
    hash
}

#[cfg(test)]
mod tests {
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
}
