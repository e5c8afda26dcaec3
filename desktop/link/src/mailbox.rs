//! The way from the threads to the window: the newest state, and a few events.

use culvert_desktop_core::netcheck::Finding;
use culvert_desktop_core::phase::Contact;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The most events that wait. A person causes each, so the oldest are of no use any more when there are more.
const MAX_EVENTS: usize = 32;

/// An event for the window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The service does not carry a command out, with its reason in English.
    CommandRefused(String),
    /// The service did not answer a command.
    CommandLost,
    /// The last lines of the service's log, or the reason in English why it does not give them.
    Log(Result<Vec<String>, String>),
    /// The directory with the debug bundle, or the reason in English why there is none.
    Bundle(Result<PathBuf, String>),
    /// The network check has ended.
    Netcheck(Result<Vec<Finding>, String>),
}

#[derive(Default)]
struct Inner {
    contact: Option<(Contact, u64)>,
    events: VecDeque<Event>,
}

/// The newest state, which replaces one that nobody took, and events that wait.
pub struct Mailbox {
    inner: Mutex<Inner>,
    wake: Box<dyn Fn() + Send + Sync>,
}

impl std::fmt::Debug for Mailbox {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Mailbox").finish_non_exhaustive()
    }
}

impl Mailbox {
    /// A mailbox that calls `wake`, from any thread, whenever something came in.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            inner: Mutex::default(),
            wake: Box::new(wake),
        }
    }

    /// Puts the newest state in, of a connection that was opened in `round`.
    pub fn put_contact(&self, contact: Contact, round: u64) {
        self.lock().contact = Some((contact, round));
        (self.wake)();
    }

    /// Puts an event in.
    pub fn put(&self, event: Event) {
        let mut inner = self.lock();
        if inner.events.len() == MAX_EVENTS {
            inner.events.pop_front();
        }
        inner.events.push_back(event);
        drop(inner);
        (self.wake)();
    }

    /// Takes everything out: the newest state with its round, and the events.
    pub fn take(&self) -> (Option<(Contact, u64)>, VecDeque<Event>) {
        let mut inner = self.lock();
        (inner.contact.take(), std::mem::take(&mut inner.events))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_state_and_the_newest_events_are_there() {
        let mailbox = Mailbox::new(|| {});
        mailbox.put_contact(Contact::Away, 0);
        mailbox.put_contact(Contact::Forbidden, 1);
        for number in 0..=MAX_EVENTS {
            mailbox.put(Event::CommandRefused(number.to_string()));
        }
        let (contact, events) = mailbox.take();
        assert_eq!(contact, Some((Contact::Forbidden, 1)));
        assert_eq!(events.len(), MAX_EVENTS);
        assert_eq!(events[0], Event::CommandRefused("1".to_owned()));
        assert_eq!(mailbox.take(), (None, VecDeque::new()));
    }
}
