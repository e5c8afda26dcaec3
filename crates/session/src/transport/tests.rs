use super::*;
use crate::constants::REKEY_AFTER_MESSAGES;
use proptest::prelude::*;
use std::time::Duration;
use zeroize::Zeroizing;

const START: BootTime = BootTime::from_nanos(1_000_000_000_000);
const SUITES: [Suite; 2] = [Suite::ChaCha20Poly1305, Suite::Aes256Gcm];

fn after(seconds: u64) -> BootTime {
    START.saturating_add(Duration::from_secs(seconds))
}

/// Initiator and responder with the same keys.
fn pair(suite: Suite) -> (Transport, Transport) {
    let keys = |send, receive| SessionKeys {
        send: Zeroizing::new([send; 32]),
        receive: Zeroizing::new([receive; 32]),
    };
    let end = |role, indices, keys| Transport::new(PeerId(0), role, indices, suite, &keys, START);
    (
        end(Role::Initiator, (Index(1), Index(2)), keys(3, 4)),
        end(Role::Responder, (Index(2), Index(1)), keys(4, 3)),
    )
}

fn at_counter(next: u64) -> (Transport, Transport) {
    let (initiator, responder) = pair(Suite::default());
    initiator.counters.skip_to(next);
    (initiator, responder)
}

/// `packets` of `len` bytes, the last of `last_len`, sealed as one batch; and its stride.
fn sealed(from: &Transport, packets: u8, len: usize, last_len: usize) -> (Vec<u8>, usize) {
    let stride = len + DATA_OVERHEAD;
    let mut buffer = vec![0; (usize::from(packets) - 1) * stride + last_len + DATA_OVERHEAD];
    for (number, record) in buffer.chunks_mut(stride).enumerate() {
        let end = record.len() - culvert_aead::TAG_LEN;
        record[DATA_HEADER_LEN..end].fill(number as u8);
    }
    let reservation = from.reserve(packets.into(), START).unwrap();
    from.seal_batch(reservation, &mut buffer, stride);
    (buffer, stride)
}

fn positions(set: RecordSet) -> Vec<usize> {
    set.iter().collect()
}

