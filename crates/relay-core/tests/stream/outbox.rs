//! Datagrams that wait for a stream.

use culvert_base::BootTime;
use culvert_relay_core::stream::{OUTBOX_BYTES, Outbox};
use proptest::prelude::*;

const fn at(millis: u64) -> BootTime {
    BootTime::from_millis(1_000 + millis)
}

#[test]
fn whole_frames_are_taken_oldest_first() {
    let mut outbox = Outbox::default();
    outbox.push(&[1; 250], 100, at(0));
    outbox.push(&[2; 10], 10, at(0));
    assert_eq!(outbox.take(210, at(1)).unwrap().len(), 204);
    let last = outbox.take(1, at(1)).unwrap();
    assert_eq!((last.len(), &last[..3]), (52, &[0, 50, 1][..]));
    assert_eq!(outbox.take(1, at(1)).unwrap().len(), 12);
    assert_eq!(outbox.take(1, at(1)), None);
    assert!(outbox.is_empty());
    assert_eq!(outbox.dropped(), 0);
}

#[test]
fn the_newest_is_dropped_when_it_is_full_and_the_oldest_when_it_has_waited_too_long() {
    let mut outbox = Outbox::default();
    let batch = vec![7; 60_000];
    let fit = OUTBOX_BYTES / 60_000;
    for _ in 0..fit + 3 {
        outbox.push(&batch, 1_000, at(0));
    }
    assert_eq!(outbox.dropped(), 3 * 60);
    assert_eq!(outbox.poll_timeout(), Some(at(15)));
    assert_eq!(outbox.take(1_002, at(14)).map(<[u8]>::len), Some(1_002));
    outbox.push(&[9; 500], 500, at(14));
    outbox.expire(at(15));
    assert_eq!(outbox.dropped(), 3 * 60 + fit as u64 * 60 - 1);
    assert_eq!(outbox.take(9_999, at(15)).map(<[u8]>::len), Some(502));
    assert_eq!(outbox.poll_timeout(), None);
    outbox.rest();
    assert!(outbox.is_empty());
}

#[test]
fn datagrams_that_no_frame_holds_are_left_out() {
    let mut outbox = Outbox::default();
    outbox.push(&[], 0, at(0));
    outbox.push(&vec![0; 65_508], 65_508, at(0));
    assert!(outbox.is_empty() && outbox.take(9, at(0)).is_none());
}

proptest! {
    #[test]
    fn every_datagram_is_taken_or_counted_as_dropped(
        steps in proptest::collection::vec((0_usize..70_000, 1_usize..3_000, 0_u64..10, 0_usize..5), 0..200),
    ) {
        let (mut outbox, mut now, mut offered, mut taken) = (Outbox::default(), 0, 0, 0);
        for (len, stride, pause, takes) in steps {
            now += pause;
            offered += len.div_ceil(stride);
            outbox.push(&vec![5; len], stride, at(now));
            for _ in 0..takes {
                if let Some(mut frames) = outbox.take(16_000, at(now)) {
                    while let [high, low, rest @ ..] = frames {
                        frames = &rest[usize::from(u16::from_be_bytes([*high, *low]))..];
                        taken += 1;
                    }
                    prop_assert!(frames.is_empty(), "a frame is cut");
                }
            }
        }
        outbox.expire(at(now + 15));
        prop_assert!(outbox.is_empty());
        prop_assert_eq!(taken + outbox.dropped() as usize, offered);
    }
}
