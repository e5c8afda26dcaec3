//! Opening a socket, and what can be changed while it is in use.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::sockopt::{self, Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery};
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use crate::UdpError;
use crate::control::ECN_BITS;
use crate::system;

/// Receive and send buffers, in bytes as asked for; the kernel doubles them to pay for its own bookkeeping. A joined run
/// of datagrams of 64 KiB is charged at some 100 KiB, so the default of 208 KiB holds two; this holds some 160, about
/// 8 ms at 10 Gbit/s, longer than a worker is away.
const BUFFER_BYTES: usize = 8 * 1024 * 1024;

/// The address family of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6 alone: IPv4 traffic does not appear here as mapped addresses.
    V6,
}

/// The sockets that share a port: one for each worker, and as many again where what is urgent has sockets of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group {
    /// Workers, each with a share of the peers.
    pub workers: NonZeroUsize,
    /// Whether each worker has a second socket, for datagrams of [`EXPRESS_CLASS`]: they don't wait behind the rest.
    pub has_express: bool,
}

impl Group {
    /// How many sockets it has.
    pub fn sockets(self) -> usize {
        self.workers.get() << u32::from(self.has_express)
    }
}

/// The traffic class of a datagram that must not wait behind others, neither on its way nor at its receiver: DSCP AF41
/// (RFC 2597 section 6), which Linux's WireGuard gives its handshakes.
pub const EXPRESS_CLASS: u8 = 0x88;

/// What the kernel offers on a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Features {
    /// Several datagrams in one send (`UDP_SEGMENT`, Linux 4.18).
    pub segmentation: bool,
    /// Several datagrams in one receive (`UDP_GRO`, Linux 5.0).
    pub receive_offload: bool,
}

/// A non-blocking UDP socket on a wildcard address.
#[derive(Debug)]
pub struct Socket {
    pub(crate) socket: OwnedFd,
    pub(crate) family: Family,
    pub(crate) features: Features,
    pub(crate) port: u16,
}

impl Socket {
    /// Opens a socket on `port` (0: any free one), alone: no other socket can share the port while it is open. Its packets
    /// carry `mark` (0: none) for policy routing.
    ///
    /// # Errors
    /// [`UdpError`], for the configuration or this machine. Missing offloads are no error: see
    /// [`features`](Self::features).
    pub fn bind(family: Family, port: u16, mark: u32) -> Result<Self, UdpError> {
        Self::open(family, port, mark, false)
    }

