//! Device codes (RFC 8628): a machine shows a code, a person who has signed in compares and approves it, and the
//! machine gets a token of that person.

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use culvert_base::Uptime;
use culvert_fair::{Bounds, FairMap, Subscriber};
use culvert_ids::ActorId;
use culvert_portal_base::{Evictions, Fault, RateLimit, now};
use culvert_store::Author;
use culvert_wire::Timestamp;
use culvert_wire::api::DeviceAnswer;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
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

/// Codes at once: all machines of a small company on one morning. Of some 1.4 KiB each with their places in the
/// table they take 5.6 MiB.
const MAX_CODES: usize = 4_096;

/// Codes of one subscriber at once. A subscriber with as many has to wait. When there are too many
/// in all, the oldest of the largest holder gives way.
const MAX_CODES_FROM: usize = 64;

const BOUNDS: Bounds = Bounds {
    capacity: MAX_CODES,
    per_subscriber: MAX_CODES_FROM,
    settling: LIFETIME,
};

/// Codes that a person tries: 20, then one in ten seconds. With [`MAX_CODES`] that are good of 2·10¹⁰, a
/// guess hits one in six million.
const ONE_CODE_EVERY: Duration = Duration::from_secs(10);
const CODES_AT_ONCE: u32 = 20;

/// Codes that an address begins: as many as [`MAX_CODES_FROM`] at once, then one in ten seconds.
const BEGUN_AT_ONCE: u32 = 64;

/// Letters of codes, as RFC 8628 §6.1 has them: no vowels, so that no words come of them.
const LETTERS: &[u8; 20] = b"BCDFGHJKLMNPQRSTVWXZ";
const CODE_LEN: usize = 8;

/// Machines that wait.
pub struct DeviceCodes {
    /// By the hash of the device code.
    waiting: Mutex<FairMap<[u8; 32], Device>>,
    start: Instant,
    evictions: Evictions,
    tried_by: RateLimit,
    begun_from: RateLimit,
}

struct Device {
    user_code: String,
    machine: String,
    from: IpAddr,
    began: Instant,
    began_at: Timestamp,
    asked: Option<Instant>,
    interval: Duration,
    decision: Decision,
}

/// The decision about a machine.
#[derive(Clone, Copy, Debug)]
pub enum Decision {
    /// Nobody has decided yet.
    Open,
    /// The machine gets nothing.
    Denied,
    /// The machine gets a token.
    Approved {
        /// The author of the approval.
        author: Author,
        /// The actor whose token it gets.
        actor: ActorId,
    },
    /// Its token is being made: nobody else gets one by this code.
    Issuing,
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
        Self {
            waiting: Mutex::new(FairMap::new(BOUNDS, LIFETIME)),
            start: Instant::now(),
            evictions: Evictions::of("device_codes"),
            tried_by: RateLimit::new(ONE_CODE_EVERY, CODES_AT_ONCE),
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
    fn all(&self) -> MutexGuard<'_, FairMap<[u8; 32], Device>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn since(&self, at: Instant) -> Uptime {
        Uptime::after(at.saturating_duration_since(self.start))
    }

