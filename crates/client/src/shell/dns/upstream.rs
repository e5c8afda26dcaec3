//! One query to an upstream resolver, from a port of its own.

use super::tls::TlsServer;
use super::{DnsEvent, DnsEvents};
use culvert_dns::{ForwardId, Transport, UPSTREAM_WAIT, may_answer};
use culvert_host::InterfaceName;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, UdpSocket};
use tokio::time::timeout;

/// The longest answer that is read.
const MAX_ANSWER_LEN: usize = 65_535;

/// The server to ask.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) at: SocketAddr,
    /// The only interface that the query may leave by, if not any.
    pub(crate) device: Option<InterfaceName>,
    /// Its connection, if it is asked over TLS. No other transport will do then.
    pub(crate) tls: Option<TlsServer>,
}

/// Asks, and reports the result to the core: an answer, or that nobody is there. A silent upstream is not
/// reported, because the core has a clock of its own.
pub(crate) async fn ask_upstream(
    id: ForwardId,
    query: Vec<u8>,
    server: Server,
    transport: Transport,
    events: DnsEvents,
) {
    let exchange = async {
        match (&server.tls, transport) {
            (Some(tls), _) => tls.ask(query).await,
            (None, Transport::Udp) => exchange_udp(&query, &server).await,
            (None, Transport::Tcp) => exchange_tcp(&query, &server).await,
        }
    };
    let upstream = server.at;
    let event = match timeout(UPSTREAM_WAIT, exchange).await {
        Ok(Ok(bytes)) => DnsEvent::Answer {
            bytes,
            transport,
            from: upstream,
        },
        Ok(Err(error)) => {
            tracing::debug!(%upstream, %error, "a DNS upstream can't be reached");
            DnsEvent::Unreachable(id)
        }
        Err(_elapsed) => return,
    };
    let _ended = events.send(event).await;
}

async fn exchange_udp(query: &[u8], server: &Server) -> io::Result<Vec<u8>> {
    let any: IpAddr = match server.at {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).await?;
    if let Some(device) = &server.device {
        socket.bind_device(Some(device.as_str().as_bytes()))?;
    }
    // A connected socket takes answers from nobody else, and hears that the port is closed.
    socket.connect(server.at).await?;
    socket.send(query).await?;
    let mut buffer = vec![0; MAX_ANSWER_LEN];
    loop {
        let len = socket.recv(&mut buffer).await?;
        // An attacker who guesses addresses and port must guess the id too, and may go on guessing:
        // neither a wrong id nor a wrong question ends the wait.
        if may_answer(&buffer[..len], query) {
            buffer.truncate(len);
            return Ok(buffer);
        }
    }
}

async fn exchange_tcp(query: &[u8], server: &Server) -> io::Result<Vec<u8>> {
    let socket = match server.at {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    if let Some(device) = &server.device {
        socket.bind_device(Some(device.as_str().as_bytes()))?;
    }
    let mut stream = socket.connect(server.at).await?;
    let len = u16::try_from(query.len()).map_err(io::Error::other)?;
    let mut framed = len.to_be_bytes().to_vec();
    framed.extend(query);
    stream.write_all(&framed).await?;
    let len = stream.read_u16().await?;
    let mut answer = vec![0; usize::from(len)];
    stream.read_exact(&mut answer).await?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A query for the address of `name`, or an answer to one.
    fn message(id: u16, flags: [u8; 2], name: &[u8]) -> Vec<u8> {
        let [high, low] = id.to_be_bytes();
        let header = [high, low, flags[0], flags[1], 0, 1, 0, 0, 0, 0, 0, 0];
        [&header[..], name, &[0, 1, 0, 1]].concat()
    }

    #[tokio::test]
    async fn a_datagram_with_another_id_or_question_does_not_end_the_wait() {
        const NAME: &[u8] = b"\x02db\x07example\0";
        const ANSWER: [u8; 2] = [0x81, 0x80];
        let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let upstream = server.local_addr().unwrap();
        let query = message(7, [1, 0], NAME);
        let asking = tokio::spawn({
            let query = query.clone();
            let server = Server {
                at: upstream,
                device: None,
                tls: None,
            };
            async move { exchange_udp(&query, &server).await }
        });
        let mut buffer = [0; 512];
        let (len, from) = server.recv_from(&mut buffer).await.unwrap();
        assert_eq!(buffer[..len], query);
        let good = message(7, ANSWER, NAME);
        for datagram in [
            message(8, ANSWER, NAME),
            message(7, ANSWER, b"\x02dc\x07example\0"),
            query,
            vec![0, 7],
            Vec::new(),
            good.clone(),
        ] {
            server.send_to(&datagram, from).await.unwrap();
        }
        assert_eq!(asking.await.unwrap().unwrap(), good);
    }
}
