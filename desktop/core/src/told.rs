//! The last word of the service, and if it is to be believed: a state from before this machine slept may not be so any more.

use crate::phase::Contact;

/// The time after which a machine that said that it goes to sleep is taken to be awake, in milliseconds of a clock that
/// stands still meanwhile. Programs may delay sleep by 5 s (logind's `InhibitDelayMaxSec`, which an administrator may raise), so
/// it has slept then, or will not.
pub const MAX_FALLING_ASLEEP_MS: u64 = 60_000;

/// The last outcome of asking the service.
#[derive(Debug, Default)]
pub struct Told {
    contact: Contact,
    /// The round in which the service was asked. A new round begins when the machine wakes.
    round: u64,
    /// The first round whose outcomes are believed.
    believed_from: u64,
    is_asleep: bool,
}

impl Told {
    /// Takes an outcome of a connection that was opened in `round`.
    pub fn tell(&mut self, contact: Contact, round: u64) {
        self.contact = contact;
        self.round = round;
    }

    /// The machine goes to sleep.
    pub const fn sleeps(&mut self) {
        self.is_asleep = true;
    }

    /// The machine is awake. The service is asked anew, which begins `round`.
    pub const fn wakes(&mut self, round: u64) {
        self.is_asleep = false;
        self.believed_from = round;
    }

    /// True from [`Told::sleeps`] to [`Told::wakes`].
    #[must_use]
    pub const fn is_asleep(&self) -> bool {
        self.is_asleep
    }

    /// The last outcome, also one that is from before the machine slept: for changes between outcomes.
    #[must_use]
    pub const fn last(&self) -> &Contact {
        &self.contact
    }

    /// The outcome that may be shown.
    #[must_use]
    pub fn believed(&self) -> &Contact {
        let is_old = self.is_asleep || self.round < self.believed_from;
        match self.contact {
            Contact::None => &self.contact,
            _ if is_old => &Contact::Old,
            _ => &self.contact,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_from_before_sleep_is_not_shown() {
        let mut told = Told::default();
        assert_eq!(*told.believed(), Contact::None);
        told.tell(Contact::Forbidden, 0);
        assert_eq!(*told.believed(), Contact::Forbidden);
        told.sleeps();
        assert_eq!(
            (told.believed(), told.last()),
            (&Contact::Old, &Contact::Forbidden)
        );
        // Said before it slept, and read afterwards.
        told.tell(Contact::Away, 0);
        assert_eq!(*told.believed(), Contact::Old);
        told.wakes(1);
        assert_eq!(*told.believed(), Contact::Old);
        told.tell(Contact::Away, 0);
        assert_eq!(*told.believed(), Contact::Old);
        told.tell(Contact::Away, 1);
        assert_eq!((told.believed(), told.is_asleep()), (&Contact::Away, false));
    }

    #[test]
    fn a_machine_that_sleeps_again_begins_again() {
        let mut told = Told::default();
        told.tell(Contact::Away, 0);
        told.wakes(1);
        told.sleeps();
        told.tell(Contact::Away, 1);
        assert_eq!(*told.believed(), Contact::Old);
        told.wakes(2);
        told.tell(Contact::Away, 1);
        assert_eq!(*told.believed(), Contact::Old);
        told.tell(Contact::Away, 2);
        assert_eq!(*told.believed(), Contact::Away);
    }
}
