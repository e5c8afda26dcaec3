//! Opening a socket, and what can be changed while it is in use.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::sockopt::{self, Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery};
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use crate::group::{self, Arrivals, Group};
use crate::{UdpError, system};
use culvert_base::Family;

/// Receive and send buffers, in bytes as asked for; the kernel doubles them to pay for its own bookkeeping. The kernel
/// charges some 100 KiB for a joined run of datagrams of 64 KiB, so the default of 208 KiB holds two runs. This size
/// holds some 160, about 8 ms at 10 Gbit/s, which is longer than a worker is away.
const BUFFER_BYTES: usize = 8 * 1024 * 1024;

/// Offloads that the kernel supports on a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Features {
    /// Several datagrams in one send (`UDP_SEGMENT`, Linux 4.18).
    pub segmentation: bool,
    /// Several datagrams in one receive (`UDP_GRO`, Linux 5.0).
    pub receive_offload: bool,
}

/// A non-blocking UDP socket, on a wildcard address or on loopback.
#[derive(Debug)]
pub struct Socket {
    pub(crate) socket: OwnedFd,
    pub(crate) family: Family,
    pub(crate) features: Features,
    pub(crate) port: u16,
    pub(crate) arrivals: Option<Arrivals>,
}

impl Socket {
    /// Opens a socket on `port` (0: any free one), alone: no other socket can share the port while it is open. Its packets
    /// carry `mark` (0: none) for policy routing.
    ///
    /// # Errors
    /// [`UdpError`], for the configuration or this machine. Missing offloads are no error: see
    /// [`features`](Self::features).
    pub fn bind(family: Family, port: u16, mark: u32) -> Result<Self, UdpError> {
        let wildcard = SocketAddr::new(family.wildcard(), port);
        Self::open(wildcard, mark, false)
    }

