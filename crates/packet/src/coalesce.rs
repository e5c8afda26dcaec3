//! Coalescing received packets into superframes, by the rules of the kernel's generic receive
//! offload: what a network card with LRO does for a kernel.
//!
//! The rules are those of `inet_gro_receive`, `ipv6_gro_receive`, `tcp_gro_receive` and
//! `udp_gro_receive_segment`. This code is stricter in places, and says so there. It is looser
//! in one point only: the IPv4 identification under DF, which RFC 6864 §4 gives no meaning.

mod accept;
mod candidate;
mod gathered;
mod group;

use std::ops::Range;

use crate::PacketError;
pub use accept::Accept;
use candidate::Candidate;
pub use gathered::Gathered;
use group::Group;
pub use group::MAX_UDP_GROUP_PACKETS;

/// Packets between two flushes. A receive buffer holds what one receive call returned: the kernel
/// coalesces at most 64 datagrams (`UDP_GRO_CNT_MAX`) and lets a superframe of its own host
/// through whole, at most 128 (`UDP_MAX_SEGMENTS`).
pub const MAX_PACKETS: usize = 128;
/// Flows that can be open at once, as many as in a bucket of the kernel's (`MAX_GRO_SKBS`). When
/// one more begins, the oldest is closed, which costs efficiency, never order.
pub const MAX_OPEN_GROUPS: usize = 8;
/// Coalesces the packets of one receive buffer into superframes, described as ranges of that
/// buffer: no payload is copied. A coalescer is reused from buffer to buffer and allocates only
/// when it is made.
///
/// The packets of a flow are emitted in the order in which they were pushed: a packet that cannot
/// join its flow's group closes that group first. Fragments and packets that cannot be told apart
/// by flow close every group between the same two hosts.
///
/// Between a `push` and the `flush` that follows, the bytes of the packets pushed must not change.
#[derive(Debug)]
pub struct Coalescer {
    accept: Accept,
    /// Every packet pushed, each linked to the next of its group.
    packets: Vec<Link>,
    /// Every group, in the order of their first packets.
    groups: Vec<Group>,
    /// Indices into `groups` of those that may grow, in the order in which they were opened.
    open: Vec<usize>,
    /// The ranges of the group that is being emitted.
    ranges: Vec<Range<usize>>,
}

/// The part that a packet adds to its group.
#[derive(Debug)]
struct Link {
    /// The whole packet for the first of a group, the payload for the others.
    range: Range<usize>,
    /// Index of the group's next packet.
    next: Option<usize>,
}

impl Coalescer {
    /// A coalescer for a device that accepts `accept`.
    #[must_use]
    pub fn new(accept: Accept) -> Self {
        Self {
            accept,
            packets: Vec::with_capacity(MAX_PACKETS),
            groups: Vec::with_capacity(MAX_PACKETS),
            open: Vec::with_capacity(MAX_OPEN_GROUPS),
            ranges: Vec::with_capacity(MAX_PACKETS),
        }
    }

    /// Changes what is accepted, for the packets pushed from here on: a device may turn out not
    /// to take what it promised.
    pub fn set_accept(&mut self, accept: Accept) {
        self.accept = accept;
    }

    /// The superframes that are accepted.
    #[must_use]
    pub const fn accept(&self) -> Accept {
        self.accept
    }

    /// Packets pushed since the last flush.
    #[must_use]
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// True if there is nothing to flush.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Offers the IP packet at `buffer[range]`, of exactly the length its header says.
    ///
    /// # Errors
    /// [`PacketError::Full`] after [`MAX_PACKETS`] packets: flush and offer it again;
    /// [`PacketError::OutOfRange`]. Nothing has changed then.
    pub fn push(&mut self, buffer: &[u8], range: Range<usize>) -> Result<(), PacketError> {
        let Some(packet) = buffer.get(range.clone()) else {
            return Err(PacketError::OutOfRange);
        };
        if self.packets.len() == MAX_PACKETS {
            return Err(PacketError::Full);
        }
        match candidate::classify(packet, self.accept) {
            Some(candidate) => self.push_candidate(buffer, range, &candidate),
            None => {
                self.open
                    .retain(|&index| !self.groups[index].is_between_hosts_of(buffer, packet));
                self.start(range, None);
            }
        }
        Ok(())
    }

    /// Hands out every group, oldest first, and starts anew.
    pub fn flush(&mut self, buffer: &mut [u8], mut take: impl FnMut(Gathered<'_>)) {
        for group in &self.groups {
            self.ranges.clear();
            let mut next = Some(group.first);
            while let Some(link) = next.map(|index| &self.packets[index]) {
                self.ranges.push(link.range.clone());
                next = link.next;
            }
            take(Gathered::new(group, buffer, &self.ranges));
        }
        self.packets.clear();
        self.groups.clear();
        self.open.clear();
    }

    fn push_candidate(&mut self, buffer: &[u8], range: Range<usize>, candidate: &Candidate) {
        let packet = &buffer[range.clone()];
        // From the back: the flow of the last packet is the likeliest.
        let found = self
            .open
            .iter()
            .rposition(|&index| self.groups[index].is_flow_of(buffer, packet, candidate));
        let Some(position) = found else {
            return self.start(range, Some(candidate));
        };
        let group = &mut self.groups[self.open[position]];
        if !group.try_join(buffer, packet, candidate) {
            self.open.remove(position);
            return self.start(range, Some(candidate));
        }
        let index = self.packets.len();
        self.packets[group.last].next = Some(index);
        group.last = index;
        self.packets.push(Link {
            range: range.start + candidate.header_len()..range.end,
            next: None,
        });
        if candidate.ends_train(group.stride()) {
            self.open.remove(position);
        }
    }

    /// Starts a group with the packet at `range`; it stays open if others may join.
    fn start(&mut self, range: Range<usize>, candidate: Option<&Candidate>) {
        let (packet, group) = (self.packets.len(), self.groups.len());
        self.groups.push(Group::new(packet, range.start, candidate));
        self.packets.push(Link { range, next: None });
        if candidate.is_some_and(Candidate::may_lead) {
            if self.open.len() == MAX_OPEN_GROUPS {
                self.open.remove(0);
            }
            self.open.push(group);
        }
    }
}
