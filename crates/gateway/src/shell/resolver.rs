//! Names, asked of the system's resolvers.

mod found;
mod reachable;
mod zoned;

use culvert_gateway_core::{MAX_QUESTIONS, RESOLVE_LIMIT_MS, Resolution};
use culvert_host::SystemFile;
use culvert_policy::DomainName;
use found::Found;
use hickory_resolver::Hosts;
use hickory_resolver::config::{ResolveHosts, ResolverConfig, ResolverOpts};
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::ProtoError;
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use hickory_resolver::system_conf::parse_resolv_conf;
use reachable::retain_reachable;
use std::io::Read;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use zoned::{Zoned, Zones};

/// Answers that wait to be looked at: as many as questions under way.
const MAX_ANSWERS: usize = MAX_QUESTIONS;

/// The files in which the system names the resolvers to ask, and the names that it knows itself.
const SYSTEM_FILES: [&str; 2] = ["/etc/resolv.conf", "/etc/hosts"];

/// The most that is read of one of them. Lists of hosts that block advertisements have some 5 MiB.
const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// The longest time that answers are kept, whatever their time to live: an address that was changed
/// in a hurry is not missed for longer.
const MAX_CACHED: Duration = Duration::from_secs(300);

/// The same where a name does not exist: one that was made for a new resource is found soon.
const MAX_CACHED_NEGATIVE: Duration = Duration::from_secs(30);

/// The resolver of the system's configuration.
pub(crate) type SystemResolver = hickory_resolver::Resolver<Zoned>;

/// Aliases that are followed from a name: as many as resolvers follow (BIND 16, Unbound 11).
const MAX_ALIASES: usize = 16;

/// By what a file is seen to have changed: device, inode, size, and time of change.
type Stamp = Option<(u64, u64, u64, i64, i64)>;

/// The questions to the system's resolvers, and their answers.
pub(crate) struct Resolver {
    /// Or why the system's configuration can't be used: no name is found then.
    resolver: Result<SystemResolver, String>,
    /// The interfaces by which servers with link-local addresses are asked.
    zones: Zones,
    /// Of the files by which `resolver` was made; none where it was made otherwise.
    stamps: Option<[Stamp; 2]>,
    /// True if this machine can send packets to an address.
    can_send: fn(IpAddr) -> bool,
    said: mpsc::Sender<(DomainName, Resolution)>,
    pub(crate) answers: mpsc::Receiver<(DomainName, Resolution)>,
}

impl Resolver {
    /// By the configuration of the system, and by what that changes to.
    pub(crate) fn new() -> Self {
        let stamps = stamps();
        let (resolver, zones) = match system() {
            Ok((resolver, zones)) => (Ok(resolver), zones),
            Err(why) => {
                warn_of(&why);
                (Err(why), Zones::default())
            }
        };
        Self {
            can_send: reachable::can_send,
            zones,
            ..Self::with(resolver, Some(stamps))
        }
    }

    fn with(resolver: Result<SystemResolver, String>, stamps: Option<[Stamp; 2]>) -> Self {
        let (said, answers) = mpsc::channel(MAX_ANSWERS);
        Self {
            resolver,
            zones: Zones::default(),
            stamps,
            can_send: |_| true,
            said,
            answers,
        }
    }

    /// Asks for both families; the answer comes out of [`Self::answers`]. The core asks for no more than
    /// [`MAX_QUESTIONS`] names at once.
    pub(crate) fn ask(&mut self, name: DomainName) {
        self.follow_system();
        let (resolver, said) = (self.resolver.clone(), self.said.clone());
        let can_send = self.can_send;
        tokio::spawn(async move {
            let limit = Duration::from_millis(RESOLVE_LIMIT_MS);
            let resolution = match resolver {
                Ok(resolver) => {
                    match tokio::time::timeout(limit, look_up(&resolver, &name)).await {
                        Ok(mut found) => {
                            retain_reachable(&mut found, can_send);
                            found.resolution()
                        }
                        Err(_late) => Resolution::NoAnswer,
                    }
                }
                Err(_) => Resolution::NoAnswer,
            };
            // Nobody listens where the gateway ended.
            let _unheard = said.send((name, resolution)).await;
        });
    }

