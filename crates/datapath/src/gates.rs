//! The gates of a device: what each client has begun, and the verdict on its packets.
//!
//! Both directions of a flow must come to one gate, but its packets may come to two workers: from the
//! client by its socket, to the client by the TUN queue. So there are as many gates as workers, a
//! client's address says which is its, and whoever has a packet or superframe of the client locks that
//! gate for as long as the verdict takes. Two workers meet there only over one client.

use culvert_base::BootTime;
use culvert_policy::gate::{
    Evicted, FlowRecord, Frame, Gate, GateTable, PeerKey, Portless, Seed, Verdict,
};
use std::fmt;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Flows that one sweep of one gate looks at: with a sweep every [`SWEEP_INTERVAL`] all of 262,144
/// within 8 seconds.
const SWEPT_FLOWS: usize = 16_384;

/// Flows of them that are looked at while their gate is locked: packets of its clients wait meanwhile, for some 20 µs.
const SWEPT_AT_ONCE: usize = 1_024;

/// Flows that are told of while their gate is locked: packets of its clients wait meanwhile, for some 10 µs.
const TOLD_AT_ONCE: usize = 256;

/// The time from one look at flows that no packet comes for to the next.
pub const SWEEP_INTERVAL: std::time::Duration = std::time::Duration::from_millis(500);

/// The gates of all workers.
pub struct Gates {
    gates: Vec<Mutex<Gate>>,
    portless: Portless,
}

impl Gates {
    /// As many gates as `seeds`; `masquerades` where resources see one address for all clients.
    pub fn new(seeds: impl IntoIterator<Item = [u8; 32]>, masquerades: bool) -> Self {
        let portless = Portless::default();
        let gate = |seed| {
            let gate = Gate::new(Seed::new(seed));
            Mutex::new(match masquerades {
                true => gate.masquerading(portless.clone()),
                false => gate,
            })
        };
        Self {
            gates: seeds.into_iter().map(gate).collect(),
            portless,
        }
    }

    /// The gate of the client with this address, locked.
    fn of(&self, client: IpAddr) -> MutexGuard<'_, Gate> {
        let bits = match client {
            IpAddr::V4(v4) => u64::from(v4.to_bits()),
            IpAddr::V6(v6) => {
                let bits = v6.to_bits();
                (bits >> 64) as u64 ^ bits as u64
            }
        };
        // Fibonacci hashing: neighbouring addresses spread over the gates.
        let place = (bits.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % self.gates.len();
        lock(&self.gates[place])
    }

    /// Ends flows that are over, and hands out the records of all that have ended.
    pub fn sweep(&self, table: &GateTable, now: BootTime, mut take: impl FnMut(FlowRecord)) {
        for gate in &self.gates {
            let mut left = SWEPT_FLOWS.min(lock(gate).flow_places());
            loop {
                let mut gate = lock(gate);
                gate.sweep(table, now, left.min(SWEPT_AT_ONCE));
                gate.drain_ended(&mut take);
                left = left.saturating_sub(SWEPT_AT_ONCE);
                if left == 0 {
                    break;
                }
            }
        }
    }

    /// Records of ended flows that no sweep came in time for.
    pub fn records_lost(&self) -> u64 {
        self.gates
            .iter()
            .map(|gate| lock(gate).records_lost())
            .sum()
    }

    /// Hands out the flows that have not ended, a gate after the other. Flows that begin or end meanwhile may
    /// be among them or not: packets pass between any two parts of a gate.
    pub fn for_each_lasting(&self, mut take: impl FnMut(FlowRecord)) {
        for gate in &self.gates {
            for part in 0.. {
                match lock(gate).some_flows(part * TOLD_AT_ONCE, TOLD_AT_ONCE) {
                    Some(flows) => flows.for_each(&mut take),
                    None => break,
                }
            }
        }
    }

    /// Keeps a fragment of a client that came before the first one of its datagram. False where it is not kept.
    pub fn hold(&self, now: BootTime, client: IpAddr, peer: PeerKey, packet: &[u8]) -> bool {
        self.of(client).hold(now, peer, packet)
    }

