//! Taking over a device whose queues an earlier process left with somebody who kept them.
//!
//! Nothing is believed of the descriptors: each is asked what it is, and all of them together must be the whole device that
//! would be made otherwise. A queue that is not among them would take packets that nobody reads.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use culvert_netlink::{Protocol, Socket};
use rustix::fs::{FileType, OFlags};

use crate::device::{Device, Options, Parts};
use crate::link::{self, Link};
use crate::steering::SteeringState;
use crate::{TunError, ioctl};

/// The device number of /dev/net/tun (`TUN_MINOR` of `linux/miscdevice.h`, below the major number of such devices).
const TUN_DEVICE: (u32, u32) = (10, 200);

impl Device {
    /// Takes over the interface that `tuns` are the queues of, in the order in which they were made: it stays as it
    /// was, up and with its addresses, except for other settings in `options`.
    ///
    /// If that fails, the descriptors are closed, and an interface of this name that they held is deleted, so that it
    /// can be made anew.
    ///
    /// # Errors
    /// [`TunError::NotItsQueues`] where they are not just what [`create`](Self::create) would make now, and its own.
    pub fn take_over(options: &Options, tuns: Vec<OwnedFd>) -> Result<Self, TunError> {
        let holder = tuns.iter().find(|tun| holds(tun.as_fd(), &options.name));
        let holder = holder.and_then(|tun| tun.try_clone().ok());
        let taken = take(options, &tuns).and_then(|steering| {
            let parts: Parts = (options.name.clone(), tuns, steering);
            let device = Self::assemble(parts, options)?;
            device.end_bound_of_others()?;
            Ok(device)
        });
        if taken.is_err() && holder.is_some() {
            delete(&options.name);
        }
        taken
    }
}

/// The state of the steering, if the descriptors are the wanted device.
fn take(options: &Options, tuns: &[OwnedFd]) -> Result<SteeringState, TunError> {
    let (steering, program) = match options.steering {
        None => (SteeringState::NotAsked, None),
        Some(steering) => {
            steering.validate()?;
            match steering.load() {
                Ok(program) => (SteeringState::On(steering), Some(program)),
                Err(reason) => (SteeringState::Off(reason), None),
            }
        }
    };
    let queues = match steering {
        SteeringState::On(steering) => steering.queues(),
        SteeringState::NotAsked | SteeringState::Off(_) => 1,
    };
    let mut flags = libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
    if program.is_some() {
        flags |= libc::IFF_MULTI_QUEUE;
    }
    check(options, tuns, queues, flags).map_err(|why| TunError::NotItsQueues {
        name: options.name.clone(),
        why,
    })?;
    // Of the newest version, and nobody's but ours whoever we are by now.
    if let (Some(program), Some(first)) = (program, tuns.first()) {
        ioctl::set_owner(first.as_fd(), rustix::process::geteuid().as_raw())
            .map_err(|error| TunError::from_system("protect the queues", error))?;
        ioctl::set_steering(first.as_fd(), program.as_fd())
            .map_err(|error| TunError::from_system("steer the queues", error))?;
    }
    for tun in tuns {
        rustix::fs::fcntl_setfl(tun, OFlags::RDWR | OFlags::NONBLOCK)
            .map_err(|error| TunError::from_system("keep the device", error.into()))?;
    }
    Ok(steering)
}

/// True if the descriptors are all the queues of the interface, each once, and it is of the right kind.
fn check(
    options: &Options,
    tuns: &[OwnedFd],
    queues: usize,
    flags: i32,
) -> Result<(), &'static str> {
    if tuns.len() != queues {
        return Err("there are more or fewer than it has now");
    }
    for tun in tuns {
        let (name, has) = interface(tun.as_fd()).ok_or("one is no queue of a TUN device")?;
        if name != options.name {
            return Err("one belongs to another interface");
        }
        if has != flags {
            return Err("the interface is of another kind, or one queue is not in use");
        }
        if !is_here(tun.as_fd()) {
            return Err("the interface is in another network namespace");
        }
    }
    match state(&options.name) {
        // The kernel counts them where there may be several.
        Some(link) if link.tun_queues.is_none_or(|count| count as usize == queues) => Ok(()),
        Some(_) => Err("the interface has other queues as well"),
        None => Err("the interface is gone"),
    }
}

/// Name and flags of the interface, where the descriptor is one of a TUN device that exists.
fn interface(tun: BorrowedFd<'_>) -> Option<(String, i32)> {
    let stat = rustix::fs::fstat(tun).ok()?;
    let device = (
        rustix::fs::major(stat.st_rdev),
        rustix::fs::minor(stat.st_rdev),
    );
    let is_tun = FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice;
    if !is_tun || device != TUN_DEVICE {
        return None;
    }
    ioctl::interface(tun).ok()
}

/// True if the interface is in the network namespace of this thread.
fn is_here(tun: BorrowedFd<'_>) -> bool {
    let here = rustix::fs::stat("/proc/thread-self/ns/net");
    let there = ioctl::namespace(tun).map(rustix::fs::fstat);
    match (here, there) {
        (Ok(here), Ok(Ok(there))) => (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino),
        _ => false,
    }
}

/// The state of the interface.
fn state(name: &str) -> Option<Link> {
    let socket = Socket::open(Protocol::Route, 0).ok()?;
    let index = rustix::net::netdevice::name_to_index(&socket, name).ok()?;
    Link::read(&socket, index).ok()
}

/// True if the descriptor holds the interface of this name in this network namespace.
fn holds(tun: BorrowedFd<'_>, name: &str) -> bool {
    interface(tun).is_some_and(|(its_name, _)| its_name == name) && is_here(tun)
}

/// Deletes the interface, as far as that goes: what is still in the way then, its making says.
fn delete(name: &str) {
    if let (Some(link), Ok(socket)) = (state(name), Socket::open(Protocol::Route, 0)) {
        let _stays = link::delete(&socket, link.index);
    }
}
