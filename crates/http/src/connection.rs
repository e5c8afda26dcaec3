//! One connection to a server, over whatever stream leads there.

use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{HeaderMap, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::AbortHandle;
use zeroize::Zeroizing;

/// A connection of HTTP/1.1, for one request after another. It ends when it is dropped.
#[derive(Debug)]
pub struct Connection {
    sender: SendRequest<Full<Bytes>>,
    /// Carries bytes between the stream and the sender.
    driver: AbortHandle,
}

/// An answer, whatever its status.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The whole body, which may hold secrets.
    pub body: Result<Zeroizing<Vec<u8>>, BodyError>,
}

/// The reason why a body is not there.
#[derive(Debug, Error)]
pub enum BodyError {
    /// It has more bytes than are read.
    #[error("length limit exceeded")]
    TooLong,
    /// It broke off.
    #[error("{0}")]
    Broken(Box<dyn std::error::Error + Send + Sync>),
}

impl Connection {
    /// Begins HTTP over a stream. Must be called in a tokio runtime.
    ///
    /// # Errors
    /// hyper's.
    pub async fn begin(
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) -> Result<Self, hyper::Error> {
        let (sender, driver) = http1::handshake(TokioIo::new(stream)).await?;
        // The sender is told what the driver meets.
        let driver = tokio::spawn(driver).abort_handle();
        Ok(Self { sender, driver })
    }

    /// True if another request can be sent: the server has kept the connection open.
    pub async fn is_open(&mut self) -> bool {
        self.sender.ready().await.is_ok()
    }

    /// Sends a request, and reads an answer of at most `max_bytes`.
    ///
    /// # Errors
    /// hyper's, up to the end of the answer's head.
    pub async fn ask(
        &mut self,
        request: Request<Full<Bytes>>,
        max_bytes: usize,
    ) -> Result<Answer, hyper::Error> {
        let (head, body) = self.begin_answer(request).await?.into_parts();
        Ok(Answer {
            status: head.status,
            headers: head.headers,
            body: read_body(body, max_bytes).await,
        })
    }

    /// Sends a request, and returns once the head of the answer is there. The body comes as it is read, for as long as
    /// the connection is kept.
    ///
    /// # Errors
    /// hyper's.
    pub async fn begin_answer(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, hyper::Error> {
        self.sender.send_request(request).await
    }
}

/// The whole of a body.
///
/// # Errors
/// [`BodyError`].
pub async fn read_body(body: Incoming, max_bytes: usize) -> Result<Zeroizing<Vec<u8>>, BodyError> {
    match Limited::new(body, max_bytes).collect().await {
        Ok(body) => Ok(Zeroizing::new(Vec::from(body.to_bytes()))),
        Err(error) if error.is::<LengthLimitError>() => Err(BodyError::TooLong),
        Err(error) => Err(BodyError::Broken(error)),
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

    /// Bytes that a test lets wait in one direction.
    const ROOM: usize = 64 * 1024;

    fn get() -> Request<Full<Bytes>> {
        Request::get("/").body(Full::default()).unwrap()
    }

    /// Reads one request without a body.
    async fn read_request(stream: &mut DuplexStream) {
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            assert_ne!(stream.read_buf(&mut request).await.unwrap(), 0);
        }
    }

    /// The answer that is read from a text.
    async fn answered(text: &str, max_bytes: usize) -> Answer {
        let (near, mut far) = tokio::io::duplex(ROOM);
        let mut connection = Connection::begin(near).await.unwrap();
        let server = async {
            read_request(&mut far).await;
            far.write_all(text.as_bytes()).await.unwrap();
            drop(far);
        };
        let (answer, ()) = tokio::join!(connection.ask(get(), max_bytes), server);
        answer.unwrap()
    }

    #[tokio::test]
    async fn a_body_that_is_too_long_or_breaks_off_leaves_the_status_known() {
        const WHOLE: &str = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nwhole";
        let whole = answered(WHOLE, 5).await;
        assert_eq!(*whole.body.unwrap(), b"whole");
        let long = answered(WHOLE, 4).await;
        assert_eq!(long.status, StatusCode::OK);
        assert!(matches!(long.body, Err(BodyError::TooLong)));
        let broken = answered("HTTP/1.1 500 Oh\r\ncontent-length: 9\r\n\r\nha", 99).await;
        assert_eq!(broken.status, StatusCode::INTERNAL_SERVER_ERROR);
        assert!(matches!(broken.body, Err(BodyError::Broken(_))));
    }

    #[tokio::test]
    async fn a_connection_is_used_again_until_the_server_ends_it_and_ends_when_it_is_dropped() {
        let (near, mut far) = tokio::io::duplex(ROOM);
        let mut connection = Connection::begin(near).await.unwrap();
        for _ in 0..2 {
            assert!(connection.is_open().await);
            let server = async {
                read_request(&mut far).await;
                let answer = b"HTTP/1.1 204 No Content\r\n\r\n";
                far.write_all(answer).await.unwrap();
            };
            let (answer, ()) = tokio::join!(connection.ask(get(), 0), server);
            assert_eq!(answer.unwrap().status, StatusCode::NO_CONTENT);
        }
        // A request that nobody waits for any more keeps no connection.
        let unanswered = connection.ask(get(), 0);
        let server = read_request(&mut far);
        tokio::select! {
            _ = unanswered => panic!("nobody answers"),
            () = server => {}
        }
        drop(connection);
        assert_eq!(far.read(&mut [0; 1]).await.unwrap(), 0);

        let (near, far) = tokio::io::duplex(ROOM);
        let mut connection = Connection::begin(near).await.unwrap();
        drop(far);
        let refused = connection.ask(get(), 0).await;
        assert!(refused.is_err());
        assert!(!connection.is_open().await);
    }
}
