//! The portal's UDP port: it tells ends from which address it sees them.
//!
//! An end behind a NAT asks from the socket of its tunnel, so the answer has the address that the NAT gives to its records.
//! Nothing is stored, and an answer is as long as its question.

use culvert_base::{
    BootTime, Destination, Family, LocalAddress, TokenBucket, TokenRate, whole_millis,
};
use culvert_relay_core::cookie::Cookies;
use culvert_udp::{ReceiveBatch, Socket, UdpError};
use rustix::event::{PollFd, PollFlags, Timespec};
use std::net::{IpAddr, SocketAddr};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Datagrams that are looked at in a second, in all: an end asks every 20 s, and all 12,000 at once after a restart. More
/// than that waits in the kernel, or is dropped there.
const DATAGRAMS: TokenRate = TokenRate::per_second(4_096, 4_096);

/// The pause once that many have come.
const PAUSE: Duration = Duration::from_millis(50);

/// The longest wait for a datagram: the portal's end is noticed after it.
const LONGEST_WAIT: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 200_000_000,
};

/// Runs of datagrams of one system call.
const RUNS_PER_BATCH: usize = 4;

/// The port, open and not served yet.
#[derive(Debug)]
pub(super) struct AddressPort {
    sockets: Vec<Socket>,
    /// The one address at which the portal listens, if it is not all.
    only: Option<IpAddr>,
    port: u16,
    seed: [u8; 32],
}

