use crate::gate::{CLIENT, CLIENT_V6, Said};
use crate::input::Input;
use culvert_base::BootTime;
use culvert_policy::gate::{ClientGate, Frame, PeerKey, Seed, TunnelAddresses, Verdict};
use std::collections::BTreeSet;
use std::net::IpAddr;

const GATEWAY: PeerKey = PeerKey(1);
/// Few enough to be exceeded.
const MAX_FLOWS: usize = 16;
/// Waiting steps are so long.
const STEP_MS: u64 = 1_000;

/// A flow as a packet of the host names it: addresses, protocol, and for TCP, UDP and queries of ICMP its ports or
/// identifier.
type Flow = (IpAddr, IpAddr, u8, u16, u16);

/// Any bytes, as packets that leave a client's host and that come in. A packet comes in only if the host has sent one of
/// the same flow before, as a search through everything that it sent finds, and never as the first one of a connection.
///
/// # Panics
/// If a property does not hold.
pub fn client_gate(data: &[u8]) {
    let mut input = Input::new(data);
    let gate = ClientGate::with_max_flows(Seed::new([5; 32]), MAX_FLOWS);
    let mut sent = BTreeSet::new();
    let mut last: Option<Vec<u8>> = None;
    let mut now_ms = 0;
    while !input.is_empty() {
        let now = BootTime::from_millis(now_ms);
        let choice = input.u8();
        match choice % 4 {
            0 => now_ms += u64::from(input.u16()) * STEP_MS,
            1 => {
                let len = usize::from(input.u16());
                let packet = input.take(len).to_vec();
                gate.note_outbound(now, &packet);
                sent.extend(flow_of(&packet));
                last = Some(packet);
            }
            2 => {
                if let Some(packet) = last.as_deref().and_then(reversed) {
                    hear(&gate, now, &packet, &sent);
                }
            }
            _ => {
                let len = usize::from(input.u16());
                let packet = input.take(len).to_vec();
                hear(&gate, now, &packet, &sent);
            }
        }
        assert!(gate.flow_count(now) <= MAX_FLOWS);
    }
}

fn hear(gate: &ClientGate, now: BootTime, packet: &[u8], sent: &BTreeSet<Flow>) {
    let home = TunnelAddresses {
        v4: CLIENT.into(),
        v6: CLIENT_V6.into(),
    };
    let mut bytes = packet.to_vec();
    let frame = Frame::packet(&mut bytes);
    let verdict = gate.admit(now, GATEWAY, Some(home), None, |_| true, &frame);
    assert_eq!(bytes, packet, "nothing is changed");
    if let Verdict::Drop(_) = verdict {
        return;
    }
    let said = Said::of(packet).expect("only packets pass");
    assert!(said.is_to_client());
    if said.is_error() {
        let quoted = &packet[said.transport + 8..said.len];
        let flow = flow_of(quoted).expect("the error quotes a packet");
        assert_eq!(flow.0, said.destination, "a packet of this host");
        assert!(sent.contains(&flow), "{packet:02x?}");
        return;
    }
    let is_of = |flow: &Flow| (flow.0, flow.1) == (said.destination, said.source);
    let Some((protocol, from, to)) = said.service else {
        // A later fragment: of a flow between these two, whichever it is.
        assert!(sent.iter().any(is_of), "{packet:02x?}");
        return;
    };
    if protocol == 6 {
        let flags = packet[said.transport + 13];
        assert_ne!(flags & 0x12, 0x02, "a SYN opens nothing: {packet:02x?}");
    }
    let (own, remote) = match protocol {
        6 | 17 => (to, from),
        1 | 58 if is_icmp(said.version, protocol) => (identifier(packet, &said), 0),
        _ => (0, 0),
    };
    let flow = (said.destination, said.source, protocol, own, remote);
    assert!(sent.contains(&flow), "{packet:02x?}");
}

/// The flow that a packet of the host names, whether or not it begins one.
fn flow_of(packet: &[u8]) -> Option<Flow> {
    let said = Said::of(packet)?;
    let (protocol, from, to) = said.service?;
    let (own, remote) = match protocol {
        6 | 17 => (from, to),
        1 | 58 if is_icmp(said.version, protocol) => (identifier(packet, &said), 0),
        _ => (0, 0),
    };
    Some((said.source, said.destination, protocol, own, remote))
}

fn is_icmp(version: u8, protocol: u8) -> bool {
    (version, protocol) == (4, 1) || (version, protocol) == (6, 58)
}

fn identifier(packet: &[u8], said: &Said) -> u16 {
    let bytes = [
        packet.get(said.transport + 4),
        packet.get(said.transport + 5),
    ];
    u16::from_be_bytes(bytes.map(|byte| byte.copied().unwrap_or(0)))
}

/// The answer to a packet: addresses and ports exchanged, a query of ICMP answered, a SYN acknowledged.
fn reversed(packet: &[u8]) -> Option<Vec<u8>> {
    let said = Said::of(packet)?;
    let mut packet = packet.to_vec();
    match said.version {
        4 => packet[12..20].rotate_left(4),
        _ => packet[8..40].rotate_left(16),
    }
    let at = said.transport;
    match said.service {
        Some((6 | 17, ..)) if packet.len() >= at + 14 => {
            packet[at..at + 4].rotate_left(2);
            if said.service.is_some_and(|(protocol, ..)| protocol == 6) {
                packet[at + 13] |= 0x10;
            }
        }
        Some((17, ..)) if packet.len() >= at + 4 => packet[at..at + 4].rotate_left(2),
        Some((1, ..)) if packet.get(at) == Some(&8) => packet[at] = 0,
        Some((58, ..)) if packet.get(at) == Some(&128) => packet[at] = 129,
        _ => {}
    }
    Some(packet)
}

/// Each packet leaves, is answered, comes back as it left, and is answered again when its flow is over.
pub(crate) fn seeds(packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
    const WAIT: u8 = 0;
    const SEND: u8 = 1;
    const ANSWER: u8 = 2;
    const HEAR: u8 = 3;
    let step = |kind: u8, packet: &[u8]| {
        [&[kind][..], &(packet.len() as u16).to_be_bytes(), packet].concat()
    };
    let scripts = packets.iter().map(|packet| {
        let (sent, heard) = (step(SEND, packet), step(HEAR, packet));
        let later = [WAIT, 1, 44, ANSWER, WAIT, 30, 0, ANSWER];
        [
            &heard[..],
            &sent,
            &[ANSWER],
            &heard,
            &later,
            &sent,
            &[ANSWER],
        ]
        .concat()
    });
    scripts.collect()
}
