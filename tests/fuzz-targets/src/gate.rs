use crate::input::Input;
use crate::naive;
use culvert_base::{BootTime, UnixTime};
use culvert_ids::{GrantId, ResourceId};
use culvert_policy::gate::{
    ClientGrants, Frame, Gate, GateTable, Grant, Mapping, PeerKey, Reach, Seed, Verdict,
};
use culvert_policy::{Checksum, Filter, Filters, Ports, Prefix};
use std::net::IpAddr;

const PEER: PeerKey = PeerKey(1);
const STRANGER: PeerKey = PeerKey(2);
/// The addresses of the packets that seeds are made of.
pub(crate) const CLIENT: [u8; 4] = [10, 0, 0, 1];
pub(crate) const CLIENT_V6: [u8; 16] = [0xFD; 16];
const REMOTE: [u8; 4] = [10, 0, 0, 2];
const REMOTE_V6: [u8; 16] = [0x2E; 16];
/// The address behind the remote addresses that stand for a name.
const RESOLVED: [u8; 4] = [10, 9, 9, 9];
const RESOLVED_V6: [u8; 16] = [0xFC; 16];
/// Few enough to be exceeded.
const MAX_FLOWS: usize = 16;
/// The expiry of the grants that expire.
const EXPIRY_MS: u64 = 100_000;

/// Any bytes, as packets of a client and to it, under grants that come and go. Only packets that a
/// search through the grants finds may pass, and no client may send for another one. A packet that
/// passes keeps its length, its content and its checksum.
///
/// # Panics
/// If a property does not hold.
pub fn gate(data: &[u8]) {
    let mut input = Input::new(data);
    let mut run = Run {
        gate: Gate::with_max_flows(Seed::new([5; 32]), MAX_FLOWS),
        table: GateTable::new(),
        grants: 0,
        now_ms: 0,
        last: None,
    };
    run.set(input.u8());
    while !input.is_empty() {
        let choice = input.u8();
        match choice % 8 {
            0 => run.now_ms += u64::from(input.u16()) * 100,
            1 => run.set(input.u8()),
            2 => run.gate.sweep(&run.table, run.now(), MAX_FLOWS),
            3 => run.answer_last(choice),
            _ => {
                let len = usize::from(input.u16());
                let mut packet = input.take(len).to_vec();
                match choice & 0x10 {
                    0 => run.send(choice, &mut packet),
                    _ => run.answer(choice, &mut packet),
                }
            }
        }
        assert!(run.gate.flow_count() <= MAX_FLOWS);
        run.gate
            .drain_ended(|record| assert!(record.ended.is_some()));
    }
}

struct Run {
    gate: Gate,
    table: GateTable,
    /// A bit for each of the grants.
    grants: u8,
    now_ms: u64,
    /// The last packet that went on to a resource.
    last: Option<Vec<u8>>,
}

/// A grant as simple as can be: what it reaches, and what it allows.
struct Plain {
    address: IpAddr,
    len: u8,
    resolved: Option<IpAddr>,
    ends: bool,
    allows: &'static [(u8, u16, u16)],
}

/// Protocol 0 stands for all.
const ANY: &[(u8, u16, u16)] = &[(0, 0, u16::MAX)];

fn grants() -> [Plain; 7] {
    let plain = |address: IpAddr, len, allows| Plain {
        address,
        len,
        resolved: None,
        ends: false,
        allows,
    };
    let named = |address: IpAddr, resolved: IpAddr, len| Plain {
        resolved: Some(resolved),
        ..plain(address, len, ANY)
    };
    [
        plain([10, 0, 0, 0].into(), 8, &[(6, 443, 443), (17, 400, 500)]),
        plain([0xFE00, 0, 0, 0, 0, 0, 0, 0].into(), 8, &[(6, 443, 443)]),
        named(REMOTE.into(), RESOLVED.into(), 32),
        named(REMOTE_V6.into(), RESOLVED_V6.into(), 128),
        plain([0, 0, 0, 0].into(), 0, &[(1, 0, 0)]),
        Plain {
            ends: true,
            ..plain([0_u16; 8].into(), 0, ANY)
        },
        plain(REMOTE.into(), 32, &[]),
    ]
}

impl Run {
    const fn now(&self) -> BootTime {
        BootTime::from_millis(self.now_ms)
    }

    fn set(&mut self, grants: u8) {
        self.grants = grants;
        let chosen = self.chosen().into_iter().map(|(number, plain)| Grant {
            id: GrantId::new(UnixTime::from_millis(number as u64), [0; 10]),
            resource: ResourceId::new(UnixTime::from_millis(number as u64), [0; 10]),
            reach: match plain.resolved {
                Some(to) => Reach::Names(vec![Mapping::new(plain.address, to).expect("forwarded")]),
                None => Reach::Addresses(Prefix::new(plain.address, plain.len).expect("a range")),
            },
            filters: Filters::new(plain.allows.iter().map(filter)).expect("few filters"),
            inbound: Filters::none(),
            expires: match plain.ends {
                true => BootTime::from_millis(EXPIRY_MS),
                false => BootTime::MAX,
            },
        });
        let addresses = vec![CLIENT.into(), CLIENT_V6.into()];
        let client = ClientGrants::new(PEER, addresses, chosen.collect()).expect("few grants");
        self.table.set_client(client).expect("addresses of its own");
    }