    /// Fragments that were kept in vain.
    pub fn fragments_lost(&self) -> u64 {
        self.gates
            .iter()
            .map(|gate| lock(gate).fragments_lost())
            .sum()
    }

    /// Entries that made room for others.
    pub fn evicted(&self) -> Evicted {
        let mut all = Evicted {
            addresses: self.portless.evicted(),
            ..Evicted::default()
        };
        for gate in &self.gates {
            all += lock(gate).evicted();
        }
        all
    }

    /// Flows that have not ended.
    pub fn flow_count(&self) -> usize {
        self.gates.iter().map(|gate| lock(gate).flow_count()).sum()
    }

    /// Judges one packet or superframe on its way to a client.
    pub fn admit_to_client(
        &self,
        table: &GateTable,
        now: BootTime,
        client: IpAddr,
        frame: Frame<'_>,
    ) -> Verdict {
        self.of(client).admit_to_client(table, now, frame)
    }

    /// Judges one packet of a client, or those that have been gathered behind one. Fragments that waited for it are put
    /// into `released`, to be judged next.
    pub fn admit_from_client(
        &self,
        table: &GateTable,
        now: BootTime,
        client: IpAddr,
        peer: PeerKey,
        frame: Frame<'_>,
        released: &mut Vec<Box<[u8]>>,
    ) -> Verdict {
        let mut gate = self.of(client);
        let verdict = gate.admit_from_client(table, now, peer, frame);
        if let Verdict::AdmitFirst(_) = verdict {
            *released = gate.take_released();
        }
        verdict
    }
}

/// An ended flow as the log has it: who reached what, for how long, how much, and why it ended.
pub struct EndedFlow(pub FlowRecord);

impl fmt::Display for EndedFlow {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FlowRecord {
            grant,
            resource,
            client,
            visible,
            remote,
            protocol,
            client_port,
            is_inbound,
            remote_port,
            started,
            last,
            to_remote,
            to_client,
            ended,
            ..
        } = self.0;
        write!(out, "protocol={} ", protocol.0)?;
        if is_inbound {
            write!(out, "inbound=true ")?;
        }
        write!(out, "client={client} port={client_port} ")?;
        write!(out, "to={visible} port={remote_port} ")?;
        if remote != visible {
            write!(out, "resolved={remote} ")?;
        }
        let lasted_ms = last.saturating_since(started).as_millis();
        write!(out, "resource={resource} grant={grant} ms={lasted_ms} ")?;
        write!(out, "sent={} received={}", to_remote.bytes, to_client.bytes)?;
        match ended {
            Some(why) => write!(out, " because={why:?}"),
            None => Ok(()),
        }
    }
}

fn lock(gate: &Mutex<Gate>) -> MutexGuard<'_, Gate> {
    gate.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use culvert_packet::ip::Protocol;
    use culvert_policy::gate::{End, Tally};

    const GRANT: &str = "grt_00000000000000000000000001";
    const RESOURCE: &str = "res_00000000000000000000000002";

    #[test]
    fn the_log_says_of_a_flow_who_reached_what_how_much_and_why_it_ended() {
        let tally = |bytes| Tally { packets: 1, bytes };
        let record = FlowRecord {
            peer: PeerKey(7),
            grant: GRANT.parse().unwrap(),
            resource: RESOURCE.parse().unwrap(),
            client: [100, 64, 0, 9].into(),
            visible: [100, 96, 0, 1].into(),
            remote: [10, 0, 0, 5].into(),
            protocol: Protocol::TCP,
            client_port: 40_000,
            is_inbound: false,
            remote_port: 443,
            started: BootTime::from_millis(1_000),
            last: BootTime::from_millis(3_500),
            to_remote: tally(100),
            to_client: tally(20_000),
            ended: Some(End::Closed),
        };
        let line = EndedFlow(record).to_string();
        assert_eq!(
            line,
            format!(
                "protocol=6 client=100.64.0.9 port=40000 to=100.96.0.1 port=443 resolved=10.0.0.5 \
                 resource={RESOURCE} grant={GRANT} ms=2500 sent=100 received=20000 because=Closed"
            )
        );
    }
}
