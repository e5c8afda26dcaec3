//! A portal behind a reverse proxy of Debian's, which is configured as `docs/behind-a-proxy.md` says.

use crate::common::{SOON, access};
use anyhow::{Context, Result, bail};
use culvert_lab::product::Product;
use culvert_lab::{Process, culvert_program, documented, peer_program, wait_until};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// As the document has it.
const NAME: &str = "portal.example";
pub(crate) const URL: &str = "https://portal.example";
/// The portal's machine on the lab's internet, where the proxy listens as well.
const MACHINE: &str = "10.200.10.2";
/// The client's router, as the proxy sees it.
pub(crate) const ROUTER: &str = "10.200.13.2";

pub(crate) const PASSWORD: &str = "correct horse battery";

/// The reverse proxies of the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Nginx,
    HaProxy,
    Caddy,
}

impl Kind {
    /// The program, and the language of its block in the document.
    const fn name(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
            Self::HaProxy => "haproxy",
            Self::Caddy => "caddy",
        }
    }

    /// The configuration that the document prints.
    pub(crate) fn documented(self) -> String {
        documented("docs/behind-a-proxy.md", self.name()).unwrap()
    }

    /// The files around that configuration in `dir`, and the command that runs it.
    fn prepare(self, dir: &Path, configuration: &str) -> Result<String> {
        fs::write(dir.join("documented"), configuration)?;
        let program = peer_program(self.name())?;
        let (program, dir) = (program.display(), dir.display());
        let (around, command) = match self {
            // One process, which is killed as a whole.
            Self::Nginx => (
                format!(
                    "daemon off; master_process off; pid {dir}/pid; error_log stderr;\n\
                     events {{}}\n\
                     http {{\n access_log off; client_body_temp_path {dir}/1; proxy_temp_path {dir}/2;\n \
                     fastcgi_temp_path {dir}/3; uwsgi_temp_path {dir}/4; scgi_temp_path {dir}/5;\n \
                     include {dir}/documented;\n}}\n"
                ),
                format!("{program} -e stderr -c {dir}/around"),
            ),
            // The times of Debian's own file.
            Self::HaProxy => (
                "defaults\n timeout connect 5000\n timeout client 50000\n timeout server 50000\n"
                    .to_owned(),
                format!("{program} -db -f {dir}/around -f {dir}/documented"),
            ),
            Self::Caddy => (
                String::new(),
                format!(
                    "env HOME={dir} XDG_CONFIG_HOME={dir} XDG_DATA_HOME={dir} {program} run \
                     --adapter caddyfile --config {dir}/documented"
                ),
            ),
        };
        fs::write(format!("{dir}/around"), around)?;
        Ok(command)
    }
}

/// A portal, a proxy, and a client's machine that knows the proxy by the document's name.
pub(crate) struct Scene {
    pub(crate) product: Product,
    proxy: Option<Process>,
    dir: PathBuf,
}

impl Scene {
    /// The portal is started as the document says, and has an owner who may sign in.
    pub(crate) fn new() -> Result<Self> {
        let mut product = Product::networks(0)?;
        let dir = product.dir().join("proxy");
        let culvert_dir = dir.join("etc/culvert");
        fs::create_dir_all(&culvert_dir)?;
        certificate(&culvert_dir)?;
        let etc = dir.join("etc");
        fs::write(
            etc.join("hosts"),
            format!("127.0.0.1 localhost\n{MACHINE} {NAME}\n"),
        )?;
        // By whom nginx runs, unless it is told otherwise.
        fs::write(
            etc.join("passwd"),
            "root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n",
        )?;
        fs::write(etc.join("group"), "root:x:0:\nnogroup:x:65534:\n")?;
        fs::write(etc.join("nsswitch.conf"), "hosts: files\n")?;
        product.portal.front = Some(URL.to_owned());
        product.portal.arguments = format!(
            "--trusted-proxy 127.0.0.1 --cert {0}/portal.pem --key {0}/portal.key",
            culvert_dir.display()
        );
        product.client.machine = format!("mount --bind {}/hosts /etc/hosts", etc.display());
        product.portal.start_set_up(&access())?;
        fs::copy(
            product.portal.home().join("client-laptop.token"),
            product.client.token_file(),
        )?;
        let scene = Self {
            product,
            proxy: None,
            dir,
        };
        scene.owner_signs_in()?;
        Ok(scene)
    }

