//! A flood of handshake initiations, of somebody who knows the receiver's public key and owns their addresses.

use std::io::{IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use blake2::digest::consts::U16;
use blake2::digest::{KeyInit as _, Mac as _};
use blake2::{Blake2s256, Blake2sMac, Digest as _};
use chacha20poly1305::XChaCha20Poly1305;
use chacha20poly1305::aead::AeadInOut as _;
use culvert_base::datagrams::PRIORITY_CLASS;
use culvert_session::PublicKey;
use culvert_session::parse::{COOKIE_REPLY_LEN, CookieReply, INITIATION_LEN, Message};
use nix::errno::Errno;
use nix::libc::{in6_addr, in6_pktinfo};
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, sendmsg, setsockopt,
    sockopt,
};

use super::newcomer::Newcomer;
use super::strangers::Strangers;

/// Bytes of `mac1`, of `mac2` and of a cookie.
const MAC_LEN: usize = 16;

/// The offsets of `mac1` and `mac2` in an initiation.
const MAC1_AT: usize = INITIATION_LEN - 2 * MAC_LEN;
const MAC2_AT: usize = INITIATION_LEN - MAC_LEN;

/// Initiations between two looks for cookies and at the time.
const BATCH: u64 = 64;

/// The sender sleeps this long where nothing is due: two initiations at 20,000 a second.
const PAUSE: Duration = Duration::from_micros(100);

/// The most that the sender catches up with at once after it did not run.
const CATCH_UP: Duration = Duration::from_millis(2);

/// The fields that strangers get right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nothing: they do not know the receiver's public key.
    WrongMac1,
    /// `mac1`: the receiver decrypts it, unless it is under load.
    NoCookie,
    /// `mac2` too: they own each address, and have asked for its cookie.
    Cookies,
}

impl Kind {
    pub(super) const ALL: [Self; 3] = [Self::WrongMac1, Self::NoCookie, Self::Cookies];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::WrongMac1 => "with a wrong mac1",
            Self::NoCookie => "without cookies",
            Self::Cookies => "with valid cookies",
        }
    }
}

/// Counts of a flood so far.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) sent: AtomicU64,
    /// Addresses that a cookie is there for.
    pub(super) cookies: AtomicUsize,
}

/// A flood from one socket, which sends from all addresses of the strangers.
pub(super) struct Attack {
    socket: UdpSocket,
    to: SockaddrStorage,
    strangers: Strangers,
    kind: Kind,
    /// One initiation, of a key that the receiver does not know: its cost is the same each time.
    message: [u8; INITIATION_LEN],
    cookie_key: [u8; 32],
    /// `mac2` of the message from each address.
    mac2: Vec<Option<[u8; MAC_LEN]>>,
}

