//! The roles of people, as pages name them.

use culvert_wire::api::ApiRole;

/// The choices of a form.
pub(super) const ROLES: &[(&str, &str)] = &[
    ("user", "user: sees and gives up the own clients"),
    ("auditor", "auditor: reads everything"),
    ("admin", "admin: changes everything but owners"),
    ("owner", "owner: everything"),
];

pub(super) const fn role_name(role: ApiRole) -> &'static str {
    match role {
        ApiRole::User => "user",
        ApiRole::Auditor => "auditor",
        ApiRole::Admin => "admin",
        ApiRole::Owner => "owner",
    }
}
