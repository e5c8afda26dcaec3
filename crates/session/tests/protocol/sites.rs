//! Handshakes of others while all networks of one site send initiations, and each shows that it owns its address.

use crate::common::*;
use crate::cookies::{initiation_of_a_stranger, initiation_with_cookie};
use blake2::digest::consts::U16;
use blake2::digest::{KeyInit as _, Mac as _};
use blake2::{Blake2s256, Blake2sMac, Digest as _};
use chacha20poly1305::XChaCha20Poly1305;
use chacha20poly1305::aead::AeadInOut as _;
use culvert_session::parse::{CookieReply, INITIATION_LEN, Message};
use culvert_session::{DropReason, PeerId, RATE_BURST};
use std::net::{Ipv6Addr, SocketAddr};
use std::time::Duration;

const MAC_LEN: usize = 16;
const MAC1_AT: usize = INITIATION_LEN - 2 * MAC_LEN;
const MAC2_AT: usize = INITIATION_LEN - MAC_LEN;

/// A host of a network of 64 bits, of a site of 48.
fn of_site(site: u16, network: u16) -> SocketAddr {
    let address = Ipv6Addr::new(0x2001, 0xdb8, site, network, 0, 0, 0, 1);
    SocketAddr::new(address.into(), 51820)
}

/// §5.4.7 and §5.4.4: opens the cookie that `end` gave for `message`, and shows it.
fn show_cookie(message: &mut [u8], reply: &CookieReply<'_>, end: &End) {
    let hash = Blake2s256::new().chain_update(b"cookie--");
    let own_key = end.shaker.public_key().unwrap();
    let key = hash.chain_update(own_key.as_bytes()).finalize();
    let (sealed, tag) = reply.sealed_cookie.split_at(MAC_LEN);
    let mut cookie: [u8; MAC_LEN] = sealed.try_into().unwrap();
    XChaCha20Poly1305::new(&key)
        .decrypt_inout_detached(
            &(*reply.nonce).into(),
            &message[MAC1_AT..MAC2_AT],
            cookie.as_mut_slice().into(),
            tag.try_into().unwrap(),
        )
        .unwrap();
    let mut mac = Blake2sMac::<U16>::new_from_slice(&cookie).unwrap();
    mac.update(&message[..MAC2_AT]);
    message[MAC2_AT..].copy_from_slice(&mac.finalize().into_bytes());
}

/// The initiation of `end` is answered at once while under load, and completes the handshake.
fn completes_without_a_cookie(end: &mut End, b: &mut End, peer: PeerId, at: Duration) {
    end.wants(clock_at(at));
    let initiation = end.datagram();
    completes(end, b, peer, (&initiation, at));
}

fn completes(end: &mut End, b: &mut End, peer: PeerId, (initiation, at): (&[u8], Duration)) {
    let clock = clock_at(at);
    b.drain();
    let answered = b
        .shaker
        .handle_datagram(initiation, end.address, true, clock);
    assert_eq!(answered, Ok(peer), "{}", end.address);
    let response = b.datagram();
    assert_eq!(end.receives(&response, b.address, clock), Ok(end.peer));
    assert!(end.sending().is_some());
}

/// Has each network of the site ask `b` for its cookie and show it. Returns how many messages were processed, before
/// they had one and after.
fn send_from_all_networks(b: &mut End, at: Duration) -> (u32, u32) {
    let initiation = initiation_of_a_stranger(b, at);
    let send = |b: &mut End, message: &[u8], network| {
        let source = of_site(1, network);
        let outcome = b
            .shaker
            .handle_datagram(message, source, true, clock_at(at));
        outcome.unwrap_err()
    };
    let (mut cookieless, mut with_cookie) = (0, 0);
    for network in 0..=u16::MAX {
        let mut message = initiation.clone();
        while send(b, &message, network) == DropReason::UnknownPeer {
            cookieless += 1;
        }
        let reply = b.datagram();
        let Some(Message::CookieReply(reply)) = Message::parse(&reply) else {
            panic!("no cookie for network {network}");
        };
        show_cookie(&mut message, &reply, b);
        match send(b, &message, network) {
            DropReason::UnknownPeer => with_cookie += 1,
            reason => assert_eq!(reason, DropReason::RateLimited, "network {network}"),
        }
    }
    (cookieless, with_cookie)
}

#[test]
fn a_site_of_65536_networks_with_valid_cookies_keeps_no_other_source_from_a_handshake() {
    let (mut v4, mut b) = pair();
    let [mut v6, mut neighbour] = [(3, 2), (4, 3)].map(|(number, site)| {
        let mut end = End::new(number, 2);
        end.address = of_site(site, 1);
        end
    });
    let [v6_peer, neighbour_peer] = [3, 4].map(|key| b.shaker.add_peer(public_key(key)).unwrap());
    let start = Duration::ZERO;
    let processed = send_from_all_networks(&mut b, start);
    // Four times what one network has at once: the rate of a /48.
    assert_eq!(processed, (4 * RATE_BURST, 4 * RATE_BURST));
    // Everybody else is answered at once, and by a cookie too.
    let b_peer = b.peer;
    completes_without_a_cookie(&mut v4, &mut b, b_peer, start);
    completes_without_a_cookie(&mut v6, &mut b, v6_peer, start);
    let (initiation, at) = initiation_with_cookie(&mut neighbour, &mut b);
    completes(&mut neighbour, &mut b, neighbour_peer, (&initiation, at));
}
