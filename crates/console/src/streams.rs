//! The number of pages that may follow what happens: in all, and of one session.

use culvert_ids::TokenId;
use culvert_portal_base::{Place, Places};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Streams at once: all administrators of a large company with some pages each. They cost a connection
/// of 40 KiB each, and at worst a page a second.
const MAX_STREAMS: usize = 256;

/// Streams of one session: browsers have six connections to a portal, and some must be left for pages.
const MAX_STREAMS_PER_SESSION: u32 = 4;

/// The places for open streams: in all, and for each session.
#[derive(Clone, Debug)]
pub struct Streams {
    all: Arc<Semaphore>,
    by_session: Places<TokenId>,
}

impl Default for Streams {
    fn default() -> Self {
        Self {
            all: Arc::new(Semaphore::new(MAX_STREAMS)),
            by_session: Places::default(),
        }
    }
}

impl Streams {
    /// The place of one more stream of this session; none if all are taken.
    pub(super) fn take(&self, session: TokenId) -> Option<StreamPlace> {
        let all = Arc::clone(&self.all).try_acquire_owned().ok()?;
        let of_session = self.by_session.take(session, MAX_STREAMS_PER_SESSION)?;
        Some(StreamPlace {
            _all: all,
            _of_session: of_session,
        })
    }
}

/// The place of one open stream.
pub(super) struct StreamPlace {
    _all: OwnedSemaphorePermit,
    _of_session: Place<TokenId>,
}
