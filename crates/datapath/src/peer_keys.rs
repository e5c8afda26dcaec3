//! The keys of one peer as workers use them: the one to seal with, and the one that waits for the peer's first data.

use crate::sending::Sending;
use arc_swap::{ArcSwapOption, Guard};
use culvert_session::Transport;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The control thread sets both. A worker that opens the first data under the awaited key makes it the one to seal with
/// by itself. A peer that has lost its memory knows no other key, and nobody waits until the control thread has heard.
#[derive(Default)]
pub(crate) struct PeerKeys {
    sending: ArcSwapOption<Sending>,
    /// A responder's key. Locked by whoever changes either key, never by a worker that carries a packet.
    awaited: Mutex<Option<Arc<Transport>>>,
    /// Workers that keep frames until there is a key, one bit each.
    waiting: AtomicU64,
}

/// The key to seal with, held for a moment.
pub(crate) struct SendingKey(Guard<Option<Arc<Sending>>>);

impl Deref for SendingKey {
    type Target = Arc<Sending>;

    fn deref(&self) -> &Self::Target {
        self.0.as_ref().expect("it is made of a key that is there")
    }
}

impl PeerKeys {
    pub(crate) fn sending(&self) -> Option<SendingKey> {
        let key = self.sending.load();
        key.is_some().then(|| SendingKey(key))
    }

    /// The control thread's word: `current` is the key to seal with, and `awaited` becomes it with the peer's first data.
    /// A worker may have seen that data already; then `awaited` is the key, and the control thread will hear. True where
    /// the key to seal with is another one from here on.
    pub(crate) fn set(
        &self,
        current: Option<Arc<Transport>>,
        awaited: Option<Arc<Transport>>,
    ) -> bool {
        let mut waits = self.lock();
        let has = |key: &Arc<Transport>| {
            let sending = self.sending();
            sending.is_some_and(|sending| Arc::ptr_eq(&sending.transport, key))
        };
        if awaited.as_ref().is_some_and(has) {
            *waits = None;
            return false;
        }
        *waits = awaited;
        if current.as_ref().map_or(self.sending().is_none(), has) {
            return false;
        }
        self.sending
            .store(current.map(|key| Arc::new(Sending::new(key))));
        true
    }

    /// The first data has come under `key`. True where it is the key to seal with from here on.
    pub(crate) fn confirm(&self, key: &Arc<Transport>) -> bool {
        let mut waits = self.lock();
        let is_awaited = waits.take_if(|awaited| Arc::ptr_eq(awaited, key)).is_some();
        if is_awaited {
            let sending = Arc::new(Sending::new(Arc::clone(key)));
            self.sending.store(Some(sending));
        }
        is_awaited
    }

    /// Nobody seals any more under the key of now.
    pub(crate) fn retire(&self) {
        if let Some(sending) = self.sending() {
            sending.transport.retire();
        }
    }

    /// `worker` keeps frames until there is a key.
    pub(crate) fn wait(&self, worker: usize) {
        self.waiting.fetch_or(1 << worker, Ordering::SeqCst);
    }

    /// The workers that keep frames, one bit each. They keep them no longer.
    pub(crate) fn take_waiting(&self) -> u64 {
        match self.waiting.load(Ordering::SeqCst) {
            0 => 0,
            _ => self.waiting.swap(0, Ordering::SeqCst),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Transport>>> {
        self.awaited.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