    fn chosen(&self) -> Vec<(usize, Plain)> {
        let all = grants().into_iter().enumerate();
        all.filter(|(number, _)| self.grants & 1 << number != 0)
            .collect()
    }

    fn send(&mut self, choice: u8, packet: &mut [u8]) {
        let before = packet.to_vec();
        let peer = if choice & 0x20 == 0 { PEER } else { STRANGER };
        let now = self.now();
        let verdict = self
            .gate
            .admit_from_client(&self.table, now, peer, frame(choice, packet));
        let Verdict::Admit(admitted) = verdict else {
            assert_eq!(packet, before, "what is dropped is left alone");
            return;
        };
        assert_eq!((admitted, peer), (PEER, PEER));
        let said = Said::of(&before).expect("only packets pass");
        assert!(said.source == IpAddr::from(CLIENT) || said.source == IpAddr::from(CLIENT_V6));
        assert!(self.allows(&said), "{before:02x?}");
        assert_stored(choice, &before, packet, &said);
        self.last = Some(packet.to_vec());
    }

    fn answer(&mut self, choice: u8, packet: &mut [u8]) {
        let before = packet.to_vec();
        let now = self.now();
        let verdict = self
            .gate
            .admit_to_client(&self.table, now, frame(choice, packet));
        let Verdict::Admit(peer) = verdict else {
            assert_eq!(packet, before, "what is dropped is left alone");
            return;
        };
        assert_eq!(peer, PEER);
        assert!(self.last.is_some(), "nobody asked");
        let said = Said::of(&before).expect("only packets pass");
        assert!(said.is_to_client());
        assert_stored(choice, &before, packet, &said);
        let shown = Said::of(packet).expect("it still is a packet");
        assert_eq!(shown.destination, said.destination);
        if !said.is_error() {
            // From where the client may send to.
            let back = Said {
                source: shown.destination,
                destination: shown.source,
                service: shown
                    .service
                    .map(|(protocol, from, _)| (protocol, from, from)),
                ..shown
            };
            assert!(self.allows(&back), "{before:02x?}");
        }
    }

    /// The answer to the packet that passed last.
    fn answer_last(&mut self, choice: u8) {
        let Some(mut packet) = self.last.clone() else {
            return;
        };
        let Some(said) = Said::of(&packet) else {
            return;
        };
        match said.version {
            4 => packet[12..20].rotate_left(4),
            _ => packet[8..40].rotate_left(16),
        }
        let at = said.transport;
        match said.service {
            Some((6 | 17, ..)) => packet[at..at + 4].rotate_left(2),
            Some((1, ..)) if packet.get(at) == Some(&8) => packet[at] = 0,
            Some((58, ..)) if packet.get(at) == Some(&128) => packet[at] = 129,
            _ => {}
        }
        self.answer(choice, &mut packet);
    }

    /// True if a search through all grants finds one for the facts of this packet.
    fn allows(&self, said: &Said) -> bool {
        let chosen = self.chosen();
        let holding = chosen
            .iter()
            .filter(|(_, grant)| holds(grant, said.destination));
        let Some(longest) = holding.clone().map(|(_, grant)| grant.len).max() else {
            return false;
        };
        holding
            .filter(|(_, grant)| grant.len == longest)
            .filter(|(_, grant)| !grant.ends || self.now_ms < EXPIRY_MS)
            .any(|(_, grant)| match said.service {
                // Fragments and errors: that they belong to a flow is not known here.
                None => true,
                Some(_) if said.is_error() => true,
                Some((protocol, _, port)) => grant.allows.iter().any(|&(allowed, first, last)| {
                    let is_icmp =
                        allowed == 1 && protocol == if said.version == 4 { 1 } else { 58 };
                    let is_port = allowed == protocol && (first..=last).contains(&port);
                    allowed == 0 || is_icmp || (is_port && matches!(protocol, 6 | 17))
                }),
            })
    }
}

fn frame(choice: u8, packet: &mut [u8]) -> Frame<'_> {
    Frame {
        checksum: if choice & 0x40 == 0 {
            Checksum::Complete
        } else {
            Checksum::Partial
        },
        ..Frame::packet(packet)
    }
}

fn filter(&(protocol, first, last): &(u8, u16, u16)) -> Filter {
    let ports = Ports::new(first, last).expect("in order");
    match protocol {
        0 => Filter::Any,
        1 => Filter::Icmp,
        6 => Filter::Tcp(ports),
        _ => Filter::Udp(ports),
    }
}

