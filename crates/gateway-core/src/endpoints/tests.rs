//! Reports of devices that are heard, move, and come back.

use super::*;

const ALLOWED: &str = "198.51.100.7";
const OTHER: &str = "203.0.113.9";

fn key(number: u16) -> PublicKey {
    let mut bytes = [0; 32];
    bytes[..2].copy_from_slice(&number.to_be_bytes());
    PublicKey::from_bytes(bytes)
}

fn client(number: u16) -> ClientId {
    let mut bytes = [0; 16];
    bytes[..2].copy_from_slice(&number.to_be_bytes());
    ClientId::from_bytes(bytes)
}

fn at(ms: u64) -> BootTime {
    BootTime::from_millis(ms)
}

/// The portal's clock shows as much as that of this machine.
fn clock(now: BootTime) -> Option<UnixTime> {
    Some(UnixTime::from_millis(now.as_millis()))
}

fn hear(endpoints: &mut Endpoints, number: u16, address: &str, stamp_s: u64, now_ms: u64) {
    let heard = HeardDevice {
        key: key(number),
        address: address.parse().unwrap(),
        handshake: Duration::from_secs(stamp_s),
    };
    endpoints.hear(heard, at(now_ms));
}

fn open(devices: u16) -> Endpoints {
    let mut endpoints = Endpoints::default();
    for number in 0..devices {
        endpoints.watch(key(number), client(number));
    }
    endpoints.begin_session(at(0));
    assert_eq!(list(&mut endpoints, 0), [Vec::<Seen>::new()]);
    endpoints
}

/// The device, its address and the time of its handshake in milliseconds.
type Seen = (ClientId, Option<IpAddr>, u64);

fn seen(message: FromGateway) -> Vec<Seen> {
    let FromGateway::DeviceEndpoints { devices, .. } = message else {
        panic!("{message:?}");
    };
    let devices = devices.into_iter();
    devices
        .map(|it| (it.client, it.address, it.handshake.unix_ms()))
        .collect()
}

fn list(endpoints: &mut Endpoints, now_ms: u64) -> Vec<Vec<Seen>> {
    let messages = endpoints.list(clock, at(now_ms));
    messages.into_iter().map(seen).collect()
}

fn report(endpoints: &mut Endpoints, now_ms: u64) -> Vec<Seen> {
    let report = endpoints.report(clock, at(now_ms));
    report.map(seen).unwrap_or_default()
}

fn address(text: &str) -> Option<IpAddr> {
    Some(text.parse().unwrap())
}

#[test]
fn a_device_is_told_once_it_is_heard_and_again_when_it_moves() {
    let mut endpoints = open(1);
    assert_eq!(endpoints.next_timeout(), None);
    hear(&mut endpoints, 0, ALLOWED, 1, 1_000);
    assert_eq!(endpoints.next_timeout(), Some(at(1_000)));
    assert_eq!(
        report(&mut endpoints, 1_000),
        [(client(0), address(ALLOWED), 1_000)]
    );
    assert_eq!(report(&mut endpoints, 9_000), []);
    hear(&mut endpoints, 0, OTHER, 1, 9_000);
    // The handshake is the same.
    assert_eq!(
        report(&mut endpoints, 9_000),
        [(client(0), address(OTHER), 1_000)]
    );
    assert_eq!(endpoints.next_timeout(), None);
}

#[test]
fn an_address_of_both_families_is_the_one_of_its_own() {
    let mut endpoints = open(1);
    hear(&mut endpoints, 0, "::ffff:198.51.100.7", 1, 1_000);
    assert_eq!(report(&mut endpoints, 1_000)[0].1, address(ALLOWED));
    hear(&mut endpoints, 0, ALLOWED, 1, 2_000);
    assert_eq!(report(&mut endpoints, 2_000), []);
}

#[test]
fn two_reports_are_half_a_second_apart_and_the_second_has_the_last_word() {
    let mut endpoints = open(2);
    hear(&mut endpoints, 0, ALLOWED, 1, 1_000);
    assert_eq!(report(&mut endpoints, 1_000).len(), 1);
    hear(&mut endpoints, 0, OTHER, 1, 1_100);
    hear(&mut endpoints, 0, ALLOWED, 1, 1_200);
    hear(&mut endpoints, 0, OTHER, 1, 1_300);
    hear(&mut endpoints, 1, ALLOWED, 1, 1_300);
    assert_eq!(report(&mut endpoints, 1_499), []);
    assert_eq!(endpoints.next_timeout(), Some(at(1_500)));
    assert_eq!(
        report(&mut endpoints, 1_500),
        [
            (client(0), address(OTHER), 1_000),
            (client(1), address(ALLOWED), 1_300)
        ]
    );
}

#[test]
fn a_device_that_came_back_before_it_was_told_is_no_news() {
    let mut endpoints = open(1);
    hear(&mut endpoints, 0, ALLOWED, 1, 1_000);
    assert_eq!(report(&mut endpoints, 1_000).len(), 1);
    hear(&mut endpoints, 0, OTHER, 1, 1_100);
    hear(&mut endpoints, 0, ALLOWED, 1, 1_200);
    assert_eq!(report(&mut endpoints, 2_000), []);
    assert_eq!(endpoints.next_timeout(), None);
}