    /// The table's name, and the number of codes that gave way to others or were refused because of their network's
    /// share.
    pub fn evictions(&self) -> (&'static str, u64) {
        self.evictions.counted()
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
    /// The time to wait.
    pub fn take_trial(&self, actor: ActorId, at: Instant) -> Result<(), Duration> {
        self.tried_by.take_for(&actor, at)
    }

    /// Takes in a machine. Returns the device code, by which it asks, and the user code, which it shows.
    ///
    /// # Errors
    /// [`Fault::TooMany`] where there is no room, [`Fault::Internal`] without random bytes.
    pub fn begin(
        &self,
        from: IpAddr,
        machine: String,
        at: Instant,
    ) -> Result<(Zeroizing<String>, String), Fault> {
        let mut secret = Zeroizing::new([0; 32]);
        getrandom::fill(secret.as_mut_slice())?;
        let device_code = Zeroizing::new(URL_SAFE_NO_PAD.encode(*secret));
        let since = self.since(at);
        let mut all = self.all();
        let user_code = loop {
            let code = user_code()?;
            if !all
                .iter_mut(since)
                .any(|(_, device)| device.user_code == code)
            {
                break code;
            }
        };
        let device = Device {
            user_code: user_code.clone(),
            machine,
            from,
            began: at,
            began_at: now(),
            asked: None,
            interval: INTERVAL,
            decision: Decision::Open,
        };
        match all.insert(Subscriber::of(from), hash(&device_code), device, since) {
            Ok(None) => {}
            Ok(Some(evicted)) => self.evictions.note(&evicted.from.to_string(), at),
            Err(_) => {
                self.evictions.note(&from.to_string(), at);
                let mut devices = all.iter_mut(since);
                let oldest =
                    devices.find(|(_, device)| Subscriber::of(device.from) == Subscriber::of(from));
                let age = oldest.map_or(Duration::ZERO, |(_, oldest)| {
                    at.saturating_duration_since(oldest.began)
                });
                return Err(Fault::TooMany {
                    wait: LIFETIME.saturating_sub(age),
                });
            }
        }
        Ok((device_code, user_code))
    }

    /// The answer to a machine that asks. The first one that asks after the approval gets the
    /// token.
    pub fn ask(&self, key: [u8; 32], at: Instant) -> Told {
        let since = self.since(at);
        let mut all = self.all();
        let Some(device) = all.get_mut(&key, since) else {
            return Told::Answer(DeviceAnswer::Expired);
        };
        match device.decision {
            Decision::Open | Decision::Issuing => {}
            Decision::Denied => {
                all.remove(&key, since);
                return Told::Answer(DeviceAnswer::Denied);
            }
            Decision::Approved { author, actor } => {
                device.decision = Decision::Issuing;
                let machine = device.machine.clone();
                return Told::Approved {
                    machine,
                    author,
                    actor,
                };
            }
        }
        let last = device.asked.replace(at);
        let early =
            last.is_some_and(|last| at.saturating_duration_since(last) + EARLY < device.interval);
        if !early {
            return Told::Answer(DeviceAnswer::Pending);
        }
        device.interval = (device.interval + SLOWER_BY).min(LONGEST_INTERVAL);
        let interval_s = device.interval.as_secs();
        Told::Answer(DeviceAnswer::SlowDown { interval_s })
    }

    /// Forgets a machine that has its token, or has it ask again where there was none to be had.
    pub fn issued(&self, key: [u8; 32], again: Option<(Author, ActorId)>) {
        let since = self.since(Instant::now());
        let mut all = self.all();
        match (again, all.get_mut(&key, since)) {
            (Some((author, actor)), Some(device)) => {
                device.decision = Decision::Approved { author, actor };
            }
            (_, _) => {
                all.remove(&key, since);
            }
        }
    }

    /// The machine that shows this code, and is not decided about.
    pub fn waiting(&self, code: &str) -> Option<WaitingDevice> {
        let shown = |device: &mut Device| WaitingDevice {
            code: device.user_code.clone(),
            machine: device.machine.clone(),
            from: device.from,
            since: device.began_at,
        };
        self.with_code(code, shown)
    }

    /// Decides about the machine that shows this code. None where there is no such machine.
    pub fn decide(&self, code: &str, decision: Decision) -> Option<()> {
        self.with_code(code, |device| device.decision = decision)
    }

    fn with_code<T>(&self, code: &str, then: impl FnOnce(&mut Device) -> T) -> Option<T> {
        let code = written(code)?;
        let since = self.since(Instant::now());
        let mut all = self.all();
        let mut devices = all.iter_mut(since).map(|(_, device)| device);
        let device = devices
            .find(|device| device.user_code == code && matches!(device.decision, Decision::Open));
        device.map(then)
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
        /// The author of the approval.
        author: Author,
        /// The actor whose token it gets.
        actor: ActorId,
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

/// The key of a device code.
#[must_use]
pub fn hash(code: &str) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, code.as_bytes()).as_ref());
    hash
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    fn begin(devices: &DeviceCodes, at: Instant) -> ([u8; 32], String) {
        let begun = devices.begin(address(1), "laptop".to_owned(), at);
        let (device_code, user_code) = begun.ok().unwrap();
        (hash(&device_code), user_code)
    }

    fn answer(devices: &DeviceCodes, key: [u8; 32], at: Instant) -> DeviceAnswer {
        match devices.ask(key, at) {
            Told::Answer(answer) => answer,
            Told::Approved { .. } => panic!("approved"),
        }
    }

    #[test]
    fn who_asks_too_soon_is_told_to_wait_longer_each_time() {
        let devices = DeviceCodes::default();
        let start = Instant::now();
        let (key, _) = begin(&devices, start);
        assert_eq!(answer(&devices, key, start), DeviceAnswer::Pending);
        let at = start + INTERVAL;
        assert_eq!(answer(&devices, key, at), DeviceAnswer::Pending);
        for interval_s in [7, 12] {
            let slower = DeviceAnswer::SlowDown { interval_s };
            assert_eq!(answer(&devices, key, at), slower);
        }
        let at = at + Duration::from_secs(12);
        assert_eq!(answer(&devices, key, at), DeviceAnswer::Pending);
        for _ in 0..20 {
            answer(&devices, key, at);
        }
        let most = DeviceAnswer::SlowDown { interval_s: 60 };
        assert_eq!(answer(&devices, key, at), most);
    }

