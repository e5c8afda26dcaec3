//! The thread that follows the service and carries commands to it. It polls; a request that stays open would replace this
//! file alone.

use crate::connection::{ExchangeError, Service, exchange};
use crate::mailbox::{Event, Mailbox};
use culvert_desktop_core::exchange::{AnswerError, Request};
use culvert_desktop_core::phase::Contact;
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

/// The time between two questions.
const INTERVAL: Duration = Duration::from_secs(1);

/// The time until the next attempt when there was no status. The window recovers within this and one exchange.
const RETRY: Duration = Duration::from_millis(250);

/// The time between two questions is at least this many times what one takes of a processor: a client with 20,000
/// resources costs this machine no more than one part in so many of it.
const COST: u32 = 20;

/// The longest time between two questions, whatever they cost: nobody looks at a state that is older.
const MAX_INTERVAL: Duration = Duration::from_secs(5);

/// The most commands that wait. A person clicks them.
const MAX_COMMANDS: usize = 8;

/// The thread that speaks to the service. It ends when this is dropped.
#[derive(Debug)]
pub struct Link {
    commands: SyncSender<Request>,
}

impl Link {
    /// Begins to follow `service`. States and events go into `mailbox`.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn start(service: Service, mailbox: Arc<Mailbox>) -> std::io::Result<Self> {
        let (commands, received) = sync_channel(MAX_COMMANDS);
        thread::Builder::new()
            .name("link".to_owned())
            .spawn(move || follow(&service, &mailbox, &received))?;
        Ok(Self { commands })
    }

    /// Sends a command. False if too many wait already.
    pub fn send(&self, command: Request) -> bool {
        self.commands.try_send(command).is_ok()
    }
}

fn follow(service: &Service, mailbox: &Mailbox, commands: &Receiver<Request>) {
    let mut last = None;
    loop {
        let start = processor_time();
        let contact = match exchange(service, &Request::Status) {
            Ok(status) => Contact::Status(status),
            Err(error) => error.into_contact(),
        };
        let pause = match contact {
            Contact::Status(_) => INTERVAL
                .max(processor_time().saturating_sub(start) * COST)
                .min(MAX_INTERVAL),
            _ => RETRY,
        };
        if last.as_ref() != Some(&contact) {
            last = Some(contact.clone());
            mailbox.put_contact(contact);
        }
        match commands.recv_timeout(pause) {
            // The loop asks for the state at once, which shows the command's effect.
            Ok(command) => execute(service, mailbox, &command),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn execute(service: &Service, mailbox: &Mailbox, command: &Request) {
    match exchange(service, command) {
        Ok(_) => {}
        Err(ExchangeError::Answer(AnswerError::Refused(text))) => {
            mailbox.put(Event::CommandRefused(text));
        }
        // The next question shows the reason.
        Err(_) => mailbox.put(Event::CommandLost),
    }
}

/// The time that this thread has used of a processor.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_nanos(u64::try_from(time.tv_nsec).unwrap_or(0))
}