impl AddressPort {
    /// Opens the port of the address at which the portal listens. None of a portal that only its own machine reaches.
    ///
    /// # Errors
    /// The reason why there is none. The portal serves without.
    pub(super) fn open(listening: SocketAddr) -> Result<Option<Self>, String> {
        let (ip, port) = (listening.ip(), listening.port());
        if ip.is_loopback() {
            return Ok(None);
        }
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|error| format!("no random bytes: {error}"))?;
        let families = match (ip, ip.is_unspecified()) {
            // Every address of both families.
            (IpAddr::V6(_), true) => vec![Family::V4, Family::V6],
            _ => vec![Family::of(ip)],
        };
        let mut sockets = Vec::new();
        for family in families {
            match Socket::bind(family, port, 0) {
                Ok(socket) => sockets.push(socket),
                Err(UdpError::NoSuchFamily { .. }) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(Some(Self {
            sockets,
            only: Some(ip).filter(|ip| !ip.is_unspecified()),
            port,
            seed,
        }))
    }

    /// Its number.
    pub(super) const fn port(&self) -> u16 {
        self.port
    }

    /// Answers until the portal ends. It blocks its thread.
    pub(super) fn serve(self, stop: &watch::Receiver<bool>) {
        let mut answers = Answers {
            cookies: Cookies::new(self.seed),
            only: self.only,
            port: self.port,
            begun: Instant::now(),
            taken: TokenBucket::FULL,
        };
        let mut batch = ReceiveBatch::new(RUNS_PER_BATCH);
        // A portal that was dropped asks nobody to stop.
        while !*stop.borrow() && stop.has_changed().is_ok() {
            let mut polled: Vec<_> = self
                .sockets
                .iter()
                .map(|socket| PollFd::new(socket, PollFlags::IN))
                .collect();
            // An interrupted wait is over.
            let _interrupted = rustix::event::poll(&mut polled, Some(&LONGEST_WAIT));
            let readable: Vec<bool> = polled.iter().map(|it| !it.revents().is_empty()).collect();
            for (socket, _) in self.sockets.iter().zip(readable).filter(|(_, it)| *it) {
                if let Err(error) = socket.receive_batch(&mut batch) {
                    // An error of an earlier datagram, which says nothing of the next one.
                    tracing::debug!(%error, "receiving");
                    continue;
                }
                if answer_all(socket, &mut batch, &mut answers).is_err() {
                    sleep(PAUSE);
                }
            }
        }
    }
}

/// The answers of the port.
struct Answers {
    cookies: Cookies,
    only: Option<IpAddr>,
    port: u16,
    begun: Instant,
    taken: TokenBucket<BootTime>,
}

impl Answers {
    /// The answer to a datagram that came to `local`, if it is a question and not too many came before.
    fn answer(
        &mut self,
        datagram: &[u8],
        source: SocketAddr,
        local: Option<LocalAddress>,
    ) -> Result<Option<[u8; culvert_relay_core::message::ASK_LEN]>, TooMany> {
        let now = BootTime::from_millis(whole_millis(self.begun.elapsed()));
        self.taken.take(DATAGRAMS, now).map_err(|_| TooMany)?;
        let is_elsewhere = |only: IpAddr| local.is_some_and(|local| local.ip != only);
        if self.only.is_some_and(is_elsewhere) {
            return Ok(None);
        }
        Ok(self.cookies.answer(datagram, source, self.port, now))
    }
}

/// More datagrams have come than are looked at.
#[derive(Debug)]
struct TooMany;

/// Answers what was received, up to the bound.
fn answer_all(
    socket: &Socket,
    batch: &mut ReceiveBatch,
    answers: &mut Answers,
) -> Result<(), TooMany> {
    for run in batch.iter_mut().filter(|run| !run.truncated) {
        let to = Destination {
            address: run.source,
            source: run.local,
        };
        for datagram in run.bytes.chunks(run.stride) {
            let answer = answers.answer(datagram, run.source, run.local)?;
            if let Some(answer) = answer {
                // The end asks again where it does not get there.
                let _lost = socket.send(&answer, answer.len(), &to, 0);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use culvert_relay_core::Message;
    use culvert_relay_core::message::{Ask, Transaction};
    use std::net::UdpSocket;

    const TRANSACTION: Transaction = Transaction([3; 16]);

    fn question() -> Vec<u8> {
        let transaction = TRANSACTION;
        Ask { transaction }.encode().to_vec()
    }

    #[test]
    fn a_portal_that_only_its_machine_reaches_has_no_such_port() {
        let opened = AddressPort::open("127.0.0.1:8443".parse().unwrap());
        assert!(opened.unwrap().is_none());
    }

    #[test]
    fn more_than_the_bound_is_not_looked_at() {
        let mut answers = Answers {
            cookies: Cookies::new([1; 32]),
            only: None,
            port: 8443,
            begun: Instant::now(),
            taken: TokenBucket::FULL,
        };
        let source = "198.51.100.7:4000".parse().unwrap();
        let results = (0..100_000).map(|_| answers.answer(&question(), source, None));
        let refused = results.filter(Result::is_err).count();
        assert!(refused > 0);
    }

    #[tokio::test]
    async fn a_question_is_answered_with_the_address_of_the_asker_and_nothing_else_is() {
        let opened = AddressPort::open("[::]:0".parse().unwrap())
            .unwrap()
            .unwrap();
        let ports: Vec<_> = opened.sockets.iter().map(Socket::local_port).collect();
        let port = ports[0];
        let (stop, stopped) = watch::channel(false);
        let serving = tokio::task::spawn_blocking(move || opened.serve(&stopped));
        let asked = tokio::task::spawn_blocking(move || {
            let end = UdpSocket::bind("127.0.0.1:0").unwrap();
            end.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            end.connect(("127.0.0.1", port)).unwrap();
            end.send(b"something else").unwrap();
            end.send(&question()).unwrap();
            let mut answer = [0; 128];
            let len = end.recv(&mut answer).unwrap();
            let Some(Message::Challenge(challenge)) = Message::parse(&answer[..len]) else {
                panic!("{answer:?}");
            };
            assert_eq!(challenge.transaction, TRANSACTION);
            assert_eq!(challenge.mapped, end.local_addr().unwrap());
            assert_eq!(len, question().len());
        });
        asked.await.unwrap();
        stop.send_replace(true);
        serving.await.unwrap();
    }
}
