//! Rows of the configuration, as edits.

use super::catalog::{
    actor, client_token, gateway_token, group, membership, policy, resource, site,
};
use super::config::{Edit, token};
use culvert_store::{
    Actor, ActorKind, Entity, EntityId, Membership, Policy, Resource, Stamp, TokenScope,
};
use culvert_wire::model::{Applications, Condition, Filter, PortRange, Target, TargetKind};

/// An actor, enabled or not.
pub fn actor_row(number: u16, disabled: bool) -> Edit {
    let row = Actor {
        id: actor(number),
        kind: ActorKind::ServiceAccount,
        name: format!("actor {number}"),
        disabled,
        sign_in: None,
        stamp: Stamp::default(),
    };
    set(row)
}

/// The token with which an actor's clients come.
pub fn client_token_row(number: u16) -> Edit {
    let scope = TokenScope::Client {
        actor: actor(number),
    };
    set(token(client_token(number), scope))
}

/// The token with which a site's gateways come.
pub fn gateway_token_row(number: u16) -> Edit {
    let scope = TokenScope::Gateway { site: site(number) };
    set(token(gateway_token(number), scope))
}

/// An actor in a group.
pub fn membership_row(of: u16, to: u16) -> Edit {
    let row = Membership {
        id: membership(of, to),
        actor: actor(of),
        group: group(to),
        stamp: Stamp::default(),
    };
    set(row)
}

/// A resource, whose kind the text tells.
pub fn resource_row(number: u16, at: u16, address: &str, filters: Vec<Filter>) -> Edit {
    let nothing = Vec::new();
    opening_resource_row(number, at, address, filters, nothing)
}

/// A resource that may begin flows at its clients.
pub fn opening_resource_row(
    number: u16,
    at: u16,
    address: &str,
    filters: Vec<Filter>,
    inbound: Vec<Filter>,
) -> Edit {
    let kind = match address {
        _ if address.contains('/') => TargetKind::Cidr,
        _ if address.parse::<std::net::IpAddr>().is_ok() => TargetKind::Address,
        _ => TargetKind::Dns,
    };
    let row = Resource {
        id: resource(number),
        site: site(at),
        name: format!("resource {number}"),
        target: Target {
            kind,
            address: address.to_owned(),
        },
        inbound,
        filters,
        applications: Applications::Any,
        within: None,
        stamp: Stamp::default(),
    };
    set(row)
}

/// A policy that is not disabled.
pub fn policy_row(number: u16, to: u16, on: u16, conditions: Vec<Condition>) -> Edit {
    set(policy_of(number, to, on, conditions))
}

/// A policy that is disabled.
pub fn disabled_policy_row(number: u16, to: u16, on: u16) -> Edit {
    let row = Policy {
        disabled: true,
        ..policy_of(number, to, on, Vec::new())
    };
    set(row)
}

/// The row goes.
pub fn remove(id: impl Into<EntityId>) -> Edit {
    (id.into(), None)
}

/// The row is to be like this.
pub fn set(row: impl Into<Entity>) -> Edit {
    let row = row.into();
    (row.id(), Some(row))
}

/// TCP, to some ports.
pub fn tcp(ports: &[u16]) -> Filter {
    let ports = ports.iter().map(|port| PortRange {
        first: *port,
        last: *port,
    });
    Filter::Tcp {
        ports: ports.collect(),
    }
}

fn policy_of(number: u16, to: u16, on: u16, conditions: Vec<Condition>) -> Policy {
    Policy {
        id: policy(number),
        name: format!("policy {number}"),
        group: group(to),
        resource: resource(on),
        disabled: false,
        conditions,
        stamp: Stamp::default(),
    }
}
