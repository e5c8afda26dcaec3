//! Throughput, with iperf3.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::namespace::Namespace;
use crate::process::Process;

/// Connecting and exchanging results over a slow path.
const GRACE: Duration = Duration::from_secs(15);

/// An iperf3 server that serves one test after another.
#[derive(Debug)]
pub struct IperfServer {
    process: Process,
    address: IpAddr,
}

/// A TCP test.
#[derive(Clone, Debug)]
pub struct TcpLoad {
    /// How many connections at once.
    pub connections: u8,
    /// Whether the server sends.
    pub reverse: bool,
    /// How long, in whole seconds: iperf3 takes no parts of them.
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

/// What a TCP test achieved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TcpReport {
    /// What arrived, in bits of payload a second.
    pub bits_per_second: f64,
    /// What arrived, in bytes of payload.
    pub received_bytes: u64,
    /// Segments that the sender sent again.
    pub retransmissions: u64,
}

/// What a UDP test achieved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UdpReport {
    /// What arrived, in bits of payload a second.
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
        let mut process = namespace.spawn(&format!("iperf3 -s --forceflush -B {address}"))?;
        process.wait_for_output("Server listening", GRACE)?;
        Ok(Self { process, address })
    }

    /// Runs a TCP test from `client`.
    ///
    /// # Errors
    /// When a connection fails, or the sender uses another congestion control than asked for.
    pub fn tcp(&self, client: &Namespace, load: &TcpLoad) -> Result<TcpReport> {
        self.finish_tcp(self.start_tcp(client, load)?, load)
    }

    /// Starts a TCP test; [`IperfServer::finish_tcp`] waits for it.
    ///
    /// # Errors
    /// When iperf3 cannot be started.
    pub fn start_tcp(&self, client: &Namespace, load: &TcpLoad) -> Result<Process> {
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
        let results = self.results(client, load.seconds)?;
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
    /// When the control connection fails.
    pub fn udp(
        &self,
        client: &Namespace,
        bits_per_second: u64,
        payload_bytes: u32,
        seconds: u32,
    ) -> Result<UdpReport> {
        let client = client.spawn(&format!(
            "iperf3 -J -u -c {} -t {seconds} -b {bits_per_second} -l {payload_bytes}",
            self.address
        ))?;
        let results = self.results(client, seconds)?;
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

    fn results(&self, mut client: Process, seconds: u32) -> Result<Value> {
        client.wait(Duration::from_secs(seconds.into()) + GRACE)?;
        let output = client.output();
        // Warnings may stand in front.
        let report = &output[output.find('{').unwrap_or(0)..];
        let results: Value =
            serde_json::from_str(report).with_context(|| format!("iperf3 printed {output}"))?;
        if let Some(error) = results.get("error") {
            bail!(
                "iperf3: {error}; its server: {}",
                self.process.output().trim()
            );
        }
        Ok(results)
    }
}

fn number(results: &Value, pointer: &str) -> Result<f64> {
    let value = results.pointer(pointer).and_then(Value::as_f64);
    value.with_context(|| format!("no {pointer} in the report of iperf3"))
}

fn whole_number(results: &Value, pointer: &str) -> Result<u64> {
    let value = results.pointer(pointer).and_then(Value::as_u64);
    value.with_context(|| format!("no {pointer} in the report of iperf3"))
}
