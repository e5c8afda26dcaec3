//! Inputs to begin with: what really occurs, and the cases at the edge of each rule. The replay
//! runs them, and a fuzzer that starts from them need not find out what a packet is.

use crate::coalesce::{ACK, Flow, packet};
use crate::naive;

/// The seeds of a target; none for a target that needs none.
#[must_use]
pub fn seeds(target: &str) -> Vec<Vec<u8>> {
    match target {
        "access_toml" => crate::access_toml::seeds(),
        "aead_batch" => aead_batch(),
        "age" => crate::age::seeds(),
        "allowed_ips" => allowed_ips(),
        "client_gate" => crate::client_gate::seeds(&packets()),
        "coalesce" => coalesce(),
        "control" => crate::control::seeds(),
        "cut" => cut(),
        "dns_stub" => crate::dns_stub::seeds(),
        "form" => crate::form::seeds(),
        "gate" => gate(),
        "gateway_dns" => crate::gateway_dns::seeds(),
        "grant" => crate::grant::seeds(),
        "handshake" => handshake(),
        "http_head" => crate::http_head::seeds(),
        "icmp" => icmp(),
        "id_token" => crate::id_token::seeds(),
        "ip_view" => packets(),
        "message" => message(),
        "passkey" => crate::passkey::seeds(),
        "relay" => crate::relay::seeds(),
        "relay_stream" => crate::relay_stream::seeds(),
        "replay_window" => replay_window(),
        "sealed_value" => crate::sealed_value::seeds(),
        "selection" => crate::selection::seeds(),
        "socket_request" => crate::socket_request::seeds(),
        "transport" => transport(),
        "uapi_set" => uapi_set(),
        _ => Vec::new(),
    }
}

/// A packet of each kind: both transports over both versions; with IPv4 options, IPv6 extension
/// headers, fragments of both; ICMP queries and errors.
fn packets() -> Vec<Vec<u8>> {
    let mut packets: Vec<Vec<u8>> = (0..16)
        .map(|number| packet(number, &Flow::default(), ACK, 60).0)
        .collect();
    let v4_udp = packets[2].clone();
    let v6_udp = packets[3].clone();
    packets.push(with_v4_options(&v4_udp));
    for fragment in [0x20, 0x01] {
        let mut packet = v4_udp.clone();
        packet[6] = fragment;
        packets.push(packet);
    }
    // Hop-by-hop, routing, fragment (first and later), authentication, destination options, and one
    // that nobody knows.
    for (kind, content) in [(0, 0), (43, 0), (44, 0), (44, 8), (51, 0), (60, 0), (99, 0)] {
        packets.push(with_extension(&v6_udp, kind, content));
        let twice = with_extension(&packets[packets.len() - 1], 60, 0);
        packets.push(twice);
    }
    for (is_v6, kinds) in [(false, [0, 3, 8, 11]), (true, [1, 2, 128, 129])] {
        for kind in kinds {
            packets.push(icmp_packet(is_v6, kind));
        }
    }
    packets
}

fn with_v4_options(packet: &[u8]) -> Vec<u8> {
    let mut longer = [&packet[..20], &[1; 8], &packet[20..]].concat();
    longer[0] = 0x47;
    longer[2..4].copy_from_slice(&(packet.len() as u16 + 8).to_be_bytes());
    naive::write_checksums(&mut longer, 28, packet[9]);
    longer
}

/// An IPv6 packet with an extension header of eight bytes in front.
fn with_extension(packet: &[u8], kind: u8, content: u8) -> Vec<u8> {
    let extension = [packet[6], 0, 0, content, 0, 0, 0, 0];
    let mut longer = [&packet[..40], &extension, &packet[40..]].concat();
    longer[6] = kind;
    longer[4..6].copy_from_slice(&(packet.len() as u16 - 40 + 8).to_be_bytes());
    longer
}

