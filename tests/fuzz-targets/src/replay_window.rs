use crate::input::Input;
use culvert_session::{REPLAY_WINDOW, ReplayVerdict, ReplayWindow};
use std::collections::BTreeSet;

/// Counters of one run: the window wraps around several times.
const MAX_COUNTERS: usize = 4096;

/// The replay window says what remembering every counter says.
///
/// # Panics
/// If a property does not hold.
pub fn replay_window(data: &[u8]) {
    let mut input = Input::new(data);
    let mut window = ReplayWindow::new();
    let mut received = BTreeSet::new();
    let mut last = 0_u64;
    for _ in 0..MAX_COUNTERS {
        if input.is_empty() {
            break;
        }
        let step = input.u8();
        // Below u64::MAX, as the number of messages under one key is limited.
        let counter = match step % 8 {
            0 => input.u64(),
            1 => last.saturating_add(u64::from(input.u16())),
            2 => last.saturating_sub(u64::from(input.u16())),
            3 => last.saturating_add(REPLAY_WINDOW - 4 + u64::from(step >> 3)),
            4 => last.saturating_sub(REPLAY_WINDOW - 4 + u64::from(step >> 3)),
            5 => last,
            _ => last + u64::from(step >> 3),
        }
        .min(u64::MAX - (1 << 20));
        last = counter;

        let next = received.last().map_or(0, |highest| highest + 1);
        let expected = if counter < next && next - counter > REPLAY_WINDOW {
            ReplayVerdict::TooOld
        } else if received.contains(&counter) {
            ReplayVerdict::Replayed
        } else {
            ReplayVerdict::Fresh
        };
        assert_eq!(window.check(counter), expected, "{counter}");
        assert_eq!(window.commit(counter), expected, "{counter}");
        if expected == ReplayVerdict::Fresh {
            received.insert(counter);
        }
    }
}
