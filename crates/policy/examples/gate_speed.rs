//! Prints what the gate costs a packet, and a look-up of a resource, on one core:
//! `cargo run --release -p culvert-policy --example gate_speed`.

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "its output is its purpose")]

use culvert_base::{BootTime, UnixTime};
use culvert_ids::{GrantId, ResourceId, SiteId};
use culvert_policy::gate::{
    ClientGrants, Frame, Gate, GateTable, Grant, Mapping, PeerKey, Reach, Seed, Verdict,
};
use culvert_policy::{
    Applications, DomainName, Filter, Filters, PolicyError, Ports, Prefix, PrefixError, Resource,
    ResourceName, Resources, Target, TargetError,
};
use std::hint::black_box;
use std::net::IpAddr;
use std::time::Instant;

const PEER: PeerKey = PeerKey(1);
const CLIENT: [u8; 4] = [100, 64, 0, 1];
const CLIENT_V6: [u8; 16] = [0xFD, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
/// Stands for 10.9.9.9.
const NAMED: [u8; 4] = [100, 96, 0, 1];
const PACKETS: usize = 10_000_000;

fn main() -> Result<(), PolicyError> {
    let mut table = table()?;
    println!("{:<44} {:>9}", "packets of known flows", "ns/packet");
    for flows in [1, 1_000, 30_000] {
        from_client(
            &table,
            &format!("from a client, {flows} flows"),
            &tcp([10, 0, 0, 1]),
            flows,
        );
    }
    from_client(
        &table,
        "from a client over IPv6, 1000 flows",
        &tcp_v6(),
        1_000,
    );
    from_client(
        &table,
        "from a client, translated, 1000 flows",
        &tcp(NAMED),
        1_000,
    );
    to_client(&table, "to a client, 1000 flows", [10, 0, 0, 1], 1_000);

    // A client may have 32,768: a good part of these are begun again, each in the place of another one.
    from_client(
        &table,
        "from a client, 50000 flows, beyond its share",
        &tcp([10, 0, 0, 1]),
        50_000,
    );

    // The table changes with every round of 1000 packets: each of them is judged anew.
    let mut packets = flows_of(&tcp([10, 0, 0, 1]), 1_000);
    let mut gate = Gate::new(Seed::new([7; 32]));
    let started = Instant::now();
    for _ in 0..PACKETS / 20_000 {
        table.remove_client(PeerKey(9));
        pass(&mut gate, &table, &mut packets, 1);
    }
    report("from a client, judged anew", started, PACKETS / 20);
    look_ups()
}

/// FilterBar-ups among 10,000 resources.
fn look_ups() -> Result<(), PolicyError> {
    const RESOURCES: u64 = 10_000;
    const LOOK_UPS: usize = 1_000_000;
    let target = |number: u64| -> Result<Target, TargetError> {
        match number % 2 {
            0 => {
                let address = IpAddr::from([10, (number >> 8) as u8, number as u8, 0]);
                let range = Prefix::around(address, 16 + (number % 17) as u8);
                Ok(Target::Network(range.map_err(PrefixError::from)?))
            }
            _ => format!("*.team{}.corp.example", number / 3)
                .parse()
                .map(Target::Name),
        }
    };
    let mut resources = Resources::default();
    for number in 0..RESOURCES {
        resources.set(Resource {
            id: ResourceId::new(UnixTime::from_millis(number), [0; 10]),
            site: SiteId::new(UnixTime::EPOCH, [0; 10]),
            target: target(number)?,
            inbound: Filters::none(),
            filters: Filters::none(),
            applications: Applications::ANY,
            name: ResourceName::new("a resource")?,
        })?;
    }
    println!("{:<44} {:>9}", "look-ups among 10,000 resources", "ns");
    let address = IpAddr::from([10, 3, 200, 7]);
    let started = Instant::now();
    for _ in 0..LOOK_UPS {
        assert!(black_box(resources.for_address(black_box(address))).is_some());
    }
    report("by address, 17 prefix lengths", started, LOOK_UPS);
    let name: DomainName = "www.team777.corp.example".parse()?;
    let started = Instant::now();
    for _ in 0..LOOK_UPS {
        assert!(black_box(resources.for_name(black_box(&name))).is_some());
    }
    report("by name", started, LOOK_UPS);
    Ok(())
}

fn from_client(table: &GateTable, what: &str, packet: &[u8], flows: u16) {
    let mut packets = flows_of(packet, flows);
    let mut gate = Gate::new(Seed::new([7; 32]));
    pass(&mut gate, table, &mut packets, 1);
    let rounds = PACKETS / packets.len();
    let started = Instant::now();
    pass(&mut gate, table, &mut packets, rounds);
    report(what, started, PACKETS);
}

/// Every packet once a round.
fn pass(gate: &mut Gate, table: &GateTable, packets: &mut [Vec<u8>], rounds: usize) {
    for _ in 0..rounds {
        for packet in packets.iter_mut() {
            let verdict =
                gate.admit_from_client(table, BootTime::ZERO, PEER, Frame::packet(packet));
            assert_eq!(black_box(verdict), Verdict::Admit(PEER));
            // A translated packet is sent to where it was sent before.
            if packet[17] == 9 {
                packet[16..20].copy_from_slice(&NAMED);
            }
        }
    }
}

fn to_client(table: &GateTable, what: &str, remote: [u8; 4], flows: u16) {
    let mut packets = flows_of(&tcp(remote), flows);
    let mut gate = Gate::new(Seed::new([7; 32]));
    pass(&mut gate, table, &mut packets, 1);
    for packet in &mut packets {
        packet[12..20].rotate_left(4);
        packet[20..24].rotate_left(2);
    }
    let started = Instant::now();
    for _ in 0..PACKETS / packets.len() {
        for packet in &mut packets {
            let verdict = gate.admit_to_client(table, BootTime::ZERO, Frame::packet(packet));
            assert_eq!(black_box(verdict), Verdict::Admit(PEER));
        }
    }
    report(what, started, PACKETS);
}

fn report(what: &str, started: Instant, packets: usize) {
    let ns = started.elapsed().as_nanos() as f64 / packets as f64;
    println!("{what:<44} {ns:>9.1}");
}

fn table() -> Result<GateTable, PolicyError> {
    let grant = |number: u8, reach, filters| Grant {
        id: GrantId::new(UnixTime::from_millis(number.into()), [0; 10]),
        resource: ResourceId::new(UnixTime::from_millis(number.into()), [0; 10]),
        reach,
        filters,
        inbound: Filters::none(),
        expires: BootTime::MAX,
    };
    let tcp = Filters::new([Filter::Tcp(Ports::one(443))])?;
    let name = Mapping::new(NAMED.into(), [10, 9, 9, 9].into())?;
    let v4: Prefix = "10.0.0.0/8".parse().map_err(TargetError::from)?;
    let v6: Prefix = "fd01::/32".parse().map_err(TargetError::from)?;
    let grants = vec![
        grant(1, Reach::Addresses(v4), tcp.clone()),
        grant(2, Reach::Addresses(v6), Filters::any()),
        grant(3, Reach::Names(vec![name]), tcp),
    ];
    let addresses = vec![IpAddr::from(CLIENT), IpAddr::from(CLIENT_V6)];
    let mut table = GateTable::new();
    table.set_client(ClientGrants::new(PEER, addresses, grants)?)?;
    Ok(table)
}

/// The packet once for each of so many source ports.
fn flows_of(packet: &[u8], flows: u16) -> Vec<Vec<u8>> {
    let at = if packet[0] >> 4 == 4 { 20 } else { 40 };
    let with_port = |port: u16| {
        // Headers are all that is looked at: whole packets would measure the memory.
        let mut packet = packet.to_vec();
        packet[at..at + 2].copy_from_slice(&port.to_be_bytes());
        packet
    };
    (1_024..).map(with_port).take(flows.into()).collect()
}

fn tcp(to: [u8; 4]) -> Vec<u8> {
    let mut packet = vec![0; 40];
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&40_u16.to_be_bytes());
    packet[9] = 6;
    packet[12..16].copy_from_slice(&CLIENT);
    packet[16..20].copy_from_slice(&to);
    packet[22..24].copy_from_slice(&443_u16.to_be_bytes());
    packet[32] = 0x50;
    packet[33] = 0x10;
    packet
}

fn tcp_v6() -> Vec<u8> {
    let mut packet = vec![0; 60];
    packet[0] = 0x60;
    packet[4..6].copy_from_slice(&20_u16.to_be_bytes());
    packet[6] = 6;
    packet[8..24].copy_from_slice(&CLIENT_V6);
    packet[24..28].copy_from_slice(&[0xFD, 1, 0, 0]);
    packet[42..44].copy_from_slice(&443_u16.to_be_bytes());
    packet[52] = 0x50;
    packet[53] = 0x10;
    packet
}
