//! Queries and answers on one connection, each behind its length in two bytes (RFC 1035, section 4.2.2).

use super::Question;
use culvert_dns::{FORWARDS_MAX, may_answer};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

/// How long a connection stays open without a query. Servers close idle ones after some seconds too (RFC 7766,
/// section 6.2.3); whoever closes first does not matter.
const IDLE: Duration = Duration::from_secs(10);

/// How long the server may say nothing while queries wait. It is shorter than [`UPSTREAM_WAIT`](culvert_dns::UPSTREAM_WAIT), so that
/// what waits is asked again on a new connection in time.
const SILENCE: Duration = Duration::from_secs(1);

/// The header of a message: its id, flags and counts.
const HEADER_LEN: usize = 12;

/// A connection, from its first query to its end.
pub(super) struct Connection<S> {
    stream: S,
    /// What was received and is no whole message yet: at most one message, and what one read adds.
    received: Vec<u8>,
    /// Those that were sent, at most [`FORWARDS_MAX`].
    waiting: Vec<Question>,
    /// When it is given up.
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

    /// Asks until the connection is idle, silent or closed. `first` are asked before all others. Returns what was
    /// not answered.
    pub(super) async fn carry(
        mut self,
        first: Vec<Question>,
        questions: &mut mpsc::Receiver<Question>,
    ) -> Vec<Question> {
        for question in first {
            if self.send(question).await.is_err() {
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
                // Whoever asked may have given up.
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

/// Whether a message without a question is the answer to a query, such as FORMERR of a server that could not read it.
fn is_refusal_of(message: &[u8], query: &[u8]) -> bool {
    let is_empty = message.len() >= HEADER_LEN && message[4..6] == [0, 0];
    is_empty && message[2] & 0x80 != 0 && message.get(..2) == query.get(..2)
}