    /// The resolver of the system's present configuration, if that can be used.
    pub(crate) fn current(&mut self) -> Option<SystemResolver> {
        self.follow_system();
        self.resolver.as_ref().ok().cloned()
    }

    /// A machine gets other resolvers with another lease, or from its administrator.
    fn follow_system(&mut self) {
        let Some(before) = self.stamps else { return };
        let stamps = stamps();
        if stamps == before {
            return;
        }
        self.stamps = Some(stamps);
        match system() {
            Ok((resolver, zones)) => {
                tracing::info!("the system's DNS configuration has changed");
                self.resolver = Ok(resolver);
                self.zones = zones;
            }
            // It may be half written, and then changes again. Those who were asked before go on meanwhile.
            Err(why) => {
                warn_of(&why);
                if self.resolver.is_err() {
                    self.resolver = Err(why);
                }
            }
        }
    }

    /// The reason why no name is found, or a server is not asked, for the gateway's status.
    pub(crate) fn problem(&self) -> Option<String> {
        match &self.resolver {
            Err(why) => Some(format!("no name of a resource is found: {why}")),
            Ok(_) => self.zones.problem(),
        }
    }
}

fn warn_of(why: &str) {
    tracing::warn!(
        "the system's DNS configuration can't be used, and is read again when it changes: {why}"
    );
}

fn system() -> Result<(SystemResolver, Zones), String> {
    let said =
        content(SystemFile::ResolvConf).map_err(|error| format!("{}: {error}", SYSTEM_FILES[0]))?;
    let (config, mut options, zones) = read_resolv_conf(&said)?;
    adjust(&mut options);
    let provider = Zoned::new(zones.clone());
    let builder = SystemResolver::builder_with_config(config, provider).with_options(options);
    let mut resolver = builder.build().map_err(|error| error.to_string())?;
    let mut hosts = Hosts::default();
    // A machine may have no such file, and lines of it that can't be read are of no use to anybody.
    if let Ok(content) = content(SystemFile::Hosts)
        && let Err(error) = hosts.read_hosts_conf(content.as_slice())
    {
        tracing::warn!(%error, "{} can't be read to its end", SYSTEM_FILES[1]);
    }
    resolver.set_hosts(Arc::new(hosts));
    Ok((resolver, zones))
}

fn read_resolv_conf(said: &[u8]) -> Result<(ResolverConfig, ResolverOpts, Zones), String> {
    let (lines, zones) = lines_that_count(said);
    // Of the lines that count, those that can't be read are left out. So the only error is that nothing is left.
    let (config, options) = parse_resolv_conf(lines).map_err(|_| {
        "/etc/resolv.conf names no server that can be asked: add a line `nameserver ADDRESS`"
            .to_owned()
    })?;
    Ok((config, options, zones))
}

/// The lines of a resolv.conf that say whom to ask and how, and the zones of their addresses apart. Search lists are of no
/// use here, and one that can't be read is no reason to find nothing.
fn lines_that_count(said: &[u8]) -> (Vec<u8>, Zones) {
    let mut zones = Zones::default();
    let mut lines: Vec<Vec<u8>> = Vec::new();
    for line in said.split(|byte| *byte == b'\n') {
        let line = line.trim_ascii_start();
        if line.starts_with(b"nameserver") {
            lines.push(zones.take(line));
        } else if line.starts_with(b"options") {
            lines.push(line.to_vec());
        }
    }
    (lines.join(&b'\n'), zones)
}

