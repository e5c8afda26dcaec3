//! What a service manager hears of a program (`sd_notify(3)`).

use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::{reaper, wait_until};

/// Longer than whatever is told.
const MESSAGE_BYTES: usize = 4096;

/// Listens where `NOTIFY_SOCKET` points, as systemd does.
#[derive(Debug)]
pub struct ServiceManager {
    path: PathBuf,
    told: Arc<Mutex<Vec<String>>>,
}

impl ServiceManager {
    /// Begins to listen, until the process ends.
    ///
    /// # Errors
    /// When the socket can't be made.
    pub fn listen() -> Result<Self> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = reaper::process_dir()?.join(format!("notify-{number}"));
        let socket = UnixDatagram::bind(&path).context("the socket of a service manager")?;
        let told: Arc<Mutex<Vec<String>>> = Arc::default();
        let heard = Arc::clone(&told);
        thread::spawn(move || {
            let mut message = [0; MESSAGE_BYTES];
            while let Ok(length) = socket.recv(&mut message) {
                let text = String::from_utf8_lossy(&message[..length]).into_owned();
                heard
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(text);
            }
        });
        Ok(Self { path, told })
    }

    /// What stands before a command that is to tell it how it is, and every `watchdog` at least that it
    /// goes on.
    #[must_use]
    pub fn prefix(&self, watchdog: Duration) -> String {
        format!(
            "env NOTIFY_SOCKET={} WATCHDOG_USEC={}",
            self.path.display(),
            watchdog.as_micros()
        )
    }

    /// Everything that it was told so far, a message each.
    #[must_use]
    pub fn told(&self) -> Vec<String> {
        self.told
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Waits until it is told something that holds `text`, `times` times from the start.
    ///
    /// # Errors
    /// When that does not happen before `deadline`.
    pub fn hears(&self, text: &str, times: usize, deadline: Duration) -> Result<()> {
        let heard = || {
            let told = self.told();
            told.iter().filter(|message| message.contains(text)).count() >= times
        };
        let what = format!("{text:?} {times} times");
        wait_until(&what, deadline, heard).with_context(|| format!("{:#?}", self.told()))
    }
}
