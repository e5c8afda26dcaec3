//! The plain TUN proxy by event model, the product's engine with each cipher, and the bare link (R20).

use std::fs::{self, File, Permissions};
use std::io::Write as _;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::ValueEnum;
use culvert_io_models::Model;
use culvert_lab::measure::TcpLoad;
use culvert_lab::{Implementation, Namespace, Process, wait_until};

use super::counted::gigabytes;
use super::lab::{Lab, Scope, in_turn};
use super::sheet::{At, Sheet};
use crate::bed::Bed;
use crate::subject::{Kind, Means, Subject};
use crate::udp;

/// The file of the originating document.
const FILE_BYTES: u64 = 512 << 20;

/// The number of copies in a full run.
const COPIES: u32 = 10;

/// Longer than the slowest tunnel takes for one copy.
const COPY_DEADLINE: Duration = Duration::from_secs(120);

const SSH_PORT: u16 = 2222;

/// Fast where the processor has instructions for AES, so that it is not ssh alone that is measured.
const SSH_CIPHER: &str = "aes128-gcm@openssh.com";

/// Measures a round.
pub(crate) fn run(lab: &Lab, sheet: &mut Sheet) -> Result<()> {
    let files = match SshFiles::make() {
        Ok(files) => Some(files),
        Err(error) => {
            sheet.note("scp", Err(error));
            None
        }
    };
    let subjects = subjects();
    let round = lab.round();
    for subject in in_turn(&subjects.iter().collect::<Vec<_>>(), round) {
        lab.progress(subject.name);
        let result = measure(lab, sheet, subject, files.as_ref(), round);
        sheet.note(subject.name, result);
        lab.keep(sheet)?;
    }
    Ok(())
}

fn subjects() -> Vec<Subject> {
    let subject = |name, kind, means| Subject { name, kind, means };
    let wg = |arguments| Means::WireGuard(Implementation::culvert_with(arguments));
    let mut subjects = vec![subject("direct", Kind::Direct, Means::Link)];
    let plain = |model: &Model| subject(model.name(), Kind::Peer, Means::Plain(*model));
    subjects.extend(Model::value_variants().iter().map(plain));
    subjects.push(subject("culvert", Kind::Product, wg("")));
    subjects.push(subject(
        "culvert-aes",
        Kind::ProductAes,
        wg("--cipher aes256gcm"),
    ));
    subjects
}

fn measure(
    lab: &Lab,
    sheet: &mut Sheet,
    subject: &Subject,
    files: Option<&SshFiles>,
    round: u32,
) -> Result<()> {
    let bed = Bed::new(subject)?;
    let effort = lab.effort();
    let row = subject.name;
    let mut add = |column: &str, value| {
        let table = "event models";
        sheet.add(At { table, row, column }, value);
    };
    let before = bed.cpu()?;
    let tcp = bed
        .iperf
        .tcp(&bed.client, &TcpLoad::forward(effort.tcp_s))?;
    add("TCP, Gbit/s", tcp.bits_per_second / 1e9);
    if let (Some(before), Some(after)) = (before, bed.cpu()?) {
        let cpu = (after - before).as_secs_f64();
        add(
            "CPU of both ends, s/GB",
            cpu / gigabytes(tcp.received_bytes),
        );
    }
    let reverse = TcpLoad {
        reverse: true,
        ..TcpLoad::forward(effort.tcp_s)
    };
    let tcp = bed.iperf.tcp(&bed.client, &reverse)?;
    add("TCP reverse, Gbit/s", tcp.bits_per_second / 1e9);
    let rate = udp::loss_free_rate_of_datagrams(&bed, &effort);
    add("UDP 1350 B, Gbit/s", rate / 1e9);
    let overload = udp::overload(&bed, &effort, rate)?;
    add(
        "overloaded: sent, Gbit/s",
        overload.sent_bits_per_second / 1e9,
    );
    add("… arrives, Gbit/s", overload.bits_per_second / 1e9);
    add("… lost, %", 100.0 * overload.lost_share);
    if let Some(files) = files {
        let copies = match lab.scope() {
            Scope::Quick => 1,
            // The rounds share them out.
            Scope::Full => COPIES * round / lab.rounds() - COPIES * (round - 1) / lab.rounds(),
        };
        let server = files.serve(&bed)?;
        let mut took = Duration::ZERO;
        for _ in 0..copies {
            took += files.copy(&bed, &server)?;
        }
        // Copies of one round share what makes rounds differ: they are one measurement.
        add(
            "scp of 512 MiB, MB/s",
            gigabytes(FILE_BYTES) * 1e3 * f64::from(copies) / took.as_secs_f64(),
        );
    }
    Ok(())
}

