//! Connections that begin with something other than a TLS hello that the portal can answer, said in the log.

use culvert_portal_base::Notice;
use rustls::{AlertDescription, InvalidMessage, PeerIncompatible};
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

/// Bytes that are looked at before TLS: enough for the longest method of HTTP and the signature of the PROXY protocol.
pub(super) const PREFIX_LEN: usize = 16;

/// The content type of a handshake record (RFC 8446 §5.1).
const TLS_HANDSHAKE: u8 = 22;

/// The first bytes of version 2 of the PROXY protocol; version 1 is text.
const PROXY_V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
const PROXY_V1: &[u8] = b"PROXY ";

/// Methods of HTTP/1, and how HTTP/2 begins, each with the space behind it.
const METHODS: [&[u8]; 10] = [
    b"GET ",
    b"HEAD ",
    b"POST ",
    b"PUT ",
    b"PATCH ",
    b"DELETE ",
    b"OPTIONS ",
    b"TRACE ",
    b"CONNECT ",
    b"PRI ",
];

/// The answer to plain HTTP.
const SAY_HTTPS: &str = "HTTP/1.1 400 Bad Request\r\n\
     content-type: text/plain; charset=utf-8\r\n\
     content-length: 54\r\n\
     connection: close\r\n\
     \r\n\
     This port speaks HTTPS: write https:// in the address.";

/// Bytes of a request that are read and forgotten after the answer, and for how long. A connection that is closed
/// with bytes unread is reset, and the answer may be lost with it.
const MAX_UNREAD_BYTES: u64 = 256 * 1024;
const UNREAD_LIMIT: Duration = Duration::from_secs(2);

/// The reason why a connection does not get to HTTP over TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HelloFault {
    /// TLS 1.2 at most, or something older.
    OldTls,
    /// HTTP without TLS.
    PlainHttp,
    /// A proxy that is told to send the PROXY protocol.
    ProxyProtocol,
    /// Neither TLS nor any of these.
    NoTls,
    /// The client did not accept the portal's certificate.
    Certificate(AlertDescription),
    /// Anything else between two that speak TLS.
    Other,
}

impl HelloFault {
    /// By the first bytes of a connection; none where they are TLS.
    pub(super) fn of_prefix(prefix: &[u8]) -> Option<Self> {
        let first = *prefix.first()?;
        if first == TLS_HANDSHAKE {
            return None;
        }
        let begins = |with: &[u8]| prefix.starts_with(with);
        Some(match first {
            _ if begins(PROXY_V1) || begins(PROXY_V2) => Self::ProxyProtocol,
            _ if METHODS.iter().any(|method| begins(method)) => Self::PlainHttp,
            // The hello of SSL 2, by which old libraries offered up to TLS 1.2.
            0x80.. if prefix.get(2) == Some(&1) => Self::OldTls,
            _ => Self::NoTls,
        })
    }

    /// By what TLS says of it; none where the peer went away or said nothing, as port scanners and health checks do.
    pub(super) fn of_error(error: &io::Error) -> Option<Self> {
        let source = error.get_ref()?.downcast_ref::<rustls::Error>()?;
        Some(match source {
            rustls::Error::PeerIncompatible(
                PeerIncompatible::Tls12NotOffered
                | PeerIncompatible::Tls12NotOfferedOrEnabled
                | PeerIncompatible::SupportedVersionsExtensionRequired
                // TLS 1.1 has no such extension.
                | PeerIncompatible::SignatureAlgorithmsExtensionRequired,
            ) => Self::OldTls,
            rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => Self::NoTls,
            rustls::Error::AlertReceived(
                alert @ (AlertDescription::BadCertificate
                | AlertDescription::UnsupportedCertificate
                | AlertDescription::CertificateRevoked
                | AlertDescription::CertificateExpired
                | AlertDescription::CertificateUnknown
                | AlertDescription::UnknownCA),
            ) => Self::Certificate(*alert),
            _ => Self::Other,
        })
    }
}

/// Answers a request of plain HTTP.
pub(super) async fn say_https<S>(mut stream: S) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    stream.write_all(SAY_HTTPS.as_bytes()).await?;
    stream.shutdown().await?;
    let mut rest = stream.take(MAX_UNREAD_BYTES);
    let mut nowhere = tokio::io::sink();
    let unread = timeout(UNREAD_LIMIT, tokio::io::copy(&mut rest, &mut nowhere));
    unread.await.unwrap_or(Ok(0)).map(drop)
}

/// Lines of the log about connections that get nowhere: of each kind one a minute at most.
#[derive(Debug)]
pub(super) struct HelloNotices {
    old_tls: Notice,
    plain_http: Notice,
    proxy_protocol: Notice,
    no_tls: Notice,
    certificate: Notice,
    other: Notice,
}

