//! Receiving: several runs of datagrams in one system call.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use crate::address::{RawAddress, SOCKET_ADDRESS_BYTES};
use crate::control::{self, CONTROL_BYTES, ControlBuffer, ECN_BITS};
use crate::socket::Socket;
use crate::system;
use culvert_base::LocalAddress;

/// Room for one run: UDP's length field cannot say more, and the kernel joins datagrams up to the same limit.
const BUFFER_BYTES: usize = 64 * 1024;

/// The most entries of a batch: a megabyte of full runs, 0.8 ms at 10 Gbit/s, is more than one turn should carry.
const MAX_ENTRIES: usize = 16;

/// The buffers of [`Socket::receive_batch`], allocated once. Only pages that datagrams were written to use memory.
#[derive(Debug)]
pub struct ReceiveBatch {
    buffers: Vec<u8>,
    sources: Vec<[u8; SOCKET_ADDRESS_BYTES]>,
    controls: Vec<ControlBuffer>,
    /// The runs that were received; as long as the number of entries filled.
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    bytes: usize,
    stride: usize,
    source: SocketAddr,
    local: Option<LocalAddress>,
    class: u8,
    truncated: bool,
}

/// One run of datagrams from one source, all of the same traffic class.
#[derive(Debug)]
pub struct Received<'a> {
    /// The datagrams, one after the other, to be opened in place.
    pub bytes: &'a mut [u8],
    /// Bytes of each datagram but the last, which may be shorter; at least 1, so that `bytes` can be cut by it.
    pub stride: usize,
    /// The sender's address.
    pub source: SocketAddr,
    /// The address and the interface of ours that they came to.
    pub local: Option<LocalAddress>,
    /// The traffic class of the outer header: DSCP, and ECN in the low two bits.
    pub class: u8,
    /// True if a part was cut off; cannot happen with datagrams that a WireGuard peer sends.
    pub truncated: bool,
}

impl ReceiveBatch {
    /// Buffers for `entries` runs of datagrams, at least one and at most 16.
    pub fn new(entries: usize) -> Self {
        let entries = entries.clamp(1, MAX_ENTRIES);
        Self {
            buffers: vec![0; entries * BUFFER_BYTES],
            sources: vec![[0; SOCKET_ADDRESS_BYTES]; entries],
            controls: vec![ControlBuffer::new(); entries],
            entries: Vec::with_capacity(entries),
        }
    }

    /// The number of runs received.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if none was received.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Run `index`, in the order of arrival; `None` past the last.
    pub fn get_mut(&mut self, index: usize) -> Option<Received<'_>> {
        let entry = self.entries.get(index)?;
        let start = index * BUFFER_BYTES;
        Some(entry.received(&mut self.buffers[start..start + entry.bytes]))
    }

    /// The runs in the order of arrival.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = Received<'_>> {
        let buffers = self.buffers.chunks_exact_mut(BUFFER_BYTES);
        self.entries
            .iter()
            .zip(buffers)
            .map(|(entry, buffer)| entry.received(&mut buffer[..entry.bytes]))
    }
}

impl Entry {
    fn received(self, bytes: &mut [u8]) -> Received<'_> {
        let Self {
            bytes: _,
            stride,
            source,
            local,
            class,
            truncated,
        } = self;
        Received {
            bytes,
            stride,
            source,
            local,
            class,
            truncated,
        }
    }
}

impl Received<'_> {
    /// The ECN codepoint of the outer header: 0 Not-ECT, 1 ECT(1), 2 ECT(0), 3 CE (RFC 3168 §5).
    pub const fn ecn(&self) -> u8 {
        self.class & ECN_BITS
    }
}

impl Socket {
    /// Replaces what is in `batch` by the runs of datagrams that wait; returns their number, 0 when none does.
    ///
    /// # Errors
    /// The kernel's, from `recvmmsg`. An empty socket is no error.
    pub fn receive_batch(&self, batch: &mut ReceiveBatch) -> io::Result<usize> {
        self.receive_some(batch, MAX_ENTRIES)
    }

    /// [`Self::receive_batch`] with `most` runs at most, for an owner that has to be somewhere else soon.
    ///
    /// # Errors
    /// The same.
    pub fn receive_some(&self, batch: &mut ReceiveBatch, most: usize) -> io::Result<usize> {
        batch.entries.clear();
        let capacity = batch.controls.len().min(most.max(1));
        let mut parts = [libc::iovec {
            iov_base: std::ptr::null_mut(),
            iov_len: 0,
        }; MAX_ENTRIES];
        let mut messages = [libc::mmsghdr {
            msg_hdr: system::empty_message(),
            msg_len: 0,
        }; MAX_ENTRIES];
        for index in 0..capacity {
            let buffer = &mut batch.buffers[index * BUFFER_BYTES..(index + 1) * BUFFER_BYTES];
            parts[index] = libc::iovec {
                iov_base: buffer.as_mut_ptr().cast(),
                iov_len: BUFFER_BYTES,
            };
            let header = &mut messages[index].msg_hdr;
            header.msg_name = batch.sources[index].as_mut_ptr().cast();
            header.msg_namelen = SOCKET_ADDRESS_BYTES as libc::socklen_t;
            header.msg_iov = &raw mut parts[index];
            header.msg_iovlen = 1;
            header.msg_control = batch.controls[index].room().as_mut_ptr().cast();
            header.msg_controllen = CONTROL_BYTES as _;
        }
        // SAFETY: each of the first `capacity` messages points to its own source, buffer and control room, with their
        // lengths; all live in `batch` or in this frame and are not touched during the call.
        let received = match unsafe { system::receive(self.as_fd(), &mut messages[..capacity]) } {
            Ok(received) => received,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(0),
            Err(error) => return Err(error),
        };
        for (index, message) in messages[..received].iter().enumerate() {
            let entry = read_entry(message, &batch.sources[index], &batch.controls[index]);
            batch.entries.push(entry);
        }
        Ok(received)
    }
}

fn read_entry(message: &libc::mmsghdr, source: &[u8], control: &ControlBuffer) -> Entry {
    let header = &message.msg_hdr;
    let told = control::read(control.filled(header.msg_controllen as _));
    let bytes = (message.msg_len as usize).min(BUFFER_BYTES);
    let source = &source[..(header.msg_namelen as usize).min(SOCKET_ADDRESS_BYTES)];
    // The kernel always names the source of a datagram; the impossible case gets an address that cannot be answered.
    let nobody = SocketAddr::new(std::net::Ipv4Addr::UNSPECIFIED.into(), 0);
    Entry {
        bytes,
        stride: told.segment_size.unwrap_or(bytes).clamp(1, bytes.max(1)),
        source: RawAddress::decode(source).unwrap_or(nobody),
        local: told.local,
        class: told.class,
        truncated: header.msg_flags & libc::MSG_TRUNC != 0,
    }
}
