//! Proofs of people's identity: passwords, second factors, passkeys and identity providers, device
//! codes, and sign-ins that wait for their next step. The crates above decide who may sign in, and
//! for which purpose.

#![forbid(unsafe_code)]

mod browsers;
mod challenges;
mod common_passwords;
pub mod device_codes;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(test)]
mod memory_store;
pub mod oidc;
mod passwords;
mod pending;
pub mod totp;
pub mod webauthn;

pub use browsers::{Browsers, Known};
pub use challenges::{Challenge, Challenges, SpentChallenges, WITHIN as CHALLENGE_WITHIN};
pub use common_passwords::PasswordOwner;
pub use passwords::{Asker, Passwords};
pub use pending::{Attempts, Found, PendingDb, PendingTable, person};

use std::time::Duration;

/// Attempts to sign in from one address, or in one browser that is known: enough for a person who
/// mistypes. They allow 8,640 guesses a day. No password of twelve characters falls to that, unless
/// it is in a list.
pub const ONE_SIGN_IN_EVERY: Duration = Duration::from_secs(10);
/// The same at once.
pub const SIGN_INS_AT_ONCE: u32 = 20;
