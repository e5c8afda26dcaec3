//! Throughput, with iperf3.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::namespace::Namespace;
use crate::process::Process;
use crate::wait::wait_until;

/// Connecting and exchanging results over a slow path.
const GRACE: Duration = Duration::from_secs(15);

/// The port of iperf3, and the first one beyond it for tests of UDP.
const TCP_PORT: u16 = 5201;
const FIRST_UDP_PORT: u16 = 5300;

/// The limit for the set-up of a UDP test. It waits for a single datagram that nobody sends again,
/// so a longer wait is in vain.
const UDP_GRACE: Duration = Duration::from_secs(4);

/// The text that a server prints before it waits for a test, and the text at the beginning of one.
const LISTENS: &str = "Server listening";
const BEGINS: &str = "Accepted connection";

/// The number of attempts at a UDP test before it counts as failed, for the same reason.
const UDP_ATTEMPTS: usize = 3;

/// An iperf3 server that serves one test after another.
#[derive(Debug)]
pub struct IperfServer {
    process: Process,
    namespace: Namespace,
    address: IpAddr,
    next_udp_port: AtomicU16,
}

/// A TCP test.
#[derive(Clone, Debug)]
pub struct TcpLoad {
    /// The number of connections at once.
    pub connections: u8,
    /// True if the server sends.
    pub reverse: bool,
    /// The duration in whole seconds: iperf3 takes no parts of them.
    pub seconds: u32,
    /// The rate of each connection in Mbit/s; `None` is as fast as it can.
    pub rate_mbit: Option<u32>,
    /// The congestion control of the sender. Hosts have different defaults, and figures of two of
    /// them cannot be compared.
    pub congestion_control: String,
}

impl TcpLoad {
    /// One connection towards the server with cubic.
    #[must_use]
    pub fn forward(seconds: u32) -> Self {
        Self {
            connections: 1,
            reverse: false,
            seconds,
            rate_mbit: None,
            congestion_control: "cubic".to_owned(),
        }
    }
}

/// The result of a TCP test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TcpReport {
    /// The received payload, in bits a second.
    pub bits_per_second: f64,
    /// The received payload, in bytes.
    pub received_bytes: u64,
    /// Segments that the sender sent again.
    pub retransmissions: u64,
}

/// The result of a UDP test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UdpReport {
    /// The received payload, in bits a second.
    pub bits_per_second: f64,
    /// The share of datagrams that did not arrive, 0 to 1.
    pub lost_share: f64,
}

