//! The proofs of persons that a write has checked.

use culvert_ids::ActorId;
use culvert_wire::Timestamp;

/// The proofs that a write has checked so far. A write is about one person, or two.
#[derive(Debug, Default)]
pub(super) struct Shown(Vec<(ActorId, Part)>);

/// A part of a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Password,
    /// A code of an app, or a recovery code.
    Code,
    /// A passkey stands for two factors.
    Passkey,
    /// An identity provider asks for what it wants. It says when that was, or nothing.
    Identity(Option<Timestamp>),
}

impl Shown {
    pub(super) fn add(&mut self, actor: ActorId, part: Part) {
        self.0.push((actor, part));
    }

    pub(super) fn has(&self, actor: ActorId, part: Part) -> bool {
        self.0.contains(&(actor, part))
    }

    /// By an identity, and when.
    pub(super) fn identity(&self, actor: ActorId) -> Option<Option<Timestamp>> {
        self.0.iter().find_map(|(whose, part)| match part {
            Part::Identity(at) if *whose == actor => Some(*at),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_person_has_shown_is_no_proof_of_another() {
        let [ada, bob, eve] = [1, 2, 3].map(|byte| ActorId::from_bytes([byte; 16]));
        let at = |ms| Some(Timestamp::from_unix_ms(ms));
        let mut shown = Shown::default();
        shown.add(ada, Part::Identity(at(1)));
        shown.add(bob, Part::Identity(at(2)));
        shown.add(bob, Part::Password);
        assert_eq!(shown.identity(ada), Some(at(1)));
        assert_eq!(shown.identity(bob), Some(at(2)));
        assert_eq!(shown.identity(eve), None);
        assert!(shown.has(bob, Part::Password) && !shown.has(ada, Part::Password));
    }
}
