//! The status of the client, for `culvert status`.

use super::access::Access;
use super::changed::ChangedResources;
use super::client::Client;
use super::counters::Counters;
use super::grant::Grant;
use super::paths::ToldPath;
use super::status::{
    AccessState, GatewayStatus, NameStatus, ReasonStatus, RelayStatus, ResourceStatus,
    UnreadableStatus, ZoneStatus,
};
use culvert_base::{BootTime, Traffic, UnixTime, whole_millis};
use culvert_control::{ControlState, PortalStatus};
use culvert_ids::ClientId;
use culvert_ids::ResourceId;
use culvert_path::Selection;
use culvert_policy::{Filters, Resource};
use culvert_wire::messages::{Interface, PathKind, ReasonCode};
use culvert_wire::model::written_filters;
use culvert_wire::{Timestamp, words};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;

/// The core's part of the status.
#[derive(Clone, Debug)]
pub struct View {
    /// The id of the client, once the portal has given it one.
    pub client: Option<ClientId>,
    /// Its addresses inside the tunnel.
    pub interface: Option<Interface>,
    /// The session with the portal.
    pub portal: PortalStatus,
    /// Every resource.
    pub resources: Vec<ResourceStatus>,
    /// Resources that can't be read.
    pub unreadable: Vec<UnreadableStatus>,
    /// Every gateway that a grant leads through.
    pub gateways: Vec<GatewayStatus>,
    /// The relays of the account.
    pub relays: Vec<RelayStatus>,
    /// Names that gateways translate.
    pub names: Vec<NameStatus>,
    /// The domains by which short names are completed.
    pub search: Vec<String>,
    /// Domains whose names have servers of their own.
    pub zones: Vec<ZoneStatus>,
    /// Counters since the start.
    pub counters: Counters,
}

impl<P> Client<P> {
    /// The status of the client. `unix` is this machine's clock.
    #[must_use]
    pub fn view(&self, now: BootTime, unix: UnixTime) -> View {
        let resources = self.directory.iter();
        View {
            resources: resources
                .map(|resource| self.resource_status(resource, now, unix))
                .collect(),
            names: self.name_statuses(),
            ..self.view_without_resources(now, unix)
        }
    }

    /// The same without resources and names, whose number may be large.
    #[must_use]
    pub fn view_without_resources(&self, now: BootTime, unix: UnixTime) -> View {
        View {
            client: self.network.as_ref().map(|network| network.client),
            interface: self.network.as_ref().map(|network| network.interface),
            portal: PortalStatus {
                listing: self.is_listing(),
                ..self.portal.status(now, unix)
            },
            resources: Vec::new(),
            unreadable: self
                .directory
                .unreadable()
                .map(|(id, unreadable)| UnreadableStatus {
                    id,
                    name: unreadable.name.as_ref().map(ToString::to_string),
                    why: unreadable.why.clone(),
                })
                .collect(),
            gateways: self.gateway_statuses(now, unix),
            relays: self.paths.statuses(),
            names: Vec::new(),
            search: self
                .names
                .rules()
                .search()
                .iter()
                .map(ToString::to_string)
                .collect(),
            zones: self
                .names
                .rules()
                .zones()
                .iter()
                .map(|(zone, servers)| ZoneStatus {
                    name: zone.to_string(),
                    servers: servers.iter().map(|it| it.address()).collect(),
                })
                .collect(),
            counters: self.counters(),
        }
    }

    /// True if packets may have somewhere to go: there is a portal to ask for access, or access that was
    /// given before.
    #[must_use]
    pub fn is_of_use(&self) -> bool {
        self.portal.is_open() || self.accesses.granted().next().is_some()
    }

    /// One line for a service manager.
    #[must_use]
    pub fn summary(&self, portal: &str) -> String {
        let granted = self.accesses.granted().count();
        let gateways = self.gateways.len();
        match self.portal.state() {
            ControlState::Open => {
                format!(
                    "connected to {portal}; {granted} resources in use through {gateways} gateways"
                )
            }
            ControlState::Connecting | ControlState::Greeting { .. } => {
                "connecting to the portal".to_owned()
            }
            ControlState::Waiting { .. } => match self.portal.last_error() {
                Some(error) => format!("not connected to the portal: {error}"),
                None => "not connected to the portal".to_owned(),
            },
            ControlState::Ended => "refused by the portal".to_owned(),
        }
    }

