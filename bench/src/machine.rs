//! On what the figures were measured.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::subject::Subject;

/// The machine that a run was made on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) processor: String,
    pub(crate) cores: usize,
    pub(crate) memory: String,
    pub(crate) kernel: String,
    iperf3: String,
}

impl Machine {
    pub(crate) fn this() -> Self {
        Self {
            processor: processor(),
            cores: thread::available_parallelism().map_or(0, usize::from),
            memory: field("/proc/meminfo", "MemTotal"),
            kernel: read("/proc/sys/kernel/osrelease"),
            iperf3: first_line("iperf3"),
        }
    }

    /// True if figures of the two machines may be compared. The memory size is not compared: kernels leave a
    /// little more or less of it at each start.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        (&self.processor, self.cores, &self.kernel)
            == (&other.processor, other.cores, &other.kernel)
    }
}

/// The time in which a host takes back a few gigabytes that its guest has freed.
const IDLE_PAUSE: Duration = Duration::from_secs(10);

/// `VIRTIO_BALLOON_F_REPORTING` (virtio 1.2, §5.5.3): the guest tells its host which pages are free.
const REPORTS_FREE_PAGES: usize = 5;

/// Waits for the memory that builds and measurements before have freed. A virtual machine may hand it back to its host;
/// until that is done it slows down whatever takes memory, and no processor time shows it.
pub(crate) fn wait_until_idle() {
    if reports_free_pages() {
        eprintln!(
            "waiting {} s: this machine hands freed memory back to its host",
            IDLE_PAUSE.as_secs()
        );
        thread::sleep(IDLE_PAUSE);
    }
}

fn reports_free_pages() -> bool {
    let balloons = fs::read_dir("/sys/bus/virtio/drivers/virtio_balloon");
    balloons.into_iter().flatten().flatten().any(|balloon| {
        fs::read_to_string(balloon.path().join("features"))
            .is_ok_and(|features| features.as_bytes().get(REPORTS_FREE_PAGES) == Some(&b'1'))
    })
}

/// The version of a subject: what `scripts/peers.sh` noted beside the program, or what the program
/// itself says.
pub(crate) fn version(subject: &Subject) -> Option<String> {
    let program = subject.implementation()?.program().ok()?;
    let noted = fs::read_to_string(program.with_extension("version")).ok();
    Some(noted.map_or_else(
        || first_line(&program.to_string_lossy()),
        |noted| noted.trim().to_owned(),
    ))
}

/// The commit of the checkout, with a plus where files were changed since; nothing where there is no git.
pub(crate) fn commit() -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git")
            .arg("-C")
            .arg(culvert_lab::workspace_dir())
            .args(arguments)
            .output()
            .ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "--short", "HEAD"]) else {
        return String::new();
    };
    // Files that the study itself writes are no change to the measured program.
    let changed = git(&["status", "--porcelain", "--", ".", ":!docs"]);
    match changed.as_deref() {
        Some("") => commit,
        _ => commit + "+",
    }
}

/// The first line of what `PROGRAM --version` prints.
fn first_line(program: &str) -> String {
    let output = Command::new(program).arg("--version").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    text.unwrap_or_default()
        .lines()
        .next()
        .unwrap_or_default()
        .to_owned()
}

/// The name of the processor. Hosts that hide its name tell the generation by numbers, and ciphers are twice as fast on
/// the one as on the other.
fn processor() -> String {
    let of = |name| field("/proc/cpuinfo", name);
    let (name, family, model) = (of("model name"), of("cpu family"), of("model\t"));
    match family.is_empty() {
        true => name,
        false => format!("{name}, family {family} model {model}"),
    }
}

/// The value of the first line `name : value` of a file.
fn field(path: &str, name: &str) -> String {
    let text = read(path);
    let line = text
        .lines()
        .find(|line| line.starts_with(name))
        .unwrap_or_default();
    line.split_once(':')
        .map(|(_, value)| value.trim().to_owned())
        .unwrap_or_default()
}

fn read(path: &str) -> String {
    fs::read_to_string(path)
        .unwrap_or_default()
        .trim()
        .to_owned()
}
