//! The watcher's end of a connection to a running program.

use crate::Request;
use crate::status_socket::{Envelope, MAX_ANSWER_LEN, StatusError};
use std::io;
use std::path::{Path, PathBuf};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

/// A connection at which a running program tells its changes.
#[derive(Debug)]
pub struct WatchStream {
    path: PathBuf,
    program: &'static str,
    reader: BufReader<OwnedReadHalf>,
    /// The program takes the end of this half for the end of the watcher.
    _writer: OwnedWriteHalf,
    /// The part of a line that has come.
    line: Vec<u8>,
}

impl WatchStream {
    /// Asks the running `program` that answers at `path` to tell its changes.
    ///
    /// # Errors
    /// The problem, for people.
    pub async fn open<R: Request>(
        path: &Path,
        program: &'static str,
        schema_version: u32,
        request: R,
    ) -> Result<Self, StatusError> {
        let opened = async {
            let stream = UnixStream::connect(path).await?;
            let (reader, mut writer) = stream.into_split();
            let mut line = serde_json::to_vec(&Envelope {
                schema_version,
                request,
            })?;
            line.push(b'\n');
            // A program that has no place for it answers, and closes the connection, before it has read.
            match writer.write_all(&line).await {
                Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(error),
                Ok(()) | Err(_) => {}
            }
            Ok((BufReader::new(reader), writer))
        };
        let opened = opened.await;
        let (reader, writer) =
            opened.map_err(|source| StatusError::of_socket(path, program, source))?;
        Ok(Self {
            path: path.to_owned(),
            program,
            reader,
            _writer: writer,
            line: Vec::new(),
        })
    }

    /// The next line; nothing after the last one. It may be dropped and called again without a loss.
    ///
    /// # Errors
    /// The problem, for people.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, StatusError> {
        let room = MAX_ANSWER_LEN.saturating_sub(self.line.len() as u64);
        let mut bounded = (&mut self.reader).take(room);
        match bounded.read_until(b'\n', &mut self.line).await {
            Ok(_) if self.line.ends_with(b"\n") => Ok(Some(std::mem::take(&mut self.line))),
            Ok(_) if self.line.len() as u64 >= MAX_ANSWER_LEN => {
                let source = io::Error::other("a line without an end");
                Err(StatusError::of_socket(&self.path, self.program, source))
            }
            Ok(_) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(None),
            Err(source) => Err(StatusError::of_socket(&self.path, self.program, source)),
        }
    }
}