    fn resource_status(
        &self,
        resource: &Resource,
        now: BootTime,
        unix: UnixTime,
    ) -> ResourceStatus {
        let access = self.accesses.get(resource.id);
        let grant = access.and_then(|access| access.grant.as_ref());
        let traffic = self.routes.counting().traffic_of(resource.id);
        ResourceStatus {
            id: resource.id,
            name: resource.name.to_string(),
            target: resource.target.to_string(),
            site: resource.site,
            state: state_of(access, now),
            why: access.and_then(|access| why(access, now)),
            gateway: grant.map(|grant| grant.gateway.id),
            grant: grant.map(|grant| grant.id),
            expires: grant.map(|grant| {
                Timestamp::from(unix.saturating_add(grant.expires.saturating_since(now)))
            }),
            renewing: grant.is_some() && access.is_some_and(|access| access.ask.is_some()),
            held_packets: access.map_or(0, |access| access.held.len()),
            allow: Some(in_words(&resource.filters)),
            unknown_filters: self.directory.not_understood(resource.id),
            applications: Some(self.directory.rule(resource))
                .filter(|rule| !rule.is_any())
                .map(|rule| rule.to_string()),
            inbound: in_words(&resource.inbound),
            sent_bytes: traffic.map(|it| it.sent_bytes),
            received_bytes: traffic.map(|it| it.received_bytes),
        }
    }

    fn gateway_statuses(&self, now: BootTime, unix: UnixTime) -> Vec<GatewayStatus> {
        let statuses = self.gateways.iter().map(|(id, gateway)| {
            let introduction = &gateway.introduction;
            let report = gateway.report.as_ref();
            let peer = report.map(|report| report.peer);
            let current = gateway.race.current();
            let path = gateway.selection.as_ref().and_then(Selection::path);
            let relay = path.and_then(|path| path.relay);
            // The selection may have chosen another one since the report.
            let selected = path.map(|path| path.address);
            let endpoint = selected.or(peer.and_then(|peer| peer.endpoint));
            GatewayStatus {
                id,
                name: introduction.name.clone(),
                public_key: introduction.key,
                path: match current {
                    Some(_) if relay.is_some() => "relayed".to_owned(),
                    Some(_) => "direct".to_owned(),
                    None => "none".to_owned(),
                },
                relay,
                relay_name: relay
                    .and_then(|it| self.paths.name_of(it))
                    .map(str::to_owned),
                by_tls: path.is_some_and(|path| path.by_tls),
                round_trip_us: path
                    .and_then(|path| path.round_trip)
                    .map(|it| u32::try_from(it.as_micros()).unwrap_or(u32::MAX)),
                why: path.and_then(|path| {
                    self.why_not_direct(ToldPath::of(&path).kind, &introduction.candidates)
                }),
                endpoint: endpoint.or(current.map(|(address, _)| address)),
                candidates: introduction.candidates.clone(),
                cipher: introduction.cipher,
                handshake_age_ms: peer
                    .and_then(|peer| peer.handshake)
                    .map(|at| whole_millis(unix.saturating_since(at))),
                heard_ms_ago: peer
                    .and_then(|peer| peer.received)
                    .map(|at| whole_millis(now.saturating_since(at))),
                silent_for_ms: gateway
                    .race
                    .silent_since()
                    .map(|since| whole_millis(now.saturating_since(since))),
                rx_bytes: peer.map_or(0, |peer| peer.rx_bytes),
                tx_bytes: peer.map_or(0, |peer| peer.tx_bytes),
                rx_bytes_per_s: report.map_or(0, |report| report.rx_bytes_per_s),
                tx_bytes_per_s: report.map_or(0, |report| report.tx_bytes_per_s),
                path_mtu_bytes: peer.and_then(|peer| peer.measured_mtu_bytes),
                resources: self.resources_through(id),
            }
        });
        statuses.collect()
    }

    fn why_not_direct(&self, path: PathKind, candidates: &[SocketAddr]) -> Option<String> {
        let why = words::why_not_direct(words::PathFacts {
            path,
            client: self.paths.nat(),
            gateway: None,
            has_address: !candidates.is_empty(),
        });
        why.map(str::to_owned)
    }

