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

/// The limit for getting ready: the portal reads 10,000 resources and as many policies, while 10,000 clients come.
const READY_LIMIT: Duration = Duration::from_secs(180);

/// The interval between two checks of readiness.
const ASK_EVERY: Duration = Duration::from_millis(20);

/// The processors that the portal may use.
const PROCESSORS: usize = 2;

/// A portal that runs, and its owner.
pub(crate) struct Process {
    child: Child,
    place: Place,
    /// As tokens name it.
    portal: Portal,
    owner: Bearer,
}

/// All that stays when a portal is started again.
struct Place {
    listen: SocketAddr,
    url: String,
    /// The URL of a database on a server.
    database: Option<String>,
    state: TempDir,
}

impl Process {
    /// Starts one with an empty database, and becomes its owner.
    pub(crate) async fn start() -> Result<Self> {
        Self::start_at(IpAddr::V4(Ipv4Addr::LOCALHOST)).await
    }

    /// The same, at an address of this machine.
    pub(crate) async fn start_at(address: IpAddr) -> Result<Self> {
        Self::start_on(address, None).await
    }

    /// The same, on an empty database of a server.
    pub(crate) async fn start_on(address: IpAddr, database: Option<String>) -> Result<Self> {
        let listen = unused(address)?;
        let place = Place {
            listen,
            url: format!("https://{listen}"),
            database,
            state: tempfile::tempdir()?,
        };
        let mut child = place.spawn()?;
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
            place,
            portal,
            owner: invitation.bearer,
        };
        started.become_ready().await?;
        let body = json!({"owner": "owner"});
        let answer = started.ask(&Ask::new("POST", "/setup").with(&body)).await?;
        let answer: SetupAnswer = serde_json::from_value(answer)?;
        let owner: Token = answer.token.secret.parse()?;
        started.owner = owner.bearer;
        Ok(started)
    }

    /// Starts another portal on the same database, at an address of its own. Tokens name this one.
    pub(crate) async fn start_another(&self, address: IpAddr) -> Result<Self> {
        let place = Place {
            listen: unused(address)?,
            url: self.place.url.clone(),
            database: self.place.database.clone(),
            state: tempfile::tempdir()?,
        };
        let mut started = Self {
            child: place.spawn()?,
            place,
            portal: self.portal.clone(),
            owner: self.owner.clone(),
        };
        started.become_ready().await?;
        Ok(started)
    }

    /// Sends it the signal.
    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill(self.pid()?, signal)?)
    }

    /// Returns once it has ended.
    pub(crate) async fn ended(&mut self) -> Result<()> {
        while self.child.try_wait()?.is_none() {
            sleep(ASK_EVERY).await;
        }
        Ok(())
    }

    /// Ends it with the signal.
    pub(crate) async fn end(&mut self, signal: Signal) -> Result<()> {
        self.signal(signal)?;
        self.ended().await
    }

    /// Starts it again after its end.
    pub(crate) fn spawn_again(&mut self) -> Result<()> {
        self.child = self.place.spawn()?;
        Ok(())
    }

    /// Starts it again after its end, and returns once it is ready.
    pub(crate) async fn begin(&mut self) -> Result<()> {
        self.spawn_again()?;
        self.become_ready().await
    }

    /// Has it start on a database of a server from now on.
    pub(crate) fn move_to(&mut self, database: String) {
        self.place.database = Some(database);
    }

    /// Its database, for nobody else while it runs.
    pub(crate) fn database(&self) -> PathBuf {
        self.state_dir().join("portal.db")
    }

    /// Its state directory.
    pub(crate) fn state_dir(&self) -> PathBuf {
        self.place.state_dir()
    }

    /// The address on which the portal listens.
    pub(crate) const fn listen(&self) -> SocketAddr {
        self.place.listen
    }

    pub(crate) const fn portal(&self) -> &Portal {
        &self.portal
    }

    /// The owner's credential.
    pub(crate) const fn owner(&self) -> &Bearer {
        &self.owner
    }

    /// Returns once it is ready.
    pub(crate) async fn become_ready(&mut self) -> Result<()> {
        let deadline = Instant::now() + READY_LIMIT;
        let itself = Portal {
            url: format!("https://{}", self.place.listen),
            ..self.portal.clone()
        };
        let rest = Rest::new(&itself, &self.owner);
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

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
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
            proxy: None,
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

    /// Does something with any version of an object.
    pub(crate) async fn act(&self, path: &str) -> Result<Value> {
        self.ask(&Ask::new("POST", path).if_match("*".to_owned()))
            .await
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

/// An address and port that nobody listens on at the moment.
fn unused(address: IpAddr) -> Result<SocketAddr> {
    Ok(TcpListener::bind((address, 0))?.local_addr()?)
}

impl Place {
    fn state_dir(&self) -> PathBuf {
        self.state.path().join("portal")
    }

    /// On two processors, however many there are.
    fn spawn(&self) -> Result<Child> {
        let culvert = culvert_program()?;
        let available = std::thread::available_parallelism().map_or(PROCESSORS, usize::from);
        let mut command = match available > PROCESSORS {
            true => {
                let mut command = Command::new("taskset");
                let processors = format!("0-{}", PROCESSORS - 1);
                command.args(["-c", &processors]).arg(&culvert);
                command
            }
            false => Command::new(&culvert),
        };
        if let Some(database) = &self.database {
            command.env("CULVERT_PORTAL_DATABASE", database);
        }
        let listen = self.listen.to_string();
        command
            .args(["portal", "run", "--log-level", "warn"])
            .args(["--listen", &listen, "--url", &self.url])
            .arg("--state-dir")
            .arg(self.state_dir())
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        command
            .spawn()
            .with_context(|| format!("cannot start {}", culvert.display()))
    }
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
