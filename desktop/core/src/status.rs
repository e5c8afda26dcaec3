//! The status of the client's service, as far as the window shows it (docs/socket.md).
//!
//! The types are tolerant: fields that are missing have a default, unknown fields are ignored, and unknown values become
//! `Other`. Within one `schema_version` the service only adds, so a newer service stays readable.

use serde::{Deserialize, Deserializer};
use std::cmp::Ordering;
use std::sync::Arc;

/// The version of the socket's form that this program speaks.
pub const SCHEMA_VERSION: u32 = 1;

/// The service at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Status {
    /// [`SCHEMA_VERSION`], or that of another service.
    pub schema_version: u32,
    /// The version of the service's software.
    pub version: String,
    /// The display name of the machine.
    pub name: String,
    /// The id of this client at the portal.
    pub client: Option<String>,
    /// The portal's URL; empty while nobody is signed in.
    pub portal_url: String,
    /// The service and its progress.
    pub service: Service,
    /// The session with the portal.
    pub portal: Portal,
    /// True if packets for resources have a path.
    pub ready: bool,
    /// The reason why they have none.
    pub not_ready_because: Option<String>,
    /// Every resource that this machine may ask for, by id. One that has not changed is shared with the status before.
    #[serde(deserialize_with = "shared_resources")]
    pub resources: Vec<Arc<Resource>>,
    /// Gateways in use.
    pub gateways: Vec<Gateway>,
    /// The resolver for names.
    pub dns: Dns,
    /// Problems of this machine, each a line with its fix.
    pub problems: Vec<String>,
    /// The moments at which the sections with spans of time came.
    #[serde(skip)]
    pub heard: Heard,
}

/// The moments at which sections came, in milliseconds of the window's clock: their spans are as of then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// Of [`Status::service`].
    pub service_ms: u64,
    /// Of [`Status::portal`].
    pub portal_ms: u64,
    /// Of [`Status::gateways`].
    pub gateways_ms: u64,
}

impl Heard {
    /// All sections came at this moment.
    #[must_use]
    pub const fn at(now_ms: u64) -> Self {
        Self {
            service_ms: now_ms,
            portal_ms: now_ms,
            gateways_ms: now_ms,
        }
    }
}

/// The wish to be connected, and the authority that decides it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Service {
    /// The authority that decides if the client is connected.
    pub control: Control,
    /// The progress.
    pub state: ServiceState,
    /// The reason why it is not up although it is to be.
    pub trouble: Option<Trouble>,
    /// True if the service carries sign-ins out; an older one does not.
    pub signs_in: bool,
    /// The sign-in that is under way, or has failed.
    pub sign_in: Option<SignIn>,
    /// The settings that commands change. An older service tells none, and neither does one with an administrator's token.
    pub settings: Option<ServiceSettings>,
}

/// The settings of the service that commands change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ServiceSettings {
    /// True if the system is to ask the client for names.
    pub dns: Option<bool>,
}

/// A sign-in that the service carries out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct SignIn {
    /// The progress.
    pub state: SignInState,
    /// The URL of the portal.
    pub portal: String,
    /// The URL of the page that takes the code.
    pub url: String,
    /// The same with the code in it.
    pub url_complete: Option<String>,
    /// The code.
    pub code: String,
    /// Seconds until the code ends.
    pub expires_in_s: u64,
    /// The reason of a failure, for programs.
    pub code_of_failure: String,
    /// The reason of a failure, for people, in English.
    pub text: String,
}

/// The progress of a sign-in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SignInState {
    /// The portal is asked for a code.
    Asking,
    /// A person is to approve the code.
    Waiting,
    /// It has failed.
    Failed,
    /// A value of a later service.
    #[default]
    #[serde(other)]
    Other,
}

/// The resolver for names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Dns {
    /// The way in which the system is set to ask it; none before that is known.
    pub control: Option<DnsControl>,
}

/// The way in which the system is set to ask the resolver.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct DnsControl {
    /// `resolved`, `resolvconf`, `file` or `off`.
    pub mode: String,
    /// True if the system does ask it.
    pub applied: bool,
}

/// The authority that decides if the client is connected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Control {
    /// The administrator, by a token on the machine.
    #[default]
    Token,
    /// The users of the socket.
    Commands,
    /// A value of a later service.
    #[serde(other)]
    Other,
}

/// The progress of the service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServiceState {
    /// There is no token.
    SignedOut,
    /// It is told not to connect.
    Down,
    /// It is connected, or tries to be.
    #[default]
    Up,
    /// It reverts its changes.
    GoingDown,
    /// The portal refuses it.
    Refused,
    /// A fault of this machine.
    Failed,
    /// A value of a later service.
    #[serde(other)]
    Other,
}

/// The reason why the service is not up although it is to be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Trouble {
    /// For programs.
    pub code: String,
    /// For people, in English.
    pub text: String,
}

/// The session with the portal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Portal {
    /// The state of the session.
    pub state: PortalState,
    /// Milliseconds since the session was opened, or lost.
    pub state_for_ms: u64,
    /// Milliseconds until the next attempt.
    pub next_attempt_in_ms: Option<u64>,
    /// The reason why there is no session, in English.
    pub last_error: Option<String>,
    /// Sessions since the service's start.
    pub sessions: u64,
    /// True while the owner of this client is disabled.
    pub owner_disabled: bool,
    /// True while the list of resources is not whole.
    pub listing: bool,
}

