//! The engine's way of moving packets without the engine. Superframes come from the interface, runs of
//! datagrams go over the wire, and joined packets go to the interface. One thread carries both directions
//! to completion. No cipher, no peers, no keys.

use super::poll::wait;
use crate::ends::Ends;
use crate::error::{Error, TUN, UDP};
use culvert_base::datagrams::{MAX_GSO_BYTES, MAX_SEGMENTS};
use culvert_base::frames::{MAX_FRAME_BYTES, VNET_HEADER_BYTES};
use culvert_packet::{Accept, Coalescer, Cut, VnetHeader};
use culvert_udp::ReceiveBatch;
use std::convert::Infallible;
use std::io::{self, IoSlice};

/// Superframes in each direction between two looks at what is ready, as the engine has.
const BUDGET: usize = 4;

pub(super) fn run(ends: &Ends) -> Result<Infallible, Error> {
    let mut road = Road {
        frame: vec![0; MAX_FRAME_BYTES],
        run: Vec::with_capacity(MAX_GSO_BYTES),
        received: ReceiveBatch::new(BUDGET),
        coalescer: Coalescer::new(Accept::ALL),
    };
    loop {
        let ready = wait(ends)?;
        if ready.udp {
            road.forward_in(ends).map_err(Error::system(UDP))?;
        }
        if ready.tun {
            road.forward_out(ends).map_err(Error::system(TUN))?;
        }
    }
}

struct Road {
    frame: Vec<u8>,
    /// Datagrams of one length, one after the other; at most `MAX_GSO_BYTES`.
    run: Vec<u8>,
    received: ReceiveBatch,
    coalescer: Coalescer,
}

impl Road {
    fn forward_out(&mut self, ends: &Ends) -> io::Result<()> {
        for _ in 0..BUDGET {
            let len = match ends.tun.receive(&mut self.frame) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                result => result?,
            };
            let Some((vnet, packet)) = self.frame[..len].split_first_chunk::<VNET_HEADER_BYTES>()
            else {
                continue;
            };
            // A frame that can't be cut is no packet.
            if let Ok(cut) = VnetHeader::parse(vnet).and_then(|vnet| Cut::plan(&vnet, packet)) {
                send(ends, &cut, packet, &mut self.run);
            }
        }
        Ok(())
    }

    fn forward_in(&mut self, ends: &Ends) -> io::Result<()> {
        match ends.udp.receive_batch(&mut self.received) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            result => result?,
        };
        for entry in self.received.iter_mut() {
            for start in (0..entry.bytes.len()).step_by(entry.stride) {
                let end = (start + entry.stride).min(entry.bytes.len());
                // One run has fewer datagrams than the coalescer takes packets.
                let _no_packet = self.coalescer.push(entry.bytes, start..end);
            }
            self.coalescer.flush(entry.bytes, |gathered| {
                let (vnet, buffer, parts) = gathered.finish();
                let mut header = [0; VNET_HEADER_BYTES];
                vnet.write(&mut header);
                let first = std::iter::once(IoSlice::new(&header));
                let packets = parts.iter().map(|part| IoSlice::new(&buffer[part.clone()]));
                let slices: Vec<_> = first.chain(packets).collect();
                // An interface that is down drops it.
                let _dropped = ends.tun.send(&slices);
            });
        }
        Ok(())
    }
}

/// Sends the packets of a frame in runs as long as one call takes; a full socket drops them, as IP does.
fn send(ends: &Ends, cut: &Cut, packet: &[u8], run: &mut Vec<u8>) {
    let stride = cut.segment_len(0);
    let most = (MAX_GSO_BYTES / stride).clamp(1, MAX_SEGMENTS);
    run.clear();
    for index in 0..cut.segments() {
        let start = run.len();
        run.resize(start + cut.segment_len(index), 0);
        cut.write_segment(packet, index, &mut run[start..]);
        if (index + 1) % most == 0 || index + 1 == cut.segments() {
            let _dropped = ends.udp.send(run, stride, &ends.peer, 0);
            run.clear();
        }
    }
}
