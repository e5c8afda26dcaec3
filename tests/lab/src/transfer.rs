//! A file that goes from one namespace to another, checked by its checksum.

use std::fs::{self, File};
use std::io::{self, Read};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::namespace::Namespace;
use crate::reaper;

/// A transfer without progress for this long has failed; TCP alone would try for minutes.
const STALL_LIMIT: Duration = Duration::from_secs(20);

/// A file that has arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The SHA-256 of what was sent and of what arrived, in hexadecimal.
    pub sha256: String,
    /// The duration of the transfer.
    pub elapsed: Duration,
}

impl Transfer {
    /// Makes a file of `size_bytes` random bytes, sends it by TCP from one namespace to `target` in
    /// another, and compares the checksums of both files.
    ///
    /// # Errors
    /// When there is no progress for 20 s, or the file arrives changed.
    pub fn run(
        from: &Namespace,
        to: &Namespace,
        target: SocketAddr,
        size_bytes: u64,
    ) -> Result<Self> {
        let files = Files::new()?;
        let mut random = File::open("/dev/urandom")?.take(size_bytes);
        io::copy(&mut random, &mut File::create(&files.sent)?)?;

        let listener = to.inside(|| TcpListener::bind(target).context("cannot listen"))?;
        let start = Instant::now();
        let outgoing = from
            .inside(|| Ok(TcpStream::connect_timeout(&target, STALL_LIMIT)?))
            .context("cannot connect")?;
        // The kernel has completed the connection: accepting it does not wait.
        let (incoming, _) = listener.accept()?;
        thread::scope(|scope| {
            let receiver = scope.spawn(|| receive(incoming, &files.received));
            send(outgoing, &files.sent).context("cannot send the file")?;
            match receiver.join() {
                Ok(result) => result.context("cannot receive the file"),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })?;
        let elapsed = start.elapsed();

        let (sent, received) = (sha256(&files.sent)?, sha256(&files.received)?);
        if sent != received {
            bail!("the file arrived changed: sent {sent}, received {received}");
        }
        Ok(Self {
            sha256: sent,
            elapsed,
        })
    }
}

/// The two files, removed when dropped.
struct Files {
    sent: PathBuf,
    received: PathBuf,
}

impl Files {
    fn new() -> Result<Self> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = reaper::process_dir()?;
        Ok(Self {
            sent: dir.join(format!("sent-{number}")),
            received: dir.join(format!("received-{number}")),
        })
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        for path in [&self.sent, &self.received] {
            // Not there yet if something failed early; the watcher removes the directory anyway.
            let _removed = fs::remove_file(path);
        }
    }
}

fn send(mut stream: TcpStream, path: &Path) -> Result<()> {
    stream.set_write_timeout(Some(STALL_LIMIT))?;
    io::copy(&mut File::open(path)?, &mut stream)?;
    stream.shutdown(Shutdown::Write)?;
    Ok(())
}

fn receive(mut stream: TcpStream, path: &Path) -> Result<()> {
    stream.set_read_timeout(Some(STALL_LIMIT))?;
    io::copy(&mut stream, &mut File::create(path)?)?;
    Ok(())
}

fn sha256(path: &Path) -> Result<String> {
    let line = crate::run(&format!("sha256sum {}", path.display()))?;
    Ok(line
        .split_whitespace()
        .next()
        .context("sha256sum printed nothing")?
        .to_owned())
}
