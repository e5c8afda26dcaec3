//! Datagrams that are carried.

use crate::scene::{LONG, Relay, end, open, pem, receive, refused};
use culvert_relay_tls::{Bridge, BridgeError, Limits};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

/// A datagram that has not come by then is lost.
const LOST_AFTER: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread")]
async fn datagrams_of_any_length_go_both_ways_whole_and_from_the_address_that_stands_for_the_relay()
{
    let relay = Relay::start(Limits::default()).await;
    let (bridge, socket, seen) = open(&relay).await;
    assert!(bridge.local().ip().is_loopback() && seen.ip().is_loopback());
    let mut buffer = vec![0; 70_000];
    for len in [1, 2, 92, 148, 1_420, 1_452, 9_000, 65_507] {
        let datagram = vec![len as u8; len];
        socket.send_to(&datagram, bridge.local()).await.unwrap();
        let (received, from) = receive(&relay.gateway, &mut buffer).await;
        assert_eq!((received, from), (len, seen));
        assert_eq!(buffer[..len], datagram);
        relay.gateway.send_to(&datagram, seen).await.unwrap();
        let (received, from) = receive(&socket, &mut buffer).await;
        assert_eq!((received, from), (len, bridge.local()));
        assert_eq!(buffer[..len], datagram);
    }
    relay.stop();
}

/// A stream that is slower than its datagrams drops them, which may happen on a busy machine. It never reorders them.
#[tokio::test(flavor = "multi_thread")]
async fn many_datagrams_come_in_order() {
    const COUNT: u32 = 20_000;
    /// Datagrams that are sent at once: far less than the buffers on the way hold.
    const WINDOW: u32 = 16;
    let relay = Relay::start(Limits::default()).await;
    let (bridge, socket, _) = open(&relay).await;
    let mut buffer = [0; 2_000];
    let (mut next, mut came) = (0, 0);
    for window in 0..COUNT / WINDOW {
        let last = (window + 1) * WINDOW;
        for number in window * WINDOW..last {
            let mut datagram = [0; 1_420];
            datagram[..4].copy_from_slice(&number.to_be_bytes());
            socket.send_to(&datagram, bridge.local()).await.unwrap();
        }
        while next < last {
            let received = timeout(LOST_AFTER, relay.gateway.recv_from(&mut buffer)).await;
            let Ok(received) = received else {
                break;
            };
            assert_eq!(received.unwrap().0, 1_420);
            let number = u32::from_be_bytes(*buffer.first_chunk().unwrap());
            assert!(number >= next, "{number} came behind {next}");
            next = number + 1;
            came += 1;
        }
    }
    assert!(came > COUNT * 9 / 10, "{came} of {COUNT} came");
    relay.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_other_than_that_of_wireguard_is_not_heard() {
    let relay = Relay::start(Limits::default()).await;
    let (bridge, socket, _) = open(&relay).await;
    let stranger = end().await;
    // The kernel refuses it: nobody is connected to the stranger's port.
    let _refused = stranger.send_to(b"stranger", bridge.local()).await;
    socket.send_to(b"own", bridge.local()).await.unwrap();
    let mut buffer = [0; 100];
    let (len, _) = receive(&relay.gateway, &mut buffer).await;
    assert_eq!(&buffer[..len], b"own");
    relay.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bridge_that_is_dropped_closes_the_stream_and_one_that_ends_says_why() {
    let relay = Relay::start(Limits::default()).await;
    let (bridge, _, _) = open(&relay).await;
    drop(bridge);
    relay.until(|report| report.streams == 0).await;
    assert_eq!(relay.report().broken, 0, "it was closed in order");

    let (mut bridge, _, _) = open(&relay).await;
    relay.stop();
    let error = timeout(LONG, bridge.ended()).await.unwrap();
    assert!(matches!(error, BridgeError::Ended { .. }), "{error}");
    let again = timeout(Duration::from_millis(20), bridge.ended()).await;
    assert!(again.is_err(), "it is told once");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_that_knows_the_certificate_before_is_shown_that_one() {
    let relay = Relay::start(Limits::default()).await;
    let socket = end().await;
    let before = relay.settings(&socket);
    let (chain, key) = pem();
    let replace = |relay: &Relay| relay.certificates.replace(chain.as_bytes(), key.as_bytes());
    assert!(replace(&relay).unwrap());
    assert!(!replace(&relay).unwrap(), "it is the same one");
    assert_ne!(before.pin, relay.certificates.pin());
    for settings in [before.clone(), relay.settings(&socket)] {
        Bridge::open(settings).await.unwrap();
    }
    let (chain, key) = pem();
    assert!(
        relay
            .certificates
            .replace(chain.as_bytes(), key.as_bytes())
            .unwrap()
    );
    let error = refused(before).await;
    assert!(
        matches!(error, BridgeError::WrongCertificate { .. }),
        "{error}"
    );
    assert!(relay.certificates.replace(b"none", b"none").is_err());
    relay.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_connects_to_the_relay() {
    let relay = Relay::start(Limits::default()).await;
    let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", proxy.local_addr().unwrap());
    let address = relay.address;
    tokio::spawn(async move {
        let (mut client, _) = proxy.accept().await.unwrap();
        let mut request = [0; 2_000];
        let len = client.read(&mut request).await.unwrap();
        let request = std::str::from_utf8(&request[..len]).unwrap();
        assert!(request.starts_with(&format!("CONNECT {address} HTTP/1.1\r\n")));
        let mut server = TcpStream::connect(address).await.unwrap();
        client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        copy_bidirectional(&mut client, &mut server).await
    });
    let socket = end().await;
    let mut settings = relay.settings(&socket);
    settings.proxy = Some(url.parse().unwrap());
    let bridge = Bridge::open(settings).await.unwrap();
    assert_eq!(bridge.relay(), address);
    socket.send_to(b"through", bridge.local()).await.unwrap();
    let mut buffer = [0; 100];
    let (len, _) = receive(&relay.gateway, &mut buffer).await;
    assert_eq!(&buffer[..len], b"through");
    relay.stop();
}