impl IperfServer {
    /// Starts a server on `address`.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start(namespace: &Namespace, address: IpAddr) -> Result<Self> {
        Ok(Self {
            process: listen(namespace, address, TCP_PORT)?,
            namespace: namespace.clone(),
            address,
            next_udp_port: AtomicU16::new(FIRST_UDP_PORT),
        })
    }

    /// Runs a TCP test from `client`.
    ///
    /// # Errors
    /// When a connection fails, or the sender uses another congestion control than asked for.
    pub fn tcp(&self, client: &Namespace, load: &TcpLoad) -> Result<TcpReport> {
        self.finish_tcp(self.start_tcp(client, load)?, load)
    }

    /// Starts a TCP test once the one before is over; [`IperfServer::finish_tcp`] waits for it.
    ///
    /// # Errors
    /// When the server is not done with the test before in time, or iperf3 cannot be started.
    pub fn start_tcp(&self, client: &Namespace, load: &TcpLoad) -> Result<Process> {
        wait_until("the server of iperf3 to be done", GRACE, || {
            is_idle(&self.process.output())
        })?;
        let rate = load
            .rate_mbit
            .map_or(String::new(), |mbit| format!(" -b {mbit}M"));
        client.spawn(&format!(
            "iperf3 -J -c {} -t {} -P {} -C {}{}{rate}",
            self.address,
            load.seconds,
            load.connections,
            load.congestion_control,
            if load.reverse { " -R" } else { "" },
        ))
    }

    /// Waits for the end of a TCP test.
    ///
    /// # Errors
    /// As [`IperfServer::tcp`].
    pub fn finish_tcp(&self, client: Process, load: &TcpLoad) -> Result<TcpReport> {
        let deadline = Duration::from_secs(load.seconds.into()) + GRACE;
        let results = results(client, deadline, &self.process)?;
        let used = results
            .pointer("/end/sender_tcp_congestion")
            .and_then(Value::as_str);
        // Absent in reports of other iperf3 versions: then it cannot be checked.
        if let Some(used) = used.filter(|used| *used != load.congestion_control) {
            bail!(
                "asked for {}, but the sender used {used}",
                load.congestion_control
            );
        }
        Ok(TcpReport {
            bits_per_second: number(&results, "/end/sum_received/bits_per_second")?,
            received_bytes: whole_number(&results, "/end/sum_received/bytes")?,
            retransmissions: whole_number(&results, "/end/sum_sent/retransmits")?,
        })
    }

    /// Offers `bits_per_second` of UDP payload in datagrams of `payload_bytes` for `seconds`.
    ///
    /// # Errors
    /// When the test cannot be set up, three times.
    pub fn udp(
        &self,
        client: &Namespace,
        bits_per_second: u64,
        payload_bytes: u32,
        seconds: u32,
    ) -> Result<UdpReport> {
        let mut result = self.udp_once(client, bits_per_second, payload_bytes, seconds);
        for _ in 1..UDP_ATTEMPTS {
            if result.is_ok() {
                break;
            }
            result = self.udp_once(client, bits_per_second, payload_bytes, seconds);
        }
        result
    }

    fn udp_once(
        &self,
        client: &Namespace,
        bits_per_second: u64,
        payload_bytes: u32,
        seconds: u32,
    ) -> Result<UdpReport> {
        // A server takes the first datagram that arrives for its new client. A port of its own
        // keeps late ones of an earlier test away from it.
        let port = self.next_udp_port.fetch_add(1, Ordering::Relaxed);
        let server = listen(&self.namespace, self.address, port)?;
        let client = client.spawn(&format!(
            "iperf3 -J -u -c {} -p {port} -t {seconds} -b {bits_per_second} -l {payload_bytes}",
            self.address
        ))?;
        let deadline = Duration::from_secs(seconds.into()) + UDP_GRACE;
        let results = results(client, deadline, &server)?;
        // Its own count of lost datagrams looks at gaps only: what is lost at the end is not in it.
        let sent = number(&results, "/end/sum_sent/bytes")?;
        let received = number(&results, "/end/sum_received/bytes")?;
        Ok(UdpReport {
            bits_per_second: number(&results, "/end/sum_received/bits_per_second")?,
            lost_share: if sent > 0.0 {
                (1.0 - received / sent).max(0.0)
            } else {
                1.0
            },
        })
    }
}

/// Starts a server and waits until it listens.
fn listen(namespace: &Namespace, address: IpAddr, port: u16) -> Result<Process> {
    let line = format!("iperf3 -s --forceflush -B {address} -p {port}");
    let mut process = namespace.spawn(&line)?;
    process.wait_for_output(LISTENS, GRACE)?;
    Ok(process)
}

/// True if a server that printed this refuses nobody. It stays busy for a while with a test whose client has ended.
fn is_idle(printed: &str) -> bool {
    printed.rfind(LISTENS) > printed.rfind(BEGINS)
}

/// Waits for a client's report.
fn results(mut client: Process, deadline: Duration, server: &Process) -> Result<Value> {
    client.wait(deadline)?;
    let output = client.output();
    // Warnings may stand in front.
    let report = &output[output.find('{').unwrap_or(0)..];
    let results: Value =
        serde_json::from_str(report).with_context(|| format!("iperf3 printed {output}"))?;
    if let Some(error) = results.get("error") {
        let server_said = server.output();
        let last = server_said
            .lines()
            .rev()
            .find(|line| line.contains("error"));
        bail!(
            "iperf3: {error}; its server: {}",
            last.unwrap_or("no error")
        );
    }
    Ok(results)
}

fn number(results: &Value, pointer: &str) -> Result<f64> {
    let value = results.pointer(pointer).and_then(Value::as_f64);
    value.with_context(|| format!("no {pointer} in the report of iperf3"))
}

fn whole_number(results: &Value, pointer: &str) -> Result<u64> {
    let value = results.pointer(pointer).and_then(Value::as_u64);
    value.with_context(|| format!("no {pointer} in the report of iperf3"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_idle_before_and_after_a_test() {
        let mut printed = String::new();
        assert!(!is_idle(&printed), "it has not begun to listen");
        for (line, is_idle_then) in [
            ("Server listening on 5201 (test #1)\n", true),
            ("Accepted connection from 10.0.0.1, port 4\n", false),
            ("[  5] local 10.0.0.2 port 5201 connected\n", false),
            ("Server listening on 5201 (test #2)\n", true),
        ] {
            printed.push_str(line);
            assert_eq!(is_idle(&printed), is_idle_then, "{line}");
        }
    }
}