/// Keys, a configuration and a file for `sshd` and `scp`.
struct SshFiles {
    dir: tempfile::TempDir,
    sshd: PathBuf,
}

impl SshFiles {
    fn make() -> Result<Self> {
        let sshd = PathBuf::from("/usr/sbin/sshd");
        anyhow::ensure!(
            sshd.exists() && culvert_lab::find("scp").is_some(),
            "scp or sshd is missing (Debian: apt-get install openssh-client openssh-server)"
        );
        let dir = tempfile::tempdir_in(culvert_lab::process_dir()?)?;
        let key = |name: &str| {
            let path = dir.path().join(name);
            make_key(&path).map(|()| path)
        };
        let (host, user) = (key("host")?, key("user")?);
        fs::copy(user.with_extension("pub"), dir.path().join("authorized"))?;
        // Without a password, a login record and a look at who is root, nothing but a copy is done.
        let text = format!(
            "HostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nPasswordAuthentication no\n\
             PermitRootLogin prohibit-password\nUsePAM no\nPidFile none\nSubsystem sftp internal-sftp\n",
            host.display(),
            dir.path().join("authorized").display(),
        );
        fs::write(dir.path().join("config"), text)?;
        // Written and not only made long, so that it is in memory when the first copy begins.
        let mut file = File::create(dir.path().join("file"))?;
        let block = vec![0; 1 << 20];
        for _ in 0..FILE_BYTES / block.len() as u64 {
            file.write_all(&block)?;
        }
        fs::set_permissions(dir.path(), Permissions::from_mode(0o700))?;
        // If sshd separates privileges, it wants this directory.
        fs::create_dir_all("/run/sshd").context("cannot make /run/sshd")?;
        Ok(Self { dir, sshd })
    }

    /// A server behind the subject; it goes with what is returned.
    fn serve(&self, bed: &Bed<'_>) -> Result<Process> {
        let address = bed.server_address;
        prefer_cubic(&bed.client, address)?;
        let server = bed.server.spawn(&format!(
            "{} -D -e -f {} -p {SSH_PORT} -o ListenAddress={address}",
            self.sshd.display(),
            self.dir.path().join("config").display()
        ))?;
        wait_until("sshd", Duration::from_secs(10), || {
            let listening = bed.server.run(&format!("ss -Hltn sport = :{SSH_PORT}"));
            listening.is_ok_and(|lines| !lines.trim().is_empty())
        })
        .with_context(|| server.output())?;
        Ok(server)
    }

    /// Copies the file through the subject, to where nothing is kept: the disk is not the question.
    fn copy(&self, bed: &Bed<'_>, server: &Process) -> Result<Duration> {
        let began = Instant::now();
        let mut copy = bed.client.spawn(&format!(
            "scp -q -c {SSH_CIPHER} -P {SSH_PORT} -i {key} -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null \
             -o LogLevel=ERROR {file} root@{address}:/dev/null",
            key = self.dir.path().join("user").display(),
            file = self.dir.path().join("file").display(),
            address = bed.server_address,
        ))?;
        copy.succeed(COPY_DEADLINE)
            .with_context(|| server.output())?;
        Ok(began.elapsed())
    }
}

/// Has connections to `address` use what iperf3 uses in all that is measured. By their route, because a namespace
/// may only have as its default what the machine allows everybody.
fn prefer_cubic(namespace: &Namespace, address: IpAddr) -> Result<()> {
    let route = namespace.run(&format!("ip -o route get {address}"))?;
    let words: Vec<_> = route.split_whitespace().collect();
    let after = |name| {
        let at = words.iter().position(|word| *word == name)?;
        words.get(at + 1).copied()
    };
    let (Some(device), Some(source)) = (after("dev"), after("src")) else {
        anyhow::bail!("no way to {address}: {route}");
    };
    namespace.run(&format!(
        "ip route replace {address} dev {device} src {source} congctl cubic"
    ))?;
    Ok(())
}

/// Makes a key without a passphrase.
fn make_key(path: &Path) -> Result<()> {
    let output = std::process::Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-f"])
        .arg(path)
        .output()
        .context("cannot run ssh-keygen")?;
    anyhow::ensure!(
        output.status.success(),
        "ssh-keygen: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}
