//! Writes beside the event loop: a disk may take seconds for it, and nobody waits for that.

use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::{JoinHandle, spawn_blocking};

/// Writes the newest of the given states, one after the other. A state that comes during a write replaces
/// the one that waits, so that never more than one waits.
pub(super) struct LatestWriter<T> {
    newest: watch::Sender<Option<Arc<T>>>,
    task: JoinHandle<()>,
}

impl<T: Send + Sync + 'static> LatestWriter<T> {
    pub(super) fn with(write: impl Fn(&T) + Send + Sync + 'static) -> Self {
        let (newest, mut to_write) = watch::channel(None::<Arc<T>>);
        let write = Arc::new(write);
        let task = tokio::spawn(async move {
            while to_write.changed().await.is_ok() {
                let Some(persisted) = to_write.borrow_and_update().clone() else {
                    continue;
                };
                let write = Arc::clone(&write);
                if let Err(error) = spawn_blocking(move || write(&persisted)).await {
                    tracing::error!(%error, "state could not be kept over a restart");
                }
            }
        });
        Self { newest, task }
    }

    /// Writes this as soon as the present write is done. Does not wait.
    pub(super) fn write(&self, newest: T) {
        self.newest.send_replace(Some(Arc::new(newest)));
    }

    /// Waits until the last given state is written.
    pub(super) async fn finish(self) {
        drop(self.newest);
        // It ends with the last write, and says itself what went wrong.
        let _ended = self.task.await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Mutex, mpsc};

    /// A disk that takes as long for each write as the test likes.
    struct SlowDisk {
        began: tokio::sync::mpsc::UnboundedReceiver<u32>,
        go_on: mpsc::Sender<()>,
    }

    fn slow_disk() -> (LatestWriter<u32>, SlowDisk) {
        let (begin, began) = tokio::sync::mpsc::unbounded_channel();
        let (go_on, released) = mpsc::channel();
        let released = Mutex::new(released);
        let writer = LatestWriter::with(move |number: &u32| {
            begin.send(*number).unwrap();
            released.lock().unwrap().recv().unwrap();
        });
        (writer, SlowDisk { began, go_on })
    }

    #[tokio::test]
    async fn a_slow_disk_makes_nobody_wait_and_gets_the_newest_alone() {
        let (writer, mut disk) = slow_disk();
        writer.write(1);
        assert_eq!(disk.began.recv().await, Some(1));
        // All of these come while the first is being written, and none of them waits for it.
        for number in 2..=1_000 {
            writer.write(number);
        }
        disk.go_on.send(()).unwrap();
        assert_eq!(disk.began.recv().await, Some(1_000));
        disk.go_on.send(()).unwrap();
        writer.finish().await;
        assert_eq!(disk.began.recv().await, None, "nothing else was written");
    }

    #[tokio::test]
    async fn the_end_waits_for_what_was_kept_last() {
        let (writer, mut disk) = slow_disk();
        writer.write(1);
        assert_eq!(disk.began.recv().await, Some(1));
        writer.write(2);
        let end = tokio::spawn(writer.finish());
        disk.go_on.send(()).unwrap();
        assert_eq!(disk.began.recv().await, Some(2));
        assert!(!end.is_finished());
        disk.go_on.send(()).unwrap();
        end.await.unwrap();
    }
}