#[test]
fn another_handshake_is_told_half_a_minute_after_the_last_report() {
    let mut endpoints = open(1);
    hear(&mut endpoints, 0, ALLOWED, 1, 1_000);
    assert_eq!(report(&mut endpoints, 1_000).len(), 1);
    for second in 2..=20 {
        hear(&mut endpoints, 0, ALLOWED, second, second * 1_000);
        assert_eq!(report(&mut endpoints, second * 1_000), []);
    }
    assert_eq!(endpoints.next_timeout(), Some(at(31_000)));
    assert_eq!(
        report(&mut endpoints, 31_000),
        [(client(0), address(ALLOWED), 20_000)]
    );
    assert_eq!(endpoints.next_timeout(), None);
}

#[test]
fn a_device_that_moves_too_often_has_no_address_until_it_stays() {
    let mut endpoints = open(1);
    hear(&mut endpoints, 0, ALLOWED, 1, 1_000);
    let mut told = report(&mut endpoints, 1_000);
    let mut now_ms = 1_000;
    for step in 0..400 {
        now_ms += 500;
        let to = if step % 2 == 0 { OTHER } else { ALLOWED };
        hear(&mut endpoints, 0, to, 1, now_ms);
        told.extend(report(&mut endpoints, now_ms));
    }
    let addresses: Vec<_> = told.iter().map(|(_, address, _)| *address).collect();
    let moves = [ALLOWED, OTHER, ALLOWED, OTHER, ALLOWED].map(address);
    assert_eq!(addresses[..5], moves, "the burst");
    assert_eq!(addresses[5..], [None], "and then nothing for 200 s");
    // It was to be settled earlier, and has moved since.
    let before = endpoints.next_timeout().unwrap();
    assert_eq!(report(&mut endpoints, before.as_millis()), []);
    assert_eq!(endpoints.next_timeout(), Some(at(now_ms + 10_000)));
    assert_eq!(
        report(&mut endpoints, now_ms + 10_000),
        [(client(0), address(ALLOWED), 1_000)]
    );
}

#[test]
fn a_device_that_moves_all_the_time_delays_no_other() {
    let mut endpoints = open(MAX_DEVICES_PER_MESSAGE as u16 * 2);
    for number in 0..MAX_DEVICES_PER_MESSAGE as u16 * 2 {
        hear(&mut endpoints, number, ALLOWED, 1, 1_000);
    }
    let first = report(&mut endpoints, 1_000);
    assert_eq!(first.len(), MAX_DEVICES_PER_MESSAGE);
    // All that were told move again, ahead of those that wait by their keys.
    for (device, ..) in &first {
        let [high, low, ..] = *device.as_bytes();
        let number = u16::from_be_bytes([high, low]);
        hear(&mut endpoints, number, OTHER, 1, 1_200);
    }
    let second = report(&mut endpoints, 1_500);
    let told: BTreeSet<_> = first.iter().chain(&second).map(|it| it.0).collect();
    assert_eq!(told.len(), MAX_DEVICES_PER_MESSAGE * 2);
    assert_eq!(report(&mut endpoints, 2_000).len(), MAX_DEVICES_PER_MESSAGE);
    assert_eq!(endpoints.next_timeout(), None);
}

#[test]
fn a_new_session_begins_with_all_of_them() {
    let mut endpoints = open(3);
    hear(&mut endpoints, 0, ALLOWED, 1, 1_000);
    hear(&mut endpoints, 1, OTHER, 1, 1_000);
    assert_eq!(report(&mut endpoints, 1_000).len(), 2);
    endpoints.forget_session();
    hear(&mut endpoints, 1, ALLOWED, 1, 2_000);
    assert_eq!(report(&mut endpoints, 3_000), []);
    assert_eq!(endpoints.next_timeout(), None);
    endpoints.begin_session(at(4_000));
    assert_eq!(
        list(&mut endpoints, 4_000),
        [vec![
            (client(1), address(ALLOWED), 1_000),
            (client(0), address(ALLOWED), 1_000)
        ]],
        "the one that waited longer comes first"
    );
}

#[test]
fn a_long_list_comes_in_pages() {
    let count = MAX_DEVICES_PER_MESSAGE as u16 + 1;
    let mut endpoints = open(count);
    endpoints.forget_session();
    for number in 0..count {
        hear(&mut endpoints, number, ALLOWED, 1, 1_000);
    }
    endpoints.begin_session(at(2_000));
    let messages = endpoints.list(clock, at(2_000));
    let more: Vec<bool> = messages
        .iter()
        .map(|message| matches!(message, FromGateway::DeviceEndpoints { more: true, .. }))
        .collect();
    assert_eq!(more, [true, false]);
    let told: usize = messages
        .into_iter()
        .map(|message| seen(message).len())
        .sum();
    assert_eq!(told, usize::from(count));
}

#[test]
fn a_key_that_is_no_peer_is_forgotten_with_its_place_and_a_new_client_of_it_begins_anew() {
    let mut endpoints = open(1);
    hear(&mut endpoints, 0, ALLOWED, 1, 1_000);
    endpoints.unwatch(&key(0));
    assert_eq!(endpoints.next_timeout(), None);
    hear(&mut endpoints, 0, ALLOWED, 1, 1_000);
    assert_eq!(report(&mut endpoints, 2_000), []);
    endpoints.watch(key(0), client(0));
    hear(&mut endpoints, 0, ALLOWED, 1, 3_000);
    endpoints.watch(key(0), client(9));
    assert_eq!(report(&mut endpoints, 4_000), []);
    hear(&mut endpoints, 0, ALLOWED, 1, 5_000);
    assert_eq!(
        report(&mut endpoints, 5_000),
        [(client(9), address(ALLOWED), 5_000)]
    );
}