impl Default for HelloNotices {
    fn default() -> Self {
        let [
            old_tls,
            plain_http,
            proxy_protocol,
            no_tls,
            certificate,
            other,
        ] = std::array::from_fn(|_| Notice::once_a_minute());
        Self {
            old_tls,
            plain_http,
            proxy_protocol,
            no_tls,
            certificate,
            other,
        }
    }
}

impl HelloNotices {
    /// Notes a connection of `peer`, and logs it where a line is due.
    pub(super) fn note(&self, fault: HelloFault, peer: SocketAddr, error: Option<&io::Error>) {
        let Some(count) = self.of(fault).due(Instant::now()) else {
            return;
        };
        match fault {
            HelloFault::OldTls => tracing::warn!(
                count,
                %peer,
                "a client offered TLS 1.2 at most, and the portal speaks TLS 1.3 alone. In nginx in front of it, \
                 write `proxy_ssl_protocols TLSv1.3;` beside `proxy_pass`"
            ),
            HelloFault::PlainHttp => tracing::warn!(
                count,
                %peer,
                "a client spoke plain HTTP to the port of HTTPS. In a proxy in front of it, write `proxy_pass \
                 https://…` (nginx), `ssl verify none` on the line `server` (HAProxy) or `reverse_proxy https://…` \
                 (Caddy)"
            ),
            HelloFault::ProxyProtocol => tracing::warn!(
                count,
                %peer,
                "a client sent the PROXY protocol, which the portal does not read. Remove `send-proxy` (HAProxy) or \
                 `proxy_protocol` (nginx), and have the proxy write `X-Forwarded-For`"
            ),
            HelloFault::NoTls => tracing::warn!(
                count,
                %peer,
                "a client sent something that is neither TLS nor HTTP"
            ),
            HelloFault::Certificate(alert) => tracing::warn!(
                count,
                %peer,
                ?alert,
                "a client did not accept the portal's certificate. Have it trust the certificate's authority \
                 (`proxy_ssl_trusted_certificate` of nginx, `ca-file` of HAProxy), or make a token for the \
                 certificate that the portal has now"
            ),
            HelloFault::Other => tracing::warn!(
                count,
                %peer,
                error = error.map(tracing::field::display),
                "a TLS handshake failed"
            ),
        }
    }

    const fn of(&self, fault: HelloFault) -> &Notice {
        match fault {
            HelloFault::OldTls => &self.old_tls,
            HelloFault::PlainHttp => &self.plain_http,
            HelloFault::ProxyProtocol => &self.proxy_protocol,
            HelloFault::NoTls => &self.no_tls,
            HelloFault::Certificate(_) => &self.certificate,
            HelloFault::Other => &self.other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_tell_tls_from_http_and_from_the_proxy_protocol() {
        for (prefix, fault) in [
            (&[22_u8, 3, 1, 0, 149, 1] as &[u8], None),
            (&[22], None),
            (b"", None),
            (b"GET / HTTP/1.1\r\n", Some(HelloFault::PlainHttp)),
            (b"POST /sign-in HT", Some(HelloFault::PlainHttp)),
            (b"PATCH /api/v1/si", Some(HelloFault::PlainHttp)),
            (b"PRI * HTTP/2.0\r\n", Some(HelloFault::PlainHttp)),
            (b"PROXY TCP4 192.0", Some(HelloFault::ProxyProtocol)),
            (
                b"\r\n\r\n\0\r\nQUIT\n\x21\x11",
                Some(HelloFault::ProxyProtocol),
            ),
            (b"SSH-2.0-OpenSSH_", Some(HelloFault::NoTls)),
            (b"GETAWAY ", Some(HelloFault::NoTls)),
            (&[0x80, 0x2e, 1, 3, 1], Some(HelloFault::OldTls)),
            (&[0xff, 0xff, 0xff], Some(HelloFault::NoTls)),
            (&[0; 16], Some(HelloFault::NoTls)),
        ] {
            assert_eq!(HelloFault::of_prefix(prefix), fault, "{prefix:?}");
        }
    }

    #[test]
    fn who_says_nothing_and_goes_away_is_not_worth_a_line() {
        let of = |kind: io::ErrorKind| HelloFault::of_error(&kind.into());
        assert_eq!(of(io::ErrorKind::UnexpectedEof), None);
        assert_eq!(of(io::ErrorKind::TimedOut), None);
        assert_eq!(of(io::ErrorKind::ConnectionReset), None);
        let refused = rustls::Error::AlertReceived(AlertDescription::UnknownCA);
        let refused = io::Error::new(io::ErrorKind::InvalidData, refused);
        let fault = HelloFault::Certificate(AlertDescription::UnknownCA);
        assert_eq!(HelloFault::of_error(&refused), Some(fault));
    }

    #[test]
    fn the_answer_to_plain_http_is_as_long_as_it_says() {
        let (head, body) = SAY_HTTPS.split_once("\r\n\r\n").unwrap();
        assert!(
            head.contains(&format!("content-length: {}", body.len())),
            "{}",
            body.len()
        );
    }
}