    /// Opens the sockets of `group` on one `port`: one for each worker, then the express socket of each. All datagrams of
    /// one peer address and port come to the same worker, and all of one traffic class to the same socket, so a peer's
    /// datagrams are not reordered between workers.
    ///
    /// Sockets share a port by `SO_REUSEPORT`, and the kernel lets any process of the same user join such a group. So the
    /// first socket takes the port exclusively, which fails when anyone has it, a group included, and only then is opened
    /// to the others. What the kernel cannot refuse is a later foreign socket that asks to share; the program attached
    /// here chooses among our sockets alone, so it would receive nothing. A single socket is never shared.
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
        let port = first.port;
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
            sockets.push(Self::open(family, port, mark, true)?);
        }
        share_out(&sockets, group)?;
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

    /// What the kernel offers on this socket.
    pub fn features(&self) -> Features {
        self.features
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

    /// Whether a send would be taken now: the kernel says so while less than half the send buffer is in use.
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

    fn open(family: Family, port: u16, mark: u32, share: bool) -> Result<Self, UdpError> {
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
        let wildcard = SocketAddr::new(family.wildcard(), port);
        let bound = if share {
            sockopt::set_socket_reuseport(&socket, true)
        } else {
            Ok(())
        }
        .and_then(|()| rustix::net::bind(&socket, &wildcard));
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
        })
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Family {
    /// The family of `ip`; of a mapped address, IPv4.
    pub fn of(ip: IpAddr) -> Self {
        match ip.to_canonical() {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }

    pub(crate) fn wildcard(self) -> IpAddr {
        match self {
            Self::V4 => Ipv4Addr::UNSPECIFIED.into(),
            Self::V6 => Ipv6Addr::UNSPECIFIED.into(),
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Has all datagrams of one peer and traffic class come to one socket of the group.
pub(crate) fn share_out(sockets: &[Socket], group: Group) -> Result<(), UdpError> {
    let [first, _, ..] = sockets else {
        return Ok(());
    };
    let mut program = group_program(first.family, group);
    system::attach_group_program(first.as_fd(), &mut program).map_err(|source| UdpError::System {
        action: "spread peers over workers",
        source,
    })
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

/// In a classic BPF load: the offset counts from the network header (`SKF_NET_OFF`, -0x100000).
const FROM_NETWORK_HEADER: u32 = 0_u32.wrapping_sub(0x10_0000);
/// 2³² divided by the golden ratio, odd: multiplying by it spreads every input bit over the higher output bits.
const SPREAD: u32 = 0x9e37_79b1;

/// The classic BPF program that picks a socket of a group: by a hash of the peer's address and port the worker, by the
/// traffic class which of its sockets. A load past the end of a packet ends the program with 0, the first socket.
fn group_program(family: Family, group: Group) -> Vec<libc::sock_filter> {
    let (address_words, port): (&[u32], u32) = match family {
        Family::V4 => (&[12], 20),
        // The last words of subnet and interface identifier; the rest rarely differs between peers.
        Family::V6 => (&[12, 20], 40),
    };
    let load = |width: u32, offset: u32| {
        let from = FROM_NETWORK_HEADER.wrapping_add(offset);
        step(libc::BPF_LD | width | libc::BPF_ABS, from)
    };
    // M[0] holds the hash so far; every step is hash = (hash ^ word) * SPREAD.
    let mut program = vec![step(libc::BPF_LD | libc::BPF_IMM, 0), step(libc::BPF_ST, 0)];
    let words = address_words
        .iter()
        .map(|offset| (libc::BPF_W, *offset))
        .chain([(libc::BPF_H, port)]);
    for (width, offset) in words {
        program.extend([
            load(width, offset),
            step(libc::BPF_LDX | libc::BPF_MEM, 0),
            step(libc::BPF_ALU | libc::BPF_XOR | libc::BPF_X, 0),
            step(libc::BPF_ALU | libc::BPF_MUL | libc::BPF_K, SPREAD),
            step(libc::BPF_ST, 0),
        ]);
    }
    let workers = group.workers.get() as u32;
    program.extend([
        step(libc::BPF_ALU | libc::BPF_RSH | libc::BPF_K, 16),
        step(libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K, workers),
    ]);
    if group.has_express {
        // The worker stays in X while A has the DSCP, in the place that it has in the header.
        program.push(step(libc::BPF_MISC | libc::BPF_TAX, 0));
        let dscp = u32::from(EXPRESS_CLASS & !ECN_BITS);
        let (class, mask, wanted) = match family {
            Family::V4 => (load(libc::BPF_B, 1), 0xfc, dscp),
            // Version, traffic class and the first bits of the flow label share two bytes.
            Family::V6 => (load(libc::BPF_H, 0), 0xfc << 4, dscp << 4),
        };
        program.extend([
            class,
            step(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, mask),
            libc::sock_filter {
                jf: 3,
                ..step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, wanted)
            },
            step(libc::BPF_LD | libc::BPF_IMM, workers),
            step(libc::BPF_ALU | libc::BPF_ADD | libc::BPF_X, 0),
            step(libc::BPF_RET | libc::BPF_A, 0),
            step(libc::BPF_MISC | libc::BPF_TXA, 0),
        ]);
    }
    program.push(step(libc::BPF_RET | libc::BPF_A, 0));
    program
}

/// An instruction that does not jump.
fn step(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf: 0,
        k,
    }
}
