//! Strangers who hold connections open, and everybody else.

use crate::support::{Running, read_metrics};
use culvert_portal_base::DESCRIPTORS_NEEDED;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// For how long a state is waited for, on a busy machine.
const SOON: Duration = Duration::from_secs(30);

/// Before an idle connection that was closed is made anew.
const PAUSE: Duration = Duration::from_millis(500);

/// For how long a connection is waited for before another one is tried: a SYN that was dropped is repeated ever more
/// seldom.
const CONNECT_LIMIT: Duration = Duration::from_secs(3);

/// Connections that say nothing, made anew as often as they are closed.
struct Idle {
    connected: Arc<AtomicUsize>,
    _tasks: JoinSet<()>,
}

impl Idle {
    fn start(from: Ipv4Addr, count: usize, to: SocketAddr) -> Self {
        let connected = Arc::new(AtomicUsize::new(0));
        let mut tasks = JoinSet::new();
        for _ in 0..count {
            let connected = Arc::clone(&connected);
            tasks.spawn(async move {
                let mut is_first = true;
                loop {
                    if let Ok(Ok(mut stream)) = timeout(CONNECT_LIMIT, connect(from, to)).await {
                        if std::mem::take(&mut is_first) {
                            connected.fetch_add(1, Ordering::Relaxed);
                        }
                        let _ = stream.read(&mut [0]).await;
                    }
                    sleep(PAUSE).await;
                }
            });
        }
        Self {
            connected,
            _tasks: tasks,
        }
    }

    async fn all_connected(&self, count: usize) {
        let all = async {
            while self.connected.load(Ordering::Relaxed) < count {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(SOON, all).await.expect("all connect");
    }
}

async fn connect(from: Ipv4Addr, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((from, 0).into())?;
    socket.connect(to).await
}

/// The number in the line that begins so; 0 without one.
fn number(metrics: &str, line: &str) -> u64 {
    let mut values = metrics.lines().filter_map(|text| text.strip_prefix(line));
    let value = values.next().map(|value| value.trim().parse().unwrap());
    value.unwrap_or(0)
}

#[tokio::test]
async fn more_than_a_thousand_that_come_at_once_wait_for_a_busy_portal_and_none_is_dropped() {
    culvert_host::raise_descriptors(DESCRIPTORS_NEEDED);
    let running = Running::start().await;
    let to = running.portal.address();
    // The portal runs on this thread, and accepts nobody while the thread is busy here.
    let all: Vec<_> = (0..1_500)
        .map(|_| std::net::TcpStream::connect_timeout(&to, SOON).expect("it waits"))
        .collect();
    drop(all);
    running.client().await.get("/healthz").await.expect(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_connections_of_one_address_shut_nobody_else_out() {
    culvert_host::raise_descriptors(DESCRIPTORS_NEEDED);
    let running = Running::start().await;
    let idle = Idle::start(Ipv4Addr::new(127, 0, 0, 5), 1_100, running.portal.address());
    idle.all_connected(1_100).await;
    for host in 9..30 {
        let mut other = running.client_at(host).await;
        other.get("/healthz").await.expect(200);
    }
    let metrics = read_metrics(&running).await;
    let refused = number(&metrics, "culvert_portal_connections_refused_total");
    assert!(refused > 0, "an address has its share: {metrics}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_connections_of_many_addresses_give_way_to_a_newcomer() {
    culvert_host::raise_descriptors(DESCRIPTORS_NEEDED);
    let running = Running::start().await;
    let to = running.portal.address();
    // Twice the shares that there are handshakes for.
    let idle =
        [1, 2, 3, 4, 5, 6, 7, 8].map(|host| Idle::start(Ipv4Addr::new(127, 0, 3, host), 280, to));
    for idle in &idle {
        idle.all_connected(280).await;
    }
    let line = "culvert_portal_connections_evicted_total{class=\"handshake\"}";
    let evicting = async {
        while number(&read_metrics(&running).await, line) == 0 {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(SOON, evicting).await.expect("somebody gives way");
    for host in 9..30 {
        let mut other = running.client_at(host).await;
        other.get("/healthz").await.expect(200);
    }
}

#[tokio::test]
async fn a_proxy_that_names_no_address_is_counted_and_is_not_taken_for_its_client() {
    let running = Running::start_behind("127.0.0.0/8").await;
    let mut client = running.client().await;
    for (hop, unreadable) in [
        ("203.0.113.7:5678", 0),
        ("[2001:db8::7]:5678", 0),
        ("203.0.113.7", 0),
        // As the proxies of Azure and IIS write it, and others that put several headers into one.
        ("1.1.1.1, 203.0.113.7:49152", 0),
        ("[2001:db8::7]", 0),
        ("[::ffff:203.0.113.7]:5678", 0),
        ("203.0.113.7:0", 0),
        (" 203.0.113.7:5678 ", 0),
        ("unknown", 1),
        ("", 2),
        ("203.0.113.7:5678,", 3),
        ("203.0.113.7, , ", 4),
        ("203.0.113.7:", 5),
        ("203.0.113.7:99999", 6),
        ("2001:db8::7:5678:99999", 7),
        ("[203.0.113.7", 8),
        ("\"203.0.113.7\"", 9),
        ("for=203.0.113.7", 10),
        ("203.0.113.0/24", 11),
        ("fe80::1%eth0", 12),
    ] {
        let headers = [("x-forwarded-for", hop)];
        let answer = client.send("GET", "/healthz", &headers, None).await;
        answer.expect(200);
        let metrics = read_metrics(&running).await;
        let counted = number(&metrics, "culvert_portal_proxies_unreadable_total");
        assert_eq!(counted, unreadable, "{hop}");
    }
}
