//! The stream of an export: it is read ahead by a part, asks again whether its caller may read, and
//! ends for a reader who takes too little.

use super::export::{Export, ExportFilter, ExportFormat};
use super::export_places::{MAX_EXPORTS, Running};
use super::{Caller, Service};
use culvert_portal_base::Fault;
use culvert_store::CommitWatch;
use futures_util::stream::{self, Stream};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

/// The time within which a reader must take a part of up to 200 entries. Such a part has some 60
/// kB, so 2 kB/s are enough. The kernel buffers up to 4 MiB for a connection, and frees this buffer
/// in steps of a third; 45 kB/s are enough for these.
const PART_WITHIN: Duration = Duration::from_secs(30);

/// The interval at which an export checks, while nothing changes, that its caller may still read: a
/// token or a session may expire.
const ASK_AGAIN: Duration = Duration::from_secs(15);

/// The wait before another attempt, if no place is free.
const COME_BACK: Duration = Duration::from_secs(10);

/// A message to the reader.
enum Part {
    Lines(String),
    /// The log is at its end. Without it, an export has broken off.
    End,
}

impl Service {
    /// The newest entry first, in parts of some lines each. A fault in the midst ends the stream with
    /// an error, so that nobody takes half of a log for all of it.
    pub(crate) fn export(
        self: &Arc<Self>,
        caller: Caller,
        filter: ExportFilter,
        format: ExportFormat,
    ) -> Result<impl Stream<Item = io::Result<String>> + Send + use<>, Fault> {
        caller.may_read()?;
        let place = self.log_outputs.exports.take(caller.actor()?);
        let place = place.ok_or(Fault::TooMany { wait: COME_BACK })?;
        let export = Export::new(Arc::clone(self), caller, filter, format);
        // One part waits while the next is read.
        let (sender, parts) = mpsc::channel(1);
        let is_broken = Arc::new(AtomicBool::new(false));
        let reader = Reader {
            parts,
            is_broken: Arc::clone(&is_broken),
        };
        tokio::spawn(async move {
            let commits = export.service.database.store.watch();
            let running = Arc::clone(&place.own);
            let mut outlet = Outlet {
                sender,
                commits,
                running,
            };
            match outlet.run(export).await {
                Ok(()) => {
                    // A reader that has read the end may export again at once.
                    drop(place);
                    let _ = outlet.sender.send(Part::End).await;
                }
                Err(broken) => {
                    is_broken.store(true, Ordering::Release);
                    broken.log();
                }
            }
        });
        Ok(stream::unfold(Some(reader), |reader| async {
            let mut reader = reader?;
            match reader.next().await {
                Ok(Some(lines)) => Some((Ok(lines), Some(reader))),
                Ok(None) => None,
                Err(error) => Some((Err(error), None)),
            }
        }))
    }
}

/// The reason why an export breaks off.
#[derive(Debug)]
enum Broken {
    /// The connection is gone.
    Gone,
    TooSlow,
    /// Somebody else has the place.
    GaveWay,
    Fault(Fault),
}

impl From<Fault> for Broken {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl Broken {
    fn log(&self) {
        match self {
            Self::Gone => tracing::debug!("the reader of an export is gone"),
            Self::TooSlow => tracing::info!(
                "an export of a log ends: its reader took nothing for {} s",
                PART_WITHIN.as_secs()
            ),
            Self::GaveWay => tracing::info!(
                "an export of a log ends: there are {MAX_EXPORTS}, another person asks for one, and its reader is the \
                 slowest"
            ),
            Self::Fault(Fault::Unauthenticated | Fault::Forbidden(_)) => tracing::info!(
                "an export of a log ends: whoever asked for it may no longer read the log"
            ),
            Self::Fault(fault) => tracing::warn!(?fault, "an export of a log breaks off"),
        }
    }
}

/// The end that reads the log.
struct Outlet {
    sender: mpsc::Sender<Part>,
    commits: Box<dyn CommitWatch>,
    running: Arc<Running>,
}

impl Outlet {
    async fn run(&mut self, mut export: Export) -> Result<(), Broken> {
        let (service, caller) = (Arc::clone(&export.service), export.caller);
        let may_read = || {
            let service = Arc::clone(&service);
            async move { service.check_again(&caller).await }
        };
        loop {
            let turn = service.log_outputs.exports.reads.acquire().await;
            let turn = turn.map_err(Fault::internal)?;
            let lines = export.next().await?;
            drop(turn);
            let Some(lines) = lines else {
                return Ok(());
            };
            self.running.begin_wait();
            let handed_over = self.hand_over(lines, may_read).await;
            self.running.end_wait();
            handed_over?;
        }
    }