/// The content of a file, which is the system administrator's. It is read through the helper: the file that takes
/// another's place is outside of the sandbox.
fn content(file: SystemFile) -> std::io::Result<Vec<u8>> {
    let mut content = Vec::new();
    let file = culvert_host::open_system_file(file)?;
    file.take(MAX_FILE_BYTES).read_to_end(&mut content)?;
    Ok(content)
}

fn adjust(options: &mut ResolverOpts) {
    options.timeout = Duration::from_millis(RESOLVE_LIMIT_MS / 2);
    // The names of resources are whole: no search list is tried.
    options.ndots = 0;
    // Those of the system are read by another way.
    options.use_hosts_file = ResolveHosts::Never;
    options.positive_max_ttl = Some(MAX_CACHED);
    options.negative_max_ttl = Some(MAX_CACHED_NEGATIVE);
}

fn stamps() -> [Stamp; 2] {
    SYSTEM_FILES.map(|path| {
        let file = std::fs::metadata(path).ok()?;
        let (seconds, nanoseconds) = (file.mtime(), file.mtime_nsec());
        Some((file.dev(), file.ino(), file.size(), seconds, nanoseconds))
    })
}

async fn look_up(resolver: &SystemResolver, name: &DomainName) -> Found {
    let mut found = Found::default();
    let Ok(whole) = as_it_stands(name) else {
        found.has_failed = true;
        return found;
    };
    let (v4, v6) = tokio::join!(
        resolver.lookup(whole.clone(), RecordType::A),
        resolver.lookup(whole.clone(), RecordType::AAAA)
    );
    for answer in [v4, v6] {
        match answer {
            Ok(answer) => found.take(answer.answers()),
            Err(error) if error.is_nx_domain() => found.missing += 1,
            Err(error) if is_no_data(&error) => {}
            Err(error) => {
                tracing::debug!(%name, %error, "the DNS did not answer");
                found.has_failed = true;
            }
        }
    }
    // A chain of aliases that was not followed to its end looks like a name without addresses.
    if found.is_without_addresses() && aliases(resolver, whole).await.0.len() == MAX_ALIASES {
        tracing::debug!(%name, "its aliases lead round in a circle");
        found.has_failed = true;
    }
    found
}

/// True where the DNS says that a name exists, and has no such record. A code that is not known comes in the same form.
fn is_no_data(error: &NetError) -> bool {
    matches!(error, NetError::Dns(DnsError::NoRecordsFound(none)) if none.response_code == ResponseCode::NoError)
}

/// The chain of aliases from a name, and the name where it ends.
pub(super) async fn aliases(resolver: &SystemResolver, mut name: Name) -> (Vec<Record>, Name) {
    let mut aliases = Vec::new();
    while aliases.len() < MAX_ALIASES
        && let Ok(found) = resolver.lookup(name.clone(), RecordType::CNAME).await
        && let Some(record) = found.answers().first()
        && let RData::CNAME(target) = &record.data
    {
        name = target.0.clone();
        aliases.push(record.clone());
    }
    (aliases, name)
}

/// The name with its labels as they are. Read as text, it would have to be one of a host: labels may have underscores
/// anywhere, and what looks like Punycode may be none (RFC 2181, section 11).
fn as_it_stands(name: &DomainName) -> Result<Name, ProtoError> {
    let labels: Vec<Vec<u8>> = name.labels().collect();
    Name::from_labels(labels.iter().map(Vec::as_slice))
}

/// The resolution from two DNS messages, one per address family. A malformed message counts as a failed lookup.
#[cfg(feature = "fuzzing")]
pub fn resolution(messages: [&[u8]; 2]) -> Resolution {
    let mut found = Found::default();
    for message in messages {
        match hickory_resolver::proto::op::Message::from_vec(message) {
            Ok(message) => {
                found.take(&message.answers);
                let code = message.metadata.response_code;
                found.missing += u8::from(code == ResponseCode::NXDomain);
            }
            Err(_) => found.has_failed = true,
        }
    }
    found.resolution()
}

#[cfg(test)]
mod tests;
