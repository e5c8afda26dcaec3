//! The two descriptors of a plain tunnel, and one packet from the one to the other.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use culvert_base::datagrams::{MAX_GSO_BYTES, MAX_SEGMENTS};
use culvert_base::frames::VNET_HEADER_BYTES;
use culvert_base::{Destination, Family};
use culvert_tun::{Device, Options, Queue};
use culvert_udp::Socket;

use crate::error::Error;
use crate::model::Model;

/// The longest frame of an interface without superframes: the header and a packet of the MTU.
pub(crate) const FRAME_MAX_BYTES: usize = culvert_base::frames::MAX_FRAME_BYTES;

/// The tunnel to make.
#[derive(Clone, Debug, clap::Args)]
pub struct Plan {
    /// The name of the interface.
    pub interface: String,
    /// The UDP port to listen at.
    #[arg(long)]
    pub port: u16,
    /// The address of the other end.
    #[arg(long)]
    pub peer: SocketAddr,
    /// The interface's MTU in bytes.
    #[arg(long, default_value_t = 1420)]
    pub mtu: u16,
}

/// A TUN interface and a socket: without superframes and runs where one call is to carry one packet.
#[derive(Debug)]
pub struct Ends {
    /// Keeps the interface.
    _device: Device,
    pub(crate) tun: Queue,
    pub(crate) udp: Socket,
    pub(crate) peer: Destination,
}

impl Ends {
    /// Makes the interface, down and without addresses, and opens the socket.
    ///
    /// # Errors
    /// [`Error`].
    pub fn open(plan: &Plan, model: Model) -> Result<Self, Error> {
        let mut device = Device::create(&Options {
            name: plan.interface.clone(),
            mtu: plan.mtu,
            offload: model.has_superframes(),
            steering: None,
            bound: false,
        })?;
        let mut udp = Socket::bind(Family::of(plan.peer.ip()), plan.port, 0)?;
        if model.has_superframes() {
            let segments = (MAX_GSO_BYTES / usize::from(plan.mtu)).clamp(1, MAX_SEGMENTS);
            device
                .set_gso_limits(segments as u32, None)
                .map_err(Error::system("limit superframes to one send"))?;
        } else {
            udp.disable_receive_offload()
                .map_err(Error::system("turn runs of datagrams off"))?;
        }
        let tun = device.take_queues().remove(0);
        Ok(Self {
            _device: device,
            tun,
            udp,
            peer: Destination {
                address: plan.peer,
                source: None,
            },
        })
    }

    pub(crate) fn tun(&self) -> BorrowedFd<'_> {
        self.tun.as_fd()
    }

    pub(crate) fn udp(&self) -> BorrowedFd<'_> {
        self.udp.as_fd()
    }

    /// Lets calls wait, as a thread for each direction wants it.
    pub(crate) fn set_blocking(&self) -> io::Result<()> {
        rustix::io::ioctl_fionbio(self.tun(), false)?;
        rustix::io::ioctl_fionbio(self.udp(), false)?;
        Ok(())
    }

    /// Carries one packet out, if there is one.
    ///
    /// # Errors
    /// Errors of reading the TUN.
    pub(crate) fn forward_out(&self, frame: &mut [u8]) -> io::Result<()> {
        let len = match self.tun.receive(frame) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            result => result?,
        };
        let Some(packet) = frame.get(VNET_HEADER_BYTES..len) else {
            return Ok(());
        };
        // A full socket and a network that is not there drop the packet, as IP does.
        let _dropped = self.udp.send(packet, packet.len(), &self.peer, 0);
        Ok(())
    }

    /// Carries one packet in, if there is one.
    ///
    /// # Errors
    /// Errors of receiving.
    pub(crate) fn forward_in(&self, packet: &mut [u8]) -> io::Result<()> {
        use rustix::io::Errno;
        use rustix::net::RecvFlags;
        let len = match rustix::net::recv(&self.udp, &mut *packet, RecvFlags::empty()) {
            // The latter is the peer's machine telling that nobody listens there yet.
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNREFUSED) => return Ok(()),
            result => result?.0,
        };
        let header = [0; VNET_HEADER_BYTES];
        // An interface that is down, and bytes that are no packet, are nothing to end for.
        let _dropped = self
            .tun
            .send(&[IoSlice::new(&header), IoSlice::new(&packet[..len])]);
        Ok(())
    }
}
