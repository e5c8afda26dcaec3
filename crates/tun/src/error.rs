//! Errors of the device, written for the person who can fix them.

use std::io;

/// The reason why a device could not be made or changed. Each message is one line that names the
/// remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TunError {
    /// Configuration: the name cannot be an interface name.
    #[error("{name:?} is not an interface name: {why}")]
    InvalidName {
        /// The name as given.
        name: String,
        /// The rule it breaks.
        why: &'static str,
    },

    /// Configuration: the kernel does not allow this MTU on a TUN device.
    #[error(
        "MTU {mtu} is out of range: choose 1280 to 65535 (68 is the least where only IPv4 is used)"
    )]
    InvalidMtu {
        /// The MTU as given, in bytes.
        mtu: u16,
    },

    /// Configuration: steering needs at least one bulk queue and at most [`MAX_QUEUES`](crate::MAX_QUEUES) in all.
    #[error(
        "{queues} queues cannot be steered: choose at least one bulk queue and at most {} in all",
        crate::MAX_QUEUES
    )]
    InvalidSteering {
        /// The number of queues asked for.
        queues: usize,
    },

    /// Configuration: an interface of that name exists, held by another process or left behind.
    #[error(
        "{name} is in use: another process holds it, or an interface of that name exists; end that process or choose another name. `ip link delete {name}` removes an interface that nobody holds"
    )]
    InUse {
        /// The name of the interface.
        name: String,
    },

    /// Local: descriptors that were to be this device's queues are not.
    #[error("the descriptors that were kept are not the queues of {name}: {why}")]
    NotItsQueues {
        /// The name that was asked for.
        name: String,
        /// The fault of the descriptors.
        why: &'static str,
    },

    /// Local: the kernel has no TUN driver, or its device node is missing.
    #[error(
        "no /dev/net/tun: `modprobe tun`, or pass the device into the container (--device /dev/net/tun)"
    )]
    NoTunDevice,

    /// Local: the device node exists but may not be opened.
    #[error(
        "/dev/net/tun may not be opened: run as root, or allow this user (or the container's device rules) to read and write it"
    )]
    TunDeviceForbidden,

    /// Local: changing network interfaces needs a capability this process lacks.
    #[error("needs CAP_NET_ADMIN: run as root, or `setcap cap_net_admin+ep` on the program")]
    NeedsNetAdmin,

    /// Local: the kernel refused for another reason.
    #[error("cannot {action}: {source}")]
    System {
        /// The operation that failed, as a verb phrase.
        action: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl TunError {
    /// An error of `action`, with the ones that have a known remedy recognised.
    pub(crate) fn from_system(action: &'static str, source: io::Error) -> Self {
        match source.raw_os_error() {
            Some(libc::EPERM) => Self::NeedsNetAdmin,
            _ => Self::System { action, source },
        }
    }
}
