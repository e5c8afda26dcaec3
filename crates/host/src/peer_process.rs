//! The process at the other end of a Unix socket, told apart from a later one with its number.

use crate::system_helper::access::SystemAccess;
use nix::errno::Errno;
use nix::sys::socket::{getsockopt, sockopt};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// A process that connected a Unix socket. Its number alone may be another's by now.
#[derive(Debug)]
pub struct PeerProcess {
    pid: u32,
    identity: Identity,
}

/// An identity that no other process has.
#[derive(Debug)]
enum Identity {
    /// A pidfd that the kernel took from the socket (`SO_PEERPIDFD`, Linux 6.5).
    Descriptor(OwnedFd),
    /// When it was started, in ticks since boot, as read when the connection was accepted. A process
    /// that ended before that moment is not told apart.
    StartTime(u64),
}

impl PeerProcess {
    /// The process of `pid`, which `SO_PEERCRED` gave, at the other end of `socket`.
    ///
    /// # Errors
    /// The system's, where it has ended, or is of another PID namespace.
    pub(crate) fn of(socket: &impl AsFd, pid: u32) -> io::Result<Self> {
        let identity = match getsockopt(socket, sockopt::PeerPidfd) {
            Ok(descriptor) => Identity::Descriptor(descriptor),
            Err(Errno::ENOPROTOOPT) => {
                let access = SystemAccess::of_process();
                Identity::StartTime(access.start_time(pid)?)
            }
            Err(error) => return Err(error.into()),
        };
        Ok(Self { pid, identity })
    }

    /// Its number. It means this process as long as [`is_running`](Self::is_running) says so.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// True if the process has not ended: its number is no other process's then.
    pub(crate) fn is_running(&self) -> bool {
        match &self.identity {
            Identity::Descriptor(descriptor) => {
                // A pidfd is readable from the moment at which its process ended.
                let mut polled = [PollFd::new(descriptor, PollFlags::IN)];
                poll(&mut polled, Some(&Timespec::default())) == Ok(0)
            }
            Identity::StartTime(started) => {
                let access = SystemAccess::of_process();
                access
                    .start_time(self.pid)
                    .is_ok_and(|current| current == *started)
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::start_time::start_time;
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    use std::os::unix::net::UnixStream;
    use std::process::{Child, Command};

    fn sleeping() -> Child {
        Command::new("sleep").arg("600").spawn().unwrap()
    }

    /// As the kernel of 6.5 and an older one make them known.
    fn both_ways(child: &Child) -> [PeerProcess; 2] {
        let pid = child.id();
        let raw = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        let descriptor = pidfd_open(raw, PidfdFlags::empty()).unwrap();
        [
            Identity::Descriptor(descriptor),
            Identity::StartTime(start_time(pid).unwrap()),
        ]
        .map(|identity| PeerProcess { pid, identity })
    }

    /// A process that has ended, known in both ways.
    pub(crate) fn ended() -> [PeerProcess; 2] {
        let mut child = sleeping();
        let processes = both_ways(&child);
        child.kill().unwrap();
        child.wait().unwrap();
        processes
    }

    /// This process, and one that ended before this one got its number.
    pub(crate) fn this_and_its_predecessor() -> [PeerProcess; 2] {
        let pid = std::process::id();
        let started = start_time(pid).unwrap();
        [started, started - 1].map(|time| PeerProcess {
            pid,
            identity: Identity::StartTime(time),
        })
    }

    #[test]
    fn a_process_runs_until_it_has_ended() {
        let mut child = sleeping();
        let processes = both_ways(&child);
        assert!(processes.iter().all(PeerProcess::is_running));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!processes.iter().any(PeerProcess::is_running));
    }

    #[test]
    fn a_later_process_with_the_same_number_is_another() {
        let [this, predecessor] = this_and_its_predecessor();
        assert!(this.is_running());
        assert!(!predecessor.is_running());
    }

    #[test]
    fn the_other_end_of_a_pair_is_this_process_and_runs() {
        let (here, _there) = UnixStream::pair().unwrap();
        let process = PeerProcess::of(&here, std::process::id()).unwrap();
        assert!(process.is_running());
    }
}