#[test]
fn a_batch_is_opened_by_the_other_end() {
    for suite in SUITES {
        let (initiator, responder) = pair(suite);
        let (mut buffer, stride) = sealed(&initiator, 45, 1420, 100);
        assert_eq!(
            &buffer[..16],
            &[4, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        );
        assert_eq!(buffer[44 * stride + 8], 44);
        let batch = responder.open_batch(&mut buffer, stride, START);
        assert!(batch.opened().iter().eq(0..45));
        for (number, record) in buffer.chunks(stride).enumerate() {
            let packet = &record[DATA_HEADER_LEN..record.len() - 16];
            assert!(packet.iter().all(|byte| *byte == number as u8));
        }
    }
}

#[test]
fn each_record_has_one_outcome_with_its_reason() {
    let (initiator, responder) = pair(Suite::default());
    let (mut buffer, stride) = sealed(&initiator, 8, 64, 64);
    let record = |number: usize| number * stride..(number + 1) * stride;
    buffer[record(1)][20] ^= 1; // ciphertext
    buffer[record(2)][4] ^= 1; // receiver index
    buffer[record(3)][0] = 1; // type
    buffer.copy_within(record(0), 4 * stride); // the counter of record 0 again
    buffer[record(6)][8..16].fill(0xff); // a counter past the limit
    buffer.truncate(7 * stride + DATA_OVERHEAD - 1); // no room for a tag
    let batch = responder.open_batch(&mut buffer, stride, START);
    assert_eq!(positions(batch.opened()), [0, 5]);
    assert_eq!(positions(batch.not_authentic()), [1]);
    assert_eq!(positions(batch.malformed()), [2, 3, 7]);
    assert_eq!(positions(batch.replayed()), [4]);
    assert_eq!(positions(batch.expired()), [6]);
    assert!(batch.too_old().is_empty());
}

#[test]
fn a_replayed_batch_is_refused_and_a_forged_counter_does_not_move_the_window() {
    let (initiator, responder) = pair(Suite::default());
    let (buffer, stride) = sealed(&initiator, 10, 64, 64);
    let mut forged = buffer.clone();
    forged[8..16].copy_from_slice(&1_000_000u64.to_le_bytes());
    let batch = responder.open_batch(&mut forged[..stride], stride, START);
    assert_eq!(positions(batch.not_authentic()), [0]);
    let batch = responder.open_batch(&mut buffer.clone(), stride, START);
    assert_eq!(batch.opened().len(), 10);
    let batch = responder.open_batch(&mut buffer.clone(), stride, START);
    assert_eq!(batch.replayed().len(), 10);
}

#[test]
fn what_lies_behind_the_window_is_too_old() {
    let (initiator, responder) = pair(Suite::default());
    let (mut first, stride) = sealed(&initiator, 1, 64, 64);
    initiator.counters.skip_to(crate::REPLAY_WINDOW);
    let (mut far, _) = sealed(&initiator, 1, 64, 64);
    assert_eq!(
        responder.open_batch(&mut far, stride, START).opened().len(),
        1
    );
    let batch = responder.open_batch(&mut first, stride, START);
    assert_eq!(positions(batch.too_old()), [0]);
}

#[test]
fn after_reject_after_messages_nothing_is_sent() {
    let (initiator, _) = at_counter(REJECT_AFTER_MESSAGES - 3);
    assert!(initiator.reserve(4, START).is_none());
    assert!(initiator.can_send(START));
    let last = initiator.reserve(3, START).unwrap();
    assert_eq!((last.first(), last.count()), (REJECT_AFTER_MESSAGES - 3, 3));
    assert!(initiator.reserve(1, START).is_none());
    assert!(!initiator.can_send(START));
}

#[test]
fn the_last_permitted_counter_arrives_and_the_next_does_not() {
    let (initiator, responder) = at_counter(REJECT_AFTER_MESSAGES - 1);
    let (mut buffer, stride) = sealed(&initiator, 1, 64, 64);
    let mut beyond = buffer.clone();
    beyond[8..16].copy_from_slice(&REJECT_AFTER_MESSAGES.to_le_bytes());
    assert_eq!(
        responder
            .open_batch(&mut beyond, stride, START)
            .expired()
            .len(),
        1
    );
    assert_eq!(
        responder
            .open_batch(&mut buffer, stride, START)
            .opened()
            .len(),
        1
    );
}

#[test]
fn after_rekey_after_messages_either_end_wants_new_keys() {
    let (initiator, responder) = at_counter(REKEY_AFTER_MESSAGES - 1);
    assert!(!initiator.wants_rekey_on_send(START));
    let _used = initiator.reserve(1, START);
    assert!(initiator.wants_rekey_on_send(START));
    responder.counters.skip_to(REKEY_AFTER_MESSAGES);
    assert!(responder.wants_rekey_on_send(START));
}

#[test]
fn the_initiator_alone_renews_by_time() {
    let (initiator, responder) = pair(Suite::default());
    assert!(!initiator.wants_rekey_on_send(after(119)));
    assert!(initiator.wants_rekey_on_send(after(120)));
    assert!(!initiator.wants_rekey_on_receive(after(164)));
    assert!(initiator.wants_rekey_on_receive(after(165)));
    assert!(!responder.wants_rekey_on_send(after(179)));
    assert!(!responder.wants_rekey_on_receive(after(179)));
}

#[test]
fn after_reject_after_time_nothing_is_sent_or_received() {
    let (initiator, responder) = pair(Suite::default());
    let (mut buffer, stride) = sealed(&initiator, 2, 64, 64);
    assert!(initiator.reserve(1, after(179)).is_some());
    assert!(initiator.reserve(1, after(180)).is_none());
    let batch = responder.open_batch(&mut buffer.clone(), stride, after(180));
    assert_eq!(batch.expired().len(), 2);
    let batch = responder.open_batch(&mut buffer, stride, after(179));
    assert_eq!(batch.opened().len(), 2);
}

#[test]
fn a_transport_shows_whose_it_is_and_no_keys() {
    let (initiator, _) = pair(Suite::ChaCha20Poly1305);
    assert_eq!(
        format!("{initiator:?}"),
        "Transport { peer: PeerId(0), role: Initiator, local_index: Index(0x00000001), \
         remote_index: Index(0x00000002), suite: ChaCha20Poly1305, .. }"
    );
}

#[test]
fn a_responder_is_confirmed_exactly_once_and_an_initiator_never() {
    let (initiator, responder) = pair(Suite::default());
    assert!(responder.confirm(START));
    assert!(!responder.confirm(START));
    assert!(!initiator.confirm(START));
}

#[test]
#[should_panic(expected = "the reservation is of another transport")]
fn counters_of_another_transport_are_refused() {
    let (initiator, responder) = pair(Suite::default());
    let reservation = initiator.reserve(1, START).unwrap();
    responder.seal_batch(reservation, &mut [0; DATA_OVERHEAD], DATA_OVERHEAD);
}

#[test]
#[should_panic(expected = "more records than reserved counters")]
fn more_records_than_counters_are_refused() {
    let (initiator, _) = pair(Suite::default());
    let reservation = initiator.reserve(1, START).unwrap();
    initiator.seal_batch(reservation, &mut [0; 2 * DATA_OVERHEAD], DATA_OVERHEAD);
}

#[test]
fn workers_that_reserve_at_once_never_share_a_counter() {
    let (initiator, _) = pair(Suite::default());
    let reserve = || {
        let reserved = (0..1000).map(|_| initiator.reserve(7, START).unwrap().first());
        reserved.collect::<Vec<_>>()
    };
    let mut all = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4).map(|_| scope.spawn(reserve)).collect();
        let joined = workers
            .into_iter()
            .flat_map(|worker| worker.join().unwrap());
        joined.collect::<Vec<_>>()
    });
    all.sort_unstable();
    assert!(all.into_iter().eq((0..4000).map(|number| number * 7)));
}

