//! The rules of a row, for every database.

pub mod owners;

use crate::limits::{
    GRANT_LIFETIME_S, MAX_MACHINE_LEN, MAX_NAME_CHARS, MAX_PLAIN_CLIENT_GATEWAYS, MAX_SITE_RELAYS,
    MAX_SOFTWARE_LEN, MAX_SUBJECT_LEN,
};
use crate::range::Range;
use crate::{
    Account, Actor, Client, Entity, EntityId, EntityKind, Relay, Site, StoreError, Token,
    TokenScope, TokenUses,
};
use culvert_policy::{composed, deceptive_character, decomposed, is_normalized};
use culvert_wire::Timestamp;
use culvert_wire::messages::MAX_RELAY_ADDRESSES;
use std::collections::BTreeSet;

/// A kind of rows that refer to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    /// The kind.
    pub kind: EntityKind,
    /// The column with the id of what they refer to.
    pub column: &'static str,
    /// They go along when that is deleted, without being asked for.
    pub always_cascades: bool,
}

const fn user(kind: EntityKind, column: &'static str, always_cascades: bool) -> User {
    User {
        kind,
        column,
        always_cascades,
    }
}

/// The kinds of rows that refer to rows of a kind.
pub const fn users_of(kind: EntityKind) -> &'static [User] {
    use EntityKind as K;
    match kind {
        K::Actor => {
            const {
                &[
                    user(K::Membership, "actor_id", true),
                    user(K::Identity, "actor_id", true),
                    user(K::Token, "actor_id", false),
                    user(K::Client, "actor_id", false),
                ]
            }
        }
        K::Group => {
            const {
                &[
                    user(K::Membership, "group_id", true),
                    user(K::Policy, "group_id", true),
                ]
            }
        }
        K::Site => {
            const {
                &[
                    user(K::Resource, "site_id", false),
                    user(K::Gateway, "site_id", false),
                    user(K::Token, "site_id", false),
                ]
            }
        }
        K::Resource => const { &[user(K::Policy, "resource_id", true)] },
        K::Provider => const { &[user(K::Identity, "provider_id", true)] },
        K::Account
        | K::Membership
        | K::Policy
        | K::Token
        | K::Client
        | K::Gateway
        | K::Identity
        | K::Relay => &[],
    }
}

/// The column by which rows of `kind` refer to rows of `to`.
pub fn column_to(kind: EntityKind, to: EntityKind) -> Option<&'static str> {
    let user = users_of(to).iter().find(|user| user.kind == kind)?;
    Some(user.column)
}

/// The rows that a row refers to.
pub fn references(entity: &Entity) -> Vec<EntityId> {
    match entity {
        Entity::Membership(row) => vec![row.group.into(), row.actor.into()],
        Entity::Resource(row) => vec![row.site.into()],
        Entity::Policy(row) => vec![row.group.into(), row.resource.into()],
        Entity::Token(row) => {
            let actor = row.scope.actor().map(EntityId::from);
            let site = row.scope.site().map(EntityId::from);
            actor.into_iter().chain(site).collect()
        }
        Entity::Client(row) => {
            let gateways = row.gateways.iter().copied().map(EntityId::from);
            gateways.chain([row.actor.into()]).collect()
        }
        Entity::Gateway(row) => vec![row.site.into()],
        Entity::Identity(row) => vec![row.provider.into(), row.actor.into()],
        Entity::Account(_)
        | Entity::Actor(_)
        | Entity::Group(_)
        | Entity::Site(_)
        | Entity::Provider(_)
        | Entity::Relay(_) => Vec::new(),
    }
}

/// The row's name, where its kind has one.
pub fn name(entity: &Entity) -> Option<&str> {
    entity.name()
}

/// The time since which the row is revoked, if its kind can be.
pub fn revoked(entity: &Entity) -> Option<Timestamp> {
    match entity {
        Entity::Token(row) => row.revoked,
        Entity::Client(row) => row.revoked,
        Entity::Gateway(row) => row.revoked,
        Entity::Relay(row) => row.revoked,
        Entity::Account(_)
        | Entity::Actor(_)
        | Entity::Group(_)
        | Entity::Membership(_)
        | Entity::Site(_)
        | Entity::Resource(_)
        | Entity::Policy(_)
        | Entity::Provider(_)
        | Entity::Identity(_) => None,
    }
}

/// Kinds whose rows can be revoked, and then free their name.
pub const fn can_be_revoked(kind: EntityKind) -> bool {
    matches!(
        kind,
        EntityKind::Token | EntityKind::Client | EntityKind::Gateway | EntityKind::Relay
    )
}