fn icmp_packet(is_v6: bool, kind: u8) -> Vec<u8> {
    let (mut packet, start) = packet(2 + u8::from(is_v6), &Flow::default(), ACK, 20);
    packet[start..start + 4].copy_from_slice(&[kind, 0, 0, 0]);
    let sum = if is_v6 {
        packet[6] = 58;
        let pseudo = naive::pseudo_header(&packet, packet.len() - start, 58);
        naive::sum(&[&pseudo, &packet[start..]].concat())
    } else {
        packet[9] = 1;
        let header_sum = naive::sum(&[&packet[..10], &packet[12..20]].concat());
        packet[10..12].copy_from_slice(&(!header_sum).to_be_bytes());
        naive::sum(&packet[start..])
    };
    packet[start + 2..start + 4].copy_from_slice(&(!sum).to_be_bytes());
    packet
}

fn icmp() -> Vec<Vec<u8>> {
    let packets = packets().into_iter().enumerate();
    packets
        .map(|(index, packet)| {
            // The error, an MTU of 1280, and more or less room than it takes.
            let room = if index % 3 == 0 { [0, 60] } else { [5, 0] };
            [&[index as u8, 5, 0][..], &room, &packet].concat()
        })
        .collect()
}

/// Superframes of every kind, and frames that lack a checksum.
fn cut() -> Vec<Vec<u8>> {
    const NEEDS_CHECKSUM: u8 = 1;
    const GSO_OF_FLOW: [u8; 4] = [1, 4, 5, 5];
    let mut frames = Vec::new();
    for number in 0..4_u8 {
        // FIN, PSH, ACK, CWR; a last segment that is shorter, and one that is as long.
        for len in [1000, 1001] {
            let (frame, start) = packet(number, &Flow::default(), 0x99, len);
            let gso = GSO_OF_FLOW[usize::from(number)];
            let checksum_offset = if number & 2 == 0 { 16 } else { 6 };
            let numbers = |gso_size: u16, start: usize| {
                [54, gso_size, start as u16, checksum_offset].map(u16::to_ne_bytes)
            };
            for (flags, gso, gso_size) in [
                (NEEDS_CHECKSUM, gso, 250),
                (NEEDS_CHECKSUM, gso | 0x80, 7),
                (NEEDS_CHECKSUM, 0, 0),
                (NEEDS_CHECKSUM, 9 - gso, 250),
                (0, 0, 0),
                (0, gso, 2000),
            ] {
                let header = numbers(gso_size, start).concat();
                frames.push([&[flags, gso][..], &header, &frame].concat());
            }
            let longer = match number & 1 {
                0 => with_v4_options(&frame),
                _ => with_extension(&frame, 60, 0),
            };
            let header = numbers(300, start + 8).concat();
            frames.push([&[NEEDS_CHECKSUM, gso][..], &header, &longer].concat());
        }
    }
    frames
}

/// Scripts of [`crate::coalesce()`]: a byte for what is accepted, then one for each packet, its low
/// half the flow and its high half what is special about it.
fn coalesce() -> Vec<Vec<u8>> {
    let mut scripts = Vec::new();
    // Trains of every flow, longer than a group of UDP may be.
    for flow in 0..16 {
        scripts.push([vec![0], vec![flow; 70]].concat());
    }
    // All flows in turn: more than can be open at once.
    scripts.push(
        (0..112)
            .map(|step| if step == 0 { 0 } else { step % 16 })
            .collect(),
    );
    // None of them accepted.
    scripts.push([vec![0xFF], vec![0, 0, 1, 1, 2, 2, 3, 3]].concat());
    for flow in [0, 1, 2, 11] {
        // Large packets, until a frame is full.
        scripts.push([vec![0], [0xC0 | flow, 15, 0x9F].repeat(20)].concat());
        // A short one, and one with PSH, end the train; a lost one interrupts it.
        let short = [0, flow, flow, 0x80 | flow, 50, flow, flow];
        let pushed = [0, flow, flow, 0xA0 | flow, 0x18, flow, flow];
        let lost = [0, flow, flow, 0xD0 | flow, 100, flow, flow];
        scripts.extend([short, pushed, lost].map(|script| script.to_vec()));
    }
    // One byte of a header differs (and checksums are right): of one packet of three, and of all
    // from the second on, for a difference between neighbours either way.
    for flow in [0, 1, 2, 3, 8, 10] {
        for place in 0..60 {
            let different = [0xE0 | flow, 1, 0, place, 0x41];
            scripts.push([&[0, flow][..], &different, &[flow]].concat());
            scripts.push([&[0, flow][..], &different, &different, &[flow]].concat());
        }
        // A checksum that is wrong, in the middle and at the head.
        let wrong = [0xF0 | flow, 1, 0, 90, 0x41, 0];
        scripts.push([&[0, flow][..], &wrong, &[flow, flow]].concat());
        scripts.push([&[0][..], &wrong, &[flow, flow]].concat());
    }
    // A fragment of the same hosts comes between datagrams.
    for (flow, place, value) in [(10, 6, 0x20), (10, 7, 1), (2, 6, 0x20), (3, 6, 44)] {
        let fragment = [0xE0 | flow, 1, 0, place, value];
        scripts.push([&[0, flow, flow][..], &fragment, &[flow, flow]].concat());
    }
    scripts
}