fn holds(grant: &Plain, address: IpAddr) -> bool {
    let bits = |address: IpAddr| match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()) << 96,
        IpAddr::V6(v6) => v6.to_bits(),
    };
    let differ = bits(grant.address) ^ bits(address);
    grant.address.is_ipv4() == address.is_ipv4() && differ.leading_zeros() >= grant.len.into()
}

/// Length and content stay; a right checksum of TCP and UDP stays right.
fn assert_stored(choice: u8, before: &[u8], after: &[u8], said: &Said) {
    assert_eq!(before.len(), after.len());
    assert_eq!(before[said.len..], after[said.len..]);
    if said.is_error() {
        return;
    }
    let Some((protocol @ (6 | 17), ..)) = said.service else {
        return;
    };
    let (before, after) = (&before[..said.len], &after[..said.len]);
    let (header_len, field) = if protocol == 6 { (20, 16) } else { (8, 6) };
    assert_eq!(
        before[said.transport + header_len..],
        after[said.transport + header_len..]
    );
    let has_checksum = before[said.transport + field..][..2] != [0, 0];
    let is_complete = choice & 0x40 == 0;
    if has_checksum && is_complete && !said.is_fragment {
        let is_right =
            |packet| naive::is_transport_checksum_right(packet, said.transport, protocol);
        assert_eq!(is_right(before), is_right(after));
    }
    if said.version == 4 {
        let is_right = naive::is_header_checksum_right;
        assert_eq!(is_right(before), is_right(after));
    }
}

/// The facts of a packet, read header by header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Said {
    pub(crate) version: u8,
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) len: usize,
    pub(crate) transport: usize,
    /// Protocol and, of TCP and UDP, source and destination port; none of a later fragment. Of
    /// ICMP the first port is the type.
    pub(crate) service: Option<(u8, u16, u16)>,
    is_fragment: bool,
}

impl Said {
    pub(crate) fn of(packet: &[u8]) -> Option<Self> {
        let field = |at: usize| Some(u16::from_be_bytes([*packet.get(at)?, *packet.get(at + 1)?]));
        match packet.first()? >> 4 {
            4 => {
                let place = field(6)?;
                let transport = usize::from(packet[0] & 0xF) * 4;
                let protocol = *packet.get(9)?;
                Some(Self {
                    version: 4,
                    source: <[u8; 4]>::try_from(packet.get(12..16)?).ok()?.into(),
                    destination: <[u8; 4]>::try_from(packet.get(16..20)?).ok()?.into(),
                    len: field(2)?.into(),
                    transport,
                    service: service(packet, protocol, transport, place & 0x1FFF != 0),
                    is_fragment: place & 0x3FFF != 0,
                })
            }
            6 => {
                let (mut protocol, mut at) = (*packet.get(6)?, 40);
                let (mut is_fragment, mut is_later) = (false, false);
                while matches!(protocol, 0 | 43 | 44 | 51 | 60) && !is_later {
                    let len = usize::from(*packet.get(at + 1)?);
                    let step = match protocol {
                        44 => 8,
                        51 => (len + 2) * 4,
                        _ => (len + 1) * 8,
                    };
                    if protocol == 44 {
                        is_fragment = true;
                        is_later = field(at + 2)? >> 3 != 0;
                    }
                    protocol = packet[at];
                    at += step;
                }
                Some(Self {
                    version: 6,
                    source: <[u8; 16]>::try_from(packet.get(8..24)?).ok()?.into(),
                    destination: <[u8; 16]>::try_from(packet.get(24..40)?).ok()?.into(),
                    len: 40 + usize::from(field(4)?),
                    transport: at,
                    service: service(packet, protocol, at, is_later),
                    is_fragment,
                })
            }
            _ => None,
        }
    }

    pub(crate) fn is_error(&self) -> bool {
        match (self.version, self.service) {
            (4, Some((1, kind, _))) => matches!(kind, 3 | 11 | 12),
            (6, Some((58, kind, _))) => matches!(kind, 1..=4),
            _ => false,
        }
    }

    pub(crate) fn is_to_client(&self) -> bool {
        self.destination == IpAddr::from(CLIENT) || self.destination == IpAddr::from(CLIENT_V6)
    }
}

fn service(packet: &[u8], protocol: u8, at: usize, is_later: bool) -> Option<(u8, u16, u16)> {
    let field = |at: usize| {
        let bytes = [packet.get(at), packet.get(at + 1)];
        u16::from_be_bytes(bytes.map(|byte| byte.copied().unwrap_or(0)))
    };
    match protocol {
        _ if is_later => None,
        6 | 17 => Some((protocol, field(at), field(at + 2))),
        _ => Some((protocol, field(at) >> 8, 0)),
    }
}
