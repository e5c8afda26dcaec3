//! A connection that can't be held open by doing nothing.

use culvert_portal_base::Connection;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// For how long a peer may take nothing of what is written to it. A path that carries packets at all
/// acknowledges within a few seconds; a peer that reads nothing for longer holds memory of the portal.
const WRITE_STALL: Duration = Duration::from_secs(30);

/// A connection that ends when its peer stops reading. It counts against the limit as long as it
/// lives, whichever task owns it.
#[derive(Debug)]
pub(crate) struct BoundedIo<S> {
    stream: S,
    /// Runs while a write waits.
    stalled: Pin<Box<Sleep>>,
    is_stalled: bool,
    _counted: Option<Arc<Connection>>,
}

impl<S> BoundedIo<S> {
    pub(crate) fn new(stream: S, counted: Option<Arc<Connection>>) -> Self {
        Self {
            stream,
            stalled: Box::pin(sleep(WRITE_STALL)),
            is_stalled: false,
            _counted: counted,
        }
    }

    fn bound<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.is_stalled = false;
            return written;
        }
        if !self.is_stalled {
            self.is_stalled = true;
            self.stalled.as_mut().reset(Instant::now() + WRITE_STALL);
        }
        ready!(self.stalled.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for BoundedIo<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for BoundedIo<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.bound(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.bound(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        self.bound(context, shut)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.bound(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_reads_nothing_ends_the_connection() {
        let (ours, _theirs) = tokio::io::duplex(16);
        let mut bounded = BoundedIo::new(ours, None);
        let began = Instant::now();
        let error = bounded.write_all(&[0; 17]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(began.elapsed() >= WRITE_STALL);
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_reads_slowly_does_not() {
        use tokio::io::AsyncReadExt;
        let (ours, mut theirs) = tokio::io::duplex(16);
        let mut bounded = BoundedIo::new(ours, None);
        let reader = tokio::spawn(async move {
            let mut buffer = [0; 16];
            for _ in 0..8 {
                sleep(WRITE_STALL / 2).await;
                theirs.read_exact(&mut buffer).await.unwrap();
            }
        });
        bounded.write_all(&[0; 128]).await.unwrap();
        reader.await.unwrap();
    }
}