    /// Waits until the reader has taken the part before, and asks meanwhile and at last whether the
    /// caller may still read.
    async fn hand_over<F>(&mut self, lines: String, may_read: impl Fn() -> F) -> Result<(), Broken>
    where
        F: Future<Output = Result<(), Fault>>,
    {
        let deadline = Instant::now() + PART_WITHIN;
        loop {
            may_read().await?;
            tokio::select! {
                biased;
                permit = self.sender.reserve() => {
                    permit.map_err(|_| Broken::Gone)?.send(Part::Lines(lines));
                    return Ok(());
                }
                () = sleep_until(deadline) => return Err(Broken::TooSlow),
                () = self.running.gives_way.notified() => return Err(Broken::GaveWay),
                // Without a commit in that time, it is asked all the same.
                _ = timeout(ASK_AGAIN, self.commits.changed()) => {}
            }
        }
    }
}

/// The end that the connection reads.
struct Reader {
    parts: mpsc::Receiver<Part>,
    is_broken: Arc<AtomicBool>,
}

impl Reader {
    async fn next(&mut self) -> io::Result<Option<String>> {
        let part = self.parts.recv().await;
        // A part that waited while the caller was shut out is not theirs any more.
        match part.filter(|_| !self.is_broken.load(Ordering::Acquire)) {
            Some(Part::Lines(lines)) => Ok(Some(lines)),
            Some(Part::End) => Ok(None),
            None => Err(io::Error::other("the portal can't read the log to its end")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use culvert_store_sql::CommitSignal;
    use std::sync::atomic::AtomicU32;

    fn outlet(signal: &CommitSignal) -> (Outlet, mpsc::Receiver<Part>) {
        let (sender, parts) = mpsc::channel(1);
        let commits = signal.watch();
        let running = Arc::default();
        let outlet = Outlet {
            sender,
            commits,
            running,
        };
        (outlet, parts)
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_who_takes_nothing_loses_the_place_after_half_a_minute() {
        let signal = CommitSignal::new();
        let (mut outlet, _parts) = outlet(&signal);
        let may_read = || async { Ok(()) };
        let began = Instant::now();
        outlet
            .hand_over("first".to_owned(), may_read)
            .await
            .unwrap();
        assert_eq!(began.elapsed(), Duration::ZERO);
        let broken = outlet.hand_over("second".to_owned(), may_read).await;
        assert!(matches!(broken, Err(Broken::TooSlow)));
        assert_eq!(began.elapsed(), PART_WITHIN);
    }

    #[tokio::test(start_paused = true)]
    async fn an_export_asks_at_each_commit_and_every_fifteen_seconds_whether_its_caller_may_read() {
        let signal = CommitSignal::new();
        let (mut outlet, _parts) = outlet(&signal);
        let asked = AtomicU32::new(0);
        let may_read = || {
            let answer = match asked.fetch_add(1, Ordering::Relaxed) {
                0..=2 => Ok(()),
                _ => Err(Fault::Unauthenticated),
            };
            async { answer }
        };
        let began = Instant::now();
        outlet
            .hand_over("first".to_owned(), &may_read)
            .await
            .unwrap();
        // Asked once, and again for the second part; then by time, and by the commit.
        let commit = async {
            tokio::time::sleep(ASK_AGAIN + Duration::from_secs(1)).await;
            signal.wake();
        };
        let (broken, ()) = tokio::join!(outlet.hand_over("second".to_owned(), &may_read), commit);
        let refused = matches!(broken, Err(Broken::Fault(Fault::Unauthenticated)));
        assert!(refused && asked.load(Ordering::Relaxed) == 4);
        assert_eq!(began.elapsed(), ASK_AGAIN + Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn an_export_that_gives_way_ends_at_once() {
        let signal = CommitSignal::new();
        let (mut outlet, _parts) = outlet(&signal);
        let may_read = || async { Ok(()) };
        let first = outlet.hand_over("first".to_owned(), may_read).await;
        first.unwrap();
        outlet.running.gives_way.notify_one();
        let broken = outlet.hand_over("second".to_owned(), may_read).await;
        assert!(matches!(broken, Err(Broken::GaveWay)));
    }

    #[tokio::test]
    async fn an_export_that_broke_off_does_not_look_like_a_whole_one() {
        let (sender, parts) = mpsc::channel(1);
        let is_broken = Arc::new(AtomicBool::new(false));
        let mut reader = Reader {
            parts,
            is_broken: Arc::clone(&is_broken),
        };
        let lines = || Part::Lines("a".to_owned());
        sender.send(lines()).await.ok().unwrap();
        assert_eq!(reader.next().await.unwrap().as_deref(), Some("a"));
        sender.send(lines()).await.ok().unwrap();
        is_broken.store(true, Ordering::Release);
        assert!(reader.next().await.is_err(), "it waited too long");
        is_broken.store(false, Ordering::Release);
        sender.send(Part::End).await.ok().unwrap();
        assert!(reader.next().await.unwrap().is_none());
        drop(sender);
        assert!(reader.next().await.is_err(), "it ended without its end");
    }
}
