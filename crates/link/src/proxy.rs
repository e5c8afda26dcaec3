//! An HTTP proxy on the way: `CONNECT` (RFC 9110 §9.3.6), with Basic credentials (RFC 7617).

use crate::ConnectError;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::fmt;
use std::str::FromStr;
use subtle::ConstantTimeEq;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use zeroize::Zeroizing;

/// The most bytes of a proxy's answer. Proxies answer by some hundred.
const MAX_ANSWER_LEN: usize = 8 * 1_024;

/// The most bytes of credentials.
const MAX_CREDENTIALS_LEN: usize = 1_024;

/// The end of the head of an HTTP message.
const HEAD_END: &[u8] = b"\r\n\r\n";

/// An HTTP proxy that connects to other hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpProxy {
    /// Without brackets.
    host: String,
    port: u16,
    credentials: Option<ProxyCredentials>,
}

/// The text is no URL of a proxy. It is not repeated, since it may hold credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected http://HOST:PORT such as http://proxy.example:3128; credentials belong into a file (--proxy-credentials-file)"
)]
pub struct ProxyUrlError;

/// The text is no `USER:PASSWORD`. It is not repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected one line USER:PASSWORD of at most {MAX_CREDENTIALS_LEN} bytes, without control characters"
)]
pub struct ProxyCredentialsError;

/// A user and a password for a proxy, as `Proxy-Authorization` has them.
#[derive(Clone)]
pub struct ProxyCredentials(Zeroizing<String>);

impl HttpProxy {
    /// The same proxy with credentials, instead of others that it may have had.
    #[must_use]
    pub fn with_credentials(self, credentials: ProxyCredentials) -> Self {
        Self {
            credentials: Some(credentials),
            ..self
        }
    }

    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    /// Has the proxy at the other end of `stream` connect to `authority`, which is `HOST:PORT`.
    pub(crate) async fn connect(
        &self,
        stream: &mut TcpStream,
        authority: &str,
    ) -> Result<(), ConnectError> {
        let request = self.request(authority);
        let answer = async {
            stream.write_all(request.as_bytes()).await?;
            read_status(stream).await
        };
        let status = answer.await.map_err(|source| ConnectError::ProxyBroke {
            proxy: self.to_string(),
            source,
        })?;
        match status {
            Ok(200..=299) => Ok(()),
            Ok(407) => Err(ConnectError::ProxyCredentials {
                proxy: self.to_string(),
                given: self.credentials.is_some(),
            }),
            Ok(status) => Err(ConnectError::ProxyRefused {
                proxy: self.to_string(),
                authority: authority.to_owned(),
                status,
            }),
            Err(reason) => Err(ConnectError::NoProxy {
                proxy: self.to_string(),
                reason,
            }),
        }
    }

    fn request(&self, authority: &str) -> Zeroizing<String> {
        let agent = concat!("culvert/", env!("CARGO_PKG_VERSION"));
        let mut request = Zeroizing::new(format!(
            "CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: {agent}\r\n"
        ));
        if let Some(ProxyCredentials(credentials)) = &self.credentials {
            // It is not moved while it grows, so that no copy of the secret is left behind.
            let mut whole = Zeroizing::new(String::with_capacity(
                request.len() + credentials.len() + 64,
            ));
            whole.push_str(&request);
            whole.push_str("Proxy-Authorization: Basic ");
            whole.push_str(credentials);
            whole.push_str("\r\n\r\n");
            return whole;
        }
        request.push_str("\r\n");
        request
    }
}

/// The status of the proxy's answer, or the reason why it is none.
///
/// Nothing may follow its head: the peer behind it speaks only after this side.
async fn read_status(stream: &mut TcpStream) -> std::io::Result<Result<u16, &'static str>> {
    let mut answer = [0; MAX_ANSWER_LEN];
    let mut begin = 0;
    let mut filled = 0;
    loop {
        let read = stream.read(&mut answer[filled..]).await?;
        if read == 0 {
            return Ok(Err(match filled == MAX_ANSWER_LEN {
                true => "its answer is too long",
                false => "it closed the connection",
            }));
        }
        filled += read;
        while let Some(len) = head_len(&answer[begin..filled]) {
            let Some(status) = status(&answer[begin..begin + len]) else {
                return Ok(Err("its answer is not HTTP/1"));
            };
            begin += len;
            match status {
                // An interim answer (RFC 9110 §15.2).
                100..=199 => {}
                200..=299 if begin < filled => {
                    return Ok(Err("it sends more than an answer"));
                }
                status => return Ok(Ok(status)),
            }
        }
        if filled - begin >= 5 && !answer[begin..].starts_with(b"HTTP/") {
            return Ok(Err("its answer is not HTTP/1"));
        }
    }
}

fn head_len(bytes: &[u8]) -> Option<usize> {
    let mut windows = bytes.windows(HEAD_END.len());
    let end = windows.position(|window| window == HEAD_END)?;
    Some(end + HEAD_END.len())
}

/// The status of `HTTP/1.x NNN …`.
fn status(head: &[u8]) -> Option<u16> {
    let [_minor, b' ', digits @ ..] = head.strip_prefix(b"HTTP/1.")? else {
        return None;
    };
    let (digits, rest) = digits.split_at_checked(3)?;
    let is_whole = matches!(rest.first(), Some(b' ' | b'\r'));
    let is_number = is_whole && digits.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(digits).ok().filter(|_| is_number)?;
    text.parse().ok()
}