    /// Starts a proxy in the place of the one that runs, and waits until it passes requests on.
    pub(crate) fn put_in_front(&mut self, kind: Kind, configuration: &str) -> Result<()> {
        self.proxy = None;
        let command = kind.prepare(&self.dir, configuration)?;
        let etc = self.dir.join("etc");
        let script = format!("mount --bind {} /etc\nexec {command}", etc.display());
        let process = self.product.portal.namespace.spawn_script(&script)?;
        let process = self.proxy.insert(process);
        let what = format!("{kind:?} to answer");
        let at = format!("curl -ks -o /dev/null -m 10 --resolve {NAME}:443:{MACHINE} {URL}/");
        let client = &self.product.client.namespace;
        let answers = || client.outcome(&at).is_ok_and(|it| it.status.success());
        wait_until(&what, SOON, answers).with_context(|| process.output())
    }

    /// The answer that curl at the client's machine gets for these arguments and this path: the status, then
    /// head and body.
    pub(crate) fn browse(&self, arguments: &str, path: &str) -> Result<(u16, String)> {
        let line = format!(
            "curl -sS -i -m 10 --cacert {}/etc/culvert/portal.pem --resolve {NAME}:443:{MACHINE} \
             -H Accept:text/html {arguments} {URL}{path}",
            self.dir.display()
        );
        let text = self.product.client.namespace.run(&line)?;
        let status = text.split(' ').nth(1).and_then(|it| it.parse().ok());
        Ok((status.context("no status")?, text))
    }

    /// Sends the form of the sign-in page, as browsers send it.
    pub(crate) fn sign_in(&self) -> Result<(u16, String)> {
        let password = PASSWORD.replace(' ', "+");
        let form = format!(
            "-H Origin:{URL} -H Sec-Fetch-Site:same-origin --data name=owner&password={password}"
        );
        self.browse(&form, "/sign-in")
    }

    /// The report of `culvert netcheck` at the client's machine, and its exit status.
    pub(crate) fn netcheck(&self) -> Result<(i32, Vec<Value>)> {
        let client = &self.product.client;
        let script = format!(
            "{}\nexec {} netcheck --json --socket {} --token-file {}",
            client.machine,
            culvert_program()?.display(),
            client.socket().display(),
            client.token_file().display()
        );
        let outcome = client.namespace.outcome_of_script(&script)?;
        let said: Value = serde_json::from_slice(&outcome.stdout)
            .with_context(|| format!("{:?}", String::from_utf8_lossy(&outcome.stderr)))?;
        let findings = said["findings"].as_array().context("no findings")?;
        Ok((outcome.status.code().unwrap_or(-1), findings.clone()))
    }

    /// A request to the API as the owner, past the proxy.
    pub(crate) fn api(&self, method: &str, path: &str, body: &str) -> Result<Value> {
        let portal = &self.product.portal;
        let line = format!(
            "curl -gksS --fail-with-body -m 20 -X {method} -H 'authorization: Bearer {}' \
             -H 'content-type: application/json' --data-binary '{body}' \
             https://127.0.0.1:8443/api/v1{path}",
            portal.owner_token()?
        );
        Ok(serde_json::from_str(&portal.namespace.shell(&line)?).unwrap_or_default())
    }

    fn owner_signs_in(&self) -> Result<()> {
        let actors = self.api("GET", "/actors", "")?;
        let actors = actors["items"].as_array().context("no actors")?;
        let Some(owner) = actors.iter().find(|actor| actor["name"] == "owner") else {
            bail!("no owner: {actors:?}");
        };
        let path = format!("/actors/{}/sign-in", owner["id"].as_str().context("no id")?);
        let sign_in = json!({ "role": "owner", "password": PASSWORD }).to_string();
        self.api("POST", &path, &sign_in).map(drop)
    }
}

/// A certificate of the document's name, its key, and both in one file.
fn certificate(dir: &Path) -> Result<()> {
    let made = rcgen::generate_simple_self_signed(vec![NAME.to_owned()])?;
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let both = format!("{certificate}{key}");
    for (name, text) in [
        ("portal.pem", &certificate),
        ("portal.key", &key),
        ("portal-haproxy.pem", &both),
    ] {
        let path = dir.join(name);
        fs::write(&path, text)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
    }
    Ok(())
}