/// The state of the session with the portal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PortalState {
    /// There is a session.
    Connected,
    /// An attempt is under way.
    Connecting,
    /// The next attempt waits.
    Waiting,
    /// The portal refuses this machine.
    Refused,
    /// There is to be no session.
    #[default]
    Off,
    /// A value of a later service.
    #[serde(other)]
    Other,
}

/// A resource and the access to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Resource {
    /// Its id.
    pub id: String,
    /// The name that people see.
    pub name: String,
    /// Its network, address or name pattern.
    pub target: String,
    /// The state of the access.
    pub state: AccessState,
    /// The reason for the last denial.
    pub why: Option<Reason>,
    /// The gateway in use.
    pub gateway: Option<String>,
    /// The time at which the grant ends, as the service writes it.
    pub expires: Option<String>,
    /// The services of it that may be used; absent from an older service.
    pub allow: Option<Vec<String>>,
    /// The programs of this machine that may reach it, in words.
    pub applications: Option<String>,
    /// Bytes to it since the service's start; absent before the first grant, and from an older service.
    pub sent_bytes: Option<u64>,
    /// Bytes from it, in the same way.
    pub received_bytes: Option<u64>,
}

/// The state of the access to a resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccessState {
    /// Nobody has used it lately.
    #[default]
    Idle,
    /// Access is asked for.
    Asking,
    /// There is a grant.
    Granted,
    /// Access was denied or taken back.
    Denied,
    /// A value of a later service.
    #[serde(other)]
    Other,
}

/// The reason of a denial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Reason {
    /// For programs.
    pub code: String,
    /// For people, in English.
    pub text: String,
    /// Milliseconds since the denial.
    pub ago_ms: u64,
}

/// A gateway in use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Gateway {
    /// Its id.
    pub id: String,
    /// The name that people see.
    pub name: String,
    /// `direct`, `relayed` or `none`.
    pub path: String,
    /// The relay of the path, for people.
    pub relay_name: Option<String>,
    /// True if the relay is reached by TLS.
    pub by_tls: bool,
    /// The round trip of the path, in microseconds.
    pub round_trip_us: Option<u32>,
    /// The reason why the path is not direct, in English.
    pub why: Option<String>,
    /// The address at which it is reached.
    pub endpoint: Option<String>,
    /// Milliseconds since the last handshake.
    pub handshake_age_ms: Option<u64>,
    /// Milliseconds without an answer although packets were sent.
    pub silent_for_ms: Option<u64>,
    /// Bytes a second from it.
    pub rx_bytes_per_s: u64,
    /// Bytes a second to it.
    pub tx_bytes_per_s: u64,
}

impl Status {
    /// The gateway with this id.
    #[must_use]
    pub fn gateway(&self, id: &str) -> Option<&Gateway> {
        self.gateways.iter().find(|gateway| gateway.id == id)
    }
}

fn shared_resources<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<Arc<Resource>>, D::Error> {
    Vec::<Resource>::deserialize(deserializer).map(sorted)
}

/// These resources by id, each once.
#[must_use]
pub fn sorted(mut resources: Vec<Resource>) -> Vec<Arc<Resource>> {
    resources.sort_by(|a, b| a.id.cmp(&b.id));
    resources.dedup_by(|a, b| a.id == b.id);
    resources.into_iter().map(Arc::new).collect()
}

/// A difference between two lists of resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// The resource is new.
    Added(&'a Arc<Resource>),
    /// The resource is another than before.
    Changed(&'a Arc<Resource>, &'a Arc<Resource>),
    /// The resource is gone.
    Removed(&'a Arc<Resource>),
}

/// The differences between two lists by id. Shared resources are passed over without a look at them.
#[must_use]
pub fn changes<'a>(before: &'a [Arc<Resource>], after: &'a [Arc<Resource>]) -> Vec<Change<'a>> {
    let (mut old, mut new) = (before.iter().peekable(), after.iter().peekable());
    let mut changes = Vec::new();
    loop {
        let order = match (old.peek(), new.peek()) {
            (None, None) => return changes,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(old), Some(new)) if Arc::ptr_eq(old, new) => Ordering::Equal,
            (Some(old), Some(new)) => old.id.cmp(&new.id),
        };
        match order {
            Ordering::Less => changes.extend(old.next().map(Change::Removed)),
            Ordering::Greater => changes.extend(new.next().map(Change::Added)),
            Ordering::Equal => {
                if let (Some(old), Some(new)) = (old.next(), new.next())
                    && !Arc::ptr_eq(old, new)
                    && old != new
                {
                    changes.push(Change::Changed(old, new));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(id: &str, name: &str) -> Resource {
        Resource {
            id: id.to_owned(),
            name: name.to_owned(),
            ..Resource::default()
        }
    }

    #[test]
    fn differences_are_found_by_id() {
        let list = |list: &[(&str, &str)]| {
            sorted(list.iter().map(|(id, name)| resource(id, name)).collect())
        };
        let before = list(&[("c", "3"), ("a", "1"), ("b", "2"), ("b", "2")]);
        assert_eq!(before.len(), 3);
        assert_eq!(changes(&before, &before), []);
        // Equal, and not shared.
        assert_eq!(
            changes(&before, &list(&[("a", "1"), ("b", "2"), ("c", "3")])),
            []
        );
        let after = list(&[("b", "x"), ("c", "3"), ("d", "4")]);
        assert_eq!(
            changes(&before, &after),
            [
                Change::Removed(&before[0]),
                Change::Changed(&before[1], &after[0]),
                Change::Added(&after[2]),
            ]
        );
        assert_eq!(changes(&[], &after).len(), 3);
        assert_eq!(changes(&after, &[]).len(), 3);
    }
}
