//! Serving the configuration socket.

use culvert_uapi::{
    Configuration, Errno, Request, RequestError, RequestParser, SetRequest, errno_response,
    status_response,
};
use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// Threads that serve, each one client at a time; further clients wait in the socket's backlog.
/// Two let `wg` through beside a client that says nothing until its deadline, two more are for
/// monitors.
const SERVERS: usize = 4;

/// For how long a client may take to send one request, and as long again to read the answer. `wg`
/// takes milliseconds; somebody who types into a socket has this long to finish.
const DEADLINE: Duration = Duration::from_secs(30);

/// Pause after an accept that failed for want of descriptors or memory, so as not to spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Bytes read at once: a line of the protocol and then some.
const READ_LEN: usize = 4096;

/// The interface to which the socket gives access.
pub(crate) trait Control: Send + Sync {
    /// Carries out a whole request, or nothing of it.
    fn set(&self, request: SetRequest) -> Result<(), UapiRefusal>;
    /// The configuration as it stands.
    fn get(&self) -> Result<Configuration, UapiRefusal>;
    /// Counters and state as one line of JSON.
    fn status(&self) -> Result<String, UapiRefusal>;
}

/// A request that was understood and cannot be carried out.
#[derive(Debug)]
pub(crate) struct UapiRefusal {
    /// The error number for the client.
    pub(crate) errno: Errno,
    /// The reason for the log.
    pub(crate) reason: String,
}

/// Serves `listener` on threads of their own, until the process ends.
pub(crate) fn spawn(listener: &Arc<UnixListener>, control: &Arc<dyn Control>) -> io::Result<()> {
    for _ in 0..SERVERS {
        let (listener, control) = (Arc::clone(listener), Arc::clone(control));
        thread::Builder::new()
            .name("wg-socket".to_owned())
            .spawn(move || accept(&listener, &*control))?;
    }
    Ok(())
}

fn accept(listener: &UnixListener, control: &dyn Control) {
    loop {
        match listener.accept() {
            Ok((client, _)) => {
                if let Err(error) = serve(&client, control) {
                    tracing::debug!(%error, "configuration client gone");
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                tracing::warn!(%error, "accepting configuration clients");
                thread::sleep(ACCEPT_PAUSE);
            }
        }
    }
}

/// One connection: requests and answers in turn until the client closes it or is too slow.
fn serve(client: &UnixStream, control: &dyn Control) -> io::Result<()> {
    let mut parser = RequestParser::new();
    let mut buffer = Zeroizing::new([0; READ_LEN]);
    let mut deadline = Instant::now() + DEADLINE;
    loop {
        client.set_read_timeout(Some(left(deadline)?))?;
        let len = match (&*client).read(&mut *buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            len => len?,
        };
        if len == 0 {
            return match parser.handle_end() {
                Some(error) => answer(client, &refuse_text(error)),
                None => Ok(()),
            };
        }
        let mut bytes = &buffer[..len];
        while !bytes.is_empty() {
            if let Some(request) = parser.handle_bytes(&mut bytes) {
                let response = match request {
                    Ok(request) => execute(request, control),
                    Err(error) => refuse_text(error),
                };
                answer(client, &response)?;
                deadline = Instant::now() + DEADLINE;
            }
        }
    }
}

fn execute(request: Request, control: &dyn Control) -> Zeroizing<String> {
    let response = match request {
        Request::Get => control
            .get()
            .map(|configuration| configuration.to_response()),
        Request::Set(request) => control
            .set(request)
            .map(|()| Zeroizing::new(errno_response(Ok(())))),
        Request::Status => control.status().map(|json| {
            Zeroizing::new(
                status_response(&json).unwrap_or_else(|errno| errno_response(Err(errno))),
            )
        }),
    };
    response.unwrap_or_else(|refusal| {
        let errno = refusal.errno.number();
        tracing::warn!(reason = %refusal.reason, errno, "configuration request not carried out");
        Zeroizing::new(errno_response(Err(refusal.errno)))
    })
}

fn refuse_text(error: RequestError) -> Zeroizing<String> {
    let errno = error.errno();
    tracing::warn!(%error, errno = errno.number(), "configuration request refused");
    Zeroizing::new(errno_response(Err(errno)))
}

fn answer(client: &UnixStream, response: &str) -> io::Result<()> {
    let deadline = Instant::now() + DEADLINE;
    let mut rest = response.as_bytes();
    while !rest.is_empty() {
        client.set_write_timeout(Some(left(deadline)?))?;
        let len = match (&*client).write(rest) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            len => len?,
        };
        rest = &rest[len..];
    }
    Ok(())
}

/// The time until `deadline`; an error when it has passed (a timeout of zero means "for ever").
fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    match left.is_zero() {
        true => Err(io::ErrorKind::TimedOut.into()),
        false => Ok(left),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Shutdown;
    use std::sync::Mutex;

    #[test]
    fn a_connection_carries_requests_and_answers_in_turn() {
        let (answers, sets) = talk("get=1\n\nset=1\nlisten_port=7\n\nculvert_status=1\n\n");
        assert_eq!(
            answers,
            "listen_port=7\nerrno=0\n\nerrno=0\n\n{}\nerrno=0\n\n"
        );
        assert_eq!(sets, [Some(7)]);
    }

    #[test]
    fn a_malformed_request_is_answered_and_changes_nothing() {
        let (answers, sets) = talk("set=1\nlisten_port=7\nfoo=1\n\nget=2\n\nget=1\n\n");
        assert_eq!(
            answers,
            "errno=-22\n\nerrno=-22\n\nlisten_port=7\nerrno=0\n\n"
        );
        assert_eq!(sets, []);
    }

    #[test]
    fn a_request_that_is_cut_short_is_answered_and_changes_nothing() {
        let (answers, sets) = talk("set=1\nlisten_port=7\n");
        assert_eq!((answers.as_str(), sets), ("errno=-71\n\n", vec![]));
    }

    #[test]
    fn a_refusal_is_answered_with_its_number() {
        let (answers, _) = talk("set=1\nlisten_port=13\n\n");
        assert_eq!(answers, "errno=-98\n\n");
    }

    #[test]
    fn a_closed_connection_is_no_request() {
        assert_eq!(talk("").0, "");
    }

    /// The answer to a client for `text`, and the ports that were set.
    fn talk(text: &str) -> (String, Vec<Option<u16>>) {
        let control = Recorder(Mutex::default());
        let (mut client, server) = UnixStream::pair().unwrap();
        client.write_all(text.as_bytes()).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        serve(&server, &control).unwrap();
        drop(server);
        let mut answers = String::new();
        client.read_to_string(&mut answers).unwrap();
        (answers, control.0.into_inner().unwrap())
    }

    struct Recorder(Mutex<Vec<Option<u16>>>);

    impl Control for Recorder {
        fn set(&self, request: SetRequest) -> Result<(), UapiRefusal> {
            if request.interface.listen_port == Some(13) {
                return Err(UapiRefusal {
                    errno: Errno::ADDRESS_IN_USE,
                    reason: "port 13 is taken".to_owned(),
                });
            }
            self.0.lock().unwrap().push(request.interface.listen_port);
            Ok(())
        }

        fn get(&self) -> Result<Configuration, UapiRefusal> {
            Ok(Configuration {
                listen_port: Some(7),
                ..Configuration::default()
            })
        }

        fn status(&self) -> Result<String, UapiRefusal> {
            Ok("{}".to_owned())
        }
    }
}
