//! Errors of a socket, and the reaction that each asks of the sender.

use std::io;

use culvert_bpf::ProgramOff;

/// The reason why a socket could not be opened. Each message is one line that names the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UdpError {
    /// Configuration: another socket has the port.
    #[error(
        "UDP port {port} is taken: choose another listen port, or stop the program that has it (`ss -ulpn sport = :{port}`)"
    )]
    PortTaken {
        /// The port asked for.
        port: u16,
    },

    /// Configuration: the port is below `ip_unprivileged_port_start`.
    #[error(
        "UDP port {port} is reserved: needs CAP_NET_BIND_SERVICE, or choose a port from 1024 up"
    )]
    PortReserved {
        /// The port asked for.
        port: u16,
    },

    /// Local: the kernel has no such address family.
    #[error("this machine has no {family}")]
    NoSuchFamily {
        /// "IPv4" or "IPv6".
        family: &'static str,
    },

    /// Local: descriptors that were to be sockets of a group are not.
    #[error("the descriptors that were kept are not its {family} sockets: {why}")]
    NotItsSockets {
        /// "IPv4" or "IPv6".
        family: &'static str,
        /// The fault of the descriptors.
        why: &'static str,
    },

    /// Local: setting a mark needs a capability this process lacks.
    #[error(
        "needs CAP_NET_ADMIN to mark its packets: run as root, or `setcap cap_net_admin+ep` on the program"
    )]
    MarkRefused,

    /// Local: the kernel does not run the program that gives priority packets a socket of their own.
    #[error("cannot sort datagrams by traffic class: {reason}")]
    Sorting {
        /// The reason.
        reason: ProgramOff,
    },

    /// Local: the kernel refused for another reason.
    #[error("cannot {action}: {source}")]
    System {
        /// The operation that failed, as a verb phrase.
        action: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
}

/// The reason why datagrams were not sent; none of them was. Each variant asks for another
/// reaction.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The socket's buffer is full: wait until it is writable.
    #[error("the send buffer is full")]
    WouldBlock,
    /// The kernel or the route's device does not take several datagrams in one send: send them one by one, and remember.
    #[error("segmentation offload is not supported here")]
    SegmentationUnsupported,
    /// With several datagrams: one exceeds the path MTU, which segmentation refuses; sent one by one the kernel fragments
    /// them. With one datagram: it exceeds what UDP can carry.
    #[error("the datagram is too big")]
    TooBig,
    /// The source address asked for is no longer ours, or no route leaves from it: forget it and send without.
    #[error("the source address is no longer usable")]
    SourceGone,
    /// The kernel has failed for a moment, such as for want of memory: send the same again, several datagrams one by one.
    #[error("the kernel failed to send: {0}")]
    Passing(#[source] io::Error),
    /// Anything else, such as no route to the destination or a firewall's refusal.
    #[error("{0}")]
    Other(#[source] io::Error),
}
