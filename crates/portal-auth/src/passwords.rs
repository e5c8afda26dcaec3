//! Passwords, by Argon2id: slow on purpose, in a bounded pool, and as slow for names that do not exist.

use super::browsers::Known;
use super::common_passwords::{self, MIN_CHARS, PasswordOwner};
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use argon2::{Algorithm, Argon2, Params, Version};
use culvert_base::Uptime;
use culvert_fair::{Bounds, FairTable, Place, Refused, Subscriber};
use culvert_portal_base::Fault;
use culvert_store::SecretBytes;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use zeroize::Zeroizing;

/// No passphrase is longer, and no check reads more.
const MAX_CHARS: usize = 256;

/// The cost of one check, as OWASP recommends it: 19 MiB, two passes, one lane.
const MEMORY_KIB: u32 = 19 * 1024;
const PASSES: u32 = 2;
const LANES: u32 = 1;

/// Checks at once. Each takes a core for some ten milliseconds and [`MEMORY_KIB`]: two take 38 MiB and
/// leave the other cores to clients and gateways.
const AT_ONCE: usize = 2;

/// The longest wait of a check for its turn: some hundred checks. After that the asker is told so.
const TURN_TIMEOUT: Duration = Duration::from_secs(5);

/// Checks that wait or are under way: at ten to thirty milliseconds each, [`AT_ONCE`] at once, the last has its turn
/// within [`TURN_TIMEOUT`]. An office whose people all sign in at nine has a part of them; who is too many is
/// told to come again. Nobody gives way to those behind the same address.
const QUEUE: Bounds = Bounds {
    capacity: 256,
    per_subscriber: 32,
    settling: TURN_TIMEOUT,
};

/// The asker for a check or a new verifier.
#[derive(Clone, Copy, Debug)]
pub enum Asker {
    /// Somebody at this address.
    At(IpAddr),
    /// Somebody who is known.
    Known(Known),
}

/// The verifier for names that nobody has: of the same cost, and of no password.
const NOBODY: &str = "$argon2id$v=19$m=19456,t=2,p=1$Y3VsdmVydCBub2JvZHkhIQ$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// Makes and checks what the store keeps of passwords.
#[derive(Debug)]
pub struct Passwords {
    turns: Arc<Semaphore>,
    queue: Arc<Queue>,
}

/// Those who wait for a turn or have one: the share of each is bounded, and the largest holder gives way.
#[derive(Debug)]
struct Queue {
    table: Mutex<FairTable<Arc<Notify>>>,
    hasher: RandomState,
    start: Instant,
}

/// A place in the queue, until it is dropped.
#[derive(Debug)]
struct Queued {
    queue: Arc<Queue>,
    place: Place,
    gives_way: Arc<Notify>,
}

impl Queue {
    fn enter(self: &Arc<Self>, asker: Asker) -> Option<Queued> {
        let subscriber = match asker {
            Asker::At(address) => Subscriber::of(address),
            Asker::Known(known) => Subscriber::key(self.hasher.hash_one(known)),
        };
        let gives_way = Arc::new(Notify::new());
        let now = Uptime::after(self.start.elapsed());
        let entered = self.table().admit(subscriber, now, Arc::clone(&gives_way));
        let (place, evicted) = match entered {
            Ok(entered) => entered,
            Err(Refused(_)) => return None,
        };
        if let Some(evicted) = evicted {
            evicted.notify_one();
        }
        Some(Queued {
            queue: Arc::clone(self),
            place,
            gives_way,
        })
    }

    fn table(&self) -> MutexGuard<'_, FairTable<Arc<Notify>>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        // It may have given way already.
        let _ = self.queue.table().remove(self.place);
    }
}

impl Default for Passwords {
    fn default() -> Self {
        Self {
            turns: Arc::new(Semaphore::new(AT_ONCE)),
            queue: Arc::new(Queue {
                table: Mutex::new(FairTable::new(QUEUE)),
                hasher: RandomState::new(),
                start: Instant::now(),
            }),
        }
    }
}

