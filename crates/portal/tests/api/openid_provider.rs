//! An identity provider that runs (scripts/peers.sh fetches it), and a browser that signs in there.

use crate::browser::Browser;
use crate::support::Running;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

pub(crate) const CLIENT_ID: &str = "culvert";
pub(crate) const CLIENT_SECRET: &str = "a secret: of the test & nobody else's / +%";

/// A provider on loopback, with a certificate that only who is told believes.
pub(crate) struct OpenIdProvider {
    child: Child,
    pub(crate) issuer: String,
    pub(crate) ca: String,
    accounts: PathBuf,
    _dir: TempDir,
}

/// Options of a provider.
#[derive(Default)]
pub(crate) struct Kind {
    /// Claims stand in the ID token, and not at the userinfo endpoint alone.
    pub(crate) claims_in_id_token: bool,
    /// The offset of its clock.
    pub(crate) clock_ms: i64,
    /// The portal has no secret there.
    pub(crate) public: bool,
    /// It takes the portal's secret in the form alone.
    pub(crate) secret_in_form: bool,
}

impl OpenIdProvider {
    pub(crate) fn start(running: &Running, kind: &Kind) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let certified = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let ca = certified.cert.pem();
        let accounts = dir.path().join("accounts.json");
        std::fs::write(&accounts, "{}").unwrap();
        let method = match (kind.public, kind.secret_in_form) {
            (true, _) => "none",
            (false, true) => "client_secret_post",
            (false, false) => "client_secret_basic",
        };
        let mut client = json!({
            "client_id": CLIENT_ID,
            "redirect_uris": [format!("{}/sign-in/callback", running.portal.whereabouts().url)],
            "token_endpoint_auth_method": method,
            "scope": "openid profile email groups",
        });
        if !kind.public {
            client["client_secret"] = json!(CLIENT_SECRET);
        }
        let mut configuration = json!({
            "cert": ca, "key": certified.signing_key.serialize_pem(), "clients": [client],
            "accounts": accounts, "claims_in_id_token": kind.claims_in_id_token,
            "clock_ms": kind.clock_ms,
        });
        if kind.secret_in_form {
            configuration["client_auth_methods"] = json!(["client_secret_post"]);
        }
        let path = dir.path().join("provider.json");
        std::fs::write(&path, configuration.to_string()).unwrap();
        let (child, issuer) = spawn(&path);
        Self {
            child,
            issuer,
            ca,
            accounts,
            _dir: dir,
        }
    }

    /// Sets the people that it describes from now on, by their subjects.
    pub(crate) fn knows(&self, people: &Value) {
        std::fs::write(&self.accounts, people.to_string()).unwrap();
    }

    /// The description of the provider that the portal gets.
    pub(crate) fn described(&self, more: &Value) -> Value {
        let mut all = json!({
            "name": "Example", "issuer": self.issuer, "client_id": CLIENT_ID,
            "client_secret": CLIENT_SECRET, "ca": self.ca,
            "scopes": ["profile", "email", "groups"],
        });
        let more = more.as_object().unwrap().clone();
        all.as_object_mut().unwrap().extend(more);
        all
    }

    pub(crate) fn stop(&mut self) {
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }

    /// Signs in as `subject` at `url`, as a browser that has never been there; where it is sent back to.
    pub(crate) async fn sign_in(&self, url: &str, subject: &str) -> String {
        let mut visitor = Visitor {
            ca: self.ca.clone(),
            issuer: self.issuer.clone(),
            cookies: BTreeMap::new(),
        };
        let page = visitor.follow(url, None).await;
        let form = format!("prompt=login&login={subject}&password=any");
        let back = visitor.follow(&page, Some(form)).await;
        assert!(!back.starts_with(&self.issuer), "{back}");
        back
    }
}

