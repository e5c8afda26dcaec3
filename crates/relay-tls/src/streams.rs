//! The streams of an end to its relays: opened and closed as its core says, with news of each for the core.

use crate::{Bridge, BridgeSettings};
use culvert_ids::RelayId;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// News that wait for the core. A stream has two of them in its life, and waits with the next.
const NEWS_MAX: usize = 64;

/// The streams of an end. `K` is the owner of a stream: a client has streams for each gateway, a gateway for itself.
#[derive(Debug)]
pub struct Streams<K> {
    running: BTreeMap<(K, RelayId), Running>,
    started: u64,
    sender: mpsc::Sender<Numbered<K>>,
    received: mpsc::Receiver<Numbered<K>>,
}

/// News of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamNews<K> {
    /// The owner of the stream.
    pub owner: K,
    /// The relay to which it leads.
    pub relay: RelayId,
    /// The news.
    pub event: StreamEvent,
}

/// An event in the life of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamEvent {
    /// It is open: this loopback address stands for the relay.
    Opened(SocketAddr),
    /// It ended, or could not be opened, for this reason.
    Ended(String),
}

/// News with the number of the stream: those of one that was closed meanwhile are old.
#[derive(Debug)]
struct Numbered<K> {
    number: u64,
    news: StreamNews<K>,
}

/// A stream that is open or being opened. It closes when this goes.
#[derive(Debug)]
struct Running {
    number: u64,
    addresses: Vec<SocketAddr>,
    task: JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl<K: Copy + Ord + Send + Sync + 'static> Streams<K> {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        let (sender, received) = mpsc::channel(NEWS_MAX);
        Self {
            running: BTreeMap::new(),
            started: 0,
            sender,
            received,
        }
    }

    /// Opens a stream, instead of one that the owner may have to that relay.
    pub fn open(&mut self, owner: K, relay: RelayId, settings: BridgeSettings) {
        self.started += 1;
        let number = self.started;
        let addresses = settings.addresses.clone();
        let sender = self.sender.clone();
        let task = tokio::spawn(async move {
            let tell = |event| {
                let news = StreamNews {
                    owner,
                    relay,
                    event,
                };
                sender.send(Numbered { number, news })
            };
            let why = match Bridge::open(settings).await {
                Err(error) => error,
                Ok(mut bridge) => {
                    // Nobody listens where the end is about to stop.
                    let _unheard = tell(StreamEvent::Opened(bridge.local())).await;
                    bridge.ended().await
                }
            };
            let _unheard = tell(StreamEvent::Ended(why.to_string())).await;
        });
        let running = Running {
            number,
            addresses,
            task,
        };
        self.running.insert((owner, relay), running);
    }

    /// Closes a stream, or gives its opening up. There are no more news of it.
    pub fn close(&mut self, owner: K, relay: RelayId) {
        self.running.remove(&(owner, relay));
    }

    /// The addresses of the relays to which there are streams.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        let running = self.running.values();
        running.flat_map(|running| running.addresses.iter().copied())
    }

    /// The next news. It may be dropped and asked for again.
    pub async fn next(&mut self) -> StreamNews<K> {
        loop {
            // There is a sender in `self`, so there is always one more to come.
            let Some(Numbered { number, news }) = self.received.recv().await else {
                return std::future::pending().await;
            };
            let key = (news.owner, news.relay);
            let running = self.running.get(&key);
            if running.is_none_or(|running| running.number != number) {
                continue;
            }
            if matches!(news.event, StreamEvent::Ended(_)) {
                self.running.remove(&key);
            }
            return news;
        }
    }
}

impl<K: Copy + Ord + Send + Sync + 'static> Default for Streams<K> {
    fn default() -> Self {
        Self::new()
    }
}