impl FromStr for HttpProxy {
    type Err = ProxyUrlError;

    fn from_str(text: &str) -> Result<Self, ProxyUrlError> {
        let authority = text.strip_prefix("http://").ok_or(ProxyUrlError)?;
        let authority = authority.strip_suffix('/').unwrap_or(authority);
        let (host, port) = authority.rsplit_once(':').ok_or(ProxyUrlError)?;
        let host = match host.strip_prefix('[') {
            Some(host) => {
                let host = host.strip_suffix(']').ok_or(ProxyUrlError)?;
                let is_address = host.parse::<std::net::Ipv6Addr>().is_ok();
                is_address.then_some(host).ok_or(ProxyUrlError)?
            }
            None => host,
        };
        let is_host_char = |char: char| char.is_ascii_alphanumeric() || "-._:".contains(char);
        let has_host = !host.is_empty() && host.chars().all(is_host_char);
        let is_bare_ipv6 = host.contains(':') && !authority.starts_with('[');
        let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
        match port.parse() {
            Ok(port) if port != 0 && is_number && has_host && !is_bare_ipv6 => Ok(Self {
                host: host.to_owned(),
                port,
                credentials: None,
            }),
            _ => Err(ProxyUrlError),
        }
    }
}

impl fmt::Display for HttpProxy {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, .. } = self;
        match host.contains(':') {
            true => write!(out, "http://[{host}]:{port}"),
            false => write!(out, "http://{host}:{port}"),
        }
    }
}

impl FromStr for ProxyCredentials {
    type Err = ProxyCredentialsError;

    fn from_str(text: &str) -> Result<Self, ProxyCredentialsError> {
        let line = text.strip_suffix('\n').unwrap_or(text);
        let line = line.strip_suffix('\r').unwrap_or(line);
        let is_line = line.contains(':') && !line.chars().any(char::is_control);
        match is_line && line.len() <= MAX_CREDENTIALS_LEN {
            true => Ok(Self(Zeroizing::new(STANDARD.encode(line)))),
            false => Err(ProxyCredentialsError),
        }
    }
}

impl PartialEq for ProxyCredentials {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_bytes().ct_eq(other.0.as_bytes()).into()
    }
}

impl Eq for ProxyCredentials {}

impl fmt::Debug for ProxyCredentials {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("ProxyCredentials(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_host_and_port_and_never_credentials() {
        for text in [
            "http://proxy.example:3128",
            "http://192.0.2.1:8080",
            "http://[2001:db8::1]:3128",
        ] {
            assert_eq!(text.parse::<HttpProxy>().unwrap().to_string(), text);
        }
        let with_slash: HttpProxy = "http://proxy:80/".parse().unwrap();
        assert_eq!((with_slash.host(), with_slash.port()), ("proxy", 80));
        for text in [
            "",
            "proxy:3128",
            "http://proxy",
            "http://proxy:0",
            "http://proxy:+80",
            "http://:3128",
            "http://2001:db8::1:3128",
            "http://[proxy]:3128",
            "http://proxy:3128/path",
            "http://joe:secret@proxy:3128",
            "https://proxy:3128",
            "http://pro xy:3128",
            "http://proxy\r\n:3128",
        ] {
            let error = text.parse::<HttpProxy>().unwrap_err();
            assert!(!error.to_string().contains("secret"), "{text}");
        }
    }

    #[test]
    fn credentials_are_a_line_and_nobody_sees_them() {
        let credentials: ProxyCredentials = "Aladdin:open sesame\n".parse().unwrap();
        // The example of RFC 7617 §2.
        assert_eq!(*credentials.0, "QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
        let proxy: HttpProxy = "http://proxy:3128".parse().unwrap();
        let proxy = proxy.with_credentials(credentials);
        let shown = format!("{proxy} {proxy:?}");
        assert!(
            !shown.contains("QWxh") && !shown.contains("sesame"),
            "{shown}"
        );
        let request = proxy.request("192.0.2.7:443");
        assert_eq!(
            *request,
            concat!(
                "CONNECT 192.0.2.7:443 HTTP/1.1\r\nHost: 192.0.2.7:443\r\nUser-Agent: culvert/",
                env!("CARGO_PKG_VERSION"),
                "\r\nProxy-Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n\r\n"
            )
        );
        for text in ["", "user", "user:pass\nmore", "user:pa\0ss"] {
            assert!(text.parse::<ProxyCredentials>().is_err(), "{text:?}");
        }
        let long = format!("user:{}", "x".repeat(MAX_CREDENTIALS_LEN));
        assert!(long.parse::<ProxyCredentials>().is_err());
    }

    #[test]
    fn a_status_line_is_read_strictly() {
        for (head, expected) in [
            (
                &b"HTTP/1.1 200 Connection established\r\n\r\n"[..],
                Some(200),
            ),
            (b"HTTP/1.0 407\r\n\r\n", Some(407)),
            (b"HTTP/1.1 2000 OK\r\n\r\n", None),
            (b"HTTP/1.1 2x0 OK\r\n\r\n", None),
            (b"HTTP/2 200 OK\r\n\r\n", None),
            (b"SSH-2.0-x\r\n\r\n", None),
            (b"HTTP/1.1 20", None),
        ] {
            assert_eq!(status(head), expected);
        }
    }
}
