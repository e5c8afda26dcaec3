//! How people prove who they are: passwords, second factors, passkeys and identity providers, device codes, and what waits
//! for the next step of a sign-in. Who may sign in, and what for, is decided above.

#![forbid(unsafe_code)]

mod browsers;
mod challenges;
pub mod device_codes;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
pub mod oidc;
mod passwords;
pub mod totp;
mod waiting;
pub mod webauthn;

pub use browsers::{Browsers, Known};
pub use challenges::{Challenge, Challenges, WITHIN as CHALLENGE_WITHIN};
pub use passwords::{Asker, Passwords};
pub use waiting::{Share, Waiting};

use std::time::Duration;

/// Attempts to sign in from one address, or in one browser that is known: a person who mistypes, and 8,640
/// guesses a day, which no password of twelve characters that is not in a list falls to.
pub const ONE_SIGN_IN_EVERY: Duration = Duration::from_secs(10);
/// The same at once.
pub const SIGN_INS_AT_ONCE: u32 = 20;
