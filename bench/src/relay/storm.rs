//! Thousands of clients that register at once, as after the start of a relay.

use super::ends::permission;
use super::worker::Worker;
use anyhow::{Result, bail, ensure};
use culvert_relay_core::message::{Ask, Message, REGISTER_MAX_LEN, Register, Transaction};
use culvert_relay_core::registration::Permission;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// Clients that wait for an answer at one time: the relay's socket has room for their datagrams.
const AT_ONCE: usize = 128;

/// The limit for all of them.
const LIMIT: Duration = Duration::from_secs(60);

/// The measurements of a storm.
pub(super) struct Storm {
    pub(super) took: Duration,
    pub(super) bytes_per_client: u64,
}

/// A client, and the number of its questions.
struct Client {
    socket: UdpSocket,
    permission: Permission,
    transaction: Transaction,
    asked: Instant,
}

/// The time between two questions of a client that got no answer.
const AGAIN: Duration = Duration::from_millis(500);

/// Registers `count` clients at the port.
pub(super) fn measure(worker: &Worker, port: u16, count: u32) -> Result<Storm> {
    let relay = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut waiting = Vec::new();
    for number in 0..count {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.connect(relay)?;
        socket.set_nonblocking(true)?;
        let mut transaction = [3; 16];
        transaction[..4].copy_from_slice(&number.to_be_bytes());
        waiting.push(Client {
            socket,
            permission: permission(port, Some(number))?,
            transaction: Transaction(transaction),
            asked: Instant::now(),
        });
    }
    let before = worker.usage()?.peak_rss_bytes;
    let began = Instant::now();
    let mut done = Vec::new();
    let mut active: Vec<Client> = Vec::new();
    while done.len() < count as usize {
        ensure!(
            began.elapsed() < LIMIT,
            "{} of {count} registered",
            done.len()
        );
        while active.len() < AT_ONCE
            && let Some(mut client) = waiting.pop()
        {
            client.ask()?;
            active.push(client);
        }
        for mut client in std::mem::take(&mut active) {
            match client.turn()? {
                true => done.push(client),
                false => active.push(client),
            }
        }
    }
    let took = began.elapsed();
    let grown = worker.usage()?.peak_rss_bytes.saturating_sub(before);
    Ok(Storm {
        took,
        bytes_per_client: grown / u64::from(count),
    })
}

impl Client {
    fn ask(&mut self) -> Result<()> {
        let transaction = self.transaction;
        self.socket.send(&Ask { transaction }.encode())?;
        self.asked = Instant::now();
        Ok(())
    }

    /// Takes an answer, if there is one; true once it is registered.
    fn turn(&mut self) -> Result<bool> {
        let mut buffer = [0; 128];
        let len = match self.socket.recv(&mut buffer) {
            Ok(len) => len,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if self.asked.elapsed() > AGAIN {
                    self.ask()?;
                }
                return Ok(false);
            }
            Err(error) => return Err(error.into()),
        };
        match Message::parse(&buffer[..len]) {
            Some(Message::Challenge(challenge)) => {
                let mut out = [0; REGISTER_MAX_LEN];
                let key = self.permission.key.as_bytes();
                let token = &self.permission.token;
                let len = Register::write(self.transaction, challenge.cookie, token, key, &mut out);
                self.socket.send(&out[..len.unwrap_or(0)])?;
                Ok(false)
            }
            Some(Message::Registered(_)) => Ok(true),
            other => bail!("the relay answers {other:?}"),
        }
    }
}
