//! Packets without a route and DNS messages, which come in batches.

use super::EventLoop;
use crate::shell::clock::Now;
use crate::shell::dns::DnsEvent;
use crate::shell::tunnel::refused_by_gateway;
use culvert_base::BootTime;
use culvert_client_core::PacketFacts;
use culvert_datapath::Unrouted;

/// Packets and DNS messages that are taken in one go before their outputs are carried out together.
const MAX_BATCH: usize = 64;

impl EventLoop<'_> {
    pub(super) fn handle_packets(&mut self, first: Unrouted) {
        let now = Now::read().boot;
        let mut packet = Some(first);
        for _ in 0..MAX_BATCH {
            let Some(unrouted) = packet else { return };
            self.handle_packet(unrouted, now);
            packet = self.devices.tunnel.unrouted.try_recv().ok();
        }
        if let Some(unrouted) = packet {
            self.handle_packet(unrouted, now);
        }
    }

    /// The road has looked at the headers; what is no packet goes nowhere.
    fn handle_packet(&mut self, unrouted: Unrouted, now: BootTime) {
        let (packet, size) = (unrouted.packet(), unrouted.size_bytes());
        match refused_by_gateway(&unrouted) {
            None => {
                if let Some(facts) = PacketFacts::of(packet, size) {
                    self.core.handle_packet(facts, unrouted, now);
                }
            }
            Some(refusal) => {
                if let Some(facts) = PacketFacts::of_quoted(packet, size) {
                    let core = &mut self.core;
                    core.handle_refused_packet(facts, unrouted, refusal, now);
                }
            }
        }
    }

    pub(super) fn handle_dns(&mut self, first: DnsEvent) {
        let now = Now::read().boot;
        let mut event = Some(first);
        let mut taken = 0;
        while let Some(next) = event {
            match next {
                DnsEvent::Query {
                    bytes,
                    transport,
                    from,
                } => self.core.handle_dns_query(&bytes, transport, from, now),
                DnsEvent::Answer {
                    bytes,
                    transport,
                    from,
                } => self.core.handle_dns_answer(&bytes, transport, from, now),
                DnsEvent::Unreachable(id) => self.core.handle_dns_unreachable(id, now),
            }
            taken += 1;
            event = match taken < MAX_BATCH {
                true => self.answering.received.try_recv().ok(),
                false => None,
            };
        }
    }
}
