//! An owner stays: no write takes away the last way in for one.

use crate::{Owner, OwnerBy, StoreError};
use culvert_ids::{ActorId, TokenId};

/// The token by which an owner comes in; no token, if by a password. None, if nothing comes of the way: a provider can
/// close a sign-in without a password, and a person's token may do no more than the person.
const fn way_in(owner: &Owner) -> Option<(Option<TokenId>, &Owner)> {
    match owner.by {
        OwnerBy::SignIn { has_password: true } => Some((None, owner)),
        OwnerBy::Token {
            id,
            is_bounded: false,
        } => Some((Some(id), owner)),
        OwnerBy::SignIn { .. } | OwnerBy::Token { .. } => None,
    }
}

/// True if an owner can come in.
pub fn can_come_in(owners: &[Owner]) -> bool {
    owners
        .iter()
        .any(|owner| !owner.disabled && way_in(owner).is_some())
}

/// Refuses to take away the last way in for an owner, before a write. `goes` says of each way if it would end: of an
/// owner's token or, without a token, of an owner's password. A disabled owner has no way in to lose. The write itself
/// compares both ends.
///
/// # Errors
/// [`StoreError::LastOwner`].
pub fn keep_one(
    owners: &[Owner],
    goes: impl Fn(Option<TokenId>, ActorId) -> bool,
) -> Result<(), StoreError> {
    let enabled = owners.iter().filter(|owner| !owner.disabled);
    let ways: Vec<_> = enabled.filter_map(way_in).collect();
    let goes = |(token, owner): &(Option<TokenId>, &Owner)| goes(*token, owner.actor);
    match ways.is_empty() || !ways.iter().all(goes) {
        true => Ok(()),
        false => Err(StoreError::LastOwner),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADA: ActorId = ActorId::from_bytes([1; 16]);
    const BOB: ActorId = ActorId::from_bytes([2; 16]);
    const TOKEN: TokenId = TokenId::from_bytes([3; 16]);

    fn owner(actor: ActorId, by: OwnerBy) -> Owner {
        Owner {
            actor,
            disabled: false,
            by,
        }
    }

    fn token(is_bounded: bool) -> OwnerBy {
        OwnerBy::Token {
            id: TOKEN,
            is_bounded,
        }
    }

    #[test]
    fn the_last_way_in_for_an_owner_stays() {
        let password = OwnerBy::SignIn { has_password: true };
        let by_provider = OwnerBy::SignIn {
            has_password: false,
        };
        let disabled = Owner {
            disabled: true,
            ..owner(BOB, password)
        };
        for (other, may_go) in [
            (owner(BOB, password), true),
            (owner(BOB, token(false)), true),
            // Others can close these ways, or they are closed.
            (owner(BOB, by_provider), false),
            (owner(BOB, token(true)), false),
            (disabled, false),
        ] {
            let owners = [owner(ADA, password), other];
            let remaining = keep_one(&owners, |_, actor| actor == ADA);
            assert_eq!(remaining.is_ok(), may_go, "{other:?}");
            assert_eq!(can_come_in(&owners[1..]), may_go, "{other:?}");
            // Nothing is refused that takes nothing away.
            assert!(keep_one(&owners, |_, _| false).is_ok(), "{other:?}");
        }
        assert!(!can_come_in(&[]));
        // The write compares both ends: no owner came in before.
        assert!(keep_one(&[disabled], |_, _| true).is_ok());
    }

    #[test]
    fn of_an_owner_s_ways_one_may_go() {
        let password = OwnerBy::SignIn { has_password: true };
        let owners = [owner(ADA, password), owner(ADA, token(false))];
        assert!(keep_one(&owners, |token, _| token == Some(TOKEN)).is_ok());
        assert!(keep_one(&owners, |_, actor| actor == ADA).is_err());
    }
}
