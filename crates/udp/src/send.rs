//! Sending: a run of datagrams of equal length in one system call.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use crate::address::RawAddress;
use crate::control::ControlBuffer;
use crate::error::SendError;
use crate::route;
use crate::socket::Socket;
use crate::system;
use culvert_base::datagrams::{MAX_GSO_BYTES, MAX_SEGMENTS};
use culvert_base::{Destination, Family};

/// Errors that say nothing of the datagrams: memory that is short, a device that failed, and those of a device or a program
/// in the way that no sender can do anything about.
const PASSING: [i32; 6] = [
    libc::ENOBUFS,
    libc::ENOMEM,
    libc::EIO,
    libc::EFAULT,
    libc::ENOSPC,
    libc::EOPNOTSUPP,
];

impl Socket {
    /// Sends `datagrams`, which are `stride` bytes each but for the last, which may be shorter, with the traffic
    /// class `class`: DSCP, and ECN in the low two bits. At most [`MAX_SEGMENTS`] and [`MAX_GSO_BYTES`]. All or none are taken.
    ///
    /// # Errors
    /// [`SendError`]; nothing was sent.
    pub fn send(
        &self,
        datagrams: &[u8],
        stride: usize,
        to: &Destination,
        class: u8,
    ) -> Result<(), SendError> {
        let several = datagrams.len() > stride;
        debug_assert!(
            !several || stride > 0 && datagrams.len().div_ceil(stride) <= MAX_SEGMENTS,
            "too many datagrams"
        );
        debug_assert!(
            !several || datagrams.len() <= MAX_GSO_BYTES,
            "too many bytes"
        );
        if Family::of(to.address.ip().to_canonical()) != self.family {
            return Err(SendError::Other(io::Error::from_raw_os_error(
                libc::EAFNOSUPPORT,
            )));
        }
        let mut control = ControlBuffer::new();
        if several {
            if !self.features().segmentation {
                return Err(SendError::SegmentationUnsupported);
            }
            control.push_segment_size(u16::try_from(stride).map_err(|_| SendError::TooBig)?);
        }
        if let Some(source) = to.source {
            // A source of the other family is one we had before the peer moved to this one.
            if Family::of(source.ip.to_canonical()) != self.family {
                return Err(SendError::SourceGone);
            }
            control.push_source(source);
        }
        if class != 0 {
            control.push_class(to.address.ip().to_canonical(), class);
        }
        system::send(
            self.as_fd(),
            datagrams,
            &RawAddress::encode(to.address),
            &control,
        )
        .map_err(|error| self.explain(error, stride, several, to))
    }

    /// Maps the kernel's `error` to the reaction that it asks of the sender.
    #[cold]
    fn explain(
        &self,
        error: io::Error,
        stride: usize,
        several: bool,
        to: &Destination,
    ) -> SendError {
        match error.raw_os_error() {
            Some(libc::EAGAIN) => SendError::WouldBlock,
            Some(libc::EMSGSIZE) => SendError::TooBig,
            // "UDP_SEGMENT" over a route that encrypts, or without checksum offload before Linux 6.11.
            Some(libc::EIO | libc::EOPNOTSUPP) if several => SendError::SegmentationUnsupported,
            Some(errno) if PASSING.contains(&errno) => SendError::Passing(error),
            Some(libc::EINVAL) => self.explain_invalid(error, stride, several, to),
            Some(libc::EADDRNOTAVAIL | libc::ENODEV | libc::ENETUNREACH) if to.source.is_some() => {
                SendError::SourceGone
            }
            _ => SendError::Other(error),
        }
    }

    /// `EINVAL` has three reasons: a source that is not ours, datagrams above the path MTU in a run (other kernels say
    /// `EMSGSIZE`), and no support for runs at all. Confusing them would forget a good source or turn runs off for good,
    /// so the first two are checked.
    fn explain_invalid(
        &self,
        error: io::Error,
        stride: usize,
        several: bool,
        to: &Destination,
    ) -> SendError {
        match to.source {
            Some(source) if !route::is_our_address(source) => SendError::SourceGone,
            // A route may refuse a source that is ours as well; a sender that sees this twice tries
            // without a source.
            _ if !several => SendError::Passing(error),
            _ if self.exceeds_path_mtu(stride, to.address) => SendError::TooBig,
            _ => SendError::SegmentationUnsupported,
        }
    }

    fn exceeds_path_mtu(&self, datagram_bytes: usize, to: SocketAddr) -> bool {
        let headers = match self.family {
            Family::V4 => 20 + 8,
            Family::V6 => 40 + 8,
        };
        let mark = system::mark(self.as_fd()).unwrap_or(0);
        route::path_mtu(to, mark).is_ok_and(|mtu| datagram_bytes + headers > usize::from(mtu))
    }
}
