//! From the bytes of a connection to complete requests.

use crate::bounds::{MAX_LINE, MAX_REQUEST};
use crate::error::{RequestError, RequestErrorReason};
use crate::{Change, InterfaceChange, PeerChange, Request, SetRequest, value};
use core::mem;
use zeroize::Zeroizing;

/// Parses the first request in `bytes`, which must be a complete `set=1`.
///
/// # Errors
/// The first line that is wrong, and why; nothing of the request is returned then.
pub fn parse_set(mut bytes: &[u8]) -> Result<SetRequest, RequestError> {
    let mut parser = RequestParser::new();
    match parser.handle_bytes(&mut bytes) {
        Some(Ok(Request::Set(request))) => Ok(request),
        Some(Ok(Request::Get | Request::Status)) => Err(RequestError {
            line: 1,
            reason: RequestErrorReason::UnknownOperation,
        }),
        Some(Err(error)) => Err(error),
        None => Err(parser.handle_end().unwrap_or(RequestError {
            line: 1,
            reason: RequestErrorReason::Truncated,
        })),
    }
}

/// Turns the bytes of a connection into requests.
///
/// Call [`handle_bytes`](Self::handle_bytes) with whatever was read, again while bytes are left,
/// and [`handle_end`](Self::handle_end) when the client has closed its side. After an error, the
/// rest of that request is skipped up to its empty line. So the error is answered once, after the
/// client has written everything, and the next request of the connection is read as usual. Memory
/// stays bounded: one line, and the values of at most [`MAX_REQUEST`] bytes.
pub struct RequestParser {
    state: State,
    line: Zeroizing<[u8; MAX_LINE]>,
    /// Bytes of the current line so far; above `MAX_LINE` they are counted, not kept.
    line_len: usize,
    /// The number of the current line in its request, from 1.
    line_number: u32,
    request_len: usize,
}

impl RequestParser {
    /// A parser at the start of a connection.
    pub fn new() -> Self {
        Self {
            state: State::Start,
            line: Zeroizing::new([0; MAX_LINE]),
            line_len: 0,
            line_number: 1,
            request_len: 0,
        }
    }

    /// Consumes `bytes` up to and including the end of a request, or all of it.
    ///
    /// Returns `None` when the request goes on after `bytes`.
    pub fn handle_bytes(&mut self, bytes: &mut &[u8]) -> Option<Result<Request, RequestError>> {
        while let Some((&byte, rest)) = bytes.split_first() {
            *bytes = rest;
            self.request_len = self.request_len.saturating_add(1);
            if byte != b'\n' {
                if let Some(place) = self.line.get_mut(self.line_len) {
                    *place = byte;
                }
                self.line_len = self.line_len.saturating_add(1);
                continue;
            }
            let ended = self.handle_line();
            self.line_len = 0;
            if ended.is_some() {
                self.line_number = 1;
                self.request_len = 0;
                return ended;
            }
            self.line_number = self.line_number.saturating_add(1);
        }
        None
    }

    /// The client sends no more: the error to answer if that cut a request short.
    pub fn handle_end(&mut self) -> Option<RequestError> {
        let state = mem::replace(&mut self.state, State::Start);
        let begun = mem::take(&mut self.request_len) > 0;
        match state {
            State::Failed(error) => Some(error),
            State::Start if !begun => None,
            State::Start | State::Get | State::Status | State::Set(_) => {
                Some(self.error(RequestErrorReason::Truncated))
            }
        }
    }

    fn handle_line(&mut self) -> Option<Result<Request, RequestError>> {
        let parsed = match self.request_len > MAX_REQUEST {
            true => Err(RequestErrorReason::RequestTooLarge),
            false => self.parse_line(),
        };
        if let Err(reason) = parsed
            && !matches!(self.state, State::Failed(_))
        {
            // Replacing the state also drops (and wipes) what was parsed so far.
            self.state = State::Failed(self.error(reason));
        }
        (self.line_len == 0).then(|| self.finish())
    }

