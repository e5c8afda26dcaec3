//! A gateway.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use super::networks::{
    GATEWAY_NETS, PRIVATE_DNS_V4, PRIVATE_NET, PRIVATE_NETS, default_route, forward, join,
};
use super::private_files::private_dir;
use super::soon::SOON;
use crate::culvert_program;
use crate::link::Subnet;
use crate::namespace::Namespace;
use crate::process::Process;
use crate::service_manager::ServiceManager;
use culvert_base::Family;

/// A gateway.
#[derive(Debug)]
pub struct Gateway {
    /// Its network namespace.
    pub namespace: Namespace,
    /// Its name.
    pub name: String,
    /// Further arguments of `culvert gateway run`, for every start from here on.
    pub arguments: String,
    /// A shell script that gives it files of a machine of its own: mounts.
    pub machine: String,
    /// Its `/etc/resolv.conf`, for every start from here on.
    pub resolv_conf: String,
    /// The service manager that starts it, keeps its descriptors and hears its state; none if the
    /// test itself does.
    pub manager: Option<ServiceManager>,
    public_net: Subnet,
    private_net: Subnet,
    dir: PathBuf,
    process: Option<Process>,
}

impl Gateway {
    pub(super) fn new(
        number: u8,
        internet: &Namespace,
        private: &Namespace,
        dir: &Path,
    ) -> Result<Self> {
        let namespace = Namespace::new()?;
        let (public_net, private_net) =
            (Subnet(GATEWAY_NETS + number), Subnet(PRIVATE_NETS + number));
        join(internet, &namespace, public_net)?;
        default_route(&namespace, public_net)?;
        join(private, &namespace, private_net)?;
        forward(&namespace)?;
        for (network, via) in [
            (PRIVATE_NET, private_net.host(Family::V4, 1)),
            ("fd50::/64", private_net.host(Family::V6, 1)),
        ] {
            namespace.run(&format!("ip route add {network} via {via}"))?;
        }
        let name = format!("gateway-{}", number + 1);
        Ok(Self {
            namespace,
            dir: private_dir(dir, &name)?,
            name,
            arguments: String::new(),
            machine: String::new(),
            resolv_conf: format!("nameserver {PRIVATE_DNS_V4}\n"),
            manager: None,
            public_net,
            private_net,
            process: None,
        })
    }

    /// Its address on the lab's internet.
    #[must_use]
    pub fn public_address(&self, family: Family) -> IpAddr {
        self.public_net.host(family, 2)
    }

    /// Its interface on the lab's internet.
    #[must_use]
    pub fn public_interface(&self) -> String {
        format!("veth{}", self.public_net.0)
    }

    /// Gives it another address on the lab's internet in the place of the one that it has had from the
    /// beginning; the router stays where it is.
    ///
    /// # Errors
    /// When `ip` refuses, as it does the second time.
    pub fn move_away(&self, family: Family) -> Result<()> {
        let interface = self.public_interface();
        let [old, new, router] = [2, 77, 1].map(|host| self.public_net.host(family, host));
        let (len, option, flags) = match family {
            Family::V4 => (24, "-4", ""),
            Family::V6 => (64, "-6", "nodad"),
        };
        self.namespace
            .shell(&format!(
                "ip {option} address del {old}/{len} dev {interface} && \
                 ip {option} address add {new}/{len} dev {interface} {flags} && \
                 ip {option} route replace default via {router}"
            ))
            .map(drop)
    }

    /// Its address in the private network.
    #[must_use]
    pub fn private_address(&self, family: Family) -> IpAddr {
        self.private_net.host(family, 2)
    }

    /// The file with its token.
    #[must_use]
    pub fn token_file(&self) -> PathBuf {
        self.dir.join("token")
    }

    /// Starts it, for the first time or again, and waits until the portal has welcomed it.
    ///
    /// # Errors
    /// When that does not happen.
    pub fn start(&mut self) -> Result<()> {
        self.launch()?;
        self.is_welcomed_within(SOON)
    }

    /// Starts it, and waits for nothing.
    ///
    /// # Errors
    /// When it can't be started.
    pub fn launch(&mut self) -> Result<()> {
        let (before, command) = self.program()?;
        self.process = Some(match &self.manager {
            Some(manager) => manager.start(&self.namespace, &before, &command)?,
            None => self.namespace.spawn_script(&self.script()?)?,
        });
        Ok(())
    }

    /// Waits until the portal has welcomed it.
    ///
    /// # Errors
    /// When that does not happen before `deadline`.
    pub fn is_welcomed_within(&mut self, deadline: Duration) -> Result<()> {
        self.process()?
            .wait_for_output("connected to the portal", deadline)
    }

    /// The script that starts it.
    ///
    /// # Errors
    /// When there is no program.
    pub fn script(&self) -> Result<String> {
        let (before, command) = self.program()?;
        Ok(format!("{before}\nexec {command}"))
    }

    /// The shell commands before the start, and the command that starts it.
    fn program(&self) -> Result<(String, String)> {
        let culvert = culvert_program()?;
        let resolvers = self.dir.join("resolv.conf");
        fs::write(&resolvers, &self.resolv_conf)?;
        let before = format!(
            "{}\nmount --bind {} /etc/resolv.conf",
            self.machine,
            resolvers.display()
        );
        let command = format!(
            "env CULVERT_GATEWAY_STATUS_SOCKET={} {} gateway run --token-file {} --state-dir {} --name {} {}",
            self.socket().display(),
            culvert.display(),
            self.token_file().display(),
            self.state_dir().display(),
            self.name,
            self.arguments
        );
        Ok((before, command))
    }

    /// The directory with its key and its grants.
    #[must_use]
    pub fn state_dir(&self) -> PathBuf {
        self.dir.join("state")
    }

    /// The socket at which it reports its status. Gateways of one machine would share the usual
    /// path.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.dir.join("run/gateway.sock")
    }

    /// The output of `culvert gateway status --json`.
    ///
    /// # Errors
    /// When it says nothing.
    pub fn status(&self) -> Result<serde_json::Value> {
        let text = self.namespace.run(&format!(
            "{} gateway status --json --socket {}",
            culvert_program()?.display(),
            self.socket().display()
        ))?;
        Ok(serde_json::from_str(&text)?)
    }

    /// Its log so far.
    #[must_use]
    pub fn output(&self) -> String {
        self.process
            .as_ref()
            .map_or_else(String::new, Process::output)
    }

    /// The running process.
    ///
    /// # Errors
    /// When there is none.
    pub fn process(&mut self) -> Result<&mut Process> {
        self.process.as_mut().context("the gateway does not run")
    }

    /// Asks it to end, and waits until it has.
    ///
    /// # Errors
    /// When there is none, or it does not end.
    pub fn stop(&mut self) -> Result<()> {
        let process = self.process.take().context("the gateway does not run")?;
        process.stop()?;
        if let Some(manager) = &self.manager {
            manager.release();
        }
        Ok(())
    }

    /// Has it end for a restart, starts it again, and waits until the portal has welcomed it.
    ///
    /// # Errors
    /// When there is none, or that does not happen.
    pub fn restart(&mut self) -> Result<()> {
        let process = self.process.take().context("the gateway does not run")?;
        process.stop_for_restart()?;
        self.start()
    }

    /// Kills it.
    ///
    /// # Errors
    /// When there is none.
    pub fn kill(&mut self) -> Result<()> {
        self.process
            .take()
            .context("the gateway does not run")?
            .kill()
    }
}
