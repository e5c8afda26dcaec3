//! Programs that run inside a namespace.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, mpsc};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::measure::Usage;
use crate::named::Named;
use crate::reaper;
use crate::wait::wait_until;

/// The number of lines of output that a failing test prints, from the end.
const PRINTED_OUTPUT_MAX_LINES: usize = 60;

/// A program that is asked to end finishes what is under way, on a machine that may compile.
const STOP_DEADLINE: Duration = Duration::from_secs(20);

/// A running program. Dropping it kills it; if a test is failing just then, its output is printed.
#[derive(Debug)]
pub struct Process {
    child: Child,
    line: String,
    output_path: PathBuf,
    /// Keeps the namespace at least as long as the program.
    _namespace: Arc<Named>,
}

impl Process {
    pub(crate) fn start(namespace: Arc<Named>, mut command: Command, line: &str) -> Result<Self> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let output_path = reaper::process_dir()?.join(format!("output-{number}.txt"));
        let output = File::create(&output_path)
            .with_context(|| format!("cannot make {}", output_path.display()))?;
        command.stdout(output.try_clone()?).stderr(output);
        let child = spawn(command).with_context(|| format!("cannot start `{line}`"))?;
        Ok(Self {
            child,
            line: line.to_owned(),
            output_path,
            _namespace: namespace,
        })
    }

    /// Its process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its output so far, standard output and error together.
    #[must_use]
    pub fn output(&self) -> String {
        // All output is worth showing, valid text or not.
        fs::read(&self.output_path)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// True if it still runs.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn is_running(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// Waits for its end and returns its exit status.
    ///
    /// # Errors
    /// When it still runs after `deadline`.
    pub fn wait(&mut self, deadline: Duration) -> Result<ExitStatus> {
        let what = format!("the end of `{}`", self.line);
        let child = &mut self.child;
        let mut status = None;
        wait_until(&what, deadline, || {
            status = child.try_wait().unwrap_or(None);
            status.is_some()
        })?;
        status.context("it has just ended")
    }

    /// Waits for its end; anything but success is an error that shows its output.
    ///
    /// # Errors
    /// When it still runs after `deadline`, or fails.
    pub fn succeed(&mut self, deadline: Duration) -> Result<String> {
        let status = self.wait(deadline)?;
        let output = self.output();
        if !status.success() {
            bail!("`{}` failed ({status}): {}", self.line, output.trim());
        }
        Ok(output)
    }

    /// Waits until it has printed `text`.
    ///
    /// # Errors
    /// When it ends or `deadline` passes before.
    pub fn wait_for_output(&mut self, text: &str, deadline: Duration) -> Result<()> {
        let mut ended = false;
        wait_until(
            &format!("`{}` to print '{text}'", self.line),
            deadline,
            || {
                // In this order: what was printed before the end counts.
                ended = !self.is_running().unwrap_or(false);
                self.output().contains(text) || ended
            },
        )?;
        if ended && !self.output().contains(text) {
            bail!("`{}` ended early: {}", self.line, self.output().trim());
        }
        Ok(())
    }

    /// Asks it to end (SIGTERM), without waiting.
    ///
    /// # Errors
    /// When it is gone already.
    pub fn terminate(&self) -> Result<()> {
        self.signal(Signal::TERM)
    }

    /// Asks it to end, and waits until it has.
    ///
    /// # Errors
    /// When it is gone already, or does not end within 20 s with status 0.
    pub fn stop(self) -> Result<()> {
        self.end_by(Signal::TERM)
    }

    /// Asks it to end for a restart (SIGUSR2), and waits until it has.
    ///
    /// # Errors
    /// As [`Process::stop`].
    pub fn stop_for_restart(self) -> Result<()> {
        self.end_by(Signal::USR2)
    }

    fn end_by(mut self, signal: Signal) -> Result<()> {
        self.signal(signal)?;
        self.succeed(STOP_DEADLINE).map(drop)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        kill_process(Pid::from_child(&self.child), signal)
            .with_context(|| format!("cannot signal `{}`", self.line))
    }

    /// Stops its clock: it does nothing until [`Process::resume`].
    ///
    /// # Errors
    /// When it is gone already.
    pub fn pause(&self) -> Result<()> {
        kill_process(Pid::from_child(&self.child), Signal::STOP)
            .with_context(|| format!("cannot pause `{}`", self.line))
    }

    /// Lets it go on.
    ///
    /// # Errors
    /// When it is gone already.
    pub fn resume(&self) -> Result<()> {
        kill_process(Pid::from_child(&self.child), Signal::CONT)
            .with_context(|| format!("cannot resume `{}`", self.line))
    }

    /// Kills it and waits until it is gone.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// The processor time and memory it has used.
    ///
    /// # Errors
    /// When it has ended.
    pub fn usage(&self) -> Result<Usage> {
        Usage::of(self.id())
    }

    /// The file with its output, which is deleted with the process that made it.
    #[must_use]
    pub fn output_path(&self) -> &Path {
        &self.output_path
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // There is nobody left to tell.
        let _killed = self.kill();
        if thread::panicking() {
            let output = self.output();
            let lines: Vec<_> = output.lines().collect();
            let shown = &lines[lines.len().saturating_sub(PRINTED_OUTPUT_MAX_LINES)..];
            eprintln!("--- output of `{}`:\n{}\n---", self.line, shown.join("\n"));
        }
        // The watcher removes the directory in any case.
        let _removed = fs::remove_file(&self.output_path);
    }
}

/// Spawns it from a thread that lives as long as this process. The kernel kills such a command with the *thread* that
/// spawned it, and a test may start one on a thread that ends before the test does.
fn spawn(command: Command) -> io::Result<Child> {
    type Order = (Command, mpsc::Sender<io::Result<Child>>);
    static ORDERS: LazyLock<mpsc::Sender<Order>> = LazyLock::new(|| {
        let (orders, taken) = mpsc::channel::<Order>();
        thread::spawn(move || {
            for (mut command, answer) in taken {
                let _ = answer.send(command.spawn());
            }
        });
        orders
    });
    let ended = || io::Error::other("the thread that starts commands has ended");
    let (answer, spawned) = mpsc::channel();
    ORDERS.send((command, answer)).map_err(|_| ended())?;
    spawned.recv().map_err(|_| ended())?
}
