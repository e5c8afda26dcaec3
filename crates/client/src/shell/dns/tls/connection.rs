//! Queries and answers on one connection, each behind its length in two bytes (RFC 1035, section 4.2.2).

use super::question::Question;
use culvert_dns::{FORWARDS_MAX, may_answer};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

/// The time for which a connection stays open without a query. Servers close idle ones after some seconds too
/// (RFC 7766, section 6.2.3).
const IDLE: Duration = Duration::from_secs(10);

/// The time for which the server may be silent while queries wait. It is shorter than
/// [`UPSTREAM_WAIT`](culvert_dns::UPSTREAM_WAIT), so that they are asked again on a new connection in time.
const SILENCE: Duration = Duration::from_secs(1);

/// The header of a message: its id, flags and counts.
const HEADER_LEN: usize = 12;

/// A connection, from its first query to its end.
pub(super) struct Connection<S> {
    stream: S,
    /// Received bytes that are no whole message yet: at most one message, and the bytes of one read.
    received: Vec<u8>,
    /// Questions that were sent, at most [`FORWARDS_MAX`].
    waiting: Vec<Question>,
    /// The connection is given up then.
    deadline: Instant,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    pub(super) fn new(stream: S) -> Self {
        Self {
            stream,
            received: Vec::new(),
            waiting: Vec::new(),
            deadline: Instant::now() + IDLE,
        }
    }

    /// Asks until the connection is idle, silent or closed. `first` are asked before all others. Returns the
    /// questions that were not answered.
    pub(super) async fn exchange(
        mut self,
        first: Vec<Question>,
        questions: &mut mpsc::Receiver<Question>,
    ) -> Vec<Question> {
        let mut first = first.into_iter();
        while let Some(question) = first.next() {
            if self.send(question).await.is_err() {
                self.waiting.extend(first);
                return self.waiting;
            }
        }
        loop {
            let has_room = self.waiting.len() < FORWARDS_MAX;
            let went_on = tokio::select! {
                question = questions.recv(), if has_room => match question {
                    Some(question) => self.send(question).await,
                    None => return Vec::new(),
                },
                read = self.stream.read_buf(&mut self.received) => match read {
                    Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
                    Ok(_) => {
                        self.take_answers();
                        Ok(())
                    }
                    Err(error) => Err(error),
                },
                () = sleep_until(self.deadline) => Err(io::ErrorKind::TimedOut.into()),
            };
            if let Err(error) = went_on {
                tracing::debug!(%error, waiting = self.waiting.len(), "a connection to a DNS upstream ends");
                return self.waiting;
            }
        }
    }

    async fn send(&mut self, mut question: Question) -> io::Result<()> {
        self.waiting.retain(|it| !it.answer.is_closed());
        let len = u16::try_from(question.query.len()).map_err(io::Error::other)?;
        let framed = [&len.to_be_bytes()[..], &question.query].concat();
        question.tries += 1;
        if self.waiting.is_empty() {
            self.deadline = Instant::now() + SILENCE;
        }
        self.waiting.push(question);
        let write = async {
            self.stream.write_all(&framed).await?;
            self.stream.flush().await
        };
        timeout(SILENCE, write).await?
    }

    /// Hands out all whole messages that were received.
    fn take_answers(&mut self) {
        let mut taken = 0;
        while let Some((len, rest)) = self.received[taken..].split_first_chunk() {
            let len = usize::from(u16::from_be_bytes(*len));
            let Some(message) = rest.get(..len) else {
                break;
            };
            let asked = self.waiting.iter();
            let index = asked.clone().position(|it| may_answer(message, &it.query));
            let index = index.or_else(|| {
                asked
                    .clone()
                    .position(|it| is_refusal_of(message, &it.query))
            });
            if let Some(index) = index {
                let question = self.waiting.swap_remove(index);
                // The asker may have given up.
                let _gone = question.answer.send(message.to_vec());
            }
            taken += size_of::<u16>() + len;
        }
        self.received.drain(..taken);
        self.waiting.retain(|it| !it.answer.is_closed());
        let allowed = match self.waiting.is_empty() {
            true => IDLE,
            false => SILENCE,
        };
        self.deadline = Instant::now() + allowed;
    }
}

/// True if a message without a question answers a query, such as FORMERR of a server that could not read it.
fn is_refusal_of(message: &[u8], query: &[u8]) -> bool {
    let is_empty = message.len() >= HEADER_LEN && message[4..6] == [0, 0];
    is_empty && message[2] & 0x80 != 0 && message.get(..2) == query.get(..2)
}
