//! Telling the service manager how this program is doing (`sd_notify(3)`).
//!
//! Without a listener nothing happens, and a service manager that does not listen is no reason to
//! stop. The library reads who listens from the environment (`NOTIFY_SOCKET`); no program started
//! from here inherits it.

use sd_notify::NotifyState;
use std::time::Duration;

/// The most characters of a status: what fits a terminal's line in `systemctl status`, with room.
const MAX_STATUS_CHARACTERS: usize = 200;

/// Everything is set up: units that wait for this one may start.
pub fn notify_ready(status: &str) {
    notify(&[NotifyState::Ready, NotifyState::Status(&one_line(status))]);
}

/// Reports the activity of this program, in one line for people.
pub fn notify_status(status: &str) {
    notify(&[NotifyState::Status(&one_line(status))]);
}

/// This program is about to end.
pub fn notify_stopping(status: &str) {
    notify(&[
        NotifyState::Stopping,
        NotifyState::Status(&one_line(status)),
    ]);
}

/// The program goes on with its work.
pub(crate) fn notify_alive() {
    notify(&[NotifyState::Watchdog]);
}

/// The time that the service manager waits for [`notify_alive`] before it ends and restarts the
/// program; nothing if it does not wait for it.
pub(crate) fn watchdog_span() -> Option<Duration> {
    sd_notify::watchdog_enabled()
}

fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "the service manager cannot be told");
    }
}

/// A text that cannot be taken for a further state, whatever is in it.
fn one_line(text: &str) -> String {
    text.chars()
        .take(MAX_STATUS_CHARACTERS)
        .map(|character| {
            if character.is_control() {
                ' '
            } else {
                character
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_one_line_whatever_is_in_it() {
        assert_eq!(one_line("fine\nREADY=1\0"), "fine READY=1 ");
        assert_eq!(
            one_line(&"ä".repeat(1000)).chars().count(),
            MAX_STATUS_CHARACTERS
        );
    }
}
