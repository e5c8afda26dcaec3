//! Making the device, and changing it while it is in use.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use culvert_bpf::ProgramOff;
use culvert_netlink::route::link::LinkAttribute;
use culvert_netlink::{Protocol, Socket};
use rustix::fs::{Mode, OFlags};

use crate::bound::{self, BoundState, QueueCredit};
use crate::link::{self, Link};
use crate::offload::{OffReason, OffloadGroup, Offloads};
use crate::queue::Queue;
use crate::steering::{Steering, SteeringState};
use crate::{TunError, ioctl};

/// The longest interface name in bytes: `IFNAMSIZ` without the terminating zero.
const MAX_NAME_BYTES: usize = libc::IFNAMSIZ - 1;

/// The least MTU an IPv4 link may have (RFC 791 §3.2); the kernel's limit for TUN devices.
const MIN_MTU_BYTES: u16 = 68;

/// The frames that a TUN queue holds unless told otherwise (`TUN_READQ_SIZE`).
const KERNEL_QUEUE_FRAMES: u32 = 500;

/// The settings of a device to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The interface's name, at most 15 bytes; a `%d` in it is replaced by the lowest free number.
    pub name: String,
    /// The MTU in bytes.
    pub mtu: u16,
    /// True to use superframes and unfinished checksums, as far as the kernel has them.
    pub offload: bool,
    /// The spread of packets over several queues; `None` for one queue. If the kernel cannot run the steering program,
    /// the device has one queue too, because several queues without it would reorder flows.
    pub steering: Option<Steering>,
    /// True to limit the bytes that wait in the queues, as far as the kernel can.
    pub bound: bool,
}

/// A TUN interface. It exists until this and all its queues are dropped.
///
/// All methods take `&self` and are for a control thread: each is a few system calls.
#[derive(Debug)]
pub struct Device {
    name: String,
    index: u32,
    queues: Vec<Queue>,
    /// The first queue's descriptor again, for what concerns the whole device.
    control: OwnedFd,
    /// Speaks to the network namespace that the device was made in. A request and its answer belong together.
    netlink: Mutex<Socket>,
    offloads: Mutex<Offloads>,
    steering: SteeringState,
    bound: BoundState,
    credits: Vec<QueueCredit>,
}

impl Device {
    /// Makes the interface: down, without addresses, with the MTU of `options`.
    ///
    /// # Errors
    /// [`TunError`], for the configuration or this machine; [`TunError::InUse`] where the name is taken. Missing offloads,
    /// steering and bound are not errors: see [`offloads`](Self::offloads), [`steering`](Self::steering) and
    /// [`bound`](Self::bound).
    pub fn create(options: &Options) -> Result<Self, TunError> {
        validate_name(&options.name)?;
        if options.mtu < MIN_MTU_BYTES {
            return Err(TunError::InvalidMtu { mtu: options.mtu });
        }
        let parts = match options.steering {
            None => one_queue(&options.name, SteeringState::NotAsked)?,
            Some(steering) => {
                steering.validate()?;
                match steered_queues(&options.name, steering)? {
                    Ok(parts) => parts,
                    Err(reason) => one_queue(&options.name, SteeringState::Off(reason))?,
                }
            }
        };
        Self::assemble(parts, options)
    }

    /// Sets up what all queues have in common.
    pub(crate) fn assemble(parts: Parts, options: &Options) -> Result<Self, TunError> {
        let (name, tuns, steering) = parts;
        let first = tuns.first().map(AsFd::as_fd).ok_or(TunError::NoTunDevice)?;
        let control = first
            .try_clone_to_owned()
            .map_err(|error| TunError::from_system("keep the device", error))?;
        ioctl::set_header_size(first)
            .map_err(|error| TunError::from_system("set the frame format", error))?;
        let offloads = start_offloads(first, options.offload)?;
        let netlink = Socket::open(Protocol::Route, 0)
            .map_err(|error| TunError::from_system("open a netlink socket", error))?;
        let index = rustix::net::netdevice::name_to_index(&netlink, &name)
            .map_err(|error| TunError::from_system("look up the interface", error.into()))?;
        let mut device = Self {
            name,
            index,
            queues: tuns.into_iter().map(Queue::new).collect(),
            control,
            netlink: Mutex::new(netlink),
            offloads: Mutex::new(offloads),
            steering,
            bound: BoundState::NotAsked,
            credits: Vec::new(),
        };
        device
            .set_mtu(options.mtu)
            .map_err(|error| TunError::from_system("set the MTU", error))?;
        if options.bound {
            device.start_bound()?;
        }
        Ok(device)
    }

