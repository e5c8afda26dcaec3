//! Portals as processes of their own on one database, and the shell of their administrator.

use crate::process::{Process, programs};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const CULVERT: &str = env!("CARGO_BIN_EXE_culvert");

/// The time for anything that a portal does by itself.
const SOON: Duration = Duration::from_secs(30);

/// A portal, which may have ended.
pub(crate) struct Running {
    process: Option<Child>,
    pub(crate) url: String,
    pub(crate) pin: String,
}

/// Portals with a site `office`, in it a resource `db`, which clients of `ci` may use.
pub(crate) struct Office {
    pub(crate) portals: Vec<Running>,
    pub(crate) client_token: String,
    pub(crate) gateway_token: String,
    server: Process,
    directory: TempDir,
}

/// The output of a command.
#[derive(Debug)]
pub(crate) struct Said(Output);

impl Said {
    /// Standard output of a command that succeeded.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert!(self.0.status.success(), "{self:?}");
        String::from_utf8(self.0.stdout).unwrap()
    }

    /// Standard output of an explanation that denies.
    #[track_caller]
    pub(crate) fn denies(self) -> String {
        assert_eq!(self.0.status.code(), Some(5), "{self:?}");
        String::from_utf8(self.0.stdout).unwrap()
    }
}

impl Office {
    pub(crate) fn with_portals(count: usize) -> Self {
        let server = Process::start();
        let made = Command::new(programs().join("createdb"))
            .args(["culvert", "--username=culvert"])
            .arg(format!("--host={}", server.socket.display()))
            .status();
        assert!(made.unwrap().success());
        let mut office = Self {
            portals: Vec::new(),
            client_token: String::new(),
            gateway_token: String::new(),
            server,
            directory: tempfile::tempdir().unwrap(),
        };
        for at in 0..count {
            let role = format!("CREATE ROLE portal_{at} SUPERUSER LOGIN");
            office.query("postgres", &role);
        }
        let (first, greeting) = office.begin(0);
        office.portals.push(first);
        let at = greeting.find("cv_setup_").unwrap();
        let setup = greeting[at..].split('\'').next().unwrap();
        office.given("setup --token-file - --owner ada", setup).ok();
        for line in [
            "site create office",
            "resource create db --site office --address 10.1.2.3 --allow tcp:5432",
            "actor create ci --kind service-account",
            "group create build --member ci",
            "policy create p --group build --resource db",
        ] {
            office.at(0, line).ok();
        }
        office.client_token = office.at(0, "token create --kind client --actor ci").ok();
        office.gateway_token = office
            .at(0, "token create --kind gateway --site office")
            .ok();
        for at in 1..count {
            let (portal, _) = office.begin(at);
            office.portals.push(portal);
        }
        office
    }

    /// Starts a portal, anew where it ran before.
    pub(crate) fn start(&mut self, at: usize) {
        self.portals[at] = self.begin(at).0;
    }

    fn begin(&self, at: usize) -> (Running, String) {
        let socket = self.server.socket.display();
        let mut child = Command::new(CULVERT)
            .args([
                "portal",
                "run",
                "--listen",
                "127.0.0.1:0",
                "--log-level",
                "error",
            ])
            .arg("--state-dir")
            .arg(self.directory.path().join(format!("portal-{at}")))
            .arg("--database")
            .arg(format!(
                "postgres:///culvert?host={socket}&user=portal_{at}"
            ))
            .env_remove("CREDENTIALS_DIRECTORY")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let until = match at {
            0 if self.portals.is_empty() => "cv_setup_",
            _ => "Certificate",
        };
        let mut greeting = String::new();
        for line in BufReader::new(child.stdout.as_mut().unwrap()).lines() {
            greeting += &format!("{}\n", line.unwrap());
            if greeting.contains(until) {
                break;
            }
        }
        let of = |name: &str| {
            let line = greeting.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_else(|| panic!("no {name}: {greeting}"))
                .to_owned()
        };
        let (url, pin) = (of("Portal: "), of("Certificate (SHA-256): "));
        let process = Some(child);
        (Running { process, url, pin }, greeting)
    }

    /// Runs `culvert admin` at a portal.
    pub(crate) fn at(&self, at: usize, line: &str) -> Said {
        Said(self.admin(at, line).output().unwrap())
    }