impl Passwords {
    /// The verifier for a password that someone chose.
    ///
    /// # Errors
    /// [`Fault::Invalid`] about `field` where it is too short, too long or easy to guess.
    pub async fn verifier(
        &self,
        asker: Asker,
        field: &str,
        owner: PasswordOwner<'_>,
        password: &str,
    ) -> Result<SecretBytes, Fault> {
        let chars = password.chars().count();
        if !(MIN_CHARS..=MAX_CHARS).contains(&chars) {
            let detail =
                format!("a password has {MIN_CHARS} to {MAX_CHARS} characters, not {chars}");
            return Err(Fault::invalid(field, detail));
        }
        if let Some(reason) = common_passwords::reason(owner, password) {
            return Err(Fault::invalid(field, reason));
        }
        let mut salt = [0; argon2::RECOMMENDED_SALT_LEN];
        getrandom::fill(&mut salt)?;
        let password = Zeroizing::new(password.to_owned());
        let hashed = self
            .in_turn(asker, move || {
                let hash = hasher()?.hash_password_with_salt(password.as_bytes(), &salt);
                hash.map(|hash| hash.to_string())
                    .map_err(|error| error.to_string())
            })
            .await?;
        Ok(SecretBytes::new(
            hashed.map_err(Fault::internal)?.into_bytes(),
        ))
    }

    /// True if it is the password. Without a verifier the answer is false, and takes as long.
    pub async fn check(
        &self,
        asker: Asker,
        password: &str,
        verifier: Option<&SecretBytes>,
    ) -> Result<bool, Fault> {
        let known = verifier.is_some();
        let verifier = verifier.map_or(NOBODY.as_bytes(), SecretBytes::expose);
        let verifier = Zeroizing::new(String::from_utf8_lossy(verifier).into_owned());
        // No password that was set is longer: what is cut is wrong anyway.
        let cut: String = password.chars().take(MAX_CHARS + 1).collect();
        let password = Zeroizing::new(cut);
        let checked = self
            .in_turn(asker, move || {
                let hasher = hasher()?;
                Ok::<_, String>(
                    hasher
                        .verify_password(password.as_bytes(), &**verifier)
                        .is_ok(),
                )
            })
            .await?;
        Ok(checked.map_err(Fault::internal)? && known)
    }

    /// Work on a thread of its own. A request that goes away leaves its turn to the work, not to others.
    async fn in_turn<T: Send + 'static>(
        &self,
        asker: Asker,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Fault> {
        let busy = || Fault::TooMany { wait: TURN_TIMEOUT };
        let queued = self.queue.enter(asker).ok_or_else(busy)?;
        let turn: OwnedSemaphorePermit = tokio::select! {
            turn = timeout(TURN_TIMEOUT, Arc::clone(&self.turns).acquire_owned()) => match turn {
                Ok(turn) => turn.map_err(Fault::internal)?,
                Err(_) => return Err(busy()),
            },
            () = queued.gives_way.notified() => return Err(busy()),
        };
        let work = move || {
            let done = work();
            drop(turn);
            drop(queued);
            done
        };
        tokio::task::spawn_blocking(work)
            .await
            .map_err(Fault::internal)
    }
}

