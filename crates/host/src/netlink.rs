//! A connection to the kernel's rtnetlink: one request at a time, every answer awaited.

use std::io;
use std::time::Duration;

use futures_util::StreamExt;
use rtnetlink::Handle;
use rtnetlink::packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload,
};
use rtnetlink::packet_route::RouteNetlinkMessage;
use tokio::task::JoinHandle;

/// How long the kernel may take to answer. It answers while the request is being sent; only a dump of
/// millions of routes takes longer than a moment.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How often a dump is tried that changes interrupted. An interrupted one may lack entries or have
/// them twice; changes that come faster than five dumps do not come from people.
const MAX_DUMP_TRIES: usize = 5;

/// How long to wait for a dump that nobody waits for to end: several times what the longest takes of
/// those that are asked for here.
const BUSY_PAUSE: Duration = Duration::from_millis(50);

/// The most entries of a dump: twice as many as the routes of the most prefixes that can be wanted
/// ([`MAX_PREFIXES`](crate::MAX_PREFIXES)), with as much room for leftovers.
const MAX_DUMP_ENTRIES: usize = 1 << 18;

/// A connection of the namespace in which it was opened. Requests need `&mut`: the kernel refuses a
/// second dump on a socket while one is running.
#[derive(Debug)]
pub(crate) struct Netlink {
    handle: Handle,
    /// Carries messages between the socket and the handle.
    connection: JoinHandle<()>,
}

impl Netlink {
    /// Opens a connection. Must be called in a tokio runtime.
    pub(crate) fn open() -> io::Result<Self> {
        // Strict checks make the kernel heed filters of dumps instead of passing over them.
        let (mut connection, handle, _) = rtnetlink::new_connection_with_strict_check()?;
        // Without these the end of an answer could not be told from the end of the connection.
        connection.set_forward_ack(true);
        connection.set_forward_done(true);
        Ok(Self {
            handle,
            connection: tokio::spawn(connection),
        })
    }

    /// Asks the kernel to change something. `flags` are what is to happen if it exists or does not
    /// (`NLM_F_CREATE`, `NLM_F_EXCL`, `NLM_F_REPLACE`).
    pub(crate) async fn change(
        &mut self,
        request: RouteNetlinkMessage,
        flags: u16,
    ) -> io::Result<()> {
        self.exchange(request, flags | NLM_F_ACK).await.map(drop)
    }

    /// Asks for one thing, such as a link by name or the route to an address.
    pub(crate) async fn get(
        &mut self,
        request: RouteNetlinkMessage,
    ) -> io::Result<RouteNetlinkMessage> {
        let mut answer = self.exchange(request, NLM_F_ACK).await?;
        answer
            .entries
            .pop()
            .ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }

    /// Asks for all there is of a kind, consistent in itself.
    pub(crate) async fn dump(
        &mut self,
        request: RouteNetlinkMessage,
    ) -> io::Result<Vec<RouteNetlinkMessage>> {
        for _ in 0..MAX_DUMP_TRIES {
            match self.exchange(request.clone(), NLM_F_DUMP).await {
                Ok(answer) if answer.interrupted => {}
                Ok(answer) => return Ok(answer.entries),
                // A dump whose caller has given up is still being read to its end.
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    tokio::time::sleep(BUSY_PAUSE).await;
                }
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::from(io::ErrorKind::ResourceBusy))
    }

    async fn exchange(&mut self, request: RouteNetlinkMessage, flags: u16) -> io::Result<Answer> {
        let exchange = self.exchange_unbounded(request, flags);
        match tokio::time::timeout(TIMEOUT, exchange).await {
            Ok(answer) => answer,
            Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut)),
        }
    }

    async fn exchange_unbounded(
        &mut self,
        request: RouteNetlinkMessage,
        flags: u16,
    ) -> io::Result<Answer> {
        let mut message = NetlinkMessage::from(request);
        message.header.flags = NLM_F_REQUEST | flags;
        let closed = || io::Error::from(io::ErrorKind::NotConnected);
        let mut messages = self.handle.request(message).map_err(|_| closed())?;
        let mut answer = Answer::default();
        while let Some(message) = messages.next().await {
            answer.interrupted |= message.header.flags & NLM_F_DUMP_INTR != 0;
            match message.payload {
                NetlinkPayload::InnerMessage(entry) => answer.entries.push(entry),
                // An error of zero is the acknowledgement.
                NetlinkPayload::Error(error) => match error.code {
                    None => return Ok(answer),
                    Some(_) => return Err(error.to_io()),
                },
                NetlinkPayload::Done(done) => match done.code {
                    0.. => return Ok(answer),
                    code => return Err(io::Error::from_raw_os_error(code.saturating_neg())),
                },
                NetlinkPayload::Overrun(_) => return Err(closed()),
                _ => {}
            }
            if answer.entries.len() > MAX_DUMP_ENTRIES {
                return Err(io::Error::from(io::ErrorKind::FileTooLarge));
            }
        }
        // Neither acknowledged nor refused: nobody knows what happened.
        Err(closed())
    }
}

impl Drop for Netlink {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

/// What the kernel answered.
#[derive(Debug, Default)]
struct Answer {
    entries: Vec<RouteNetlinkMessage>,
    /// Whether something changed while it was being written.
    interrupted: bool,
}
