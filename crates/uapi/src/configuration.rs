use crate::value::cipher_name;
use crate::{Errno, FirewallMark, KeepaliveInterval, Prefix};
use core::fmt::{self, Write};
use core::net::SocketAddr;
use core::time::Duration;
use culvert_aead::Suite;
use culvert_session::{PresharedKey, PrivateKey, PublicKey};
use zeroize::Zeroizing;

/// The state of an interface, as `get=1` shows it.
#[derive(Debug, Default)]
pub struct Configuration {
    /// The private key, if there is one.
    pub private_key: Option<PrivateKey>,
    /// The UDP port in use, if a socket is open.
    pub listen_port: Option<u16>,
    /// The mark of outgoing datagrams.
    pub fwmark: Option<FirewallMark>,
    /// The suite of peers without a suite of their own.
    pub suite: Suite,
    /// The peers.
    pub peers: Vec<PeerConfiguration>,
}

/// The state of one peer, as `get=1` shows it.
#[derive(Debug)]
pub struct PeerConfiguration {
    /// The peer's public key, by which it is known.
    pub public_key: PublicKey,
    /// The pre-shared key, if there is one.
    pub preshared_key: Option<PresharedKey>,
    /// The peer's own suite; `None` follows the interface.
    pub suite: Option<Suite>,
    /// The peer's endpoint, if it is known.
    pub endpoint: Option<SocketAddr>,
    /// The time of the latest completed handshake, since the Unix epoch.
    pub last_handshake: Option<Duration>,
    /// Bytes sent to the peer, with all WireGuard headers.
    pub sent_bytes: u64,
    /// Bytes received from the peer and found authentic, with all WireGuard headers.
    pub received_bytes: u64,
    /// The persistent keepalive interval, if it is on.
    pub keepalive: Option<KeepaliveInterval>,
    /// The ranges that are the peer's.
    pub allowed_ips: Vec<Prefix>,
}

impl Configuration {
    /// The whole answer to `get=1`, with `errno=0` and the empty line. Every line of it but the
    /// times, the counters and `errno` may be sent back in a `set=1`.
    ///
    /// Other tools read it too, so `cipher` stands only where it was asked for: that of the
    /// interface when it is not ChaCha20-Poly1305, that of a peer when it has one of its own.
    pub fn to_response(&self) -> Zeroizing<String> {
        // A string that grows leaves copies of the keys behind in freed memory: measure, then
        // write into one allocation.
        let mut length = Length(0);
        self.write(&mut length)
            .expect("counting bytes does not fail");
        let mut response = Zeroizing::new(String::with_capacity(length.0));
        self.write(&mut *response)
            .expect("writing to a string does not fail");
        response
    }

    fn write(&self, out: &mut impl Write) -> fmt::Result {
        if let Some(private_key) = &self.private_key {
            writeln!(out, "private_key={}", Hex(private_key.as_bytes()))?;
        }
        if let Some(listen_port) = self.listen_port {
            writeln!(out, "listen_port={listen_port}")?;
        }
        if let Some(FirewallMark(mark)) = self.fwmark {
            writeln!(out, "fwmark={mark}")?;
        }
        if self.suite != Suite::default() {
            writeln!(out, "cipher={}", cipher_name(self.suite))?;
        }
        for peer in &self.peers {
            peer.write(out)?;
        }
        out.write_str("errno=0\n\n")
    }
}

impl PeerConfiguration {
    fn write(&self, out: &mut impl Write) -> fmt::Result {
        writeln!(out, "public_key={}", Hex(self.public_key.as_bytes()))?;
        // All zeros stands for none; other implementations print it too.
        let preshared_key = self.preshared_key.as_ref();
        let preshared_key = preshared_key.map_or(&[0; 32], PresharedKey::as_bytes);
        writeln!(out, "preshared_key={}", Hex(preshared_key))?;
        writeln!(out, "protocol_version=1")?;
        if let Some(suite) = self.suite {
            writeln!(out, "cipher={}", cipher_name(suite))?;
        }
        if let Some(endpoint) = self.endpoint {
            writeln!(out, "endpoint={endpoint}")?;
        }
        let last_handshake = self.last_handshake.unwrap_or_default();
        writeln!(out, "last_handshake_time_sec={}", last_handshake.as_secs())?;
        let nanoseconds = last_handshake.subsec_nanos();
        writeln!(out, "last_handshake_time_nsec={nanoseconds}")?;
        writeln!(out, "tx_bytes={}", self.sent_bytes)?;
        writeln!(out, "rx_bytes={}", self.received_bytes)?;
        let keepalive = self.keepalive.map_or(0, |interval| interval.0.get());
        writeln!(out, "persistent_keepalive_interval={keepalive}")?;
        for prefix in &self.allowed_ips {
            writeln!(out, "allowed_ip={prefix}")?;
        }
        Ok(())
    }
}

/// The whole answer to a `set=1` (or to any request that failed): `errno=0` where `outcome` is
/// fine, otherwise the negative number.
pub fn errno_response(outcome: Result<(), Errno>) -> String {
    let number = outcome.err().map_or(0, Errno::number);
    format!("errno={}\n\n", -number)
}

/// The whole answer to `culvert_status=1`: one line of JSON, then `errno=0`.
///
/// # Errors
/// [`Errno::INPUT_OUTPUT`] when `json` is empty or has a line feed in it, which would end the line.
pub fn status_response(json: &str) -> Result<String, Errno> {
    if json.is_empty() || json.contains('\n') {
        return Err(Errno::INPUT_OUTPUT);
    }
    Ok(format!("{json}\nerrno=0\n\n"))
}

/// Bytes as lowercase hexadecimal digits.
struct Hex<'a>(&'a [u8; 32]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.0 {
            write!(formatter, "{byte:02x}")?;
        }
        Ok(())
    }
}

/// Counts what is written to it.
struct Length(usize);

impl Write for Length {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 += text.len();
        Ok(())
    }
}