fn hasher() -> Result<Argon2<'static>, String> {
    let params = Params::new(MEMORY_KIB, PASSES, LANES, None).map_err(|error| error.to_string())?;
    Ok(Argon2::new(Algorithm::Argon2id, Version::V0x13, params))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::task::JoinSet;

    const ADA: PasswordOwner<'_> = PasswordOwner {
        name: "ada",
        host: "portal.example",
    };

    /// Of no short part again and again.
    const ADA_S_LINES: &str =
        "The engine weaves algebraic patterns just as the loom weaves flowers. ";

    const SOMEBODY: Asker = Asker::At(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST));

    fn at(address: &str) -> Asker {
        Asker::At(address.parse().unwrap())
    }

    /// Lets all tasks run that can.
    async fn let_tasks_run() {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn no_address_and_no_site_takes_the_queue_from_others() {
        let passwords = Arc::new(Passwords::default());
        let all = Arc::clone(&passwords.turns).acquire_many_owned(2).await;
        let mut waiting = JoinSet::new();
        let mut wait = |asker: Asker| {
            let passwords = Arc::clone(&passwords);
            waiting.spawn(async move { passwords.in_turn(asker, || ()).await.is_ok() });
        };
        let queued = || passwords.queue.table().len();
        for _ in 0..100 {
            wait(at("203.0.113.7"));
        }
        let_tasks_run().await;
        assert_eq!(queued(), QUEUE.per_subscriber);
        for number in 0..QUEUE.capacity {
            wait(at(&format!("2001:db8:1:{number:x}00::1")));
            wait(at(&format!("2001:db9:2:{number:x}00::1")));
        }
        let_tasks_run().await;
        assert_eq!(queued(), QUEUE.capacity);
        let person = passwords.queue.enter(at("198.51.100.1")).expect("a place");
        assert_eq!(queued(), QUEUE.capacity);
        let told = timeout(Duration::ZERO, person.gives_way.notified()).await;
        assert!(told.is_err(), "somebody else gave way");
        drop((person, all));
        let mut served = 0;
        while let Some(was_served) = waiting.join_next().await {
            served += usize::from(was_served.unwrap());
        }
        assert_eq!(served, QUEUE.capacity - 1);
        assert_eq!(queued(), 0);
    }

    #[tokio::test]
    async fn a_password_is_checked_by_its_verifier_and_by_no_other() {
        let passwords = Passwords::default();
        let right = "correct horse battery";
        let one = passwords
            .verifier(SOMEBODY, "password", ADA, right)
            .await
            .unwrap();
        let other = passwords
            .verifier(SOMEBODY, "password", ADA, right)
            .await
            .unwrap();
        assert_ne!(one, other, "each has a salt of its own");
        assert!(passwords.check(SOMEBODY, right, Some(&one)).await.unwrap());
        assert!(
            !passwords
                .check(SOMEBODY, "correct horse", Some(&one))
                .await
                .unwrap()
        );
        assert!(!passwords.check(SOMEBODY, right, None).await.unwrap());
    }

    #[tokio::test]
    async fn the_longest_password_with_something_behind_it_is_another() {
        let passwords = Passwords::default();
        let longest: String = ADA_S_LINES.chars().cycle().take(MAX_CHARS).collect();
        let verifier = passwords
            .verifier(SOMEBODY, "password", ADA, &longest)
            .await
            .unwrap();
        for (behind, is_right) in [("", true), ("x", false), ("xx", false)] {
            let password = format!("{longest}{behind}");
            let checked = passwords.check(SOMEBODY, &password, Some(&verifier)).await;
            assert_eq!(checked.unwrap(), is_right, "{behind:?}");
        }
    }

    #[tokio::test]
    async fn a_name_that_nobody_has_costs_what_any_other_does() {
        let passwords = Passwords::default();
        let made = passwords.verifier(SOMEBODY, "password", ADA, "correct horse battery");
        let made = String::from_utf8(made.await.unwrap().expose().to_vec()).unwrap();
        let cost = |verifier: &str| {
            let parts: Vec<&str> = verifier.split('$').collect();
            (parts[..4].join("$"), parts[4].len(), parts[5].len())
        };
        assert_eq!(cost(NOBODY), cost(&made));
        assert!(argon2::password_hash::phc::PasswordHash::new(NOBODY).is_ok());
    }

    #[tokio::test]
    async fn passwords_that_are_too_short_too_long_or_easy_to_guess_are_refused() {
        let passwords = Passwords::default();
        for (name, password) in [
            ("ada", "eleven char"),
            ("ada.lovelace@example", "Ada.Lovelace@Example"),
            ("ada", "passwordpassword"),
            ("ada", "123456789012"),
        ] {
            let refused = passwords
                .verifier(
                    SOMEBODY,
                    "password",
                    PasswordOwner { name, ..ADA },
                    password,
                )
                .await;
            assert!(matches!(refused, Err(Fault::Invalid(_))), "{password}");
        }
        let long: String = ADA_S_LINES.chars().cycle().take(MAX_CHARS + 1).collect();
        assert!(
            passwords
                .verifier(SOMEBODY, "password", ADA, &long)
                .await
                .is_err()
        );
    }
}