/// The form in which names are compared, and the key of a row. The key is in Normalization Form C if the name is. Lower
/// case can break that form: `J\u{30c}` has a small letter of one character. A name from before that rule keeps its own
/// spelling, so that two such names stay two. A look-up asks for [`lookup_keys`].
pub fn name_key(name: &str) -> String {
    match is_normalized(name) {
        true => composed(&spelled_key(name)),
        false => spelled_key(name),
    }
}

/// The key of a name as it is spelled: in lower case, and not normalised. Rows have it whose names are older than
/// [`name_key`].
pub fn spelled_key(name: &str) -> String {
    name.to_lowercase()
}

/// The keys under which a row of this name may be, each once. The name is taken as it is written, in Normalization Form
/// C, and in Form D, in which some older names are kept. The lower case of each is a key as it is, and in both forms.
pub fn lookup_keys(name: &str) -> Vec<String> {
    let mut keys = Vec::new();
    for text in [name.to_owned(), composed(name), decomposed(name)] {
        let key = spelled_key(&text);
        for key in [composed(&key), decomposed(&key), key] {
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
    }
    keys
}

fn invalid(kind: EntityKind, field: &'static str, reason: impl Into<String>) -> StoreError {
    StoreError::Invalid {
        kind,
        field,
        reason: reason.into(),
    }
}

/// Checks the row by itself. A name that the row had before is not judged again. Rows from before a
/// rule of names can therefore be changed, disabled and revoked.
pub fn check(before: Option<&Entity>, entity: &Entity) -> Result<(), StoreError> {
    let kind = entity.kind();
    if let Some(wanted) = name(entity)
        && before.and_then(name) != Some(wanted)
    {
        check_name(kind, wanted)?;
    }
    match entity {
        Entity::Account(account) => check_account(account),
        Entity::Token(token) => check_token(token),
        Entity::Client(client) => check_client(client),
        Entity::Gateway(gateway) => check_machine(kind, &gateway.machine),
        Entity::Relay(relay) => check_relay(relay),
        Entity::Site(site) => check_site(site),
        Entity::Identity(identity) => check_subject(&identity.subject),
        Entity::Actor(_)
        | Entity::Group(_)
        | Entity::Membership(_)
        | Entity::Resource(_)
        | Entity::Policy(_)
        | Entity::Provider(_) => Ok(()),
    }
}

/// Checks that the text may be the name of a row.
///
/// # Errors
/// [`StoreError::Invalid`] with the reason.
pub fn check_name(kind: EntityKind, name: &str) -> Result<(), StoreError> {
    let reason = if name.is_empty() {
        "it is empty".to_owned()
    } else if name.trim() != name {
        "it begins or ends with a space".to_owned()
    } else if let Some(found) = deceptive_character(name) {
        format!("it has {found}")
    } else if !is_normalized(name) {
        "it is not in Unicode's Normalization Form C".to_owned()
    } else if name.chars().count() > MAX_NAME_CHARS {
        format!("it has more than {MAX_NAME_CHARS} characters")
    } else {
        return Ok(());
    };
    Err(invalid(kind, "name", reason))
}

/// True if a name would be taken for the thing with that id: the command line and the API take an id wherever they take
/// a name. Nothing new gets such a name.
pub fn has_form_of_id(name: &str) -> bool {
    name.parse::<EntityId>().is_ok()
}

fn check_machine(kind: EntityKind, machine: &str) -> Result<(), StoreError> {
    if machine.is_empty() || machine.len() > MAX_MACHINE_LEN {
        let reason = format!("it has 1 to {MAX_MACHINE_LEN} bytes");
        return Err(invalid(kind, "machine", reason));
    }
    Ok(())
}

fn check_client(client: &Client) -> Result<(), StoreError> {
    check_machine(EntityKind::Client, &client.machine)?;
    let gateways = &client.gateways;
    let distinct: BTreeSet<_> = gateways.iter().collect();
    if gateways.len() > MAX_PLAIN_CLIENT_GATEWAYS || distinct.len() < gateways.len() {
        let reason =
            format!("a device has at most {MAX_PLAIN_CLIENT_GATEWAYS} gateways, each of them once");
        return Err(invalid(EntityKind::Client, "gateways", reason));
    }
    Ok(())
}

fn check_relay(relay: &Relay) -> Result<(), StoreError> {
    check_machine(EntityKind::Relay, &relay.machine)?;
    if relay.addresses.len() > MAX_RELAY_ADDRESSES {
        let reason = format!("it has at most {MAX_RELAY_ADDRESSES}");
        return Err(invalid(EntityKind::Relay, "addresses", reason));
    }
    Ok(())
}

fn check_site(site: &Site) -> Result<(), StoreError> {
    let relays = site.relays.as_ref().map_or(0, Vec::len);
    if relays > MAX_SITE_RELAYS {
        let reason = format!("a site names at most {MAX_SITE_RELAYS}");
        return Err(invalid(EntityKind::Site, "relays", reason));
    }
    Ok(())
}

/// Checks that the text may be a machine's software version.
pub fn check_software(kind: EntityKind, software: &str) -> Result<(), StoreError> {
    if software.len() > MAX_SOFTWARE_LEN {
        let reason = format!("it has at most {MAX_SOFTWARE_LEN} bytes");
        return Err(invalid(kind, "software", reason));
    }
    Ok(())
}

fn check_subject(subject: &str) -> Result<(), StoreError> {
    if subject.is_empty() || subject.len() > MAX_SUBJECT_LEN {
        let reason = format!("it has 1 to {MAX_SUBJECT_LEN} bytes");
        return Err(invalid(EntityKind::Identity, "subject", reason));
    }
    // A database may keep it as another character, and two people have one subject then.
    if subject.contains('\0') {
        let reason = "it has no U+0000".to_owned();
        return Err(invalid(EntityKind::Identity, "subject", reason));
    }
    Ok(())
}

/// A new row, without what says that there is a secret: that comes by its own way.
pub fn without_secrets(entity: &mut Entity) {
    match entity {
        Entity::Actor(actor) => {
            if let Some(sign_in) = &mut actor.sign_in {
                sign_in.password_set = None;
                sign_in.second_factor = None;
                sign_in.recovery_codes = 0;
                sign_in.passkeys = 0;
                sign_in.invitation_ends = None;
            }
        }
        Entity::Provider(provider) => provider.secret_set = None,
        _ => {}
    }
}

fn check_account(account: &Account) -> Result<(), StoreError> {
    let settings = &account.settings;
    let wrong = |field, reason: String| invalid(EntityKind::Account, field, reason);
    if !GRANT_LIFETIME_S.contains(&settings.grant_lifetime_s) {
        let (first, last) = (GRANT_LIFETIME_S.start(), GRANT_LIFETIME_S.end());
        let reason = format!("expected {first} to {last} seconds");
        return Err(wrong("grant_lifetime_s", reason));
    }
    if let Err((field, why)) = settings.logs.check() {
        return Err(wrong("logs", format!("{field}: {why}")));
    }
    let ranges = &settings.ranges;
    let pairs = [
        ("machines_ipv4", &ranges.machines_ipv4, 4),
        ("names_ipv4", &ranges.names_ipv4, 4),
        ("machines_ipv6", &ranges.machines_ipv6, 16),
        ("names_ipv6", &ranges.names_ipv6, 16),
    ];
    let mut parsed = Vec::with_capacity(pairs.len());
    for (field, text, len) in pairs {
        let range = Range::parse(text, len).map_err(|reason| wrong(field, reason))?;
        parsed.push((field, range));
    }
    for pair in parsed.chunks_exact(2) {
        if pair[0].1.overlaps(&pair[1].1) {
            let reason = format!("it overlaps {}", pair[0].0);
            return Err(wrong(pair[1].0, reason));
        }
    }
    Ok(())
}

fn check_token(token: &Token) -> Result<(), StoreError> {
    let reason = match (&token.scope, token.uses) {
        (TokenScope::Setup, TokenUses::Many) => "a set-up token has one use",
        (TokenScope::Api { .. }, TokenUses::One) => "an API token is used many times",
        (TokenScope::Session { .. }, TokenUses::One) => "a session is used many times",
        (
            TokenScope::Setup
            | TokenScope::Client { .. }
            | TokenScope::Gateway { .. }
            | TokenScope::Relay,
            _,
        )
        | (TokenScope::Api { .. } | TokenScope::Session { .. }, TokenUses::Many) => {
            return Ok(());
        }
    };
    Err(invalid(EntityKind::Token, "uses", reason))
}

/// The row after an update to `wanted`; none if it is like that already.
///
/// Fields that the store alone writes are kept, and a request for another value is refused.
pub fn merge(before: &Entity, mut wanted: Entity) -> Result<Option<Entity>, StoreError> {
    wanted.set_stamp(before.stamp());
    let unchanged = match (before, &mut wanted) {
        (Entity::Membership(_), Entity::Membership(_)) => {
            if *before == wanted {
                return Ok(None);
            }
            Some("group")
        }
        // The role may change, and that somebody signs in may end; passwords, factors and invitations come by their own
        // way. An invitation ends with the role for which it was made: its maker might not invite for the next one.
        (Entity::Actor(was), Entity::Actor(is)) => {
            if let (Some(was), Some(is)) = (was.sign_in, &mut is.sign_in)
                && was.role != is.role
            {
                is.invitation_ends = None;
            }
            let invited = |actor: &Actor| actor.sign_in.and_then(|sign_in| sign_in.invitation_ends);
            let since = |actor: &Actor| actor.sign_in.and_then(|sign_in| sign_in.password_set);
            let factors = |actor: &Actor| {
                let sign_in = actor.sign_in;
                sign_in.map_or((None, 0, 0), |of| {
                    (of.second_factor, of.recovery_codes, of.passkeys)
                })
            };
            let password = since(is).is_none() || since(was) == since(is);
            let invitation = invited(is).is_none() || invited(was) == invited(is);
            let factors = is.sign_in.is_none() || factors(was) == factors(is);
            let unchanged = password && invitation && factors;
            first_changed(&[("sign_in", unchanged)])
        }
        (Entity::Token(was), Entity::Token(is)) => {
            is.last_used = was.last_used;
            is.proven = was.proven;
            first_changed(&[
                ("kind", was.scope == is.scope),
                ("uses", was.uses == is.uses),
                ("used", was.used == is.used),
            ])
        }
        (Entity::Client(was), Entity::Client(is)) => {
            is.seen.clone_from(&was.seen);
            first_changed(&[
                ("actor", was.actor == is.actor),
                ("machine", was.machine == is.machine),
                ("public_key", was.public_key == is.public_key),
                ("ipv4", was.ipv4 == is.ipv4),
                ("ipv6", was.ipv6 == is.ipv6),
                ("gateways", was.gateways == is.gateways),
                ("name_shares", was.name_shares == is.name_shares),
            ])
        }
        (Entity::Gateway(was), Entity::Gateway(is)) => {
            is.seen.clone_from(&was.seen);
            first_changed(&[
                ("site", was.site == is.site),
                ("machine", was.machine == is.machine),
                ("public_key", was.public_key == is.public_key),
                ("enrolled_with", was.enrolled_with == is.enrolled_with),
                ("ipv4", was.ipv4 == is.ipv4),
                ("ipv6", was.ipv6 == is.ipv6),
            ])
        }
        (Entity::Relay(was), Entity::Relay(is)) => {
            is.seen.clone_from(&was.seen);
            first_changed(&[
                ("machine", was.machine == is.machine),
                ("addresses", was.addresses == is.addresses),
            ])
        }
        (Entity::Provider(was), Entity::Provider(is)) => {
            let unchanged = is.secret_set.is_none() || was.secret_set == is.secret_set;
            first_changed(&[
                ("issuer", was.issuer == is.issuer),
                ("secret_set", unchanged),
            ])
        }
        (Entity::Identity(was), Entity::Identity(is)) => first_changed(&[
            ("provider", was.provider == is.provider),
            ("subject", was.subject == is.subject),
            ("actor", was.actor == is.actor),
        ]),
        _ => None,
    };
    let kind = before.kind();
    if let Some(field) = unchanged {
        return Err(invalid(kind, field, "it can't be changed"));
    }
    if revoked(before).is_some() && revoked(before) != revoked(&wanted) {
        return Err(invalid(kind, "revoked", "a revocation is final"));
    }
    Ok((*before != wanted).then_some(wanted))
}

fn first_changed(same: &[(&'static str, bool)]) -> Option<&'static str> {
    let changed = same.iter().find(|(_, same)| !same)?;
    Some(changed.0)
}

/// The name that a new machine gets whose own is `wanted`, at the `attempt`th try from 0.
pub fn numbered_name(wanted: &str, attempt: u32) -> String {
    if attempt == 0 {
        return wanted.to_owned();
    }
    let number = format!("-{}", attempt + 1);
    let room = MAX_NAME_CHARS - number.len();
    let wanted: String = wanted.chars().take(room).collect();
    format!("{wanted}{number}")
}

/// The name of a machine for which no number is free: its own with the end of its id.
pub fn name_with_id(wanted: &str, id: EntityId) -> String {
    let id = id.to_string();
    let end = &id[id.len() - 8..];
    let room = MAX_NAME_CHARS - 1 - end.len();
    let wanted: String = wanted.chars().take(room).collect();
    format!("{wanted}-{end}")
}

#[cfg(test)]
mod tests;