    fn resources_through(&self, gateway: culvert_ids::GatewayId) -> Vec<ResourceId> {
        let granted = self.accesses.granted();
        let through = granted.filter(|(_, grant)| grant.gateway.id == gateway);
        through.map(|(id, _)| id).collect()
    }

    fn name_statuses(&self) -> Vec<NameStatus> {
        let granted = self.accesses.granted();
        granted
            .flat_map(|(id, grant)| names_of(id, grant))
            .collect()
    }

    /// A resource with its names; nothing if there is none with this id.
    #[must_use]
    pub fn view_of_resource(
        &self,
        id: ResourceId,
        now: BootTime,
        unix: UnixTime,
    ) -> Option<(ResourceStatus, Vec<NameStatus>)> {
        let status = self.resource_status(self.directory.get(id)?, now, unix);
        let grant = self.accesses.grant(id);
        let names = grant.into_iter().flat_map(|grant| names_of(id, grant));
        Some((status, names.collect()))
    }

    /// The resources of which the portal told anew since this was called last; all at the first time.
    pub fn take_changed_resources(&mut self) -> ChangedResources {
        self.directory.take_changed()
    }

    /// The bytes of all resources that are counted.
    #[must_use]
    pub fn traffic(&self) -> BTreeMap<ResourceId, Traffic> {
        self.routes.counting().all()
    }

    /// A mark of every access: another mark means that the status of its resource or names is another.
    #[must_use]
    pub fn access_marks(&self, now: BootTime) -> BTreeMap<ResourceId, u64> {
        let marks = self.accesses.iter();
        marks.map(|(id, access)| (id, mark(access, now))).collect()
    }
}

fn names_of(resource: ResourceId, grant: &Grant) -> impl Iterator<Item = NameStatus> + '_ {
    let found = grant.names.iter().filter(|(_, granted)| !granted.is_lost);
    found.map(move |(name, granted)| NameStatus {
        name: name.to_string(),
        resource,
        ipv4: granted.families.v4.then_some(granted.addresses.v4),
        ipv6: granted.families.v6.then_some(granted.addresses.v6),
    })
}

/// Covers all that [`Client::view_of_resource`] tells of an access, without the cost of writing it.
fn mark<P>(access: &Access<P>, now: BootTime) -> u64 {
    let mut hasher = DefaultHasher::new();
    (state_of(Some(access), now) as u8).hash(&mut hasher);
    access.ask.is_some().hash(&mut hasher);
    access.held.len().hash(&mut hasher);
    if let Some(denial) = &access.denial {
        (&denial.reason.text, denial.at).hash(&mut hasher);
    }
    if let Some(grant) = &access.grant {
        (grant.id, grant.gateway.id, grant.expires).hash(&mut hasher);
        for (name, granted) in &grant.names {
            (name, granted.is_lost).hash(&mut hasher);
            (granted.families.v4, granted.families.v6).hash(&mut hasher);
            (granted.addresses.v4, granted.addresses.v6).hash(&mut hasher);
        }
    }
    hasher.finish()
}

fn state_of<P>(access: Option<&Access<P>>, now: BootTime) -> AccessState {
    let Some(access) = access else {
        return AccessState::Idle;
    };
    if access.grant.is_some() {
        AccessState::Granted
    } else if access.ask.is_some() {
        AccessState::Asking
    } else if access.current_denial(now).is_some() || access.denial.is_some() {
        AccessState::Denied
    } else {
        AccessState::Idle
    }
}

fn why<P>(access: &Access<P>, now: BootTime) -> Option<ReasonStatus> {
    let denial = access.denial.as_ref()?;
    Some(ReasonStatus {
        code: code_text(denial.reason.code),
        text: denial.reason.text.clone(),
        ago_ms: whole_millis(now.saturating_since(denial.at)),
    })
}

/// The code as messages write it.
fn code_text(code: ReasonCode) -> String {
    serde_json::to_value(code)
        .ok()
        .and_then(|value| value.as_str().map(str::to_owned))
        .unwrap_or_else(|| "other".to_owned())
}

/// Services, each in words.
fn in_words(services: &Filters) -> Vec<String> {
    let filters = written_filters(services);
    let each = filters.iter().map(std::slice::from_ref);
    each.map(words::filters).collect()
}
