use super::*;
use proptest::prelude::*;

const KEY: [u8; KEY_LEN] = [7; KEY_LEN];
const TRANSACTION: Transaction = Transaction([3; 16]);
const COOKIE: Mac = Mac::from_bytes([9; MAC_LEN]);

/// A message of each kind, as it goes over the wire.
fn one_of_each() -> Vec<Vec<u8>> {
    let mapped = "198.51.100.7:51820".parse().unwrap();
    let challenge = Challenge {
        transaction: TRANSACTION,
        cookie: COOKIE,
        mapped,
    };
    let refused = Refused {
        transaction: TRANSACTION,
        reason: RefusalReason::Full,
    };
    let probe = Probe {
        receiver: Tag([1, 2, 3, 4]),
        sender: Tag([5, 6, 7, 8]),
        nonce: [9; 8],
        mac: COOKIE,
    };
    vec![
        Ask {
            transaction: TRANSACTION,
        }
        .encode()
        .to_vec(),
        challenge.encode().to_vec(),
        registration("v4.local.abc"),
        Registered::new(TRANSACTION, 3_600, &KEY).encode().to_vec(),
        refused.encode().to_vec(),
        Unknown::to(&[4; 32]).unwrap().encode().to_vec(),
        Refresh::question(5, &KEY).encode_question().to_vec(),
        Refresh::answer(5, &KEY).encode_answer().to_vec(),
        probe.write(KIND_PROBE).to_vec(),
        probe.write(KIND_PROBE_ANSWER).to_vec(),
    ]
}

fn registration(token: &str) -> Vec<u8> {
    let mut out = [0; REGISTER_MAX_LEN];
    let len = Register::write(TRANSACTION, COOKIE, token, &KEY, &mut out).unwrap();
    out[..len].to_vec()
}

fn encode(message: &Message<'_>) -> Vec<u8> {
    match message {
        Message::Ask(it) => it.encode().to_vec(),
        Message::Challenge(it) => it.encode().to_vec(),
        Message::Register(it) => {
            let parts: [&[u8]; 5] = [
                &head(KIND_REGISTER),
                &it.transaction.0,
                it.cookie.as_bytes(),
                it.mac.as_bytes(),
                it.token.as_bytes(),
            ];
            parts.concat()
        }
        Message::Registered(it) => it.encode().to_vec(),
        Message::Refused(it) => it.encode().to_vec(),
        Message::Unknown(it) => it.encode().to_vec(),
        Message::Refresh(it) => it.encode_question().to_vec(),
        Message::Refreshed(it) => it.encode_answer().to_vec(),
        Message::Probe(it) => it.write(KIND_PROBE).to_vec(),
        Message::ProbeAnswer(it) => it.write(KIND_PROBE_ANSWER).to_vec(),
    }
}

#[test]
fn every_kind_is_read_as_it_was_written() {
    for (place, datagram) in one_of_each().iter().enumerate() {
        assert_eq!(
            usize::from(datagram[3]),
            place + 1,
            "the kinds are in order"
        );
        let message = Message::parse(datagram).unwrap();
        assert_eq!(&encode(&message), datagram, "{message:?}");
    }
}

#[test]
fn a_message_that_is_cut_or_longer_is_none() {
    for datagram in one_of_each() {
        let kind = datagram[3];
        for len in 0..datagram.len() {
            let cut = Message::parse(&datagram[..len]);
            // A registration that lost the end of its token is one still, with a proof that fits no more.
            if let Some(Message::Register(register)) = cut {
                assert!(!register.is_by(&KEY));
            } else {
                assert_eq!(cut, None, "kind {kind} at {len}");
            }
        }
        let longer = [datagram.as_slice(), b"x"].concat();
        match Message::parse(&longer) {
            Some(Message::Register(register)) => assert!(!register.is_by(&KEY)),
            other => assert_eq!(other, None, "kind {kind}"),
        }
    }
}

