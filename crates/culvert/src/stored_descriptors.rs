//! The descriptors that the service manager keeps of a client or gateway during a restart.

use crate::exit::{Failure, Status};
use culvert_engine::{DescriptorStore, StoredDescriptors};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

/// The groups of descriptors, as they are named to the service manager.
const GROUPS: [&str; 3] = [
    group(StoredDescriptors::Queues),
    group(StoredDescriptors::SocketsV4),
    group(StoredDescriptors::SocketsV6),
];

/// The service manager's store, as the data plane knows it.
#[derive(Debug)]
pub(crate) struct Store(culvert_host::DescriptorStore);

impl Store {
    /// Takes in what the service manager kept, where there is one. To be called before other programs are started.
    pub(crate) fn open() -> Result<Option<Arc<Self>>, Failure> {
        let opened = culvert_host::DescriptorStore::open(&GROUPS);
        let opened = opened.map_err(|error| Failure::new(Status::Failed, error))?;
        Ok(opened.map(|store| Arc::new(Self(store))))
    }

    /// Throws away inherited descriptors that have no use. To be called once there is a log.
    pub(crate) fn drop_unknown(&self) {
        self.0.drop_unknown();
    }
}

impl DescriptorStore for Store {
    fn take(&self, stored: StoredDescriptors) -> Vec<OwnedFd> {
        self.0.take(group(stored))
    }

    fn keep(&self, stored: StoredDescriptors, descriptors: &[BorrowedFd<'_>]) {
        self.0.keep(group(stored), descriptors);
    }

    fn forget(&self, stored: StoredDescriptors) -> bool {
        self.0.forget(group(stored))
    }
}

const fn group(stored: StoredDescriptors) -> &'static str {
    match stored {
        StoredDescriptors::Queues => "tun",
        StoredDescriptors::SocketsV4 => "udp4",
        StoredDescriptors::SocketsV6 => "udp6",
    }
}
