//! Names, asked of the system's resolvers.

mod carried;
mod found;
mod zoned;

use carried::retain_carried;
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
const MAX_KEPT: Duration = Duration::from_secs(300);

/// The same where a name does not exist: one that was made for a new resource is found soon.
const MAX_KEPT_NEGATIVE: Duration = Duration::from_secs(30);

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
    carries: fn(IpAddr) -> bool,
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
            carries: carried::carries,
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
            carries: |_| true,
            said,
            answers,
        }
    }

    /// Asks for both families; the answer comes out of [`Self::answers`]. The core asks for no more than
    /// [`MAX_QUESTIONS`] names at once.
    pub(crate) fn ask(&mut self, name: DomainName) {
        self.follow_system();
        let (resolver, said) = (self.resolver.clone(), self.said.clone());
        let carries = self.carries;
        tokio::spawn(async move {
            let limit = Duration::from_millis(RESOLVE_LIMIT_MS);
            let resolution = match resolver {
                Ok(resolver) => {
                    match tokio::time::timeout(limit, look_up(&resolver, &name)).await {
                        Ok(mut found) => {
                            retain_carried(&mut found, carries);
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
    options.positive_max_ttl = Some(MAX_KEPT);
    options.negative_max_ttl = Some(MAX_KEPT_NEGATIVE);
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
mod tests {
    use super::*;
    use hickory_resolver::config::NameServerConfig;
    use hickory_resolver::proto::op::{Message, OpCode};
    use hickory_resolver::proto::rr::rdata::{A, AAAA, CNAME, SOA};
    use std::net::Ipv4Addr;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::net::UdpSocket;
    use tokio::task::JoinHandle;

    /// A DNS server on loopback, and a resolver that asks it.
    struct Scene {
        resolver: Resolver,
        server: JoinHandle<()>,
    }

    impl Drop for Scene {
        fn drop(&mut self) {
            self.server.abort();
        }
    }

    impl Scene {
        async fn new() -> Self {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            let port = socket.local_addr().unwrap().port();
            let mut server = NameServerConfig::udp(Ipv4Addr::LOCALHOST.into());
            server.connections[0].port = port;
            let config = ResolverConfig::from_parts(None, Vec::new(), vec![server]);
            let provider = Zoned::default();
            let mut builder = SystemResolver::builder_with_config(config, provider);
            adjust(builder.options_mut());
            Self {
                resolver: Resolver::with(Ok(builder.build().unwrap()), None),
                server: tokio::spawn(serve(socket)),
            }
        }

        async fn resolve(&mut self, name: &str) -> Resolution {
            self.resolver.ask(DomainName::shown(name).unwrap());
            let (answered, resolution) = self.resolver.answers.recv().await.unwrap();
            assert_eq!(answered.as_str(), name);
            resolution
        }
    }

    async fn serve(socket: UdpSocket) {
        let mut bytes = [0; 512];
        while let Ok((len, from)) = socket.recv_from(&mut bytes).await {
            let question = Message::from_vec(&bytes[..len]).unwrap();
            if let Some(answer) = answer(&question) {
                let answer = answer.to_vec().unwrap();
                socket.send_to(&answer, from).await.unwrap();
            }
        }
    }

    fn answer(question: &Message) -> Option<Message> {
        let query = question.queries.first()?.clone();
        let mut answer = Message::response(question.id, OpCode::Query);
        answer.add_query(query.clone());
        let name = query.name().clone();
        let labels = name.iter().map(String::from_utf8_lossy);
        let host = labels.map(|label| format!("{label}.")).collect::<String>();
        let record = |name: &Name, ttl, data| Record::from_rdata(name.clone(), ttl, data);
        let v4 = RData::A(A::new(10, 7, 0, 1));
        let v6 = RData::AAAA(AAAA::new(0xfd77, 0, 0, 0, 0, 0, 0, 1));
        let is_v4 = query.query_type() == RecordType::A;
        let alias = |answer: &mut Message, target: &str| {
            let target = CNAME(Name::from_ascii(target).unwrap());
            answer.add_answer(record(&name, 20, RData::CNAME(target)));
        };
        match (host.as_str(), is_v4) {
            ("both.corp.example.", true) | ("v4.corp.example.", true) => {
                answer.add_answer(record(&name, 60, v4));
            }
            ("both.corp.example.", false) | ("v6.corp.example.", false) => {
                answer.add_answer(record(&name, 30, v6));
            }
            ("alias.corp.example.", true) => {
                let target = Name::from_ascii("real.corp.example.").unwrap();
                answer.add_answer(record(&name, 20, RData::CNAME(CNAME(target.clone()))));
                answer.add_answer(record(&target, 90, v4));
            }
            ("round.corp.example.", _) => alias(&mut answer, "round.corp.example."),
            ("ring1.corp.example.", _) => alias(&mut answer, "ring2.corp.example."),
            ("ring2.corp.example.", _) => alias(&mut answer, "ring3.corp.example."),
            ("ring3.corp.example.", _) => alias(&mut answer, "ring1.corp.example."),
            ("into-ring.corp.example.", _) => alias(&mut answer, "ring2.corp.example."),
            ("dangling.corp.example.", _) => alias(&mut answer, "gone.corp.example."),
            ("bare.corp.example.", _) => alias(&mut answer, "empty.corp.example."),
            ("failing.corp.example.", _) => alias(&mut answer, "broken.corp.example."),
            (code, _) if code.starts_with("code") => {
                let code = code.trim_start_matches("code").split('.').next()?;
                answer.metadata.response_code = ResponseCode::from(0, code.parse().ok()?);
            }
            ("moved.corp.example.", true) => {
                // Another one each time.
                let octet = 1 + (MOVES.fetch_add(1, Ordering::Relaxed) % 2) as u8;
                let data = RData::A(A::new(10, 8, 0, octet));
                answer.add_answer(record(&name, 0, data));
            }
            ("own.corp.example.", true) => {
                answer.add_answer(record(&name, 60, RData::A(A::new(127, 0, 0, 1))));
            }
            ("a_b.corp.example.", true)
            | ("end_.corp.example.", true)
            | ("xn--a.corp.example.", true)
            | ("xn--zzzzzzz.corp.example.", true)
            | ("-a-.corp.example.", true)
            | ("my printer.corp.example.", true) => {
                answer.add_answer(record(&name, 60, RData::A(A::new(10, 7, 0, 9))));
            }
            ("half.corp.example.", true) => {
                answer.add_answer(record(&name, 60, v4));
            }
            ("half.corp.example.", false) | ("broken.corp.example.", _) => {
                answer.metadata.response_code = ResponseCode::ServFail;
            }
            ("silent.corp.example.", _) => return None,
            _ => {
                if host.contains("gone.") {
                    answer.metadata.response_code = ResponseCode::NXDomain;
                }
                let zone = Name::from_ascii("corp.example.").unwrap();
                let soa = SOA::new(zone.clone(), zone.clone(), 1, 1, 1, 1, 3_600);
                answer.add_authority(record(&zone, 3_600, RData::SOA(soa)));
            }
        }
        Some(answer)
    }

    /// The number of queries for the name that moves.
    static MOVES: AtomicUsize = AtomicUsize::new(0);

    fn found(ipv4: &[&str], ipv6: &[&str], ttl_s: u32) -> Resolution {
        Resolution::Found {
            ipv4: ipv4.iter().map(|text| text.parse().unwrap()).collect(),
            ipv6: ipv6.iter().map(|text| text.parse().unwrap()).collect(),
            ttl_s,
        }
    }

    #[tokio::test]
    async fn both_families_are_found_with_the_shorter_time_to_live() {
        let mut scene = Scene::new().await;
        let both = scene.resolve("both.corp.example").await;
        assert_eq!(both, found(&["10.7.0.1"], &["fd77::1"], 30));
    }

    #[tokio::test]
    async fn a_name_with_one_family_has_no_address_of_the_other() {
        let mut scene = Scene::new().await;
        let v4 = scene.resolve("v4.corp.example").await;
        assert_eq!(v4, found(&["10.7.0.1"], &[], 60));
        let v6 = scene.resolve("v6.corp.example").await;
        assert_eq!(v6, found(&[], &["fd77::1"], 30));
    }

    #[tokio::test]
    async fn a_name_that_has_moved_is_found_where_it_is_now() {
        let mut scene = Scene::new().await;
        let first = scene.resolve("moved.corp.example").await;
        let second = scene.resolve("moved.corp.example").await;
        assert_eq!(first, found(&["10.8.0.1"], &[], 0));
        assert_eq!(second, found(&["10.8.0.2"], &[], 0));
    }

    #[tokio::test]
    async fn a_loopback_address_is_told_as_it_is_and_leads_nowhere() {
        let mut scene = Scene::new().await;
        let own = scene.resolve("own.corp.example").await;
        assert_eq!(own, found(&["127.0.0.1"], &[], 60));
        // The core is who judges: the same for whatever resolver there is.
        let address: IpAddr = Ipv4Addr::LOCALHOST.into();
        assert!(culvert_policy::gate::Mapping::new(address, address).is_err());
    }

    #[tokio::test]
    async fn an_alias_leads_to_addresses_and_its_time_to_live_counts() {
        let mut scene = Scene::new().await;
        let alias = scene.resolve("alias.corp.example").await;
        assert_eq!(alias, found(&["10.7.0.1"], &[], 20));
    }

    #[tokio::test]
    async fn a_name_that_is_not_there_is_told_from_a_server_that_does_not_answer() {
        let mut scene = Scene::new().await;
        for (name, expected) in [
            ("gone.corp.example", Resolution::NotFound),
            ("empty.corp.example", Resolution::NoAddress),
            ("v4.gone.corp.example", Resolution::NotFound),
            ("broken.corp.example", Resolution::NoAnswer),
            ("silent.corp.example", Resolution::NoAnswer),
            // Aliases of all of these, and some that lead nowhere.
            ("dangling.corp.example", Resolution::NotFound),
            ("bare.corp.example", Resolution::NoAddress),
            ("failing.corp.example", Resolution::NoAnswer),
            ("round.corp.example", Resolution::NoAnswer),
            ("ring1.corp.example", Resolution::NoAnswer),
            ("into-ring.corp.example", Resolution::NoAnswer),
        ] {
            assert_eq!(scene.resolve(name).await, expected, "{name}");
        }
    }

    /// Response codes but those for a name that exists and for one that does not: a code that nobody knows is one of them.
    #[tokio::test]
    async fn every_other_code_of_a_server_says_that_it_does_not_answer() {
        let mut scene = Scene::new().await;
        for code in [1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 15] {
            let name = format!("code{code}.corp.example");
            assert_eq!(scene.resolve(&name).await, Resolution::NoAnswer, "{code}");
        }
    }

    #[test]
    fn of_a_resolv_conf_only_servers_and_options_count() {
        let servers = |text: &str| {
            let (config, ..) = read_resolv_conf(text.as_bytes())?;
            let servers = config.name_servers().iter().map(|server| server.ip);
            Ok(servers.map(|ip| ip.to_string()).collect::<Vec<_>>())
        };
        let long = "x".repeat(64);
        for text in [
            "search\nnameserver 192.0.2.53\n".to_owned(),
            format!("nameserver 192.0.2.53\nsearch {long}.example\n"),
            "domain ..\n  nameserver 192.0.2.53".to_owned(),
            "nameserver none\nnameserver 192.0.2.53\nsortlist x\nü".to_owned(),
            "# nothing\noptions edns0 no-such-thing\nnameserver 192.0.2.53 # here\r\n".to_owned(),
        ] {
            assert_eq!(
                servers(&text),
                Ok(vec!["192.0.2.53".to_owned()]),
                "{text:?}"
            );
        }
        for text in ["", "# nothing\n", "search corp.example\n", "nameserver\n"] {
            let error: String = servers(text).unwrap_err();
            assert!(error.contains("`nameserver ADDRESS`"), "{error}");
        }
    }

    #[test]
    fn a_server_keeps_the_interface_of_its_link_local_address() {
        let text = "nameserver fe80::1%br-lan\nnameserver 192.0.2.53\n nameserver\tfe80::2%eth0.7 # x\n\
             nameserver 2001:db8::53\n";
        let (config, _, zones) = read_resolv_conf(text.as_bytes()).unwrap();
        let servers = config.name_servers().iter();
        let servers: Vec<String> = servers.map(|server| server.ip.to_string()).collect();
        assert_eq!(
            servers,
            ["fe80::1", "192.0.2.53", "fe80::2", "2001:db8::53"]
        );
        assert_eq!(zones.of("fe80::1".parse().unwrap()), Some("br-lan"));
        assert_eq!(zones.of("fe80::2".parse().unwrap()), Some("eth0.7"));
        assert_eq!(zones.of("192.0.2.53".parse().unwrap()), None);
        let problem = zones.problem().unwrap();
        assert!(problem.contains("fe80::1%br-lan"), "{problem}");
    }

    #[tokio::test]
    async fn without_a_configuration_no_name_is_answered_and_the_problem_says_why() {
        let mut resolver = Resolver::with(Err("it is empty".to_owned()), None);
        resolver.ask("db.corp.example".parse().unwrap());
        let (_, resolution) = resolver.answers.recv().await.unwrap();
        assert_eq!(resolution, Resolution::NoAnswer);
        let problem = resolver.problem().unwrap();
        assert!(problem.contains("it is empty"), "{problem}");
    }

    #[tokio::test]
    async fn a_name_with_labels_that_no_host_has_is_asked_for_as_it_stands() {
        let mut scene = Scene::new().await;
        for name in [
            "a_b.corp.example",
            "end_.corp.example",
            "xn--a.corp.example",
            "xn--zzzzzzz.corp.example",
            "-a-.corp.example",
            "my\\032printer.corp.example",
        ] {
            let odd = scene.resolve(name).await;
            assert_eq!(odd, found(&["10.7.0.9"], &[], 60), "{name}");
        }
    }

    #[tokio::test]
    async fn a_family_that_is_not_answered_for_is_asked_for_again_soon() {
        let mut scene = Scene::new().await;
        let half = scene.resolve("half.corp.example").await;
        assert_eq!(half, found(&["10.7.0.1"], &[], 0));
    }

    #[tokio::test]
    async fn as_many_questions_as_there_may_be_are_all_answered() {
        let mut scene = Scene::new().await;
        let count = MAX_QUESTIONS;
        for number in 0..count {
            let name = format!("gone.{number}.corp.example");
            scene.resolver.ask(name.parse().unwrap());
        }
        for _ in 0..count {
            let (_, resolution) = scene.resolver.answers.recv().await.unwrap();
            assert_eq!(resolution, Resolution::NotFound);
        }
    }
}