    /// Has the kernel bound the queues in bytes. Their length in frames must not be what bounds them then.
    ///
    /// A queueing discipline is of no use in front of a TUN, which never tells it to wait. It would hide from TCP what the
    /// queue refuses: without it, TCP hears of it at once, and keeps the packet instead of losing it. And it would allocate
    /// room for the length of the queue, three times for each of the 256 queues that a device may have.
    fn start_bound(&mut self) -> Result<(), TunError> {
        link::set_root_discipline(&lock(&self.netlink), self.index, "noqueue")
            .map_err(|error| TunError::from_system("remove the queueing discipline", error))?;
        match bound::start(self.control.as_fd(), self.queues.len()) {
            Ok(credits) => {
                self.set_queue_len(bound::MAX_WAITING_PACKETS)?;
                self.credits = credits;
                self.bound = BoundState::On;
            }
            Err(reason) => self.bound = BoundState::Off(reason),
        }
        Ok(())
    }

    /// Takes away the bound that an earlier process has set, where this one has none: nobody keeps its credits.
    pub(crate) fn end_bound_of_others(&self) -> Result<(), TunError> {
        if self.bound == BoundState::On {
            return Ok(());
        }
        ioctl::clear_filter(self.control.as_fd())
            .map_err(|error| TunError::from_system("take the bound away", error))?;
        self.set_queue_len(KERNEL_QUEUE_FRAMES)
    }

    /// Deletes the interface, whoever else holds its queues.
    ///
    /// # Errors
    /// `ENODEV` when it is gone from the namespace it was made in; the kernel's others.
    pub fn delete(&self) -> io::Result<()> {
        link::delete(&lock(&self.netlink), self.index)
    }

    /// The name the interface was made with, patterns filled in.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The interface's index in the namespace it was made in.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// The queues that were not given away, in their order.
    pub fn queues(&self) -> &[Queue] {
        &self.queues
    }

    /// Gives the queues away, the first time; nothing afterwards. Priority queues are the first.
    pub fn take_queues(&mut self) -> Vec<Queue> {
        std::mem::take(&mut self.queues)
    }

    /// Gives the credits of the queues away, in their order, the first time; nothing afterwards, and where there is no
    /// bound. The reader of a queue must keep its credit: otherwise the queue fills up for good.
    pub fn take_credits(&mut self) -> Vec<QueueCredit> {
        std::mem::take(&mut self.credits)
    }

    /// The state of the bound that was asked for.
    pub fn bound(&self) -> BoundState {
        self.bound
    }

    /// The state of the steering that was asked for.
    pub fn steering(&self) -> SteeringState {
        self.steering
    }

    /// The offloads in use, and why any is not.
    pub fn offloads(&self) -> Offloads {
        *lock(&self.offloads)
    }

    /// Turns `group` off while the device is in use, after the kernel has refused such a frame. Returns the offloads in
    /// use from here on; frames that wait in a queue may still be of the old kind.
    ///
    /// # Errors
    /// The kernel's, from TUNSETOFFLOAD; nothing is changed then.
    pub fn turn_off(&self, group: OffloadGroup) -> io::Result<Offloads> {
        let mut offloads = lock(&self.offloads);
        let fewer = offloads.without(group, OffReason::FailedInUse);
        fewer.apply(self.control.as_fd())?;
        *offloads = fewer;
        Ok(fewer)
    }

    /// Bounds the superframes the host makes for this device: at most `max_segments` packets each and, if given, at most
    /// `max_bytes` with headers (at least 2048 and at most 65536).
    ///
    /// # Errors
    /// The kernel's answer; `EPERM` without CAP_NET_ADMIN.
    pub fn set_gso_limits(&self, max_segments: u32, max_bytes: Option<u32>) -> io::Result<()> {
        let mut limits = vec![LinkAttribute::GsoMaxSegs(max_segments)];
        if let Some(bytes) = max_bytes {
            limits.push(LinkAttribute::GsoMaxSize(bytes));
            // Since Linux 6.3 IPv4 has a limit of its own; earlier kernels ignore the attribute.
            limits.push(LinkAttribute::GsoIpv4MaxSize(bytes));
        }
        self.change(limits)
    }

    /// Sets how many frames may wait in each queue (`txqueuelen`).
    fn set_queue_len(&self, frames: u32) -> Result<(), TunError> {
        self.change(vec![LinkAttribute::TxQueueLen(frames)])
            .map_err(|error| TunError::from_system("set the queue length", error))
    }

    /// Sets the MTU in bytes.
    ///
    /// # Errors
    /// The kernel's answer; `EPERM` without CAP_NET_ADMIN.
    pub fn set_mtu(&self, mtu: u16) -> io::Result<()> {
        self.change(vec![LinkAttribute::Mtu(u32::from(mtu))])
    }

    /// The present MTU in bytes: anyone may change it.
    ///
    /// # Errors
    /// `ENODEV` when the interface is gone from the namespace it was made in; the kernel's others.
    pub fn mtu(&self) -> io::Result<u16> {
        let mtu = self.link()?.mtu.ok_or(io::ErrorKind::InvalidData)?;
        Ok(u16::try_from(mtu).unwrap_or(u16::MAX))
    }

    /// True if the interface is administratively up.
    ///
    /// # Errors
    /// As [`mtu`](Self::mtu).
    pub fn is_up(&self) -> io::Result<bool> {
        Ok(self.link()?.up)
    }