/// Each packet sent, answered, sent again by a stranger, and again once grants are gone; under each
/// grant alone and under all; then errors about what passed.
fn gate() -> Vec<Vec<u8>> {
    const SEND: u8 = 4;
    const SEND_PARTIAL: u8 = SEND | 0x40;
    const RECEIVE: u8 = SEND | 0x10;
    const SEND_FORGED: u8 = SEND | 0x20;
    const WAIT: u8 = 0;
    const SET: u8 = 1;
    const SWEEP: u8 = 2;
    const ANSWER: u8 = 3;
    let step = |kind: u8, packet: &[u8]| {
        [&[kind][..], &(packet.len() as u16).to_be_bytes(), packet].concat()
    };
    let mut scripts = Vec::new();
    for (number, packet) in packets().iter().enumerate() {
        let sent = step(SEND, packet);
        let forged = step(SEND_FORGED, packet);
        let later = [WAIT, 4, 0, ANSWER, SWEEP, SET, 0, ANSWER];
        for grants in [0x7F, 1 << (number % 7)] {
            let answers = [ANSWER, ANSWER | 0x40];
            scripts.push([&[grants][..], &sent, &answers, &forged, &later, &sent].concat());
        }
        let partial = step(SEND_PARTIAL, packet);
        scripts.push([&[0x0C][..], &partial, &[ANSWER | 0x40], &sent].concat());
    }
    for is_v6 in [false, true] {
        // A packet that passed comes back within an error, as far as it was not translated.
        let (cause, _) = packet(2 + u8::from(is_v6), &Flow::default(), ACK, 20);
        let mut error = icmp_packet(is_v6, if is_v6 { 1 } else { 3 });
        error.truncate(if is_v6 { 48 } else { 28 });
        error.extend(&cause);
        let (at, len) = if is_v6 {
            (4, error.len() - 40)
        } else {
            (2, error.len())
        };
        error[at..at + 2].copy_from_slice(&(len as u16).to_be_bytes());
        match is_v6 {
            true => error[8..40].rotate_left(16),
            false => error[12..20].rotate_left(4),
        }
        for grants in [0x21, 0x0C] {
            scripts.push([&[grants][..], &step(SEND, &cause), &step(RECEIVE, &error)].concat());
        }
    }
    scripts
}

