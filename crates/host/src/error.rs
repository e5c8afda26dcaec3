//! Errors of the host, worded for the person who can mend them.

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use crate::file_refusal::{FileRefusal, FileRefused};
use crate::interface_name::{InterfaceName, InvalidInterfaceName};
use crate::sysctl::forwarding_switch;
use culvert_base::Family;

/// The reason why the host could not be set up. Each text is one line that names the remedy where
/// there is one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// Configuration: a file or directory with secrets is not used.
    #[error(transparent)]
    FileRefused(#[from] FileRefused),

    /// Configuration: this cannot be the name of a file in a state directory.
    #[error(
        "{name:?} is no name for a state file: use printable ASCII without `/` and a leading dot"
    )]
    InvalidFileName {
        /// The name as given.
        name: String,
    },

    /// Configuration: this can't be a machine's id.
    #[error("{from}: an id has 1 to 128 letters, digits and any of `-_.:`")]
    InvalidMachineId {
        /// The source of the id.
        from: String,
    },

    /// Configuration: this cannot be the name of an interface.
    #[error(transparent)]
    InvalidInterfaceName(#[from] InvalidInterfaceName),

    /// Configuration: rules for another interface than the installed ones.
    #[error("the installed rules are for {installed}: install those for {asked} beside them")]
    OtherInterface {
        /// The interface of the installed rules.
        installed: InterfaceName,
        /// The interface of the rules that were to replace them.
        asked: InterfaceName,
    },

    /// Configuration: this mark cannot tell the tunnel's packets from others.
    #[error("0 is the mark that all other packets bear: choose another")]
    InvalidMark,

    /// Configuration: this routing table belongs to the kernel.
    #[error("table {number} belongs to the kernel: choose one but 0, 253, 254 and 255")]
    InvalidTable {
        /// The number as given.
        number: u32,
    },

    /// Configuration: rules of this preference would not decide anything.
    #[error("rules of preference {preference} come too late or too early: choose 1 to 32745")]
    InvalidPreference {
        /// The preference as given.
        preference: u32,
    },

    /// Configuration: more than can be set up.
    #[error("more than {max} {what}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// The most there may be.
        max: usize,
    },

    /// Local: a file in the state directory is damaged.
    #[error("{} is damaged: remove it, and a new one is made at the next start", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
    },

    /// Local: another process answers on the status socket.
    #[error("{} is in use: another one runs; choose another --status-socket", path.display())]
    SocketInUse {
        /// The socket.
        path: PathBuf,
    },

    /// Local: another tunnel uses the routing table.
    #[error(
        "routing table {number} is that of another tunnel on this host: end that one, or start this one \
         with an --interface, --table, --mark, --state-dir and --status-socket of its own"
    )]
    TableInUse {
        /// The table's number.
        number: u32,
    },

    /// Local: there is no such interface.
    #[error(
        "there is no interface {interface}: another program has removed it, or not yet made it"
    )]
    NoInterface {
        /// Its name.
        interface: InterfaceName,
    },

    /// Configuration: there is no such user to become.
    #[error(
        "there is no user {name:?}, or it is root: create one (`useradd --system --no-create-home \
         culvert`), or leave --user out"
    )]
    NoUser {
        /// As it was given.
        name: String,
    },

    /// Configuration: only root can become another user.
    #[error(
        "only root can become user {name}: start it as root, or as {name}, or leave --user out"
    )]
    NotRoot {
        /// The user that the process was to become.
        name: String,
    },

    /// Local: rights were to be given up by a process whose other threads would have kept them.
    #[error("rights can't be given up: this process has threads already")]
    HasThreads,

    /// Local: rights were given up, and are still there.
    #[error(
        "rights that were given up are still there, so it does not go on: the kernel or a security \
         module keeps them"
    )]
    StillRoot,

    /// Local: changing the network needs a capability that this process lacks.
    #[error("needs CAP_NET_ADMIN: run as root, or `setcap cap_net_admin+ep` on the program")]
    NeedsNetAdmin,

    /// Local: the kernel has no TUN driver, or its device node is missing.
    #[error(
        "no /dev/net/tun: `modprobe tun`, or pass the device into the container \
         (--device /dev/net/tun)"
    )]
    NoTunDevice,

    /// Local: the device node exists but may not be opened.
    #[error(
        "/dev/net/tun may not be opened: run as root, or allow this user (or the container's \
         device rules) to read and write it"
    )]
    TunDeviceForbidden,

    /// Local: the program `nft` is not there.
    #[error(
        "nft is not installed: install the package nftables (apt, dnf, zypper, pacman and apk call \
         it so)"
    )]
    NftMissing,

    /// Local: nothing here tells which program a packet comes from.
    #[error("programs can't be told apart here: {why}")]
    NoApplications {
        /// The reason, and the remedy.
        why: String,
    },

    /// Another program has taken the table away while it was being made.
    #[error(
        "the firewall table is gone right after it was made: does another program flush the rules?"
    )]
    FirewallFlushed,
    /// Local: `nft` refused.
    #[error("cannot {action}: nft says {message:?}")]
    Nft {
        /// The attempted action, as a verb phrase.
        action: String,
        /// The first line of its error text.
        message: String,
    },

    /// Local: the kernel does not forward packets of this family.
    #[error(
        "{family} forwarding is off, so a gateway has nowhere to pass packets on: \
         `sysctl -w {name}=1` (and a file in /etc/sysctl.d to keep it so), or start with \
         --enable-forwarding",
        name = forwarding_switch(*.family)
    )]
    ForwardingOff {
        /// The family.
        family: Family,
    },

    /// Local: forwarding is off and this process may not turn it on.
    #[error(
        "{family} forwarding cannot be turned on from here, /proc/sys is closed to this process: \
         `sysctl -w {name}=1` on the host (and a file in /etc/sysctl.d to keep it so)",
        name = forwarding_switch(*.family)
    )]
    ForwardingReadOnly {
        /// The family.
        family: Family,
    },

    /// Local: turning IPv6 forwarding on would cost the host its default route.
    #[error(
        "IPv6 forwarding would make {interface} ignore router advertisements, and the host lose \
         its default route: `sysctl -w net/ipv6/conf/{interface}/accept_ra=2` first"
    )]
    AdvertisementsLost {
        /// The interface with the route.
        interface: String,
    },

    /// Local: there is no systemd-resolved.
    #[error(
        "systemd-resolved does not answer on the system bus ({message}): start it (`systemctl start \
         systemd-resolved`), or choose another --dns"
    )]
    ResolvedMissing {
        /// The output of the program.
        message: String,
    },

    /// Local: systemd-resolved refused.
    #[error(
        "systemd-resolved refuses {action}: {message}; run as root or allow it by a polkit rule, leave \
         the tunnel's interface unmanaged by systemd-networkd, or choose another --dns"
    )]
    ResolvedRefused {
        /// The call.
        action: &'static str,
        /// The message of the program.
        message: String,
    },

    /// Local: systemd-resolved encrypts what it asks, and the client would not.
    #[error(
        "systemd-resolved asks {server} over TLS (DNSOverTLS={mode}), and the client would ask it for names of no \
         resource in the clear: leave those to systemd-resolved (`--dns-scope split`, and no resource whose pattern \
         leaves the last label open), name servers of your own (`--dns-upstream ADDR#NAME` for TLS), or set DNSOverTLS=no in \
         resolved.conf"
    )]
    ResolvedEncrypts {
        /// The first of its servers.
        server: IpAddr,
        /// `yes` or `opportunistic`.
        mode: String,
    },

    /// Local: there is no program `resolvconf`.
    #[error(
        "there is no program resolvconf: install openresolv or resolvconf, or choose another --dns"
    )]
    ResolvconfMissing,

    /// Local: the program `resolvconf` refused.
    #[error("resolvconf can't be told of the tunnel: {message}; choose another --dns")]
    ResolvconfRefused {
        /// The message of the program.
        message: String,
    },

    /// Configuration: the file that names resolvers is a link to what another program writes.
    #[error(
        "{} is a symbolic link to {}, which another program writes: put a plain file in its place, or \
         choose another --dns",
        path.display(), target.display()
    )]
    ResolvConfLink {
        /// The file.
        path: PathBuf,
        /// The target of the link.
        target: PathBuf,
    },

    /// Local: the file that names resolvers was written by a client whose backup is not here.
    #[error(
        "{} was written by a client with another --state-dir than {}: end that client or start it once \
         more, or write your own resolver into the file",
        path.display(), state.display()
    )]
    ResolvConfOfAnother {
        /// The file.
        path: PathBuf,
        /// The path that the backup would have.
        state: PathBuf,
    },

    /// Configuration: the file that names resolvers is longer than any that is one.
    #[error("{} is or would be longer than {max_bytes} bytes: shorten it, or use --dns off", path.display())]
    ResolvConfTooLong {
        /// The file.
        path: PathBuf,
        /// The most bytes it may have.
        max_bytes: usize,
    },

    /// Local: the file that names resolvers can't be written.
    #[error(
        "cannot write {}: {source}; make it writable to this process, or use --dns off", path.display()
    )]
    ResolvConfNotWritten {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },

    /// Local: the system refused.
    #[error("cannot {action}: {source}")]
    System {
        /// The attempted action, as a verb phrase.
        action: String,
        /// The system's answer.
        source: io::Error,
    },
}

impl HostError {
    /// True if a file was refused for this.
    #[must_use]
    pub fn is_refusal(&self, refusal: FileRefusal) -> bool {
        matches!(self, Self::FileRefused(refused) if refused.refusal == refusal)
    }

    /// An error of the system from trying to `action`.
    pub(crate) fn no_applications(why: impl Into<String>) -> Self {
        Self::NoApplications { why: why.into() }
    }

    pub(crate) fn system(action: &str, source: impl Into<io::Error>) -> Self {
        let source = source.into();
        if source.raw_os_error() == Some(rustix::io::Errno::PERM.raw_os_error()) {
            return Self::NeedsNetAdmin;
        }
        Self::System {
            action: action.to_owned(),
            source,
        }
    }

    /// An error of the system from trying to `verb` the file `path`.
    pub(crate) fn file(verb: &str, path: &Path, source: impl Into<io::Error>) -> Self {
        Self::System {
            action: format!("{verb} {}", path.display()),
            source: source.into(),
        }
    }
}