#[test]
fn wireguards_messages_are_not_culverts() {
    for kind in 1..=4 {
        assert!(!is_culvert_message(&[kind, 0, 0, 0, 1, 2, 3, 4]));
    }
    assert!(is_culvert_message(b"CVR\x01"));
    assert!(!is_culvert_message(b"CV"));
}

#[test]
fn no_answer_is_longer_than_its_question() {
    let lens = one_of_each();
    let len = |kind: u8| lens[usize::from(kind) - 1].len();
    assert!(len(KIND_CHALLENGE) <= len(KIND_ASK));
    assert!(len(KIND_REGISTERED) <= len(KIND_REGISTER));
    assert!(len(KIND_REFUSED) <= len(KIND_REGISTER));
    assert!(len(KIND_REFRESHED) <= len(KIND_REFRESH));
    assert!(len(KIND_PROBE_ANSWER) <= len(KIND_PROBE));
    assert_eq!(Unknown::to(&[1; UNKNOWN_LEN - 1]), None);
}

#[test]
fn a_proof_by_another_key_or_over_other_bytes_is_none() {
    let datagram = registration("v4.local.abc");
    let Some(Message::Register(register)) = Message::parse(&datagram) else {
        panic!("it is a registration");
    };
    assert!(register.is_by(&KEY));
    assert!(!register.is_by(&[8; KEY_LEN]));
    for place in HEAD_LEN..datagram.len() {
        let mut changed = datagram.clone();
        changed[place] ^= 1;
        if let Some(Message::Register(register)) = Message::parse(&changed) {
            assert!(!register.is_by(&KEY), "byte {place}");
        }
    }
    let question = Refresh::question(1, &KEY);
    assert!(question.is_question_by(&KEY) && !question.is_answer_by(&KEY));
    assert!(!Refresh::answer(1, &KEY).is_question_by(&KEY));
}

#[test]
fn a_token_is_printable_and_of_bounded_length() {
    let mut out = [0; REGISTER_MAX_LEN];
    let mut write = |token: &str| Register::write(TRANSACTION, COOKIE, token, &KEY, &mut out);
    assert_eq!(write(""), None);
    assert_eq!(write("a b"), None);
    assert_eq!(write("\u{e9}"), None);
    let most = REGISTER_MAX_LEN - REGISTER_HEAD_LEN;
    assert_eq!(write(&"x".repeat(most)), Some(REGISTER_MAX_LEN));
    assert_eq!(write(&"x".repeat(most + 1)), None);
}

#[test]
fn an_ipv4_mapped_address_is_written_as_ipv4() {
    let challenge = Challenge {
        transaction: TRANSACTION,
        cookie: COOKIE,
        mapped: "[::ffff:198.51.100.7]:9".parse().unwrap(),
    };
    let datagram = challenge.encode();
    let Some(Message::Challenge(read)) = Message::parse(&datagram) else {
        panic!("it is a challenge");
    };
    assert_eq!(read.mapped, "198.51.100.7:9".parse().unwrap());
}

proptest! {
    #[test]
    fn whatever_parses_is_written_as_it_came(
        kind in 0_u8..12,
        len in proptest::sample::select(vec![8, 17, 24, 32, 34, 60, 70]),
        zeros_from in 0_usize..80,
        mut rest in proptest::collection::vec(any::<u8>(), 80),
    ) {
        rest[zeros_from..].fill(0);
        let datagram = [head(kind).as_slice(), &rest[..len]].concat();
        if let Some(message) = Message::parse(&datagram) {
            prop_assert_eq!(encode(&message), datagram);
        }
    }

    #[test]
    fn every_address_comes_back(v4 in any::<[u8; 4]>(), v6 in any::<[u8; 16]>(), port in any::<u16>()) {
        for ip in [std::net::IpAddr::from(v4), std::net::IpAddr::from(v6).to_canonical()] {
            let mapped = SocketAddr::new(ip, port);
            let challenge = Challenge { transaction: TRANSACTION, cookie: COOKIE, mapped };
            let datagram = challenge.encode();
            prop_assert_eq!(Message::parse(&datagram), Some(Message::Challenge(challenge)));
        }
    }
}