/// A renewal with everything delivered once, repeated, reflected, lost, under load, damaged.
fn handshake() -> Vec<Vec<u8>> {
    const LOAD: u8 = 0x40;
    const REFLECT: u8 = 3;
    const DELIVER: u8 = 4;
    const DAMAGE: u8 = 5;
    const FORGE: u8 = 6;
    let mut scripts = vec![
        vec![DELIVER, 0, DELIVER, 1],
        vec![DELIVER, 0, DELIVER, 0, DELIVER, 1, DELIVER, 1],
        vec![REFLECT, 0, DELIVER, 0, REFLECT, 1, DELIVER, 1],
        // The response is lost; the initiation is repeated after five seconds and more.
        vec![DELIVER, 0, 1, 250, 2, DELIVER, 2, DELIVER, 3, DELIVER, 1],
        // Under load: a cookie reply, and an initiation with the cookie.
        [
            &[LOAD | DELIVER, 0, LOAD | DELIVER, 1, 1, 250, 2][..],
            &[LOAD | DELIVER, 2, LOAD | DELIVER, 3, DELIVER, 4],
        ]
        .concat(),
        [&[0, 148, 1, 0, 0, 0][..], &[7; 144], &[DELIVER, 0]].concat(),
    ];
    for place in (0..148).step_by(7) {
        scripts.push(vec![DAMAGE, 0, 1, 0, place, 0xA5, DELIVER, 0, DELIVER, 1]);
        scripts.push(vec![FORGE, 0, 1, 0, place, 0xA5, DELIVER, 0, DELIVER, 1]);
        scripts.push(vec![DELIVER, 0, DAMAGE, 1, 1, 0, place, 0xA5, DELIVER, 1]);
        scripts.push(vec![DELIVER, 0, FORGE, 1, 1, 0, place, 0xA5, DELIVER, 1]);
    }
    let suites = [0, 1].into_iter();
    suites
        .flat_map(|suite| {
            scripts
                .iter()
                .map(move |script| [&[suite], &script[..]].concat())
        })
        .collect()
}

/// Each message with its length, one byte less, and one more; with and without its reserved zeros.
fn message() -> Vec<Vec<u8>> {
    let mut messages = Vec::new();
    for (kind, len) in [(1, 148), (2, 92), (3, 64), (4, 32)] {
        for len in [len - 1, len, len + 1, len + 16] {
            let mut message: Vec<u8> = (0..len).collect();
            message[..4].copy_from_slice(&[kind, 0, 0, 0]);
            messages.push(message.clone());
            message[2] = 1;
            messages.push(message);
        }
    }
    messages
}

/// Steps of [`crate::replay_window()`] around the window: every word's last counter, a lap later what
/// lies between, the edges from both sides.
fn replay_window() -> Vec<Vec<u8>> {
    let ahead = |by: u16| [&[1][..], &by.to_be_bytes()].concat();
    let back = |by: u16| [&[2][..], &by.to_be_bytes()].concat();
    let lap = |first: u16| [ahead(first), ahead(64).repeat(511)].concat();
    let mut runs = Vec::new();
    for bit in [0, 1, 62, 63] {
        for jump in [200, 32_000, 32_767, 32_768, 32_769] {
            let mut run = [lap(bit), ahead(jump)].concat();
            for by in 60..80 {
                run.extend([back(by), ahead(by), vec![5]].concat());
            }
            runs.push(run);
        }
    }
    // All eight distances around the window, forwards and backwards.
    runs.push(
        (0..32)
            .flat_map(|near| [near << 3 | 3, near << 3 | 4])
            .collect(),
    );
    runs.push([&[0][..], &[0xFF; 8], &[4, 4, 5, 3]].concat());
    runs
}

/// Batches of genuine records: all, twice, reversed, damaged anywhere, made up, too many, cut short.
fn transport() -> Vec<Vec<u8>> {
    let all: Vec<u8> = (0..24).collect();
    let batch = |choices: &[u8]| [&[choices.len() as u8], choices, &[255]].concat();
    let reversed: Vec<u8> = all.iter().rev().copied().collect();
    let mut scripts = vec![
        [batch(&all), batch(&all)].concat(),
        [batch(&reversed), batch(&all)].concat(),
        batch(&[all.as_slice(), &all].concat()),
        batch(&all.repeat(6)[..139]),
        [&[24][..], &all, &[1]].concat(),
        [&[24][..], &all, &[0]].concat(),
    ];
    for place in 0..48 {
        let damaged = [3, 0x80, 1, 0, place, 0x41, 0x88, 0, 0x05, 255];
        scripts.push([&damaged[..], &batch(&all)].concat());
    }
    let headers = [(0_u8, 0), (0, 64), (1, 0), (1, 79)];
    headers
        .into_iter()
        .flat_map(|(suite, len)| {
            let scripts = scripts.iter();
            scripts.map(move |script| [&[suite, len], &script[..]].concat())
        })
        .collect()
}

