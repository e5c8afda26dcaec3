//! From rows to what the API shows. Each field is named: a row may gain what nobody is to see.

use super::warnings;
use culvert_policy::Prefix;
use culvert_store as store;
use culvert_wire::api;

pub(super) fn account(row: store::Account) -> api::Account {
    api::Account {
        id: row.id,
        name: row.name,
        grant_lifetime_s: row.settings.grant_lifetime_s,
        ranges: row.settings.ranges,
        applications: row.settings.applications,
        dns: row.settings.dns,
        second_factor: api_second_factor_rule(row.settings.second_factor),
        require_verified_gateways: row.settings.require_verified_gateways,
        paths: api_path_rule(row.settings.paths),
        ended_access: api_ended_access(row.settings.ended_access),
        own_devices: row.settings.own_devices,
        version: row.stamp.version,
        created: row.stamp.created,
        updated: row.stamp.updated,
    }
}

pub(super) const fn second_factor_rule(rule: api::SecondFactorRule) -> store::SecondFactorRule {
    match rule {
        api::SecondFactorRule::Off => store::SecondFactorRule::Off,
        api::SecondFactorRule::Administrators => store::SecondFactorRule::Administrators,
        api::SecondFactorRule::Everybody => store::SecondFactorRule::Everybody,
    }
}

const fn api_second_factor_rule(rule: store::SecondFactorRule) -> api::SecondFactorRule {
    match rule {
        store::SecondFactorRule::Off => api::SecondFactorRule::Off,
        store::SecondFactorRule::Administrators => api::SecondFactorRule::Administrators,
        store::SecondFactorRule::Everybody => api::SecondFactorRule::Everybody,
    }
}

pub(super) const fn path_rule(rule: api::PathRule) -> store::PathRule {
    match rule {
        api::PathRule::Any => store::PathRule::Any,
        api::PathRule::Direct => store::PathRule::Direct,
        api::PathRule::Relayed => store::PathRule::Relayed,
    }
}

const fn api_path_rule(rule: store::PathRule) -> api::PathRule {
    match rule {
        store::PathRule::Any => api::PathRule::Any,
        store::PathRule::Direct => api::PathRule::Direct,
        store::PathRule::Relayed => api::PathRule::Relayed,
    }
}

pub(super) const fn ended_access(rule: api::EndedAccess) -> store::EndedAccess {
    match rule {
        api::EndedAccess::Refuse => store::EndedAccess::Refuse,
        api::EndedAccess::Release => store::EndedAccess::Release,
    }
}

const fn api_ended_access(rule: store::EndedAccess) -> api::EndedAccess {
    match rule {
        store::EndedAccess::Refuse => api::EndedAccess::Refuse,
        store::EndedAccess::Release => api::EndedAccess::Release,
    }
}

pub(super) fn actor(row: store::Actor) -> api::Actor {
    api::Actor {
        id: row.id,
        kind: match row.kind {
            store::ActorKind::Admin => api::ActorKind::Admin,
            store::ActorKind::User => api::ActorKind::User,
            store::ActorKind::ServiceAccount => api::ActorKind::ServiceAccount,
        },
        name: row.name,
        disabled: row.disabled,
        sign_in: row.sign_in.map(|sign_in| api::SignIn {
            role: api_role(sign_in.role),
            password_set: sign_in.password_set,
            second_factor: sign_in.second_factor,
            recovery_codes: sign_in.recovery_codes,
            passkeys: sign_in.passkeys,
            invitation_ends: sign_in.invitation_ends,
        }),
        version: row.stamp.version,
        created: row.stamp.created,
        updated: row.stamp.updated,
    }
}

pub(super) const fn actor_kind(kind: api::ActorKind) -> store::ActorKind {
    match kind {
        api::ActorKind::Admin => store::ActorKind::Admin,
        api::ActorKind::User => store::ActorKind::User,
        api::ActorKind::ServiceAccount => store::ActorKind::ServiceAccount,
    }
}

pub(super) fn group(row: store::Group) -> api::Group {
    api::Group {
        id: row.id,
        name: row.name,
        version: row.stamp.version,
        created: row.stamp.created,
        updated: row.stamp.updated,
    }
}

pub(super) fn member(row: &store::Membership, actor_name: String) -> api::Member {
    api::Member {
        id: row.id,
        group: row.group,
        actor: row.actor,
        actor_name,
        created: row.stamp.created,
    }
}

pub(super) fn site(row: store::Site) -> api::Site {
    api::Site {
        id: row.id,
        name: row.name,
        relays: row.relays,
        version: row.stamp.version,
        created: row.stamp.created,
        updated: row.stamp.updated,
    }
}

/// `tunnel` are the networks inside the tunnel.
pub(super) fn resource(row: store::Resource, tunnel: &[Prefix]) -> api::Resource {
    let warnings = warnings::of_resource(&row, tunnel);
    api::Resource {
        id: row.id,
        site: row.site,
        name: row.name,
        kind: row.target.kind,
        address: row.target.address,
        filters: row.filters,
        inbound: row.inbound,
        applications: row.applications,
        within: row.within,
        warnings,
        version: row.stamp.version,
        created: row.stamp.created,
        updated: row.stamp.updated,
    }
}

