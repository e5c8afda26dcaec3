//! Lines of a stream, each with a time limit and a longest length.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Bytes that are read at once.
const READ_BYTES: usize = 64 * 1024;

/// The lines of a stream.
#[derive(Debug)]
pub(crate) struct Lines {
    stream: UnixStream,
    /// Bytes that came after the last line.
    rest: Vec<u8>,
    most_bytes: u64,
}

impl Lines {
    pub(crate) const fn new(stream: UnixStream, most_bytes: u64) -> Self {
        Self {
            stream,
            rest: Vec::new(),
            most_bytes,
        }
    }

    /// The next line within `limit`. A peer that sends byte by byte has no more time than one that is silent.
    pub(crate) fn within(&mut self, limit: Duration) -> io::Result<Vec<u8>> {
        self.read(Instant::now() + limit, limit)
    }

    /// The next line, however long the peer is silent before it. Once it has begun, it has to end within `limit`.
    pub(crate) fn next(&mut self, limit: Duration) -> io::Result<Vec<u8>> {
        if self.rest.is_empty() {
            self.stream.set_read_timeout(None)?;
            let mut part = vec![0; READ_BYTES];
            let count = read_some(&mut self.stream, &mut part)?;
            part.truncate(count);
            self.rest = part;
        }
        self.within(limit)
    }

    fn read(&mut self, deadline: Instant, limit: Duration) -> io::Result<Vec<u8>> {
        let mut line = std::mem::take(&mut self.rest);
        let mut looked_at = 0;
        let mut part = Vec::new();
        loop {
            if let Some(end) = line[looked_at..].iter().position(|&byte| byte == b'\n') {
                self.rest = line.split_off(looked_at + end + 1);
                line.pop();
                return Ok(line);
            }
            looked_at = line.len();
            if looked_at as u64 > self.most_bytes {
                return Err(io::Error::other(format!(
                    "the answer is longer than {} bytes",
                    self.most_bytes
                )));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(silent(limit));
            }
            self.stream.set_read_timeout(Some(left))?;
            part.resize(READ_BYTES, 0);
            match read_some(&mut self.stream, &mut part) {
                Ok(count) => line.extend_from_slice(&part[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Err(silent(limit));
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Reads at least one byte.
fn read_some(stream: &mut UnixStream, part: &mut [u8]) -> io::Result<usize> {
    loop {
        match stream.read(part) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

fn silent(limit: Duration) -> io::Error {
    let text = format!("no answer within {} s", limit.as_secs());
    io::Error::new(io::ErrorKind::TimedOut, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::thread;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn lines_come_one_after_the_other() {
        let (near, mut far) = UnixStream::pair().unwrap();
        far.write_all(b"one\ntwo\n\nfo").unwrap();
        let mut lines = Lines::new(near, 100);
        assert_eq!(lines.within(MINUTE).unwrap(), b"one");
        assert_eq!(lines.next(MINUTE).unwrap(), b"two");
        assert_eq!(lines.next(MINUTE).unwrap(), b"");
        far.write_all(b"ur\n").unwrap();
        assert_eq!(lines.next(MINUTE).unwrap(), b"four");
        drop(far);
        let end = lines.next(MINUTE).unwrap_err();
        assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn an_endless_line_is_cut() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let writer = thread::spawn(move || while far.write_all(&[b'x'; 4096]).is_ok() {});
        let mut lines = Lines::new(near, 100_000);
        let error = lines.within(MINUTE).unwrap_err();
        assert_eq!(error.to_string(), "the answer is longer than 100000 bytes");
        drop(lines);
        writer.join().unwrap();
    }

    #[test]
    fn a_peer_that_is_silent_or_slow_ends_in_time() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let mut lines = Lines::new(near, 9);
        let limit = Duration::from_millis(20);
        let kind = |read: io::Result<Vec<u8>>| read.unwrap_err().kind();
        assert_eq!(kind(lines.within(limit)), io::ErrorKind::TimedOut);
        far.write_all(b"x").unwrap();
        // A line that has begun has to end.
        assert_eq!(kind(lines.next(limit)), io::ErrorKind::TimedOut);
    }
}
