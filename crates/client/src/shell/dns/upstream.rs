//! One query to an upstream resolver, from a port of its own.

use super::{DnsEvent, DnsEvents};
use culvert_dns::{ForwardId, Transport, UPSTREAM_WAIT};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

/// The longest answer that is read.
const MAX_ANSWER_LEN: usize = 65_535;

/// Asks, and tells the core what came of it: an answer, or that nobody is there. Of an upstream that
/// only stays silent the core hears nothing; it has a clock of its own.
pub(crate) async fn ask_upstream(
    id: ForwardId,
    query: Vec<u8>,
    upstream: SocketAddr,
    transport: Transport,
    events: DnsEvents,
) {
    let exchange = async {
        match transport {
            Transport::Udp => exchange_udp(&query, upstream).await,
            Transport::Tcp => exchange_tcp(&query, upstream).await,
        }
    };
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

async fn exchange_udp(query: &[u8], upstream: SocketAddr) -> io::Result<Vec<u8>> {
    let any: IpAddr = match upstream {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).await?;
    // A connected socket takes answers from nobody else, and hears that the port is closed.
    socket.connect(upstream).await?;
    socket.send(query).await?;
    let mut buffer = vec![0; MAX_ANSWER_LEN];
    loop {
        let len = socket.recv(&mut buffer).await?;
        // Whoever guesses addresses and port must guess the id too, and may go on guessing: a wrong
        // one does not end the wait.
        if len >= 2 && buffer[..2] == query[..2] {
            buffer.truncate(len);
            return Ok(buffer);
        }
    }
}

async fn exchange_tcp(query: &[u8], upstream: SocketAddr) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(upstream).await?;
    let len = u16::try_from(query.len()).map_err(io::Error::other)?;
    let mut framed = len.to_be_bytes().to_vec();
    framed.extend(query);
    stream.write_all(&framed).await?;
    let len = stream.read_u16().await?;
    let mut answer = vec![0; usize::from(len)];
    stream.read_exact(&mut answer).await?;
    Ok(answer)
}
