//! One connection, as it is counted.

use super::class::Class;
use super::tables::{Seat, Seated, Tables};
use culvert_fair::Subscriber;
use culvert_ids::ActorId;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{Notify, OwnedSemaphorePermit};

/// A connection that is counted as long as it lives. Every request has it as an extension.
#[derive(Debug)]
pub struct Connection {
    tables: Arc<Tables>,
    /// The other end, and whether it speaks for others.
    peer: IpAddr,
    is_proxy: bool,
    evicted: Arc<Notify>,
    seat: Mutex<Option<Seat>>,
    _open: OwnedSemaphorePermit,
}

impl Connection {
    pub(super) fn admit(
        tables: Arc<Tables>,
        peer: IpAddr,
        is_proxy: bool,
        class: Class,
        open: OwnedSemaphorePermit,
    ) -> Option<Self> {
        let connection = Self {
            tables,
            peer,
            is_proxy,
            evicted: Arc::default(),
            seat: Mutex::default(),
            _open: open,
        };
        let subscriber = connection.subscriber_at(peer);
        connection
            .take(class, subscriber, peer)
            .then_some(connection)
    }

    /// Returns once the connection has to give way to another.
    pub async fn evicted(&self) {
        self.evicted.notified().await;
    }

    /// The TLS handshake is done. Says whether there is room for what follows.
    pub fn has_shaken_hands(&self) -> bool {
        self.take(Class::Stranger, self.subscriber_at(self.peer), self.peer)
    }

    /// A request came, from this address by the word of a trusted proxy. A connection whose caller is known goes on as
    /// theirs, unless it is a proxy's, where each request may be somebody else's. Says whether there is room.
    pub fn asks(&self, from: IpAddr) -> bool {
        let is_known = self.class().is_some_and(|class| class != Class::Stranger);
        if is_known && !self.is_proxy {
            return true;
        }
        if self.take(Class::Stranger, self.subscriber_at(from), from) {
            return true;
        }
        // The answer that says so has to pass all the same.
        if !self.take(Class::Stranger, self.subscriber_at(self.peer), self.peer) {
            self.evicted.notify_one();
        }
        false
    }

    /// It is this actor who asks. If the actor has too many connections, this one counts as a stranger's still.
    pub fn is_of(&self, actor: ActorId) {
        let subscriber = self.tables.subscriber_of(actor);
        self.take(Class::Caller, subscriber, self.peer);
    }

    /// It becomes the session of a machine at this address. Says whether there is room.
    pub fn is_of_machine(&self, from: IpAddr) -> bool {
        self.take(Class::Machine, Subscriber::of(from), from)
    }

    fn subscriber_at(&self, address: IpAddr) -> Subscriber {
        match self.is_proxy && address == self.peer {
            true => Subscriber::proxy(address),
            false => Subscriber::of(address),
        }
    }

    fn class(&self) -> Option<Class> {
        let seat = self.seat.lock().unwrap_or_else(PoisonError::into_inner);
        seat.map(|seat| seat.class)
    }

    fn take(&self, class: Class, subscriber: Subscriber, address: IpAddr) -> bool {
        let seated = Seated {
            address,
            evicted: Arc::clone(&self.evicted),
        };
        let mut seat = self.seat.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = self.tables.seat(class, subscriber, seated, *seat);
        match (taken, *seat) {
            (Some(taken), _) => *seat = Some(taken),
            // The seat was given up for one of the same class that there is not.
            (None, Some(before)) if before.class == class => *seat = None,
            (None, _) => {}
        }
        taken.is_some()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let seat = self.seat.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(seat) = seat.take() {
            self.tables.unseat(seat);
        }
    }
}
