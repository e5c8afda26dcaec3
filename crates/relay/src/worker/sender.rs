//! Sending what a relay decided: whole batches in one system call each.

use crate::exchange::SendCounters;
use culvert_base::datagrams::PRIORITY_CLASS;
use culvert_base::{Destination, Family};
use culvert_relay_core::relay::{Decisions, Run};
use culvert_udp::{SendError, Socket};

/// The port of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The main port.
    Main(u16),
    /// The gateway port at this place of the worker's own.
    Gateway(usize),
}

/// The sockets of each gateway port, by their places among the worker's.
#[derive(Debug)]
pub(super) struct PortSockets(Vec<[Option<usize>; 2]>);

/// Sends, and counts what could not be sent.
#[derive(Debug)]
pub(super) struct Sender {
    ports: PortSockets,
    counters: SendCounters,
}

impl PortSockets {
    pub(super) fn of(sockets: &[(Place, Socket)]) -> Self {
        let mut ports = Vec::new();
        for (index, (place, socket)) in sockets.iter().enumerate() {
            if let Place::Gateway(port) = *place {
                if ports.len() <= port {
                    ports.resize(port + 1, [None; 2]);
                }
                ports[port][family_place(socket.family())] = Some(index);
            }
        }
        Self(ports)
    }

    /// The socket of the port that reaches `to`.
    fn towards(&self, port: usize, to: &Destination) -> Option<usize> {
        let family = Family::of(to.address.ip().to_canonical());
        *self.0.get(port)?.get(family_place(family))?
    }
}

const fn family_place(family: Family) -> usize {
    match family {
        Family::V4 => 0,
        Family::V6 => 1,
    }
}

impl Sender {
    pub(super) fn new(ports: PortSockets) -> Self {
        Self {
            ports,
            counters: SendCounters::default(),
        }
    }

    pub(super) const fn counters(&self) -> SendCounters {
        self.counters
    }

    /// Forwards with the traffic class that the batch came with, and answers its sender by the socket at which it came.
    pub(super) fn execute(
        &mut self,
        at: usize,
        sockets: &[(Place, Socket)],
        run: &Run<'_>,
        class: u8,
        decisions: &Decisions,
    ) {
        let (place, came_at) = &sockets[at];
        if let Place::Gateway(port) = *place {
            for send in &decisions.sends {
                let datagrams = &run.bytes[send.start..send.end];
                match self.ports.towards(port, &send.to) {
                    Some(socket) => {
                        let socket = &sockets[socket].1;
                        self.send(socket, datagrams, run.stride, &send.to, class);
                    }
                    None => self.counters.no_family += records(datagrams, run.stride),
                }
            }
        }
        if decisions.replies.is_empty() {
            return;
        }
        let to = Destination {
            address: run.source,
            source: run.local,
        };
        for reply in &decisions.replies {
            let datagram = reply.datagram();
            self.send(came_at, datagram, datagram.len(), &to, PRIORITY_CLASS);
        }
    }

    /// Sends datagrams of one stride, in one call if the system takes it.
    fn send(
        &mut self,
        socket: &Socket,
        datagrams: &[u8],
        stride: usize,
        to: &Destination,
        class: u8,
    ) {
        match socket.send(datagrams, stride, to, class) {
            Ok(()) => {}
            // One by one: without segmentation, or so that the system cuts them to the path's MTU itself.
            Err(SendError::SegmentationUnsupported | SendError::TooBig)
                if datagrams.len() > stride =>
            {
                for datagram in datagrams.chunks(stride) {
                    self.send_one(socket, datagram, to, class);
                }
            }
            Err(SendError::SourceGone) if to.source.is_some() => {
                // The address at which the end registered is no longer this machine's.
                let anywhere = Destination {
                    source: None,
                    ..*to
                };
                self.send(socket, datagrams, stride, &anywhere, class);
            }
            Err(error) => self.count(&error, records(datagrams, stride)),
        }
    }

    fn send_one(&mut self, socket: &Socket, datagram: &[u8], to: &Destination, class: u8) {
        if let Err(error) = socket.send(datagram, datagram.len(), to, class) {
            self.count(&error, 1);
        }
    }

    fn count(&mut self, error: &SendError, records: u64) {
        match error {
            SendError::WouldBlock => self.counters.queue_full += records,
            _ => self.counters.refused += records,
        }
    }
}

fn records(datagrams: &[u8], stride: usize) -> u64 {
    datagrams.len().div_ceil(stride.max(1)) as u64
}
