//! A gate, its table, and assertions about verdicts.

use culvert_base::{BootTime, UnixTime};
use culvert_ids::{GrantId, ResourceId};
use culvert_policy::gate::{
    ClientGrants, DropReason, FlowRecord, Frame, Gate, GateTable, Grant, Mapping, PeerKey, Reach,
    Seed, Verdict,
};
use culvert_policy::{Checksum, Filter, Filters};

pub(crate) const PEER: PeerKey = PeerKey(1);
pub(crate) const OTHER_PEER: PeerKey = PeerKey(2);
pub(crate) const CLIENT: &str = "100.64.0.1";
pub(crate) const CLIENT_V6: &str = "fd00::1";
pub(crate) const OTHER_CLIENT: &str = "100.64.0.2";
/// Stand for names.
pub(crate) const NAME: &str = "100.96.0.1";
pub(crate) const NAME_V6: &str = "fd00:1::1";

pub(crate) const EXPIRY_MS: u64 = 3_600_000_000;

pub(crate) fn filters(texts: &[&str]) -> Filters {
    let filter = |text: &&str| match text.split_once(' ') {
        None if *text == "any" => Filter::Any,
        None if *text == "icmp" => Filter::Icmp,
        Some(("tcp", ports)) => Filter::Tcp(ports.parse().unwrap()),
        Some(("udp", ports)) => Filter::Udp(ports.parse().unwrap()),
        _ => panic!("{text}"),
    };
    Filters::new(texts.iter().map(filter)).unwrap()
}

/// Resource and grant have the same number.
pub(crate) fn grant(number: u64, to: &str, allowed: &[&str]) -> Grant {
    Grant {
        id: GrantId::new(UnixTime::from_millis(number), [1; 10]),
        resource: ResourceId::new(UnixTime::from_millis(number), [2; 10]),
        reach: Reach::Addresses(to.parse().unwrap()),
        filters: filters(allowed),
        inbound: Filters::none(),
        expires: BootTime::from_millis(EXPIRY_MS),
    }
}

/// Pairs of visible and resolved addresses.
pub(crate) fn named(number: u64, mappings: &[(&str, &str)], allowed: &[&str]) -> Grant {
    let mapping = |&(visible, resolved): &(&str, &str)| {
        Mapping::new(visible.parse().unwrap(), resolved.parse().unwrap()).unwrap()
    };
    let names = mappings.iter().map(mapping).collect();
    Grant {
        reach: Reach::Names(names),
        ..grant(number, "0.0.0.0/0", allowed)
    }
}

pub(crate) struct Setup {
    pub(crate) table: GateTable,
    pub(crate) gate: Gate,
    pub(crate) now_ms: u64,
}

impl Setup {
    /// The client has these grants; another one has none.
    pub(crate) fn new(grants: Vec<Grant>) -> Self {
        Self::with_max_flows(grants, 1000)
    }

    pub(crate) fn with_max_flows(grants: Vec<Grant>, max_flows: usize) -> Self {
        let mut setup = Self {
            table: GateTable::new(),
            gate: Gate::with_max_flows(Seed::new([3; 32]), max_flows),
            now_ms: 1_000_000,
        };
        setup.set(grants);
        let addresses = vec![OTHER_CLIENT.parse().unwrap()];
        let other = ClientGrants::new(OTHER_PEER, addresses, vec![]).unwrap();
        setup.table.set_client(other).unwrap();
        setup
    }

    pub(crate) const fn now(&self) -> BootTime {
        BootTime::from_millis(self.now_ms)
    }

    /// Gives the client these grants and no others.
    pub(crate) fn set(&mut self, grants: Vec<Grant>) {
        let addresses = [CLIENT, CLIENT_V6].map(|address| address.parse().unwrap());
        let client = ClientGrants::new(PEER, addresses.to_vec(), grants).unwrap();
        self.table.set_client(client).unwrap();
    }

    /// Another client, with grants of its own.
    pub(crate) fn add_client(&mut self, peer: PeerKey, address: &str, grants: Vec<Grant>) {
        let client = ClientGrants::new(peer, vec![address.parse().unwrap()], grants).unwrap();
        self.table.set_client(client).unwrap();
    }

    /// True if a packet reaches a client, whoever it is.
    pub(crate) fn is_answered(&mut self, packet: &[u8]) -> bool {
        let mut packet = packet.to_vec();
        let frame = Frame::packet(&mut packet);
        let now = self.now();
        let verdict = self.gate.admit_to_client(&self.table, now, frame);
        matches!(verdict, Verdict::Admit(_))
    }

    /// The packet as it goes on, or why it does not.
    pub(crate) fn send(&mut self, packet: &[u8]) -> Result<Vec<u8>, DropReason> {
        self.send_from(PEER, packet)
    }

    pub(crate) fn send_from(
        &mut self,
        peer: PeerKey,
        packet: &[u8],
    ) -> Result<Vec<u8>, DropReason> {
        let mut packet = packet.to_vec();
        let frame = Frame::packet(&mut packet);
        let now = self.now();
        match self.gate.admit_from_client(&self.table, now, peer, frame) {
            Verdict::Admit(admitted) | Verdict::AdmitFirst(admitted) => {
                assert_eq!(admitted, peer);
                Ok(packet)
            }
            Verdict::Drop(reason) => Err(reason),
        }
    }

    /// The same towards the client.
    pub(crate) fn answer(&mut self, packet: &[u8]) -> Result<Vec<u8>, DropReason> {
        let mut packet = packet.to_vec();
        let frame = Frame::packet(&mut packet);
        let now = self.now();
        match self.gate.admit_to_client(&self.table, now, frame) {
            Verdict::Admit(peer) | Verdict::AdmitFirst(peer) => {
                assert_eq!(peer, PEER);
                Ok(packet)
            }
            Verdict::Drop(reason) => Err(reason),
        }
    }

    pub(crate) fn answer_partial(
        &mut self,
        packet: &[u8],
        packets: u32,
    ) -> Result<Vec<u8>, DropReason> {
        let mut packet = packet.to_vec();
        let frame = Frame {
            packets,
            checksum: Checksum::Partial,
            ..Frame::packet(&mut packet)
        };
        let now = self.now();
        match self.gate.admit_to_client(&self.table, now, frame) {
            Verdict::Admit(_) | Verdict::AdmitFirst(_) => Ok(packet),
            Verdict::Drop(reason) => Err(reason),
        }
    }

    #[track_caller]
    pub(crate) fn assert_sends(&mut self, packet: &[u8]) {
        assert_eq!(self.send(packet).as_deref(), Ok(packet));
    }

    #[track_caller]
    pub(crate) fn assert_answers(&mut self, packet: &[u8]) {
        assert_eq!(self.answer(packet).as_deref(), Ok(packet));
    }

    #[track_caller]
    pub(crate) fn assert_refuses(&mut self, packet: &[u8], reason: DropReason) {
        assert_eq!(self.send(packet), Err(reason));
    }

    #[track_caller]
    pub(crate) fn assert_no_answer(&mut self, packet: &[u8], reason: DropReason) {
        assert_eq!(self.answer(packet), Err(reason));
    }

    pub(crate) fn ended(&mut self) -> Vec<FlowRecord> {
        let mut records = Vec::new();
        self.gate.drain_ended(|record| records.push(record));
        records
    }
}
