//! ICMP errors: they pass with the flow that they are about, and what they quote is translated too.

use super::flow::FlowKey;
use super::heading::{Heading, Kind, Quotation};
use super::table::owner;
use super::{DropReason, Frame, Gate, GateTable, PeerKey};
use crate::translate::{Rewrite, rewrite_error};
use culvert_base::BootTime;

impl Gate {
    /// An error of a client about what the resource sent: it goes where the flow goes, and nowhere
    /// else.
    #[cold]
    pub(super) fn error_from_client(
        &mut self,
        table: &GateTable,
        now: BootTime,
        peer: PeerKey,
        heading: &Heading,
        frame: Frame<'_>,
    ) -> Result<PeerKey, DropReason> {
        owner(table, peer, heading)?;
        let quotation = Quotation::parse(frame.packet, heading).ok_or(DropReason::NotAFlow)?;
        let quoted = &quotation.heading;
        let near = of_answer(quoted)?;
        if heading.source != quoted.destination || heading.destination != quoted.source {
            return Err(DropReason::NotAFlow);
        }
        let place = self.flows.find_near(&near).ok_or(DropReason::NotAFlow)?;
        let place = self.keep(table, now, place)?;
        let flow = self.flows.get_mut(place);
        flow.to_remote.add(frame.packets, heading.len);
        if flow.is_translated() {
            let change = Rewrite {
                destination: Some(flow.far.remote),
                ..Rewrite::default()
            };
            // The quoted packet came from the resource: there the client's port is the destination.
            let quoted_change = Rewrite {
                source: Some(flow.far.remote),
                destination_port: Some(flow.far.client_port()),
                ..Rewrite::default()
            };
            let Frame {
                packet, checksum, ..
            } = frame;
            rewrite_error(
                packet,
                heading,
                &change,
                &quotation,
                &quoted_change,
                checksum,
            );
        }
        Ok(peer)
    }

    /// An error of the resource, or of a router on the way to it, about what the client sent.
    #[cold]
    pub(super) fn error_to_client(
        &mut self,
        table: &GateTable,
        now: BootTime,
        heading: &Heading,
        frame: Frame<'_>,
    ) -> Result<PeerKey, DropReason> {
        let quotation = Quotation::parse(frame.packet, heading).ok_or(DropReason::NotAFlow)?;
        let quoted = &quotation.heading;
        let far = of_query(quoted)?;
        if heading.destination != quoted.source {
            return Err(DropReason::NotAFlow);
        }
        let place = self.flows.find_far(&far).ok_or(DropReason::NotAFlow)?;
        let place = self.keep(table, now, place)?;
        let flow = self.flows.get_mut(place);
        flow.to_client.add(frame.packets, heading.len);
        let peer = flow.peer;
        if flow.is_translated() {
            // A router's own address stays: it tells the client where the trouble is.
            let is_of_remote = heading.source == flow.far.remote;
            let change = Rewrite {
                source: is_of_remote.then_some(flow.near.remote),
                ..Rewrite::default()
            };
            let quoted_change = Rewrite {
                destination: Some(flow.near.remote),
                source_port: Some(flow.near.client_port()),
                ..Rewrite::default()
            };
            let Frame {
                packet, checksum, ..
            } = frame;
            rewrite_error(
                packet,
                heading,
                &change,
                &quotation,
                &quoted_change,
                checksum,
            );
        }
        Ok(peer)
    }
}

/// The flow of a packet that a client sent and an error quotes. An error has none: nobody answers errors with errors
/// (RFC 1122 §3.2.2, RFC 4443 §2.4 (e.1)), and its key would be that of a query with identifier 0.
pub(super) fn of_query(quoted: &Heading) -> Result<FlowKey, DropReason> {
    match quoted.kind {
        Kind::Plain | Kind::Query => Ok(FlowKey::of_client(quoted)),
        Kind::Answer | Kind::Error | Kind::LaterFragment => Err(DropReason::NotAFlow),
    }
}

/// The flow of a packet that a resource sent and an error quotes, of an error none likewise.
fn of_answer(quoted: &Heading) -> Result<FlowKey, DropReason> {
    match quoted.kind {
        Kind::Plain | Kind::Answer => Ok(FlowKey::of_remote(quoted)),
        Kind::Query | Kind::Error | Kind::LaterFragment => Err(DropReason::NotAFlow),
    }
}