    fn admin(&self, at: usize, line: &str) -> Command {
        let mut command = Command::new(CULVERT);
        for variable in ["CULVERT_ADMIN_OUTPUT", "CULVERT_ADMIN_TOKEN", "NO_COLOR"] {
            command.env_remove(variable);
        }
        command
            .arg("admin")
            .args(line.split(' '))
            .env_remove("XDG_CONFIG_HOME")
            .env("HOME", self.directory.path())
            .stdin(Stdio::null());
        if at > 0 {
            let portal = &self.portals[at];
            command.env("CULVERT_ADMIN_PORTAL", &portal.url);
        }
        command
    }

    fn given(&self, line: &str, input: &str) -> Said {
        let mut command = self.admin(0, line);
        command.stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(format!("{input}\n").as_bytes()).unwrap();
        drop(stdin);
        Said(child.wait_with_output().unwrap())
    }

    pub(crate) fn running(&self) -> impl Iterator<Item = usize> {
        let running = self.portals.iter().enumerate();
        running.filter_map(|(at, portal)| portal.process.is_some().then_some(at))
    }

    /// The portal whose lease holds.
    pub(crate) fn leader(&self) -> usize {
        let end = Instant::now() + SOON;
        while Instant::now() < end {
            if let Some(leader) = self.leading() {
                return leader;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("no portal leads");
    }

    /// The server refuses the portals, as one that has ended does.
    pub(crate) fn take_database_away(&self) {
        self.query("postgres", "ALTER DATABASE culvert ALLOW_CONNECTIONS false");
        let end =
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'culvert'";
        self.query("postgres", end);
    }

    /// The server refuses one portal, as it does where the way to it is broken.
    pub(crate) fn cut_off(&self, at: usize) {
        self.query("postgres", &format!("ALTER ROLE portal_{at} NOLOGIN"));
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename";
        self.query("postgres", &format!("{end} = 'portal_{at}'"));
    }

    pub(crate) fn bring_database_back(&self) {
        self.query("postgres", "ALTER DATABASE culvert ALLOW_CONNECTIONS true");
    }

    /// The database as it would be after a restore to a state without a policy: the last changes are lost.
    pub(crate) fn lose_changes(&self) {
        self.query(
            "culvert",
            "BEGIN; DELETE FROM policy; \
             DELETE FROM change_log c USING account a WHERE c.account = a.account AND c.seq > a.last_seq - 2; \
             UPDATE account SET last_seq = last_seq - 2; COMMIT",
        );
    }

    /// The same, once as many others were made as were lost.
    pub(crate) fn exchange_changes(&self) {
        let other = "BEGIN; DELETE FROM policy; UPDATE change_log SET at_ms = at_ms - 1; COMMIT";
        self.query("culvert", other);
    }

    fn leading(&self) -> Option<usize> {
        let sql = "SELECT p.address FROM portal p JOIN portal_lead l ON l.portal = p.id \
                   WHERE l.until_ms > extract(epoch FROM clock_timestamp()) * 1000";
        let url = format!("https://{}", self.query("culvert", sql).trim());
        self.portals.iter().position(|portal| portal.url == url)
    }

    fn query(&self, database: &str, sql: &str) -> String {
        let output = Command::new(programs().join("psql"))
            .args(["--username=culvert", "--tuples-only", "--no-align"])
            .args([database, "-c", sql])
            .arg(format!("--host={}", self.server.socket.display()))
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) async fn wait_for_leader(&self, at: usize) {
        let end = Instant::now() + SOON;
        while self.leading() != Some(at) {
            assert!(Instant::now() < end, "portal {at} does not lead");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    fn signal(&self, at: usize, signal: Signal) {
        let process = self.portals[at].process.as_ref().unwrap();
        kill_process(Pid::from_child(process), signal).unwrap();
    }

    pub(crate) fn kill(&mut self, at: usize) {
        self.signal(at, Signal::KILL);
        self.portals[at].process.take().unwrap().wait().unwrap();
    }

    /// Asks a portal to stop, and does not wait for its end.
    pub(crate) fn terminate(&mut self, at: usize) {
        self.signal(at, Signal::TERM);
    }

    pub(crate) fn pause(&self, at: usize) {
        self.signal(at, Signal::STOP);
    }

    pub(crate) fn resume(&self, at: usize) {
        self.signal(at, Signal::CONT);
    }
}

impl Drop for Office {
    fn drop(&mut self) {
        for portal in &mut self.portals {
            if let Some(process) = &mut portal.process {
                let _ended = process.kill();
                let _status = process.wait();
            }
        }
    }
}