/// `knows_countries` is false where the portal has no database of countries.
pub(super) fn policy(row: store::Policy, knows_countries: bool) -> api::Policy {
    let warnings = warnings::of_conditions(&row.conditions, knows_countries);
    api::Policy {
        id: row.id,
        name: row.name,
        group: row.group,
        resource: row.resource,
        disabled: row.disabled,
        conditions: row.conditions,
        warnings,
        version: row.stamp.version,
        created: row.stamp.created,
        updated: row.stamp.updated,
    }
}

pub(super) fn client(row: store::Client) -> api::Client {
    let seen = row.seen;
    api::Client {
        id: row.id,
        actor: row.actor,
        name: row.name,
        public_key: row.public_key,
        ipv4: row.ipv4,
        ipv6: row.ipv6,
        gateways: row.gateways,
        verified: row.verified,
        revoked: row.revoked,
        // A plain device says none.
        software: seen
            .as_ref()
            .map(|seen| seen.software.clone())
            .filter(|software| !software.is_empty()),
        last_seen: seen.as_ref().map(|seen| seen.at),
        last_address: seen.and_then(|seen| seen.address),
        version: row.stamp.version,
        created: row.stamp.created,
        updated: row.stamp.updated,
    }
}

pub(super) fn gateway(row: store::Gateway) -> api::Gateway {
    api::Gateway {
        id: row.id,
        site: row.site,
        name: row.name,
        public_key: row.public_key,
        fingerprint: row.public_key.fingerprint(),
        enrolled_with: row.enrolled_with,
        ipv4: row.ipv4,
        ipv6: row.ipv6,
        verified: row.verified,
        draining: row.draining,
        revoked: row.revoked,
        software: row.seen.as_ref().map(|seen| seen.software.clone()),
        last_seen: row.seen.map(|seen| seen.at),
        version: row.stamp.version,
        created: row.stamp.created,
        updated: row.stamp.updated,
    }
}

pub(super) fn relay(row: store::Relay) -> api::Relay {
    api::Relay {
        id: row.id,
        name: row.name,
        addresses: row.addresses,
        draining: row.draining,
        revoked: row.revoked,
        software: row.seen.as_ref().map(|seen| seen.software.clone()),
        last_seen: row.seen.map(|seen| seen.at),
        version: row.stamp.version,
        created: row.stamp.created,
        updated: row.stamp.updated,
    }
}

pub(super) fn token(row: store::Token) -> api::Token {
    api::Token {
        id: row.id,
        kind: row.scope.kind(),
        actor: row.scope.actor(),
        site: row.scope.site(),
        role: row.scope.role().map(api_role),
        name: row.name,
        expires: row.expires,
        one_time: row.uses == store::TokenUses::One,
        used: row.used.map(|used| used.at),
        revoked: row.revoked,
        last_used: row.last_used,
        version: row.stamp.version,
        created: row.stamp.created,
        updated: row.stamp.updated,
    }
}

pub(super) fn provider(row: store::Provider, redirect_uri: &str) -> api::Provider {
    let settings = row.settings;
    let groups = settings.groups.into_iter().map(|known| api::ProviderGroup {
        value: known.value,
        group: known.group,
    });
    api::Provider {
        id: row.id,
        name: row.name,
        issuer: row.issuer,
        client_id: row.client_id,
        secret_set: row.secret_set,
        redirect_uri: redirect_uri.to_owned(),
        ca: settings.ca,
        scopes: settings.scopes,
        groups_claim: settings.groups_claim,
        groups: groups.collect(),
        unknown_people: match settings.unknown {
            store::UnknownPeople::Refuse => api::UnknownPeople::Refuse,
            store::UnknownPeople::Make => api::UnknownPeople::Make,
        },
        disabled: row.disabled,
        version: row.stamp.version,
        created: row.stamp.created,
        updated: row.stamp.updated,
    }
}

pub(super) fn identity(row: store::Identity) -> api::Identity {
    api::Identity {
        id: row.id,
        provider: row.provider,
        subject: row.subject,
        actor: row.actor,
        version: row.stamp.version,
        created: row.stamp.created,
        updated: row.stamp.updated,
    }
}

pub(super) const fn api_role(role: store::Role) -> api::ApiRole {
    match role {
        store::Role::User => api::ApiRole::User,
        store::Role::Auditor => api::ApiRole::Auditor,
        store::Role::Admin => api::ApiRole::Admin,
        store::Role::Owner => api::ApiRole::Owner,
    }
}

pub(super) const fn role(role: api::ApiRole) -> store::Role {
    match role {
        api::ApiRole::User => store::Role::User,
        api::ApiRole::Auditor => store::Role::Auditor,
        api::ApiRole::Admin => store::Role::Admin,
        api::ApiRole::Owner => store::Role::Owner,
    }
}