    #[test]
    fn who_asks_half_a_second_early_is_not_too_fast() {
        let half_second = Duration::from_millis(500);
        for (early, told) in [
            (half_second, DeviceAnswer::Pending),
            (
                half_second + Duration::from_nanos(1),
                DeviceAnswer::SlowDown { interval_s: 7 },
            ),
        ] {
            let devices = DeviceCodes::default();
            let start = Instant::now();
            let (key, _) = begin(&devices, start);
            assert_eq!(answer(&devices, key, start), DeviceAnswer::Pending);
            let at = start + INTERVAL - early;
            assert_eq!(answer(&devices, key, at), told, "{early:?}");
        }
    }

    #[test]
    fn a_code_is_good_for_ten_minutes_and_for_one_machine() {
        let devices = DeviceCodes::default();
        let start = Instant::now();
        let (key, code) = begin(&devices, start);
        let last = start + LIFETIME - Duration::from_secs(1);
        assert_eq!(answer(&devices, key, last), DeviceAnswer::Pending);
        assert_eq!(
            answer(&devices, key, start + LIFETIME),
            DeviceAnswer::Expired
        );
        assert!(devices.with_code(&code, |_| ()).is_none(), "it is gone");
        assert_eq!(answer(&devices, [0; 32], start), DeviceAnswer::Expired);

        let (key, code) = begin(&devices, start);
        let approve = |device: &mut Device| {
            device.decision = Decision::Approved {
                author: Author::PORTAL,
                actor: ActorId::from_bytes([1; 16]),
            };
        };
        assert!(devices.with_code(&code, approve).is_some());
        assert!(devices.with_code(&code, approve).is_none(), "decided once");
        assert!(matches!(devices.ask(key, start), Told::Approved { .. }));
        let meanwhile = answer(&devices, key, start + INTERVAL);
        assert_eq!(meanwhile, DeviceAnswer::Pending, "one gets the token");
        let actor = ActorId::from_bytes([1; 16]);
        devices.issued(key, Some((Author::PORTAL, actor)));
        assert!(matches!(devices.ask(key, start), Told::Approved { .. }));
        devices.issued(key, None);
        assert_eq!(answer(&devices, key, start), DeviceAnswer::Expired);

        let (key, code) = begin(&devices, start);
        devices.with_code(&code, |device| device.decision = Decision::Denied);
        assert_eq!(answer(&devices, key, start), DeviceAnswer::Denied);
        assert_eq!(answer(&devices, key, start), DeviceAnswer::Expired);
    }

    #[test]
    fn no_address_takes_all_codes_and_old_ones_make_room() {
        let devices = DeviceCodes::default();
        let start = Instant::now();
        let begin = |last, at| devices.begin(address(last), "laptop".to_owned(), at);
        for _ in 0..MAX_CODES_FROM {
            assert!(begin(1, start).is_ok());
        }
        let refused = begin(1, start + Duration::from_secs(1)).err();
        let wait = LIFETIME - Duration::from_secs(1);
        assert_eq!(refused, Some(Fault::TooMany { wait }));
        assert_eq!(devices.evictions(), ("device_codes", 1), "it is counted");
        assert!(begin(2, start).is_ok());
        assert!(begin(1, start + LIFETIME).is_ok());
    }

    #[test]
    fn a_site_that_takes_all_codes_leaves_one_for_everybody_else() {
        let devices = DeviceCodes::default();
        let at = Instant::now();
        let (key, _) = begin(&devices, at);
        let begin_at = |address: &str| {
            let from = address.parse().unwrap();
            devices.begin(from, "laptop".to_owned(), at)
        };
        let codes = |site: u16| {
            let of = move |number: u16| format!("2001:{site:x}:1:{number:x}::1");
            (0..1_000)
                .filter(|number| begin_at(&of(*number)).is_ok())
                .count()
        };
        assert_eq!(codes(0x1000), 4 * MAX_CODES_FROM);
        for site in 0x1001..0x1011 {
            codes(site);
        }
        let full = devices.all().len(devices.since(at));
        assert_eq!(full, MAX_CODES);
        assert!(begin_at("203.0.113.1").is_ok());
        assert_eq!(answer(&devices, key, at), DeviceAnswer::Pending);
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
