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
    fn take(&self, kept: StoredDescriptors) -> Vec<OwnedFd> {
        self.0.take(group(kept))
    }

    fn keep(&self, kept: StoredDescriptors, descriptors: &[BorrowedFd<'_>]) {
        self.0.keep(group(kept), descriptors);
    }

    fn forget(&self, kept: StoredDescriptors) -> bool {
        self.0.forget(group(kept))
    }
}

const fn group(kept: StoredDescriptors) -> &'static str {
    match kept {
        StoredDescriptors::Queues => "tun",
        StoredDescriptors::SocketsV4 => "udp4",
        StoredDescriptors::SocketsV6 => "udp6",
    }
}
