//! Passwords, by Argon2id: slow on purpose, in a bounded pool, and as slow for names that do not exist.

use crate::fault::Fault;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use argon2::{Algorithm, Argon2, Params, Version};
use culvert_store::SecretBytes;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use zeroize::Zeroizing;

/// Characters of a password: twelve, since it may be the only factor (NIST SP 800-63B asks for eight
/// beside a second one), and no rules about which.
const MIN_CHARS: usize = 12;
/// No passphrase is longer, and no check reads more.
const MAX_CHARS: usize = 256;

/// The cost of one check, as OWASP recommends it: 19 MiB, two passes, one lane.
const MEMORY_KIB: u32 = 19 * 1024;
const PASSES: u32 = 2;
const LANES: u32 = 1;

/// Checks at once. Each takes a core for some ten milliseconds and [`MEMORY_KIB`]: two take 38 MiB and
/// leave the other cores to clients and gateways.
const AT_ONCE: usize = 2;

/// For how long a check waits for its turn: some hundred checks. Whoever waits longer is told so.
const TURN_TIMEOUT: Duration = Duration::from_secs(5);

/// What the password of a name is checked by that nobody has: of the same cost, and of no password.
const NOBODY: &str = "$argon2id$v=19$m=19456,t=2,p=1$Y3VsdmVydCBub2JvZHkhIQ$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// Makes and checks what the store keeps of passwords.
#[derive(Debug)]
pub(super) struct Passwords {
    turns: Arc<Semaphore>,
}

impl Default for Passwords {
    fn default() -> Self {
        Self {
            turns: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }
}

impl Passwords {
    /// What a password that someone chose is to be checked by.
    ///
    /// # Errors
    /// [`Fault::Invalid`] about `field` where it is too short, too long or the name itself.
    pub(super) async fn verifier(
        &self,
        field: &str,
        name: &str,
        password: &str,
    ) -> Result<SecretBytes, Fault> {
        let chars = password.chars().count();
        if !(MIN_CHARS..=MAX_CHARS).contains(&chars) {
            let detail =
                format!("a password has {MIN_CHARS} to {MAX_CHARS} characters, not {chars}");
            return Err(Fault::invalid(field, detail));
        }
        if password.to_lowercase() == name.to_lowercase() {
            return Err(Fault::invalid(field, "the name is no password"));
        }
        let mut salt = [0; argon2::RECOMMENDED_SALT_LEN];
        getrandom::fill(&mut salt)?;
        let password = Zeroizing::new(password.to_owned());
        let hashed = self
            .in_turn(move || {
                let hash = hasher()?.hash_password_with_salt(password.as_bytes(), &salt);
                hash.map(|hash| hash.to_string())
                    .map_err(|error| error.to_string())
            })
            .await?;
        Ok(SecretBytes::new(
            hashed.map_err(Fault::internal)?.into_bytes(),
        ))
    }

    /// Whether it is the password. Without a verifier it is not, which takes as long.
    pub(super) async fn check(
        &self,
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
            .in_turn(move || {
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
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Fault> {
        let turn = timeout(TURN_TIMEOUT, Arc::clone(&self.turns).acquire_owned()).await;
        let turn: OwnedSemaphorePermit = match turn {
            Ok(turn) => turn.map_err(Fault::internal)?,
            Err(_) => return Err(Fault::TooMany { wait: TURN_TIMEOUT }),
        };
        let work = move || {
            let done = work();
            drop(turn);
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

    #[tokio::test]
    async fn a_password_is_checked_by_its_verifier_and_by_no_other() {
        let passwords = Passwords::default();
        let right = "correct horse battery";
        let one = passwords.verifier("password", "ada", right).await.unwrap();
        let other = passwords.verifier("password", "ada", right).await.unwrap();
        assert_ne!(one, other, "each has a salt of its own");
        assert!(passwords.check(right, Some(&one)).await.unwrap());
        assert!(!passwords.check("correct horse", Some(&one)).await.unwrap());
        assert!(!passwords.check(right, None).await.unwrap());
    }

    #[tokio::test]
    async fn a_name_that_nobody_has_costs_what_any_other_does() {
        let passwords = Passwords::default();
        let made = passwords.verifier("password", "ada", "correct horse battery");
        let made = String::from_utf8(made.await.unwrap().expose().to_vec()).unwrap();
        let cost = |verifier: &str| {
            let parts: Vec<&str> = verifier.split('$').collect();
            (parts[..4].join("$"), parts[4].len(), parts[5].len())
        };
        assert_eq!(cost(NOBODY), cost(&made));
        assert!(argon2::password_hash::phc::PasswordHash::new(NOBODY).is_ok());
    }

    #[tokio::test]
    async fn passwords_that_are_too_short_or_the_name_are_refused() {
        let passwords = Passwords::default();
        for (name, password) in [
            ("ada", "eleven char"),
            ("ada.lovelace@example", "Ada.Lovelace@Example"),
        ] {
            let refused = passwords.verifier("password", name, password).await;
            assert!(matches!(refused, Err(Fault::Invalid(_))), "{password}");
        }
        let long = "x".repeat(MAX_CHARS + 1);
        assert!(passwords.verifier("password", "ada", &long).await.is_err());
    }
}