/// Batches of both suites: few records and many, empty, short and full ones, the last shorter or
/// not, whole and damaged.
fn aead_batch() -> Vec<Vec<u8>> {
    let mut batches = Vec::new();
    for (records, len, last_len) in [
        (1_u8, 0_u16, 0_u16),
        (2, 1420, 1420),
        (5, 64, 3),
        (8, 1420, 1420),
        (16, 1419, 1),
        (17, 255, 254),
        (45, 1420, 700),
        (127, 200, 200),
        (128, 33, 32),
    ] {
        for suite in [0, 1] {
            for damage in [0, 1, 3] {
                let place = u16::from(records) * 97;
                let batch = [
                    &[suite][..],
                    &[0x42; 32],
                    &[16],
                    &len.to_be_bytes(),
                    &[records - 1],
                    &last_len.to_be_bytes(),
                    &[0, 0, 0, 0, 0, 0, 0xFF, 0xFE],
                    &[damage],
                    &[&place.to_be_bytes()[..], &[0x41]].concat().repeat(3),
                    b"content",
                ];
                batches.push(batch.concat());
            }
        }
    }
    batches
}

/// Tables whose ranges nest, touch and repeat: how many, then for each a byte for kind and known
/// octets, those, and a length.
fn allowed_ips() -> Vec<Vec<u8>> {
    let mut tables = Vec::new();
    for is_v6 in [0, 1] {
        let range = |octets: &[u8], len: u8| {
            [&[(octets.len() as u8) << 1 | is_v6], octets, &[len]].concat()
        };
        let nested: Vec<u8> = (0..=32)
            .flat_map(|len| range(&[10, 1, 2, 3], len))
            .collect();
        let siblings: Vec<u8> = (0..32)
            .flat_map(|bit| range(&(0x0A01_0203_u32 ^ 1 << bit).to_be_bytes(), 32 - bit))
            .collect();
        for (count, ranges) in [(33, nested), (32, siblings)] {
            tables.push([&[count][..], &ranges, &range(&[10, 1, 2, 4], 0)].concat());
        }
    }
    tables
}

fn uapi_set() -> Vec<Vec<u8>> {
    let key = "b8".repeat(32);
    let zeros = "00".repeat(32);
    let peer = format!("set=1\npublic_key={key}\n");
    let lines = [
        format!("preshared_key={key}\n"),
        format!("preshared_key={zeros}\n"),
        "endpoint=192.0.2.1:51820\n".to_owned(),
        "endpoint=[2001:db8::1]:51820\n".to_owned(),
        "endpoint=[fe80::1%3]:51820\n".to_owned(),
        "endpoint=[fe80::1%eth0]:51820\n".to_owned(),
        "endpoint=[::ffff:192.0.2.1]:51820\n".to_owned(),
        "endpoint=[::ffff:192.0.2.1%3]:51820\n".to_owned(),
        "persistent_keepalive_interval=25\n".to_owned(),
        "persistent_keepalive_interval=0\n".to_owned(),
        "allowed_ip=10.1.2.3/8\nallowed_ip=-10.0.0.0/9\nallowed_ip=2001:db8::1/128\n".to_owned(),
        "allowed_ip=10.0.0.0/8\nreplace_allowed_ips=true\nallowed_ip=0.0.0.0/0\n".to_owned(),
        "remove=true\nupdate_only=true\nprotocol_version=1\n".to_owned(),
        "cipher=aes256gcm\n".to_owned(),
        "cipher=\n".to_owned(),
    ];
    let mut texts: Vec<String> = lines.iter().map(|line| format!("{peer}{line}\n")).collect();
    texts.push(format!("{peer}{}\n", lines.concat()));
    texts.extend([
        "get=1\n\n".to_owned(),
        "get=1\n\nculvert_status=1\n\nset=1\n\n".to_owned(),
        format!("set=1\nprivate_key={key}\nlisten_port=0\nfwmark=\nreplace_peers=true\n\n"),
        format!("set=1\nprivate_key={zeros}\nlisten_port=65535\nfwmark=4294967295\n\n"),
        "set=1\ncipher=chacha20poly1305\n\n".to_owned(),
        "set=1\nlisten_port=65536\n\nget=1\n\n".to_owned(),
        format!("set=1\n{}\n\n", "x".repeat(300)),
    ]);
    texts.into_iter().map(String::into_bytes).collect()
}
