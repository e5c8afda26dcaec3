//! Names, asked of a DNS server on loopback.

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