    /// The present name of the interface, wherever it was moved to; `None` when it was deleted. This tells a deleted
    /// interface from one that left this namespace, which [`LinkEvent::Removed`](crate::LinkEvent::Removed) does not.
    ///
    /// # Errors
    /// The kernel's, from TUNGETIFF.
    pub fn current_name(&self) -> io::Result<Option<String>> {
        match ioctl::current_name(self.control.as_fd()) {
            Ok(name) => Ok(Some(name)),
            Err(error) if error.raw_os_error() == Some(libc::EBADFD) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn link(&self) -> io::Result<Link> {
        Link::read(&lock(&self.netlink), self.index)
    }

    fn change(&self, attributes: Vec<LinkAttribute>) -> io::Result<()> {
        link::change(&lock(&self.netlink), self.index, attributes)
    }
}

/// A poisoned lock is taken all the same: what it guards is whole after every statement.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The kernel's rules (`dev_valid_name` and `__dev_alloc_name`), told better than by its `EINVAL`.
fn validate_name(name: &str) -> Result<(), TunError> {
    let why = if name.is_empty() {
        "it is empty"
    } else if name.len() > MAX_NAME_BYTES {
        "it is longer than 15 bytes"
    } else if name == "." || name == ".." {
        "it names a directory"
    } else if name.bytes().any(|byte| {
        byte == b'/' || byte == b':' || byte == 0 || byte.is_ascii_whitespace() || byte == 0x0b
    }) {
        "it has a slash, a colon or a space"
    } else if name.replacen("%d", "", 1).contains('%') {
        "a percent sign may only stand in one %d"
    } else {
        return Ok(());
    };
    Err(TunError::InvalidName {
        name: name.to_owned(),
        why,
    })
}

/// The name, the queues, and what became of the steering.
pub(crate) type Parts = (String, Vec<OwnedFd>, SteeringState);

/// IFF_TUN_EXCL refuses an interface that exists, whether single-queue or multi-queue, held or persistent: a queue that
/// joined another's device would take its packets.
const NEW_DEVICE: i32 = libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR | libc::IFF_TUN_EXCL;

fn one_queue(name: &str, steering: SteeringState) -> Result<Parts, TunError> {
    let tun = open_tun()?;
    let name =
        ioctl::attach(tun.as_fd(), name, NEW_DEVICE).map_err(|error| attach_error(name, error))?;
    Ok((name, vec![tun], steering))
}

/// A device of several queues under a steering program; the reason when it cannot have one.
fn steered_queues(name: &str, steering: Steering) -> Result<Result<Parts, ProgramOff>, TunError> {
    let program = match steering.load() {
        Ok(program) => program,
        Err(reason) => return Ok(Err(reason)),
    };
    let first = open_tun()?;
    let flags = NEW_DEVICE | libc::IFF_MULTI_QUEUE;
    let name =
        ioctl::attach(first.as_fd(), name, flags).map_err(|error| attach_error(name, error))?;
    // Without an owner any local user could attach a queue of their own and read the packets steered to it.
    ioctl::set_owner(first.as_fd(), rustix::process::geteuid().as_raw())
        .map_err(|error| TunError::from_system("protect the queues", error))?;
    if let Err(error) = ioctl::set_steering(first.as_fd(), program.as_fd()) {
        return Ok(Err(ProgramOff::from_error(&error)));
    }
    let mut tuns = vec![first];
    while tuns.len() < steering.queues() {
        let tun = open_tun()?;
        ioctl::attach(tun.as_fd(), &name, flags & !libc::IFF_TUN_EXCL)
            .map_err(|error| TunError::from_system("add a queue", error))?;
        tuns.push(tun);
    }
    Ok(Ok((name, tuns, SteeringState::On(steering))))
}

fn open_tun() -> Result<OwnedFd, TunError> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
    rustix::fs::open("/dev/net/tun", flags, Mode::empty()).map_err(|error| {
        use rustix::io::Errno;
        match error {
            Errno::NOENT | Errno::NODEV | Errno::NXIO | Errno::NOTDIR => TunError::NoTunDevice,
            Errno::ACCESS | Errno::PERM => TunError::TunDeviceForbidden,
            error => TunError::System {
                action: "open /dev/net/tun",
                source: error.into(),
            },
        }
    })
}

fn attach_error(name: &str, error: io::Error) -> TunError {
    match error.raw_os_error() {
        Some(libc::EBUSY | libc::EEXIST) => TunError::InUse {
            name: name.to_owned(),
        },
        _ => TunError::from_system("create the interface", error),
    }
}

fn start_offloads(tun: BorrowedFd<'_>, wanted: bool) -> Result<Offloads, TunError> {
    if wanted {
        return Ok(Offloads::probe(tun));
    }
    let offloads = Offloads::off(OffReason::ByConfiguration);
    offloads
        .apply(tun)
        .map_err(|error| TunError::from_system("turn the offloads off", error))?;
    Ok(offloads)
}
