//! A TURN server (RFC 8656) beside it: coturn, with one relay thread, and a client that needs no more than channels.

use anyhow::{Context, Result, bail, ensure};
use culvert_base::{Destination, Family};
use culvert_lab::measure::Usage;
use culvert_lab::peer_program;
use culvert_udp::{ReceiveBatch, Socket};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const PORT: u16 = 4478;
const COOKIE: [u8; 4] = [0x21, 0x12, 0xa4, 0x42];
/// The first number of a channel.
const CHANNEL: [u8; 2] = [0x40, 0x00];
const ALLOCATE: u16 = 0x0003;
const CHANNEL_BIND: u16 = 0x0009;
const SUCCESS: u16 = 0x0100;
const CHANNEL_NUMBER: u16 = 0x000c;
const XOR_PEER_ADDRESS: u16 = 0x0012;
const REQUESTED_TRANSPORT: u16 = 0x0019;

/// The limit for its start and for an answer.
const SOON: Duration = Duration::from_secs(10);

/// A server that runs.
pub(super) struct Turn {
    child: Child,
    _state: TempDir,
}

/// A client with a channel to one peer.
pub(super) struct Channel {
    pub(super) socket: Socket,
    pub(super) server: Destination,
}

impl Turn {
    /// Starts it in the namespace of this thread.
    pub(super) fn start() -> Result<Self> {
        let state = tempfile::tempdir()?;
        let path = |name: &str| state.path().join(name).display().to_string();
        let child = Command::new(peer_program("turnserver")?)
            .args([
                "-c",
                "/dev/null",
                "--no-auth",
                "--no-cli",
                "--no-tls",
                "--no-dtls",
            ])
            .args(["--listening-ip", "127.0.0.1", "--relay-ip", "127.0.0.1"])
            .args([
                "--listening-port",
                &PORT.to_string(),
                "--relay-threads",
                "1",
            ])
            .args(["--allow-loopback-peers", "--no-software-attribute"])
            .args(["--userdb", &path("users"), "--pidfile", &path("pid")])
            .args(["--log-file", &path("log"), "--simple-log"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("coturn does not start")?;
        Ok(Self {
            child,
            _state: state,
        })
    }

    pub(super) fn cpu(&self) -> Result<Duration> {
        Usage::cpu_of_family(self.child.id())
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _waited = self.child.wait();
    }
}

impl Channel {
    /// Allocates an address, and binds a channel to the peer.
    pub(super) fn open(peer: SocketAddr) -> Result<Self> {
        let channel = Self {
            socket: Socket::bind(Family::V4, 0, 0)?,
            server: Destination {
                address: SocketAddr::from((Ipv4Addr::LOCALHOST, PORT)),
                source: None,
            },
        };
        let udp = [17, 0, 0, 0];
        channel.ask(ALLOCATE, &[(REQUESTED_TRANSPORT, &udp)])?;
        let number = [CHANNEL[0], CHANNEL[1], 0, 0];
        let address = xor(peer)?;
        let attributes: [(u16, &[u8]); 2] =
            [(CHANNEL_NUMBER, &number), (XOR_PEER_ADDRESS, &address)];
        channel.ask(CHANNEL_BIND, &attributes)?;
        Ok(channel)
    }

    /// A datagram of the channel.
    pub(super) fn wrap(record: &[u8]) -> Result<Vec<u8>> {
        let len = u16::try_from(record.len())?.to_be_bytes();
        Ok([&CHANNEL, &len, record].concat())
    }

    /// Asks until the server answers, which may be starting.
    fn ask(&self, method: u16, attributes: &[(u16, &[u8])]) -> Result<()> {
        let mut body = Vec::new();
        for (kind, value) in attributes {
            body.extend(kind.to_be_bytes());
            body.extend((value.len() as u16).to_be_bytes());
            body.extend(*value);
        }
        let transaction = [method as u8; 12];
        let mut message = Vec::new();
        message.extend(method.to_be_bytes());
        message.extend((body.len() as u16).to_be_bytes());
        message.extend(COOKIE);
        message.extend(transaction);
        message.extend(body);
        let limit = Instant::now() + SOON;
        let mut batch = ReceiveBatch::new(4);
        while Instant::now() < limit {
            // Nobody may listen yet.
            let _refused = self.socket.send(&message, message.len(), &self.server, 0);
            std::thread::sleep(Duration::from_millis(100));
            self.socket.receive_batch(&mut batch)?;
            // Repeated answers to an earlier question have another transaction.
            let mut answers = batch.iter_mut();
            if let Some(run) = answers.find(|run| run.bytes.get(8..20) == Some(&transaction)) {
                let kind = run.bytes.first_chunk();
                let kind = kind.map(|kind| u16::from_be_bytes(*kind));
                ensure!(
                    kind == Some(method | SUCCESS),
                    "coturn refuses: {:02x?}",
                    run.bytes
                );
                return Ok(());
            }
        }
        bail!("coturn does not answer")
    }
}

/// XOR-PEER-ADDRESS (RFC 8489, section 14.2).
fn xor(peer: SocketAddr) -> Result<[u8; 8]> {
    let SocketAddr::V4(peer) = peer else {
        bail!("the peer has an IPv4 address here");
    };
    let [p, q] = peer.port().to_be_bytes();
    let mut out = [0, 1, p ^ COOKIE[0], q ^ COOKIE[1], 0, 0, 0, 0];
    for ((out, byte), key) in out[4..].iter_mut().zip(peer.ip().octets()).zip(COOKIE) {
        *out = byte ^ key;
    }
    Ok(out)
}
