//! Sends sealed batches to the socket, each in its turn.

use crate::batch::{Batch, Blocked};
use crate::context::Context;
use crate::counters::Dropped;
use crate::event::Event;
use crate::mechanisms::Mechanism;
use crate::peer::Peer;
use crate::shell::{SendFault, Shell};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Sends `batch` where it is sealed, and empties it. Records that can't be sent at all are counted.
///
/// # Errors
/// The reason for which it waits. The next call sends the records that have not left by then.
pub(crate) fn send<S: Shell>(batch: &mut Batch, context: &mut Context<S>) -> Result<(), Blocked> {
    let (Some((peer, sending)), Some(sealed)) = (batch.to(), batch.sealed()) else {
        return Ok(());
    };
    let (peer, sending) = (Arc::clone(peer), Arc::clone(sending));
    let (first, end) = (sealed.first, sealed.end);
    if !sending.turns.is_turn_of(first, context.worker) {
        context.counters.turn_waits.add(1);
        return Err(Blocked::Turn);
    }
    if !send_rest(batch, context, &peer) {
        context.counters.udp_blocked.add(1);
        return Err(Blocked::Socket);
    }
    batch.reset();
    context.wake_workers(sending.turns.depart(end));
    if sending.transport.wants_rekey_on_send(context.now) {
        context.want_handshake(&peer);
    }
    Ok(())
}

/// Sends what has not left yet. False where the socket is full.
fn send_rest<S: Shell>(batch: &mut Batch, context: &Context<S>, peer: &Peer) -> bool {
    let (stride, class) = (batch.stride(), batch.class());
    let mut repeats = Repeats::default();
    loop {
        let sent = batch.sealed().map_or(0, |sealed| sealed.sent);
        let rest = &batch.bytes()[sent..];
        if rest.is_empty() {
            return true;
        }
        let records = rest.len().div_ceil(stride) as u64;
        let Some(to) = peer.endpoint() else {
            context.counters.count_drop(Dropped::NoEndpoint, records);
            return true;
        };
        let segmented = sent >= repeats.apart_until
            && context.mechanisms.has(Mechanism::Segmentation)
            && peer.takes_runs_of(stride, &to, context.now);
        let chunk_len = if segmented {
            rest.len()
        } else {
            rest.len().min(stride)
        };
        let chunk = sent..sent + chunk_len;
        match context.shell.send(&rest[..chunk_len], stride, &to, class) {
            Ok(()) => {
                context.counters.udp_sends.add(1);
                peer.tx_bytes.fetch_add(chunk_len as u64, Ordering::Relaxed);
                if chunk_len > stride {
                    peer.segmentation_accepted();
                }
            }
            Err(SendFault::WouldBlock) => return false,
            Err(SendFault::NoSocket) => {
                context.counters.count_drop(Dropped::SendFailed, records);
                return true;
            }
            Err(fault) if survives(context, peer, fault, stride, &chunk, &mut repeats) => continue,
            Err(fault) => {
                let reason = match fault {
                    SendFault::TooBig => Dropped::SendTooBig,
                    _ => Dropped::SendFailed,
                };
                context
                    .counters
                    .count_drop(reason, chunk_len.div_ceil(stride) as u64);
            }
        }
        if let Some(sealed) = batch.sealed_mut() {
            sealed.sent += chunk_len;
        }
    }
}

/// The sends of a batch that have been repeated.
#[derive(Default)]
struct Repeats {
    /// Up to this byte records leave one by one: together they were refused.
    apart_until: usize,
    /// The record that ends at this byte was repeated as often as in the second place.
    record: (usize, u8),
}

/// The number of times that a single record is repeated which the kernel failed to send: once as it was, and once from
/// whichever address.
const MAX_REPEATS: u8 = 2;

/// True if a send of the bytes `chunk` that failed is worth repeating in another way, which is remembered.
fn survives<S: Shell>(
    context: &Context<S>,
    peer: &Peer,
    fault: SendFault,
    stride: usize,
    chunk: &Range<usize>,
    repeats: &mut Repeats,
) -> bool {
    let segmented = chunk.len() > stride;
    match fault {
        SendFault::SegmentationUnsupported | SendFault::TooBig if segmented => {
            let is_too_big = fault == SendFault::TooBig;
            if is_too_big {
                peer.segmentation_too_big(context.now);
            }
            context.counters.segmentation_refused.add(1);
            if is_too_big || peer.segmentation_refused(context.now) {
                context.tell(Event::SegmentationRefused(peer.id, stride));
            }
            repeats.apart_until = chunk.end;
            true
        }
        SendFault::SourceGone => {
            peer.forget_source();
            true
        }
        SendFault::Passing if segmented => {
            repeats.apart_until = chunk.end;
            true
        }
        SendFault::Passing => {
            if repeats.record.0 != chunk.end {
                repeats.record = (chunk.end, 0);
            }
            repeats.record.1 += 1;
            if repeats.record.1 == MAX_REPEATS {
                peer.forget_source();
            }
            repeats.record.1 <= MAX_REPEATS
        }
        _ => false,
    }
}