impl Drop for OpenIdProvider {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Starts one, and another in its place where it does not get to serve: in one of some thousand starts Node.js
/// waits for itself for ever before it has run a line.
fn spawn(configuration: &Path) -> (Child, String) {
    const STARTS: usize = 3;
    /// Many times what it takes on a busy machine.
    const START_WITHIN: Duration = Duration::from_secs(30);
    let mut program = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    program.push("../../target/peers/bin/oidc-provider");
    assert!(
        program.is_file(),
        "the identity provider is not there: run scripts/peers.sh oidc-provider"
    );
    for _ in 0..STARTS {
        let mut child = Command::new(&program)
            .arg(configuration)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (found, issuer) = mpsc::channel();
        // Nobody reads its later output, and a full pipe must not stop it.
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if let Some(issuer) = line.strip_prefix("issuer ") {
                    let _gone = found.send(issuer.to_owned());
                }
            }
        });
        match issuer.recv_timeout(START_WITHIN) {
            Ok(issuer) => return (child, issuer),
            Err(mpsc::RecvTimeoutError::Disconnected) => panic!("the identity provider has ended"),
            Err(mpsc::RecvTimeoutError::Timeout) => {
                let _ended = child.kill();
                let _status = child.wait();
            }
        }
    }
    panic!("the identity provider did not get to serve in {STARTS} starts");
}

/// A browser at the provider.
struct Visitor {
    ca: String,
    issuer: String,
    cookies: BTreeMap<String, String>,
}

impl Visitor {
    /// Goes where it is sent, until a page has a form or leads away.
    async fn follow(&mut self, url: &str, mut form: Option<String>) -> String {
        let mut url = url.to_owned();
        for _ in 0..10 {
            if !url.starts_with(&self.issuer) {
                return url;
            }
            match self.ask(&url, form.take()).await {
                Some(next) if next.starts_with('/') => url = format!("{}{next}", self.issuer),
                Some(next) => url = next,
                None => return url,
            }
        }
        panic!("{url} leads in a circle");
    }

    async fn ask(&mut self, url: &str, form: Option<String>) -> Option<String> {
        let address = self.issuer.strip_prefix("https://").unwrap();
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(self.ca.as_bytes()).unwrap())
            .unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = TcpStream::connect(address).await.unwrap();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let connector = TlsConnector::from(Arc::new(config));
        let stream = connector.connect(name, stream).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let cookies: Vec<String> = self
            .cookies
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let path = url.strip_prefix(&self.issuer).unwrap();
        let request = Request::builder()
            .method(if form.is_some() { "POST" } else { "GET" })
            .uri(path)
            .header("host", address)
            .header("cookie", cookies.join("; "))
            .header("content-type", "application/x-www-form-urlencoded");
        let body = Full::new(Bytes::from(form.unwrap_or_default()));
        let answer = sender.send_request(request.body(body).unwrap()).await;
        let (parts, body) = answer.unwrap().into_parts();
        for cookie in parts.headers.get_all("set-cookie") {
            let pair = cookie.to_str().unwrap().split(';').next().unwrap();
            let (name, value) = pair.split_once('=').unwrap();
            self.cookies.insert(name.to_owned(), value.to_owned());
        }
        let text = body.collect().await.unwrap().to_bytes();
        let status = parts.status.as_u16();
        assert!(
            status < 400,
            "{url}: {status} {}",
            String::from_utf8_lossy(&text)
        );
        let location = parts.headers.get("location")?;
        Some(location.to_str().unwrap().to_owned())
    }
}

/// A browser that has the portal open under its own name.
pub(crate) async fn at_own_name(running: &Running) -> Browser {
    let mut browser = Browser::open(running).await;
    own_name(running, &mut browser);
    browser
}

/// Has a browser use the portal's own name.
pub(crate) fn own_name(running: &Running, browser: &mut Browser) {
    let url = running.portal.whereabouts().url;
    url.trim_start_matches("https://")
        .clone_into(&mut browser.client.host);
}

/// The part of a URL of the portal that a browser asks it for.
pub(crate) fn path_of<'u>(running: &Running, url: &'u str) -> &'u str {
    let own = running.portal.whereabouts().url;
    url.strip_prefix(&own)
        .unwrap_or_else(|| panic!("{url} is not of {own}"))
}
