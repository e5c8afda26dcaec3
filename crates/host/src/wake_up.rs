//! Waking a task from threads that know nothing of tasks.

use std::sync::Arc;
use std::task::{Wake, Waker};
use tokio::sync::Notify;

/// Wakes the one task that waits in [`Self::woken`]. A wake-up that comes while nobody waits is kept, and several are one.
#[derive(Debug, Default)]
pub struct WakeUp(Arc<Bell>);

#[derive(Debug, Default)]
struct Bell(Notify);

impl WakeUp {
    /// The side that wakes.
    #[must_use]
    pub fn waker(&self) -> Waker {
        Waker::from(Arc::clone(&self.0))
    }

    /// Waits for the next wake-up.
    pub async fn woken(&self) {
        self.0.0.notified().await;
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_wake_up_before_somebody_waits_is_kept_and_two_are_one() {
        let wake_up = WakeUp::default();
        let waker = wake_up.waker();
        std::thread::spawn(move || {
            waker.wake_by_ref();
            waker.wake();
        })
        .join()
        .unwrap();
        wake_up.woken().await;
        tokio::select! {
            biased;
            () = wake_up.woken() => panic!("nobody has woken it again"),
            () = std::future::ready(()) => {}
        }
    }
}
