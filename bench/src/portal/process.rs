//! The portal itself, as a process.

use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use culvert_lab::culvert_program;
use culvert_lab::measure::Usage;
use culvert_link::Destination;
use culvert_wire::CLIENT_SESSION_PATH;
use culvert_wire::api::SetupAnswer;
use culvert_wire::token::{Bearer, Portal, Token};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::Serialize;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::sleep;

use super::rest::{Ask, Rest};

/// The limit for getting ready: the portal reads 10,000 resources and as many policies.
const READY_LIMIT: Duration = Duration::from_secs(60);

/// The interval between two checks of readiness.
const ASK_EVERY: Duration = Duration::from_millis(20);

/// The processors that the portal may use.
const PROCESSORS: usize = 2;

/// A portal that runs, and its owner.
pub(crate) struct Process {
    child: Child,
    listen: SocketAddr,
    portal: Portal,
    owner: Bearer,
    state: TempDir,
}

impl Process {
    /// Starts one with an empty database, and becomes its owner.
    pub(crate) async fn start() -> Result<Self> {
        Self::start_at(IpAddr::V4(Ipv4Addr::LOCALHOST)).await
    }

    /// The same, at an address of this machine.
    pub(crate) async fn start_at(address: IpAddr) -> Result<Self> {
        let state = tempfile::tempdir()?;
        let any = TcpListener::bind((address, 0))?;
        let listen = any.local_addr()?;
        drop(any);
        let mut child = spawn(listen, &state)?;
        let invitation = match invitation(&mut child) {
            Ok(invitation) => invitation,
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(error);
            }
        };
        let portal = invitation
            .portal
            .context("a set-up token names its portal")?;
        let mut started = Self {
            child,
            listen,
            portal,
            owner: invitation.bearer,
            state,
        };
        started.become_ready().await?;
        let body = json!({"owner": "owner"});
        let answer = started.ask(&Ask::new("POST", "/setup").with(&body)).await?;
        let answer: SetupAnswer = serde_json::from_value(answer)?;
        let owner: Token = answer.token.secret.parse()?;
        started.owner = owner.bearer;
        Ok(started)
    }

    /// Ends it with the signal, and starts it again; returns once it is ready.
    pub(crate) async fn restart(&mut self, signal: Signal) -> Result<()> {
        self.end(signal).await?;
        self.begin().await
    }

    /// Ends it with the signal.
    pub(crate) async fn end(&mut self, signal: Signal) -> Result<()> {
        kill(self.pid()?, signal)?;
        while self.child.try_wait()?.is_none() {
            sleep(ASK_EVERY).await;
        }
        Ok(())
    }

    /// Starts it again after [`Self::end`].
    pub(crate) async fn begin(&mut self) -> Result<()> {
        self.child = spawn(self.listen, &self.state)?;
        self.become_ready().await
    }

    /// Its database, for nobody else while it runs.
    pub(crate) fn database(&self) -> PathBuf {
        self.state.path().join("portal/portal.db")
    }

    /// The address on which the portal listens.
    pub(crate) const fn listen(&self) -> SocketAddr {
        self.listen
    }

    pub(crate) const fn portal(&self) -> &Portal {
        &self.portal
    }

    /// The owner's credential.
    pub(crate) const fn owner(&self) -> &Bearer {
        &self.owner
    }

    async fn become_ready(&mut self) -> Result<()> {
        let deadline = Instant::now() + READY_LIMIT;
        let rest = Rest::new(&self.portal, &self.owner);
        while !rest.is_ready().await {
            if let Some(status) = self.child.try_wait()? {
                bail!("the portal has ended: {status}");
            }
            if Instant::now() > deadline {
                bail!("the portal is not ready after {} s", READY_LIMIT.as_secs());
            }
            sleep(ASK_EVERY).await;
        }
        Ok(())
    }

    fn pid(&self) -> Result<Pid> {
        Ok(Pid::from_raw(i32::try_from(self.child.id())?))
    }

    /// Resources that the process has used since its start.
    pub(crate) fn usage(&self) -> Result<Usage> {
        Usage::of(self.child.id())
    }

    /// The session's destination for a machine with this token.
    pub(crate) fn destination(&self, token: &str) -> Result<Destination> {
        let token: Token = token.parse()?;
        Ok(Destination {
            portal: self.portal.clone(),
            path: CLIENT_SESSION_PATH,
            credential: (&token.bearer).into(),
            mark: None,
            look_up: culvert_link::system_look_up,
            addresses: None,
        })
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value> {
        self.ask(&Ask::new("GET", path)).await
    }

    pub(crate) async fn post(&self, path: &str, body: &impl Serialize) -> Result<Value> {
        self.ask(&Ask::new("POST", path).with(body)).await
    }

    /// Changes this version of it.
    pub(crate) async fn patch(&self, path: &str, version: &Value, body: &Value) -> Result<Value> {
        let ask = Ask::new("PATCH", path).with(body);
        self.ask(&ask.if_match(format!("\"{version}\""))).await
    }

    async fn ask(&self, ask: &Ask) -> Result<Value> {
        Rest::new(&self.portal, &self.owner).ask(ask).await
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// On two processors, however many there are.
fn spawn(listen: SocketAddr, state: &TempDir) -> Result<Child> {
    let culvert = culvert_program()?;
    let available = std::thread::available_parallelism().map_or(PROCESSORS, usize::from);
    let mut command = match available > PROCESSORS {
        true => {
            let mut command = Command::new("taskset");
            command
                .arg("-c")
                .arg(format!("0-{}", PROCESSORS - 1))
                .arg(&culvert);
            command
        }
        false => Command::new(&culvert),
    };
    command
        .args(["portal", "run", "--log-level", "warn"])
        .args([
            "--listen",
            &listen.to_string(),
            "--url",
            &format!("https://{listen}"),
        ])
        .arg("--state-dir")
        .arg(state.path().join("portal"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    command
        .spawn()
        .with_context(|| format!("cannot start {}", culvert.display()))
}

/// The set-up token that a first start prints.
fn invitation(child: &mut Child) -> Result<Token> {
    let printed = child.stdout.take().context("the portal's output")?;
    for line in BufReader::new(printed).lines() {
        let line = line?;
        let found = line.split('\'').find(|word| word.starts_with("cv_setup_"));
        if let Some(token) = found {
            return Ok(token.parse()?);
        }
    }
    bail!("the portal ended without a set-up token")
}
