//! Questions to a program that runs on this machine, at its socket.

use super::answer::{MAX_ANSWER_LEN, ReadAnswer};
use super::request::{Envelope, MAX_REQUEST_LEN, Request};
use super::socket_error::AnsweredError;
use super::{CONNECTION_LIMIT, StatusError};
use serde::de::{DeserializeOwned, IgnoredAny};
use std::io;
use std::path::Path;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::time::timeout;
use zeroize::Zeroizing;

/// Asks the program that answers at `path`, which is to be a running `program` (`client` or `gateway`).
///
/// # Errors
/// The problem, for people.
pub async fn ask<S: DeserializeOwned, R: Request>(
    path: &Path,
    program: &'static str,
    schema_version: u32,
    request: R,
) -> Result<S, StatusError> {
    let answer: ReadAnswer<S> = exchange(path, program, schema_version, request).await?;
    let status = answer.status.map(|status| *status);
    status.ok_or_else(|| other_answer(path, program))
}

/// Asks it for the last lines of its log by `request`.
///
/// # Errors
/// The problem, for people.
pub async fn ask_log<R: Request>(
    path: &Path,
    program: &'static str,
    schema_version: u32,
    request: R,
) -> Result<Vec<String>, StatusError> {
    let answer: ReadAnswer<IgnoredAny> = exchange(path, program, schema_version, request).await?;
    answer.log.ok_or_else(|| other_answer(path, program))
}

fn other_answer(path: &Path, program: &'static str) -> StatusError {
    let source = io::Error::new(io::ErrorKind::InvalidData, "an answer to another request");
    StatusError::of_socket(path, program, source)
}

/// The answer to a request, which is no error.
async fn exchange<S: DeserializeOwned, R: Request>(
    path: &Path,
    program: &'static str,
    schema_version: u32,
    request: R,
) -> Result<ReadAnswer<S>, StatusError> {
    let exchange = async {
        let stream = UnixStream::connect(path).await?;
        let (reader, mut writer) = stream.into_split();
        let request = Envelope {
            schema_version,
            request,
        };
        // It may hold a token: with room for all of it, no part is left behind in memory.
        let mut line = Zeroizing::new(Vec::with_capacity(MAX_REQUEST_LEN + 1));
        serde_json::to_writer(&mut *line, &request)?;
        line.push(b'\n');
        // A program that has no place for it answers, and closes the connection, before it has read.
        let written = writer.write_all(&line).await;
        let mut answer = Vec::new();
        let mut reader = BufReader::new(reader.take(MAX_ANSWER_LEN));
        reader.read_until(b'\n', &mut answer).await?;
        if answer.is_empty() {
            written?;
        }
        Ok::<ReadAnswer<S>, io::Error>(serde_json::from_slice(&answer)?)
    };
    let answer = timeout(CONNECTION_LIMIT, exchange).await;
    let answer = answer.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    let answer = answer.map_err(|source| StatusError::of_socket(path, program, source))?;
    match answer {
        ReadAnswer {
            error: Some(text),
            code,
            ..
        } => Err(StatusError::Refused {
            program,
            error: AnsweredError { text, code },
        }),
        answer => Ok(answer),
    }
}
