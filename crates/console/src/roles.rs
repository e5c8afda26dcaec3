//! The roles of people, as pages name them.

use super::person::Person;
use culvert_store::Role;
use culvert_wire::api::ApiRole;

/// The choices of a form for an owner. The last one is what an owner alone gives.
const ROLES: &[(&str, &str)] = &[
    ("user", "user: uses resources and revokes their own clients"),
    ("auditor", "auditor: reads everything"),
    ("admin", "admin: changes everything but owners"),
    ("owner", "owner: everything"),
];

/// The roles that this person may give.
pub(super) fn roles_for(person: &Person) -> &'static [(&'static str, &'static str)] {
    match person.caller.role() {
        Role::Owner => ROLES,
        Role::User | Role::Auditor | Role::Admin => &ROLES[..ROLES.len() - 1],
    }
}

pub(super) const fn role_name(role: ApiRole) -> &'static str {
    match role {
        ApiRole::User => "user",
        ApiRole::Auditor => "auditor",
        ApiRole::Admin => "admin",
        ApiRole::Owner => "owner",
    }
}
