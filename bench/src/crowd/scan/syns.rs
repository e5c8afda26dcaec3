//! TCP segments that begin connections: many to one port, or each to another port of many hosts.

use anyhow::{Context, Result};
use culvert_lab::Namespace;
use nix::sys::socket::{
    AddressFamily, MsgFlags, MultiHeaders, SockFlag, SockProtocol, SockType, SockaddrIn, sendmmsg,
    socket,
};
use std::io::IoSlice;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

/// Segments of one call.
const BATCH: usize = 32;

/// Hosts that are scanned: none of them is there, so nobody answers.
pub(super) const FIRST_HOST: Ipv4Addr = Ipv4Addr::new(10, 50, 0, 64);
const HOSTS: u64 = 64;

/// The sender sleeps this long where nothing is due: ten segments at 100,000 a second.
const PAUSE: Duration = Duration::from_micros(100);

/// The most that it catches up with at once after it did not run.
const CATCH_UP: Duration = Duration::from_millis(2);

const HEADER_LEN: usize = 20;
const TCP: u8 = 6;

/// The destinations of segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    /// One flow.
    Stream,
    /// Each segment is another flow.
    Scan,
}

/// A sender in a client's namespace.
pub(super) struct Syns {
    socket: OwnedFd,
    source: Ipv4Addr,
    sent: u64,
}

impl Syns {
    pub(super) fn new(client: &Namespace) -> Result<Self> {
        client.inside(|| {
            let socket = socket(
                AddressFamily::Inet,
                SockType::Raw,
                SockFlag::SOCK_CLOEXEC,
                SockProtocol::Tcp,
            )
            .context("cannot make a raw socket")?;
            // The address that packets to the hosts leave from.
            let probe = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
            probe.connect((FIRST_HOST, 9))?;
            let source = match probe.local_addr()?.ip() {
                std::net::IpAddr::V4(source) => source,
                std::net::IpAddr::V6(_) => anyhow::bail!("the route to {FIRST_HOST} is none"),
            };
            Ok(Self {
                socket,
                source,
                sent: 0,
            })
        })
    }

    /// Sends so many a second for `span`, as far as the machine allows. Returns how many were sent.
    pub(super) fn send(&mut self, pattern: Pattern, per_s: u64, span: Duration) -> Result<u64> {
        let mut headers = MultiHeaders::preallocate(BATCH, None);
        let began = Instant::now();
        let in_time = |time: Duration| (time.as_secs_f64() * per_s as f64) as u64;
        let (mut sent, mut forgiven) = (0, 0);
        while began.elapsed() < span {
            let mut due = in_time(began.elapsed()) - sent - forgiven;
            let most = in_time(CATCH_UP).max(1);
            if due > most {
                forgiven += due - most;
                due = most;
            }
            if due == 0 {
                thread::sleep(PAUSE);
                continue;
            }
            sent += self.send_batch(&mut headers, pattern, BATCH.min(usize::try_from(due)?))?;
        }
        Ok(sent)
    }

    fn send_batch(
        &mut self,
        headers: &mut MultiHeaders<SockaddrIn>,
        pattern: Pattern,
        count: usize,
    ) -> Result<u64> {
        let numbers = (self.sent..).take(count);
        let made: Vec<_> = numbers
            .map(|number| segment(self.source, pattern, number))
            .collect();
        let slices: Vec<_> = made
            .iter()
            .map(|(_, bytes)| [IoSlice::new(bytes)])
            .collect();
        let to = made
            .iter()
            .map(|(host, _)| Some(SockaddrIn::from(SocketAddrV4::new(*host, 0))));
        let to: Vec<_> = to.collect();
        let sent = sendmmsg(
            self.socket.as_raw_fd(),
            headers,
            &slices,
            to,
            [],
            MsgFlags::empty(),
        )?;
        self.sent += count as u64;
        Ok(sent.count() as u64)
    }
}

/// Segment `number`, and the host that it is for.
fn segment(source: Ipv4Addr, pattern: Pattern, number: u64) -> (Ipv4Addr, [u8; HEADER_LEN]) {
    let number = match pattern {
        Pattern::Stream => 0,
        Pattern::Scan => number,
    };
    // Ports first, then hosts, then the source port: 65,535 × 64 flows before the source port is another one.
    let port = (number % 65_535 + 1) as u16;
    let host = (number / 65_535 % HOSTS) as u32;
    let source_port = 20_000 + (number / 65_535 / HOSTS % 40_000) as u16;
    let host = Ipv4Addr::from_bits(FIRST_HOST.to_bits() + host);
    let mut bytes = [0; HEADER_LEN];
    bytes[..2].copy_from_slice(&source_port.to_be_bytes());
    bytes[2..4].copy_from_slice(&port.to_be_bytes());
    bytes[4..8].copy_from_slice(&(number as u32).to_be_bytes());
    bytes[12] = 0x50;
    bytes[13] = 0x02;
    bytes[14..16].copy_from_slice(&64_240_u16.to_be_bytes());
    let checksum = checksum(source, host, &bytes);
    bytes[16..18].copy_from_slice(&checksum.to_be_bytes());
    (host, bytes)
}

/// RFC 9293, section 3.1.
fn checksum(source: Ipv4Addr, to: Ipv4Addr, segment: &[u8; HEADER_LEN]) -> u16 {
    let pseudo = [source.octets(), to.octets(), [0, TCP, 0, HEADER_LEN as u8]];
    let words = pseudo.as_flattened().chunks(2).chain(segment.chunks(2));
    let mut sum: u32 = words
        .map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])))
        .sum();
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: Ipv4Addr = Ipv4Addr::new(100, 64, 0, 9);

    #[test]
    fn a_scan_begins_another_flow_with_each_segment() {
        let flow = |pattern, number| {
            let (host, bytes) = segment(SOURCE, pattern, number);
            (host, bytes[..4].to_vec())
        };
        let flows: std::collections::BTreeSet<_> = (0..200_000)
            .map(|number| flow(Pattern::Scan, number))
            .collect();
        assert_eq!(flows.len(), 200_000);
        assert_eq!(flow(Pattern::Stream, 1), flow(Pattern::Stream, 2));
    }

    #[test]
    fn checksums_are_those_of_another_implementation() {
        for number in [0, 1, 65_535, 70_000, 9_999_999] {
            let (host, bytes) = segment(SOURCE, Pattern::Scan, number);
            let mut parsed = etherparse::TcpHeader::from_slice(&bytes).unwrap().0;
            let told = std::mem::take(&mut parsed.checksum);
            let expected = parsed
                .calc_checksum_ipv4_raw(SOURCE.octets(), host.octets(), &[])
                .unwrap();
            assert_eq!(told, expected);
            assert!(parsed.syn && !parsed.ack);
        }
    }
}
