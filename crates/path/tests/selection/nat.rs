//! NATs, with the words of RFC 4787.

use culvert_base::BootTime;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// The time after which a mapping that nothing leaves by is forgotten (RFC 4787, REQ-5).
pub(crate) const MAPPING_LIFE: Duration = Duration::from_secs(120);

/// The port that a NAT gives to a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mapping {
    /// One for each inner address.
    EndpointIndependent,
    /// One for each destination: "symmetric".
    Symmetric,
}

/// The datagrams that a NAT lets in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filtering {
    /// All, to a port that is in use.
    EndpointIndependent,
    /// Those from hosts to which something left by the port.
    AddressDependent,
    /// Those from addresses and ports to which something left by the port.
    AddressAndPortDependent,
}

/// The behaviour of a NAT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Behaviour {
    pub(crate) mapping: Mapping,
    pub(crate) filtering: Filtering,
}

/// All behaviours.
pub(crate) const BEHAVIOURS: [Behaviour; 6] = {
    use Filtering::{AddressAndPortDependent, AddressDependent, EndpointIndependent as Any};
    use Mapping::{EndpointIndependent, Symmetric};
    const fn of(mapping: Mapping, filtering: Filtering) -> Behaviour {
        Behaviour { mapping, filtering }
    }
    [
        of(EndpointIndependent, Any),
        of(EndpointIndependent, AddressDependent),
        of(EndpointIndependent, AddressAndPortDependent),
        of(Symmetric, Any),
        of(Symmetric, AddressDependent),
        of(Symmetric, AddressAndPortDependent),
    ]
};

/// A NAT. Hairpinning is absent.
pub(crate) struct Nat {
    behaviour: Behaviour,
    /// Its address outside.
    pub(crate) outside: IpAddr,
    /// The NAT behind which it is itself.
    pub(crate) behind: Option<usize>,
    ports: Vec<Port>,
    next_port: u16,
}

struct Port {
    inner: SocketAddr,
    /// Of a symmetric NAT.
    only_to: Option<SocketAddr>,
    outer: u16,
    sent_to: Vec<SocketAddr>,
    last_sent: BootTime,
}

impl Nat {
    pub(crate) fn new(behaviour: Behaviour, outside: IpAddr, behind: Option<usize>) -> Self {
        Self {
            behaviour,
            outside,
            behind,
            ports: Vec::new(),
            next_port: 40_000,
        }
    }

    /// It forgets everything, as after a restart, and begins with other ports.
    pub(crate) fn rebind(&mut self) {
        self.ports.clear();
        self.next_port += 100;
    }

    /// The source that a datagram has outside.
    pub(crate) fn outbound(
        &mut self,
        source: SocketAddr,
        to: SocketAddr,
        now: BootTime,
    ) -> SocketAddr {
        self.forget(now);
        let only_to = (self.behaviour.mapping == Mapping::Symmetric).then_some(to);
        let is_its = |port: &Port| port.inner == source && port.only_to == only_to;
        let place = self.ports.iter().position(is_its).unwrap_or_else(|| {
            self.ports.push(Port {
                inner: source,
                only_to,
                outer: self.next_port,
                sent_to: Vec::new(),
                last_sent: now,
            });
            self.next_port += 1;
            self.ports.len() - 1
        });
        let port = &mut self.ports[place];
        port.last_sent = now;
        if !port.sent_to.contains(&to) {
            port.sent_to.push(to);
        }
        SocketAddr::new(self.outside, port.outer)
    }

    /// The inner destination of a datagram from outside, if it is let in.
    pub(crate) fn inbound(
        &mut self,
        source: SocketAddr,
        to: SocketAddr,
        now: BootTime,
    ) -> Option<SocketAddr> {
        self.forget(now);
        let port = self.ports.iter().find(|port| port.outer == to.port())?;
        let mut sent_to = port.sent_to.iter();
        let passes = match self.behaviour.filtering {
            Filtering::EndpointIndependent => true,
            Filtering::AddressDependent => sent_to.any(|it| it.ip() == source.ip()),
            Filtering::AddressAndPortDependent => sent_to.any(|it| *it == source),
        };
        passes.then_some(port.inner)
    }

    fn forget(&mut self, now: BootTime) {
        self.ports
            .retain(|port| !now.has_passed(port.last_sent, MAPPING_LIFE));
    }
}
