use proptest::prelude::*;

use super::*;

fn written(write: impl FnOnce(&mut ControlBuffer)) -> Vec<u8> {
    let mut buffer = ControlBuffer::new();
    write(&mut buffer);
    buffer.as_bytes().to_vec()
}

#[test]
fn a_message_has_the_layout_of_the_c_library() {
    let bytes = written(|buffer| buffer.push_segment_size(1452));
    // SAFETY: CMSG_LEN and CMSG_SPACE compute with numbers.
    let (length, space) = unsafe { (libc::CMSG_LEN(2), libc::CMSG_SPACE(2)) };
    assert_eq!(bytes.len(), space as usize);
    assert_eq!(bytes[..WORD_BYTES], (length as usize).to_ne_bytes());
    assert_eq!(HEADER_BYTES, size_of::<libc::cmsghdr>());
}

#[test]
fn all_messages_of_a_send_fit_the_buffer_twice_over() {
    let source = LocalAddress {
        ip: Ipv6Addr::LOCALHOST.into(),
        interface: 1,
    };
    let bytes = written(|buffer| {
        buffer.push_segment_size(1452);
        buffer.push_source(source);
        buffer.push_class(source.ip, 3);
    });
    assert!(2 * bytes.len() <= CONTROL_BYTES);
}

#[test]
fn what_is_asked_for_reads_back_where_both_ways_have_one_form() {
    for ip in ["192.0.2.1", "2001:db8::1", "fe80::1"] {
        let ip: IpAddr = ip.parse().expect("a literal address");
        let told = read(&written(|buffer| {
            buffer.push_class(ip, 0b10);
            buffer.push_source(LocalAddress { ip, interface: 7 });
        }));
        assert_eq!(told.class, 0b10);
        let interface = if ip.to_string() == "fe80::1" { 7 } else { 0 };
        assert_eq!(
            told.local,
            Some(LocalAddress { ip, interface }),
            "only a link-local address binds the interface"
        );
    }
}

#[test]
fn of_the_class_all_is_sent_and_all_is_told() {
    let mut bytes = written(|buffer| buffer.push_class(Ipv4Addr::LOCALHOST.into(), 0x8b));
    assert_eq!(
        bytes[HEADER_BYTES..HEADER_BYTES + 4],
        0x8b_i32.to_ne_bytes()
    );
    assert_eq!(read(&bytes).class, 0x8b);
    bytes[HEADER_BYTES] = 0xfe;
    assert_eq!(read(&bytes).class, 0xfe);
}

#[test]
fn an_unknown_message_is_skipped() {
    let bytes = written(|buffer| {
        buffer.push(libc::SOL_SOCKET, 99, &[1, 2, 3]);
        buffer.push(libc::SOL_UDP, libc::UDP_GRO, &1452_i32.to_ne_bytes());
    });
    assert_eq!(
        read(&bytes),
        Told {
            segment_size: Some(1452),
            ..Told::default()
        }
    );
}

#[test]
fn a_mapped_local_address_is_told_as_ipv4() {
    let mut info = [0; PACKET_INFO_V6_BYTES];
    info[..16].copy_from_slice(&Ipv4Addr::new(192, 0, 2, 1).to_ipv6_mapped().octets());
    let bytes = written(|buffer| buffer.push(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info));
    assert_eq!(
        read(&bytes).local.map(|local| local.ip),
        Some(Ipv4Addr::new(192, 0, 2, 1).into())
    );
}

proptest! {
    #[test]
    fn any_bytes_are_read_in_the_end(lengths in proptest::collection::vec((0_usize..64, any::<[u8; 24]>()), 0..6)) {
        let bytes: Vec<u8> =
            lengths.iter().flat_map(|(length, rest)| [&length.to_ne_bytes()[..], rest].concat()).collect();
        read(&bytes);
        for cut in 0..bytes.len() {
            read(&bytes[..cut]);
        }
    }
}
