//! A connection to the kernel's rtnetlink: one request at a time, every answer awaited.

use std::io;
use std::time::Duration;

use culvert_netlink::packet::{NLM_F_ACK, NLM_F_DUMP};
use culvert_netlink::route::RouteNetlinkMessage;
use culvert_netlink::{Answer, Protocol, Socket};
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// The time limit for an answer of the kernel. It answers while the request is being sent; only a
/// dump of millions of routes takes longer than a moment.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of attempts at a dump that changes interrupt. An interrupted one may lack entries
/// or have them twice; changes that come faster than five dumps do not come from people.
const MAX_DUMP_TRIES: usize = 5;

/// The most entries of a dump: twice as many as the routes of the most prefixes that can be wanted
/// ([`MAX_PREFIXES`](crate::MAX_PREFIXES)), with as much room for leftovers.
const MAX_DUMP_ENTRIES: usize = 1 << 18;

/// A connection of the namespace in which it was opened. Requests need `&mut`: the kernel refuses a
/// second dump on a socket while one is running.
#[derive(Debug)]
pub(crate) struct Netlink {
    socket: AsyncFd<Socket>,
    buffer: Vec<u8>,
    /// True while an answer was not read to its end.
    is_answering: bool,
}

impl Netlink {
    /// Opens a connection. Must be called in a tokio runtime.
    pub(crate) fn open() -> io::Result<Self> {
        let socket = Socket::open(Protocol::Route, 0)?;
        socket.check_strictly()?;
        Ok(Self {
            socket: register(socket)?,
            buffer: Vec::new(),
            is_answering: false,
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
            let answer = self.exchange(request.clone(), NLM_F_DUMP).await?;
            if !answer.interrupted {
                return Ok(answer.entries);
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
        if self.is_answering {
            self.drain().await?;
        }
        let mut answer = self.socket.get_ref().request(request, flags)?;
        self.is_answering = true;
        loop {
            receive(&self.socket, &mut self.buffer).await?;
            match answer.take(&self.buffer) {
                Ok(false) => {}
                Ok(true) => break,
                Err(error) => {
                    // The kernel's own error is the end of an answer. After another one, more may come.
                    self.is_answering = error.raw_os_error().is_none();
                    return Err(error);
                }
            }
            if answer.entries.len() > MAX_DUMP_ENTRIES {
                return Err(io::Error::from(io::ErrorKind::FileTooLarge));
            }
        }
        self.is_answering = false;
        if answer.unreadable > 0 {
            let entries = answer.unreadable;
            tracing::debug!(
                entries,
                "the kernel's answer has entries that can't be read"
            );
        }
        Ok(answer)
    }

    /// Reads what is left of an answer whose caller has given up: the kernel refuses a second dump before.
    async fn drain(&mut self) -> io::Result<()> {
        loop {
            match self.socket.get_ref().receive(&mut self.buffer) {
                Ok(()) => tokio::task::consume_budget().await,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if is_overflow(&error) => {}
                Err(error) => return Err(error),
            }
        }
        self.is_answering = false;
        Ok(())
    }
}

/// Has the runtime wait for a socket. Must be called in a tokio runtime.
#[expect(
    deprecated,
    reason = "it is unsound for what closes its descriptor early; a `Socket` owns its own, and the other way is unsafe"
)]
pub(crate) fn register(socket: Socket) -> io::Result<AsyncFd<Socket>> {
    AsyncFd::with_interest(socket, Interest::READABLE)
}

/// Waits for the kernel's next datagram. Dropping the future loses nothing.
///
/// # Errors
/// The kernel's; [`is_overflow`] says that it lost some.
pub(crate) async fn receive(socket: &AsyncFd<Socket>, buffer: &mut Vec<u8>) -> io::Result<()> {
    let interest = Interest::READABLE;
    socket
        .async_io(interest, |socket| socket.receive(buffer))
        .await
}

/// True where the kernel had no room for datagrams: they are lost.
pub(crate) fn is_overflow(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::NOBUFS)
}

#[cfg(test)]
mod tests {
    use culvert_netlink::route::link::LinkMessage;

    use super::*;

    #[tokio::test]
    async fn a_dump_that_was_given_up_does_not_keep_the_next_from_being_made() {
        let links = || RouteNetlinkMessage::GetLink(LinkMessage::default());
        let mut netlink = Netlink::open().unwrap();
        let all = netlink.dump(links()).await.unwrap().len();
        assert_ne!(all, 0, "there is the loopback device at least");
        // Its first message waits for somebody who reads, and the kernel has not written its end.
        let socket = netlink.socket.get_ref();
        drop(socket.request(links(), NLM_F_DUMP).unwrap());
        netlink.is_answering = true;
        let again = netlink.dump(links()).await.unwrap();
        assert_eq!(again.len(), all);
    }
}