    /// The empty line that ends a request.
    fn finish(&mut self) -> Result<Request, RequestError> {
        match mem::replace(&mut self.state, State::Start) {
            State::Start => Err(self.error(RequestErrorReason::Empty)),
            State::Get => Ok(Request::Get),
            State::Status => Ok(Request::Status),
            State::Set(request) => Ok(Request::Set(*request)),
            State::Failed(error) => Err(error),
        }
    }

    fn parse_line(&mut self) -> Result<(), RequestErrorReason> {
        if self.line_len == 0 {
            return Ok(());
        }
        let line = self
            .line
            .get(..self.line_len)
            .ok_or(RequestErrorReason::LineTooLong)?;
        let line = core::str::from_utf8(line).map_err(|_| RequestErrorReason::NotText)?;
        let (key, value) = line
            .split_once('=')
            .ok_or(RequestErrorReason::NotKeyAndValue)?;
        match &mut self.state {
            State::Start => self.state = State::begin(key, value)?,
            State::Get | State::Status => return Err(RequestErrorReason::UnknownKey),
            State::Set(request) => set(request, key, value)?,
            State::Failed(_) => {}
        }
        Ok(())
    }

    fn error(&self, reason: RequestErrorReason) -> RequestError {
        RequestError {
            line: self.line_number,
            reason,
        }
    }
}

impl Default for RequestParser {
    fn default() -> Self {
        Self::new()
    }
}

/// The place of the connection in the current request.
enum State {
    Start,
    Get,
    Status,
    Set(Box<SetRequest>),
    /// The rest of the request is skipped.
    Failed(RequestError),
}

impl State {
    fn begin(key: &str, value: &str) -> Result<Self, RequestErrorReason> {
        match (key, value) {
            ("get", "1") => Ok(Self::Get),
            ("set", "1") => Ok(Self::Set(Box::default())),
            ("culvert_status", "1") => Ok(Self::Status),
            _ => Err(RequestErrorReason::UnknownOperation),
        }
    }
}

/// One line of a `set=1`. A `public_key` opens the section of a peer; before the first one the
/// lines are about the interface.
fn set(request: &mut SetRequest, key: &str, value: &str) -> Result<(), RequestErrorReason> {
    if key == "public_key" {
        let public_key = value::public_key(value)?;
        request.peers.push(PeerChange::new(public_key));
        return Ok(());
    }
    match request.peers.last_mut() {
        None => set_interface(&mut request.interface, key, value),
        Some(peer) => set_peer(peer, key, value),
    }
}

fn set_interface(
    interface: &mut InterfaceChange,
    key: &str,
    value: &str,
) -> Result<(), RequestErrorReason> {
    match key {
        "private_key" => interface.private_key = Change::from_option(value::private_key(value)?),
        "listen_port" => interface.listen_port = Some(value::listen_port(value)?),
        "fwmark" => interface.fwmark = Change::from_option(value::firewall_mark(value)?),
        "cipher" => interface.suite = Some(value::cipher(value)?),
        "replace_peers" => interface.replace_peers = value::only_true("replace_peers", value)?,
        _ => return Err(RequestErrorReason::UnknownKey),
    }
    Ok(())
}

fn set_peer(peer: &mut PeerChange, key: &str, value: &str) -> Result<(), RequestErrorReason> {
    match key {
        "remove" => peer.remove = value::only_true("remove", value)?,
        "update_only" => peer.update_only = value::only_true("update_only", value)?,
        "preshared_key" => peer.preshared_key = Change::from_option(value::preshared_key(value)?),
        "endpoint" => peer.endpoint = Some(value::endpoint(value)?),
        "persistent_keepalive_interval" => {
            peer.keepalive = Change::from_option(value::keepalive(value)?);
        }
        // "If the value is true, the allowed IPs that follow replace those the peer has": whatever
        // stood before this line is replaced as well.
        "replace_allowed_ips" => {
            peer.replace_allowed_ips = value::only_true("replace_allowed_ips", value)?;
            peer.allowed_ips.clear();
        }
        "allowed_ip" => peer.allowed_ips.push(value::allowed_ip(value)?),
        "cipher" => peer.suite = Change::from_option(value::peer_cipher(value)?),
        "protocol_version" => value::protocol_version(value)?,
        _ => return Err(RequestErrorReason::UnknownKey),
    }
    Ok(())
}
