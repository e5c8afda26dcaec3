//! The meaning of a provider's claims here: a name, a proof of the person, and memberships.

use super::providers::leave;
use culvert_ids::{GroupId, MembershipId};
use culvert_policy::readable_name;
use culvert_portal_auth::oidc::Claims;
use culvert_portal_base::{Fault, birth};
use culvert_store::rules::has_form_of_id;
use culvert_store::{self as store, MAX_NAME_CHARS, Mutation, Proof, Stamp};
use culvert_wire::Timestamp;
use std::collections::BTreeSet;

/// Names that are tried for somebody new whose name others have.
pub(super) const MAX_NUMBERED: u32 = 100;

/// The name of somebody by the claims, with room for a number behind it.
pub(super) fn name_by(claims: &Claims) -> String {
    let own = claims.names.iter().chain([&claims.subject]);
    let readable = own.map(|name| readable_name(name.trim()));
    let mut own = readable.map(|name| {
        let name: String = name.chars().take(MAX_NAME_CHARS - 4).collect();
        name.trim().to_owned()
    });
    let name = own.find(|name| !name.is_empty() && !has_form_of_id(name));
    name.unwrap_or_else(|| "somebody".to_owned())
}

/// That the provider knows the person by the identity, which the store looks up again, and since when it does.
pub(super) fn proof_by(identity: &store::Identity, claims: &Claims) -> Mutation {
    let at_ms = claims
        .authenticated_s
        .map(|at_s| at_s.saturating_mul(1_000));
    Mutation::Prove {
        actor: identity.actor,
        by: Proof::Identity {
            id: identity.id,
            at: at_ms.map(Timestamp::from_unix_ms),
        },
    }
}

/// The mutations that bring the memberships made by the provider up to date, and the ids of those
/// memberships afterwards. Those that people made stay, and are not taken for the provider's.
pub(super) fn synchronise(
    identity: &store::Identity,
    members: &[store::Membership],
    wanted: &BTreeSet<GroupId>,
) -> Result<(Vec<Mutation>, Vec<MembershipId>), Fault> {
    let mut mutations = Vec::new();
    let mut made = Vec::new();
    for member in members {
        match (
            identity.memberships.contains(&member.id),
            wanted.contains(&member.group),
        ) {
            (true, true) => made.push(member.id),
            (true, false) => mutations.push(leave(member.id)),
            (false, _) => {}
        }
    }
    let there: BTreeSet<GroupId> = members.iter().map(|member| member.group).collect();
    for group in wanted.difference(&there) {
        let (born, random) = birth()?;
        let member = store::Membership {
            id: MembershipId::new(born, random),
            group: *group,
            actor: identity.actor,
            stamp: Stamp::default(),
        };
        made.push(member.id);
        mutations.push(Mutation::Create(member.into()));
    }
    Ok((mutations, made))
}

#[cfg(test)]
mod tests {
    use super::super::providers::new_identity;
    use super::*;
    use culvert_ids::{ActorId, ProviderId};
    use culvert_portal_auth::oidc::Groups;

    #[test]
    fn somebody_new_gets_the_best_name_that_can_be_read_with_room_for_a_number() {
        let name = |names: &[&str], subject: &str| {
            name_by(&Claims {
                subject: subject.to_owned(),
                names: names.iter().map(|name| (*name).to_owned()).collect(),
                groups: Groups::Listed(BTreeSet::new()),
                authenticated_s: None,
            })
        };
        assert_eq!(name(&["Ada", "ada@example"], "1"), "Ada");
        assert_eq!(name(&["", "  ", " Ada "], "1"), "Ada");
        assert_eq!(name(&[], "s-1"), "s-1");
        assert_eq!(name(&[" "], ""), "somebody");
        // Such a name would be taken for the thing with that id.
        let id = ActorId::from_bytes([1; 16]).to_string();
        assert_eq!(
            name(&[&format!(" {id} "), "ada@example"], "1"),
            "ada@example"
        );
        assert_eq!(name(&[&id], &id), "somebody");
        for long in ["x".repeat(1_000), "é".repeat(MAX_NAME_CHARS)] {
            let name = name(&[&long], "1");
            let last = format!("{name} {MAX_NUMBERED}");
            assert_eq!(last.chars().count(), MAX_NAME_CHARS, "{last}");
            assert!(long.starts_with(&name));
        }
    }

    fn group(number: u8) -> GroupId {
        GroupId::from_bytes([number; 16])
    }

    fn member(number: u8, of: u8) -> store::Membership {
        store::Membership {
            id: MembershipId::from_bytes([number; 16]),
            group: group(of),
            actor: ActorId::from_bytes([1; 16]),
            stamp: Stamp::default(),
        }
    }

    #[test]
    fn a_provider_takes_away_what_it_made_and_leaves_what_people_made() {
        let (by_provider, by_hand, gone) = (member(1, 1), member(2, 2), member(3, 3));
        let identity = store::Identity {
            memberships: vec![by_provider.id, gone.id],
            ..new_identity(ProviderId::from_bytes([1; 16]), "1", by_hand.actor)
                .ok()
                .unwrap()
        };
        let members = [by_provider.clone(), by_hand.clone()];
        let all = [group(1), group(2), group(4)].into();
        let (mutations, made) = synchronise(&identity, &members, &all).ok().unwrap();
        assert!(
            matches!(&*mutations, [Mutation::Create(store::Entity::Membership(new))]
            if new.group == group(4))
        );
        assert_eq!(made.len(), 2);
        assert!(made.contains(&by_provider.id) && !made.contains(&by_hand.id));

        let (mutations, made) = synchronise(&identity, &members, &BTreeSet::new())
            .ok()
            .unwrap();
        assert!(matches!(&*mutations, [Mutation::Delete { id, .. }]
            if *id == by_provider.id.into()));
        assert!(made.is_empty());
    }
}
