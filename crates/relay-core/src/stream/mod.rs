//! Datagrams in a stream, for networks that block UDP.
//!
//! An end opens a TLS connection to the relay and sends a [`Preface`], which names the gateway's port. The relay
//! answers by the same bytes, or by a [`StreamRefusal`] and closes. Frames follow in both directions: the length of a
//! datagram in two bytes, then the datagram. A frame without bytes is a keepalive.
//!
//! [`write_frames`] makes frames of a batch, [`Unframer`] makes batches of frames, and an [`Outbox`] holds what a slow
//! stream does not take yet.

mod outbox;
mod preface;
mod unframer;

pub use outbox::{MAX_WAIT, OUTBOX_BYTES, Outbox};
pub use preface::{PREFACE_LEN, Preface, PrefaceError, StreamRefusal, parse_answer, write_refusal};
pub use unframer::{FrameError, Unframer};

use culvert_base::datagrams::MAX_DATAGRAM_BYTES;
use std::time::Duration;

/// The protocol of the stream, in TLS (ALPN, RFC 7301).
pub const ALPN: &[u8] = b"culvert-relay/1";

/// Bytes before each datagram.
pub const FRAME_HEADER_LEN: usize = 2;

/// A frame without a datagram.
pub const KEEPALIVE: [u8; FRAME_HEADER_LEN] = [0; FRAME_HEADER_LEN];

/// A side that has sent nothing for this long sends a keepalive. NATs and proxies drop connections that are silent for
/// a minute.
pub const KEEPALIVE_AFTER: Duration = Duration::from_secs(15);

/// A stream on which nothing came for this long is closed: three keepalives are missing.
pub const SILENCE_LIMIT: Duration = Duration::from_secs(45);

/// Appends the frames of a batch: datagrams of `stride` bytes each, of which the last may be shorter. Datagrams that
/// no frame can hold are left out, and so are empty ones.
pub fn write_frames(datagrams: &[u8], stride: usize, out: &mut Vec<u8>) {
    for datagram in datagrams.chunks(stride.max(1)) {
        let len = u16::try_from(datagram.len()).ok();
        let Some(len) = len.filter(|_| datagram.len() <= MAX_DATAGRAM_BYTES) else {
            continue;
        };
        out.extend_from_slice(&len.to_be_bytes());
        out.extend_from_slice(datagram);
    }
}