    /// Opens a socket on a free port of 127.0.0.1 that exchanges datagrams with `peer_port` there, and with nobody else.
    ///
    /// # Errors
    /// As [`bind`](Self::bind).
    pub fn bind_loopback(peer_port: u16) -> Result<Self, UdpError> {
        let socket = Self::open((Ipv4Addr::LOCALHOST, 0).into(), 0, false)?;
        let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, peer_port));
        rustix::net::connect(&socket.socket, &peer).map_err(|error| UdpError::System {
            action: "connect the UDP socket",
            source: error.into(),
        })?;
        Ok(socket)
    }

    /// Opens the sockets of `group` on one `port`: one for each worker, then the priority socket of each. All datagrams of
    /// one peer address and port come to the same worker, and all of one traffic class to the same socket, so a peer's
    /// datagrams are not reordered between workers.
    ///
    /// Sockets share a port by `SO_REUSEPORT`, and the kernel lets any process of the same user join such a group. So
    /// the first socket takes the port exclusively, which fails when anyone has it, a group included, and only then is
    /// opened to the others. The kernel cannot refuse a later foreign socket that asks to share. But the program
    /// attached here chooses among our sockets alone, so such a socket would receive nothing. A single socket is never
    /// shared.
    ///
    /// # Errors
    /// As [`bind`](Self::bind).
    pub fn bind_group(
        family: Family,
        port: u16,
        group: Group,
        mark: u32,
    ) -> Result<Vec<Self>, UdpError> {
        let first = Self::bind(family, port, mark)?;
        let count = group.sockets();
        let wildcard = SocketAddr::new(family.wildcard(), first.port);
        let mut sockets = vec![first];
        if count == 1 {
            return Ok(sockets);
        }
        sockopt::set_socket_reuseport(&sockets[0].socket, true).map_err(|error| {
            UdpError::System {
                action: "share the port among workers",
                source: error.into(),
            }
        })?;
        for _ in 1..count {
            sockets.push(Self::open(wildcard, mark, true)?);
        }
        share_out(&mut sockets, group)?;
        Ok(sockets)
    }

    /// The port the socket is bound to.
    pub fn local_port(&self) -> u16 {
        self.port
    }

    /// The family the socket was opened with.
    pub fn family(&self) -> Family {
        self.family
    }

    /// The offloads that the kernel supports on this socket.
    pub fn features(&self) -> Features {
        self.features
    }

    /// The number of runs of datagrams that the kernel has sorted to this socket, a priority socket of a group; each joins the queue
    /// a moment later. Costs no system call. `None` of other sockets.
    pub fn arrivals(&self) -> Option<u64> {
        self.arrivals.as_ref().map(Arrivals::count)
    }

    /// Lets every datagram come by itself from here on, instead of in runs that the kernel joined.
    ///
    /// # Errors
    /// The kernel's, from UDP_GRO.
    pub fn disable_receive_offload(&mut self) -> io::Result<()> {
        if self.features.receive_offload {
            system::set_option(self.as_fd(), libc::SOL_UDP, libc::UDP_GRO, 0)?;
            self.features.receive_offload = false;
        }
        Ok(())
    }

    /// Changes the mark of the packets sent from here on; 0 takes it away.
    ///
    /// # Errors
    /// `PermissionDenied` without CAP_NET_ADMIN (or CAP_NET_RAW).
    pub fn set_mark(&self, mark: u32) -> io::Result<()> {
        set_mark(self.as_fd(), mark)
    }

    /// Binds the socket to an interface, by its index, or to none (0). From here on it sends and receives there alone,
    /// whatever rules and marks say of its packets.
    ///
    /// # Errors
    /// `PermissionDenied` without CAP_NET_RAW, where it was bound already.
    pub fn bind_to_interface(&self, index: u32) -> io::Result<()> {
        system::set_option(
            self.as_fd(),
            libc::SOL_SOCKET,
            libc::SO_BINDTOIFINDEX,
            index.cast_signed(),
        )
    }

    /// Changes the send buffer: how much may be on its way to the network device before a send would block. The kernel
    /// doubles `bytes`, charges each datagram with its bookkeeping, and raises very small values to its minimum of 4608.
    ///
    /// # Errors
    /// The kernel's, from SO_SNDBUF.
    pub fn set_send_buffer(&self, bytes: usize) -> io::Result<()> {
        match sockopt::set_socket_send_buffer_size_force(&self.socket, bytes) {
            // Without CAP_NET_ADMIN the kernel takes as much as `wmem_max` allows.
            Err(Errno::PERM) => Ok(sockopt::set_socket_send_buffer_size(&self.socket, bytes)?),
            result => Ok(result?),
        }
    }

    /// Bytes sent that no network device has taken off our hands, as the kernel charges them to the send buffer.
    ///
    /// # Errors
    /// The kernel's, from SIOCOUTQ.
    pub fn unsent_bytes(&self) -> io::Result<u32> {
        system::unsent_bytes(self.as_fd())
    }

    /// True if a send would be accepted now. The kernel reports this while less than half the send buffer is
    /// in use.
    ///
    /// # Errors
    /// The kernel's, from `poll`.
    pub fn is_writable(&self) -> io::Result<bool> {
        let mut descriptors = [PollFd::new(&self.socket, PollFlags::OUT)];
        rustix::event::poll(
            &mut descriptors,
            Some(&Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            }),
        )?;
        Ok(descriptors[0].revents().contains(PollFlags::OUT))
    }

    fn open(at: SocketAddr, mark: u32, share: bool) -> Result<Self, UdpError> {
        let (family, port) = (Family::of(at.ip()), at.port());
        let socket = new_socket(family).map_err(|error| match error {
            Errno::AFNOSUPPORT => UdpError::NoSuchFamily {
                family: family.name(),
            },
            error => UdpError::System {
                action: "open a UDP socket",
                source: error.into(),
            },
        })?;
        if mark != 0 {
            set_mark(socket.as_fd(), mark).map_err(|source| match source.raw_os_error() {
                Some(libc::EPERM) => UdpError::MarkRefused,
                _ => UdpError::System {
                    action: "mark the socket",
                    source,
                },
            })?;
        }
        let alone = match family {
            Family::V4 => Ok(()),
            // The kernel takes this before the socket has a port, and not after.
            Family::V6 => sockopt::set_ipv6_v6only(&socket, true).map_err(io::Error::from),
        };
        let features = alone
            .and_then(|()| set_options(&socket, family))
            .map_err(|source| UdpError::System {
                action: "set up the UDP socket",
                source,
            })?;
        let bound = if share {
            sockopt::set_socket_reuseport(&socket, true)
        } else {
            Ok(())
        }
        .and_then(|()| rustix::net::bind(&socket, &at));
        bound.map_err(|error| match error {
            Errno::ADDRINUSE => UdpError::PortTaken { port },
            Errno::ACCESS => UdpError::PortReserved { port },
            Errno::ADDRNOTAVAIL => UdpError::NoSuchFamily {
                family: family.name(),
            },
            error => UdpError::System {
                action: "bind the UDP socket",
                source: error.into(),
            },
        })?;
        let port = rustix::net::getsockname(&socket)
            .and_then(SocketAddr::try_from)
            .map_err(|error| UdpError::System {
                action: "read the port",
                source: error.into(),
            })?
            .port();
        Ok(Self {
            socket,
            family,
            features,
            port,
            arrivals: None,
        })
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Has all datagrams of one peer and traffic class come to one of `sockets`, those of `group` in order.
pub(crate) fn share_out(sockets: &mut [Socket], group: Group) -> Result<(), UdpError> {
    let [first, _, ..] = sockets else {
        return Ok(());
    };
    let arrivals = group::sort(first.as_fd(), first.family, group)?;
    let priority = sockets.iter_mut().skip(group.workers.get());
    for (socket, arrivals) in priority.zip(arrivals) {
        socket.arrivals = Some(arrivals);
    }
    Ok(())
}

/// A fresh non-blocking socket of `family`.
pub(crate) fn new_socket(family: Family) -> Result<OwnedFd, Errno> {
    let domain = match family {
        Family::V4 => AddressFamily::INET,
        Family::V6 => AddressFamily::INET6,
    };
    rustix::net::socket_with(
        domain,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )
}

pub(crate) fn set_mark(socket: BorrowedFd<'_>, mark: u32) -> io::Result<()> {
    system::set_option(socket, libc::SOL_SOCKET, libc::SO_MARK, mark.cast_signed())
}

/// Path MTU discovery is `WANT`: the kernel learns path MTUs from ICMP and fragments what exceeds them. With `DO` a send
/// would fail instead, and a tunnel whose inner MTU does not fit the path would pass small packets and lose large ones.
pub(crate) fn set_options(socket: &OwnedFd, family: Family) -> io::Result<Features> {
    let fd = socket.as_fd();
    match family {
        Family::V4 => {
            system::set_option(fd, libc::IPPROTO_IP, libc::IP_PKTINFO, 1)?;
            sockopt::set_ip_recvtos(socket, true)?;
            sockopt::set_ip_mtu_discover(socket, Ipv4PathMtuDiscovery::WANT)?;
        }
        Family::V6 => {
            system::set_option(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1)?;
            sockopt::set_ipv6_recvtclass(socket, true)?;
            sockopt::set_ipv6_mtu_discover(socket, Ipv6PathMtuDiscovery::WANT)?;
        }
    }
    // Without CAP_NET_ADMIN the kernel takes as much as `rmem_max` and `wmem_max` allow.
    sockopt::set_socket_recv_buffer_size_force(socket, BUFFER_BYTES)
        .or_else(|_| sockopt::set_socket_recv_buffer_size(socket, BUFFER_BYTES))?;
    sockopt::set_socket_send_buffer_size_force(socket, BUFFER_BYTES)
        .or_else(|_| sockopt::set_socket_send_buffer_size(socket, BUFFER_BYTES))?;
    Ok(Features {
        // Zero means "not by default"; a kernel that does not know the option refuses any value.
        segmentation: system::set_option(fd, libc::SOL_UDP, libc::UDP_SEGMENT, 0).is_ok(),
        receive_offload: system::set_option(fd, libc::SOL_UDP, libc::UDP_GRO, 1).is_ok(),
    })
}
