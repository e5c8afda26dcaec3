//! Descriptors that outlive this process: somebody else has them too, and hands them to the next one.

use std::fmt;
use std::os::fd::{BorrowedFd, OwnedFd};

/// A set of descriptors that is kept together: one device has each of them once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StoredDescriptors {
    /// The TUN's queues, in their order.
    Queues,
    /// The workers' sockets of IPv4, in the order of the workers.
    SocketsV4,
    /// Those of IPv6.
    SocketsV6,
}

impl StoredDescriptors {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Queues, Self::SocketsV4, Self::SocketsV6];
}

/// A keeper of descriptors, such as a service manager. It is called by the control thread, and when a device starts. It
/// logs its failures, since the device works without it.
pub trait DescriptorStore: fmt::Debug + Send + Sync {
    /// The descriptors that an earlier process left, in the order in which it gave them. They are returned once:
    /// afterwards, and if some are missing, there are none. The store keeps them all the same.
    fn take(&self, stored: StoredDescriptors) -> Vec<OwnedFd>;

    /// Keeps these from here on, in the place of what was forgotten. If something of this kind is kept and was not
    /// forgotten, it is these.
    fn keep(&self, stored: StoredDescriptors, descriptors: &[BorrowedFd<'_>]);

    /// Has what is kept of this kind closed, a moment later. False where nothing is.
    fn forget(&self, stored: StoredDescriptors) -> bool;
}
