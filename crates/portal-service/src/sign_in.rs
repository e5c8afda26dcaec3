//! The state that is kept while people sign in.

use super::factors::Factors;
use super::pending_forms::PendingForms;
use super::sign_in_limits::SignInLimits;
use culvert_portal_auth::{Challenges, Passwords, SpentChallenges};
use tokio::sync::OnceCell;

/// The parts of that state.
pub(super) struct SignInState {
    pub(super) limits: SignInLimits,
    pub(super) passwords: Passwords,
    pub(super) factors: Factors,
    /// Challenges for passkeys, once their key was read.
    pub(super) challenges: OnceCell<Challenges>,
    pub(super) spent_challenges: SpentChallenges,
    /// Forms that wait for a fresh proof of their persons.
    pub(super) pending_forms: PendingForms,
}

impl SignInState {
    pub(super) fn new(browser_key: &[u8; 32]) -> Self {
        Self {
            limits: SignInLimits::new(browser_key),
            passwords: Passwords::default(),
            factors: Factors::default(),
            challenges: OnceCell::new(),
            spent_challenges: SpentChallenges::default(),
            pending_forms: PendingForms::default(),
        }
    }

    /// The number of entries of each table that gave way to others.
    pub(super) fn evictions(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let challenges = self.spent_challenges.refusals();
        [challenges].into_iter().chain(self.factors.evictions())
    }
}