proptest! {
    #[test]
    fn no_bytes_make_opening_panic_and_every_record_has_one_outcome(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..6000),
        stride in 1usize..200,
        headers in any::<bool>(),
    ) {
        let (_, responder) = pair(Suite::default());
        if headers {
            for record in bytes.chunks_mut(stride) {
                for (byte, value) in record.iter_mut().zip([4, 0, 0, 0, 2, 0, 0, 0]) {
                    *byte = value;
                }
            }
        }
        let batch = responder.open_batch(&mut bytes, stride, START);
        prop_assert!(batch.opened().is_empty());
        let sets = [
            batch.replayed(), batch.too_old(), batch.not_authentic(), batch.expired(),
            batch.malformed(),
        ];
        let total: usize = sets.iter().map(|set| set.len()).sum();
        prop_assert_eq!(total, bytes.len().div_ceil(stride).min(MAX_RECORDS));
    }

    #[test]
    fn any_order_with_any_repetition_opens_each_record_once(
        suite in proptest::sample::select(SUITES.to_vec()),
        order in proptest::collection::vec(0usize..30, 1..128),
    ) {
        let (initiator, responder) = pair(suite);
        let (buffer, stride) = sealed(&initiator, 30, 32, 32);
        let mut shuffled: Vec<u8> = Vec::new();
        for number in &order {
            shuffled.extend(&buffer[number * stride..][..stride]);
        }
        let batch = responder.open_batch(&mut shuffled, stride, START);
        let mut seen = std::collections::BTreeSet::new();
        for (position, number) in order.iter().enumerate() {
            prop_assert_eq!(batch.opened().contains(position), seen.insert(number));
            prop_assert_eq!(batch.replayed().contains(position), !batch.opened().contains(position));
        }
    }
}