impl Attack {
    /// Makes the socket in the namespace of this thread.
    pub(super) fn new(
        strangers: Strangers,
        kind: Kind,
        to: SocketAddr,
        receiver: &PublicKey,
    ) -> Result<Self> {
        let mut message = Newcomer::any_initiation(receiver)?;
        if kind == Kind::WrongMac1 {
            message[MAC1_AT] ^= 1;
        }
        let socket = match strangers.address(0) {
            from @ IpAddr::V4(_) => UdpSocket::bind((from, 0)),
            IpAddr::V6(_) => UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)),
        };
        let socket = socket.context("cannot make the strangers' socket")?;
        // The class of real handshakes: junk of another class would wait behind them.
        match to {
            SocketAddr::V4(_) => {
                setsockopt(&socket, sockopt::Ipv4Tos, &i32::from(PRIORITY_CLASS))?;
            }
            SocketAddr::V6(_) => {
                setsockopt(&socket, sockopt::Ipv6TClass, &i32::from(PRIORITY_CLASS))?;
                setsockopt(&socket, sockopt::Ipv6RecvPacketInfo, &true)?;
            }
        }
        Ok(Self {
            socket,
            to: to.into(),
            strangers,
            kind,
            message,
            cookie_key: hash(b"cookie--", receiver),
            mac2: vec![None; strangers.addresses()],
        })
    }

    /// Sends `per_second` until `is_over`; 0 is as many as this thread can.
    pub(super) fn run(
        mut self,
        per_second: u32,
        is_over: &AtomicBool,
        counts: &Counts,
    ) -> Result<()> {
        let began = Instant::now();
        let mut next = 0;
        let (mut sent, mut forgiven) = (0, 0);
        while !is_over.load(Ordering::Relaxed) {
            let mut due = BATCH;
            if per_second > 0 {
                let in_time = |time: Duration| (time.as_secs_f64() * f64::from(per_second)) as u64;
                due = in_time(began.elapsed()).saturating_sub(sent + forgiven);
                let most = in_time(CATCH_UP).max(1);
                forgiven += due.saturating_sub(most);
                due = due.min(most);
            }
            if due == 0 {
                thread::sleep(PAUSE);
            }
            for _ in 0..due {
                self.send(next)?;
                next = (next + 1) % self.mac2.len();
            }
            sent += due;
            counts.sent.store(sent, Ordering::Relaxed);
            if self.kind == Kind::Cookies {
                self.take_cookies(counts)?;
            }
        }
        Ok(())
    }

    /// Sends the message from the address of this number.
    fn send(&mut self, number: usize) -> Result<()> {
        let mac2 = self.mac2[number].unwrap_or_default();
        self.message[MAC2_AT..].copy_from_slice(&mac2);
        let source = match self.strangers.address(number) {
            IpAddr::V4(_) => None,
            IpAddr::V6(address) => Some(in6_pktinfo {
                ipi6_addr: in6_addr {
                    s6_addr: address.octets(),
                },
                ipi6_ifindex: 0,
            }),
        };
        let control: Vec<_> = source.iter().map(ControlMessage::Ipv6PacketInfo).collect();
        let sent = sendmsg(
            self.socket.as_raw_fd(),
            &[IoSlice::new(&self.message)],
            &control,
            MsgFlags::MSG_DONTWAIT,
            Some(&self.to),
        );
        match sent {
            // A full queue of the kernel refuses some.
            Ok(_) | Err(Errno::ENOBUFS | Errno::EAGAIN) => Ok(()),
            Err(error) => Err(error).context("cannot send an initiation"),
        }
    }

    /// Takes the cookies that have come, each for the address that it came to.
    fn take_cookies(&mut self, counts: &Counts) -> Result<()> {
        let mut control = nix::cmsg_space!(in6_pktinfo);
        loop {
            let mut datagram = [0; COOKIE_REPLY_LEN];
            let mut slices = [IoSliceMut::new(&mut datagram)];
            let received = recvmsg::<SockaddrStorage>(
                self.socket.as_raw_fd(),
                &mut slices,
                Some(&mut control),
                MsgFlags::MSG_DONTWAIT,
            );
            let number = match received {
                Ok(received) => {
                    let came_to = received.cmsgs()?.find_map(|message| match message {
                        ControlMessageOwned::Ipv6PacketInfo(info) => Some(info.ipi6_addr),
                        _ => None,
                    });
                    let network = |address: in6_addr| Ipv6Addr::from(address.s6_addr).segments()[3];
                    came_to.map_or(0, |address| usize::from(network(address)))
                }
                Err(Errno::EAGAIN) => return Ok(()),
                Err(error) => return Err(error).context("cannot receive cookies"),
            };
            if let Some(Message::CookieReply(reply)) = Message::parse(&datagram) {
                let mac2 = self.mac2_by(&reply)?;
                if self.mac2[number].replace(mac2).is_none() {
                    counts.cookies.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    /// §5.4.4 of the WireGuard paper: what the message shows by this cookie.
    fn mac2_by(&self, reply: &CookieReply<'_>) -> Result<[u8; MAC_LEN]> {
        let (sealed, tag) = reply.sealed_cookie.split_at(MAC_LEN);
        let mut cookie = [0; MAC_LEN];
        cookie.copy_from_slice(sealed);
        XChaCha20Poly1305::new(&self.cookie_key.into())
            .decrypt_inout_detached(
                &(*reply.nonce).into(),
                &self.message[MAC1_AT..MAC2_AT],
                cookie.as_mut_slice().into(),
                tag.try_into()?,
            )
            .map_err(|_| anyhow!("a cookie is sealed for another message"))?;
        let mut mac = Blake2sMac::<U16>::new_from_slice(&cookie)
            .map_err(|_| anyhow!("BLAKE2s takes no key of 16 bytes"))?;
        mac.update(&self.message[..MAC2_AT]);
        Ok(mac.finalize().into_bytes().into())
    }
}

fn hash(label: &[u8; 8], key: &PublicKey) -> [u8; 32] {
    let hasher = Blake2s256::new()
        .chain_update(label)
        .chain_update(key.as_bytes());
    hasher.finalize().into()
}
