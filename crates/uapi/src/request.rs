use crate::{AllowedIpChange, Endpoint, FirewallMark, KeepaliveInterval};
use culvert_aead::Suite;
use culvert_session::{PresharedKey, PrivateKey, PublicKey};

/// One complete request of a connection.
#[derive(Debug, PartialEq)]
pub enum Request {
    /// `get=1`: the whole configuration, [`Configuration::to_response`](crate::Configuration).
    Get,
    /// `set=1`: changes.
    Set(SetRequest),
    /// `culvert_status=1`: counters and state as one line of JSON.
    Status,
}

/// Everything one `set=1` asks for. To be applied interface first, then peers in order.
#[derive(Debug, Default, PartialEq)]
pub struct SetRequest {
    /// The changes of the interface itself.
    pub interface: InterfaceChange,
    /// The changes of peers, in the order given. One peer may occur several times.
    pub peers: Vec<PeerChange>,
}

/// Changes of the interface.
#[derive(Debug, Default, PartialEq)]
pub struct InterfaceChange {
    /// `private_key`; all zeros removes it.
    pub private_key: Change<PrivateKey>,
    /// `listen_port`; zero asks for a port chosen at random.
    pub listen_port: Option<u16>,
    /// `fwmark`; zero or nothing removes it.
    pub fwmark: Change<FirewallMark>,
    /// `cipher` of the interface: that of peers without one of their own.
    pub suite: Option<Suite>,
    /// `replace_peers=true`: peers that this request does not name are removed.
    pub replace_peers: bool,
}

/// Changes of one peer.
#[derive(Debug, PartialEq)]
pub struct PeerChange {
    /// The peer that the section is about.
    pub public_key: PublicKey,
    /// `remove=true`: the peer is removed; everything else in the section is without effect.
    pub remove: bool,
    /// `update_only=true`: the section is without effect when there is no such peer.
    pub update_only: bool,
    /// `preshared_key`; all zeros removes it.
    pub preshared_key: Change<PresharedKey>,
    /// `endpoint`.
    pub endpoint: Option<Endpoint>,
    /// `persistent_keepalive_interval`; zero turns it off.
    pub keepalive: Change<KeepaliveInterval>,
    /// `replace_allowed_ips=true`: those the peer has are removed before `allowed_ips` are applied.
    pub replace_allowed_ips: bool,
    /// `allowed_ip`, in the order given.
    pub allowed_ips: Vec<AllowedIpChange>,
    /// `cipher` of this peer; nothing returns it to the cipher of the interface.
    pub suite: Change<Suite>,
}

impl PeerChange {
    /// A section that names the peer and changes nothing (but adds the peer where it is missing).
    pub fn new(public_key: PublicKey) -> Self {
        Self {
            public_key,
            remove: false,
            update_only: false,
            preshared_key: Change::Keep,
            endpoint: None,
            keepalive: Change::Keep,
            replace_allowed_ips: false,
            allowed_ips: Vec::new(),
            suite: Change::Keep,
        }
    }
}

/// The change of a value that may also be absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Change<T> {
    /// It stays as it is.
    #[default]
    Keep,
    /// It is removed or turned off.
    Remove,
    /// It becomes this.
    Set(T),
}

impl<T> Change<T> {
    /// `None` to keep, `Some(None)` to remove, `Some(Some(value))` to set.
    pub fn into_option(self) -> Option<Option<T>> {
        match self {
            Self::Keep => None,
            Self::Remove => Some(None),
            Self::Set(value) => Some(Some(value)),
        }
    }

    /// Sets the value, or removes it where there is none.
    pub(crate) fn from_option(value: Option<T>) -> Self {
        value.map_or(Self::Remove, Self::Set)
    }
}
