//! Questions to relays, from one socket of each family: by UDP from where they see it, and by TLS whether they are there.

use super::network::{Outcome, Question, RelayObservation, TlsOutcome};
use crate::exit::{Failure, Status as Exit};
use culvert_base::quoted;
use culvert_client::status::{RelayStatus, Status};
use culvert_link::{ConnectError, Nat64, probe_tls, source_to};
use culvert_path::reach_all;
use culvert_relay_core::Message;
use culvert_relay_core::message::{Ask, Transaction};
use culvert_wire::token::CertificatePin;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;
use tokio::net::{UdpSocket, lookup_host};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

/// The main port of a relay that is named without one.
const DEFAULT_PORT: u16 = 3478;

/// The protocol of a relay's TLS listener (RFC 7301).
const RELAY_ALPN: &[u8] = b"culvert-relay/1";

/// Relays that are asked.
const MAX_RELAYS: usize = culvert_wire::messages::MAX_RELAY_PLACES;

/// Addresses of a relay that are asked.
const MAX_ADDRESSES: usize = culvert_wire::messages::MAX_RELAY_ADDRESSES;

/// The times at which a question is asked, and asked again.
const ASKED_AT: [Duration; 4] = [
    Duration::ZERO,
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
];

/// The time for all answers by UDP.
const ANSWERED_WITHIN: Duration = Duration::from_secs(4);

/// The time for the resolver.
const LOOK_UP_LIMIT: Duration = Duration::from_secs(5);

/// The longest datagram that is looked at: a relay's answer is shorter.
const MAX_DATAGRAM_LEN: usize = 2_048;

/// Datagrams that are read at most: eight for each address that is asked would be generous.
const MAX_DATAGRAMS: usize = 8 * 2 * MAX_RELAYS * MAX_ADDRESSES;

/// A relay to ask.
#[derive(Debug)]
pub(super) struct Relay {
    name: String,
    addresses: Vec<SocketAddr>,
    unresolved: Option<String>,
    /// The TCP port and the certificate of its TLS listener.
    tls: Option<(u16, CertificatePin)>,
}

/// The answers of relays.
#[derive(Debug)]
pub(super) struct Answers {
    pub(super) relays: Vec<RelayObservation>,
    /// The addresses of the sockets that asked.
    pub(super) own: Vec<SocketAddr>,
}

/// The relays that the running client knows, and those that the command line names.
pub(super) async fn find(status: Option<&Status>, named: &[String]) -> Result<Vec<Relay>, Failure> {
    let known = status.iter().flat_map(|status| &status.relays);
    let mut relays: Vec<Relay> = known.map(Relay::from).collect();
    for text in named {
        relays.push(look_up(text).await?);
    }
    relays.truncate(MAX_RELAYS);
    Ok(relays)
}

impl From<&RelayStatus> for Relay {
    fn from(status: &RelayStatus) -> Self {
        let pin = status.tls_pin.as_ref().and_then(|pin| pin.parse().ok());
        Self {
            name: status.name.clone(),
            addresses: status
                .addresses
                .iter()
                .copied()
                .take(MAX_ADDRESSES)
                .collect(),
            unresolved: None,
            tls: status.tls_port.zip(pin),
        }
    }
}

async fn look_up(text: &str) -> Result<Relay, Failure> {
    let (host, port) = host_and_port(text).ok_or_else(|| {
        let text = quoted(text);
        Failure::new(
            Exit::Usage,
            format_args!("--relay {text}: write HOST, HOST:PORT, or [IPV6]:PORT"),
        )
    })?;
    let found = timeout(LOOK_UP_LIMIT, lookup_host((host, port))).await;
    let (addresses, unresolved) = match found {
        Ok(Ok(addresses)) => (addresses.take(MAX_ADDRESSES).collect(), None),
        Ok(Err(error)) => (Vec::new(), Some(error.to_string())),
        Err(_elapsed) => (Vec::new(), Some("the resolver does not answer".to_owned())),
    };
    Ok(Relay {
        name: text.to_owned(),
        addresses,
        unresolved,
        tls: None,
    })
}

/// The host and the port of `HOST`, `HOST:PORT` or `[IPV6]:PORT`.
fn host_and_port(text: &str) -> Option<(&str, u16)> {
    if let Ok(address) = text.parse::<IpAddr>() {
        let is_v6 = address.is_ipv6();
        return Some((text, DEFAULT_PORT)).filter(|_| is_v6 || !text.contains(':'));
    }
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']')?;
            host.parse::<Ipv6Addr>().ok()?;
            (host, rest.strip_prefix(':'))
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let port = port.map_or(Some(DEFAULT_PORT), |port| port.parse().ok())?;
    (!host.is_empty() && port > 0).then_some((host, port))
}

/// Asks all of them at once. IPv4 addresses are asked as `nat64` says.
pub(super) async fn ask(relays: Vec<Relay>, nat64: Nat64) -> Result<Answers, Failure> {
    let mut targets = Vec::new();
    for relay in &relays {
        let main = reach_all(nat64.prefix(), &relay.addresses);
        targets.extend(main.iter().copied());
        targets.extend(main.iter().filter_map(second_port));
    }
    let (outcomes, tls) = tokio::join!(exchange(&targets), by_tls(&relays, nat64));
    let (mut outcomes, own) = outcomes?;
    let mut tls = tls;
    let observe = |relay: Relay| {
        let main = reach_all(nat64.prefix(), &relay.addresses);
        let mut take = |to: SocketAddr| Question {
            to,
            outcome: outcomes.remove(&to).unwrap_or(Outcome::NoRoute),
        };
        RelayObservation {
            second: main.iter().filter_map(second_port).map(&mut take).collect(),
            main: main.into_iter().map(&mut take).collect(),
            unresolved: relay.unresolved,
            tls: tls.remove(&relay.name),
            name: relay.name,
        }
    };
    Ok(Answers {
        relays: relays.into_iter().map(observe).collect(),
        own,
    })
}

/// The first gateway port, as a relay has it without options. Questions are answered there too.
fn second_port(main: &SocketAddr) -> Option<SocketAddr> {
    let port = main.port().checked_add(1)?;
    Some(SocketAddr::new(main.ip(), port))
}

/// The outcome of a question to each address, and the addresses of the sockets that asked.
async fn exchange(
    targets: &[SocketAddr],
) -> Result<(BTreeMap<SocketAddr, Outcome>, Vec<SocketAddr>), Failure> {
    let mut outcomes = BTreeMap::new();
    let mut own = Vec::new();
    for any in [
        IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    ] {
        let of_family = |target: &&SocketAddr| target.is_ipv4() == any.is_ipv4();
        let targets: Vec<SocketAddr> = targets.iter().filter(of_family).copied().collect();
        if targets.is_empty() {
            continue;
        }
        // A host without the family has no socket of it.
        let Ok(socket) = UdpSocket::bind((any, 0)).await else {
            continue;
        };
        let port = socket
            .local_addr()
            .map_err(|error| Failure::io("asking relays", &error))?
            .port();
        let sources = targets.iter().filter_map(|to| source_to(to.ip(), None));
        for source in sources {
            let source = SocketAddr::new(source, port);
            if !own.contains(&source) {
                own.push(source);
            }
        }
        outcomes.extend(exchange_by(&socket, &targets).await?);
    }
    Ok((outcomes, own))
}

/// A question that is under way.
struct Asked {
    to: SocketAddr,
    /// The number of each attempt, and its time.
    attempts: Vec<(Transaction, Instant)>,
    outcome: Outcome,
}

async fn exchange_by(
    socket: &UdpSocket,
    targets: &[SocketAddr],
) -> Result<BTreeMap<SocketAddr, Outcome>, Failure> {
    let mut asked: Vec<Asked> = targets
        .iter()
        .map(|to| Asked {
            to: *to,
            attempts: Vec::new(),
            outcome: Outcome::NoRoute,
        })
        .collect();
    let begun = Instant::now();
    let deadline = begun + ANSWERED_WITHIN;
    let mut times = ASKED_AT.into_iter().map(|after| begun + after).peekable();
    let mut buffer = [0; MAX_DATAGRAM_LEN];
    let is_answered = |asked: &Asked| matches!(asked.outcome, Outcome::Answered { .. });
    for _ in 0..MAX_DATAGRAMS {
        while times.next_if(|at| *at <= Instant::now()).is_some() {
            for one in asked.iter_mut().filter(|it| !is_answered(it)) {
                send(socket, one).await?;
            }
        }
        if asked.iter().all(is_answered) {
            break;
        }
        let until = times.peek().copied().unwrap_or(deadline);
        // An error is that of an earlier datagram, such as a port that nobody listens at.
        let received = match timeout_at(until, socket.recv_from(&mut buffer)).await {
            Ok(received) => received.ok(),
            Err(_elapsed) if until >= deadline => break,
            Err(_elapsed) => None,
        };
        if let Some((len, source)) = received {
            receive(&mut asked, source, &buffer[..len]);
        }
    }
    Ok(asked.into_iter().map(|it| (it.to, it.outcome)).collect())
}

async fn send(socket: &UdpSocket, asked: &mut Asked) -> Result<(), Failure> {
    let mut number = [0; 16];
    getrandom::fill(&mut number)
        .map_err(|error| Failure::io("drawing random bytes", &io::Error::other(error)))?;
    let transaction = Transaction(number);
    let question = Ask { transaction }.encode();
    match socket.send_to(&question, asked.to).await {
        Ok(_) => {
            asked.attempts.push((transaction, Instant::now()));
            if matches!(asked.outcome, Outcome::NoRoute | Outcome::BlockedHere) {
                asked.outcome = Outcome::Silent;
            }
        }
        // A rule of the output hook (nft(8), `drop` and `reject`).
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            asked.outcome = Outcome::BlockedHere;
        }
        Err(_) => {}
    }
    Ok(())
}

fn receive(asked: &mut [Asked], source: SocketAddr, datagram: &[u8]) {
    let now = Instant::now();
    let Some(one) = asked.iter_mut().find(|it| it.to == source) else {
        return;
    };
    let challenge = match Message::parse(datagram) {
        Some(Message::Challenge(challenge)) => Some(challenge),
        _ => None,
    };
    let attempt = challenge.and_then(|challenge| {
        let mut attempts = one.attempts.iter();
        let attempt = attempts.find(|(transaction, _)| *transaction == challenge.transaction)?;
        Some((challenge.mapped, attempt.1))
    });
    match attempt {
        Some((mapped, at)) => {
            one.outcome = Outcome::Answered {
                round_trip: now.saturating_duration_since(at),
                mapped,
            };
        }
        None if matches!(one.outcome, Outcome::Silent) => one.outcome = Outcome::Garbage,
        None => {}
    }
}

/// Connects to the TLS listener of each relay that has one.
async fn by_tls(relays: &[Relay], nat64: Nat64) -> BTreeMap<String, TlsOutcome> {
    let mut attempts = JoinSet::new();
    for relay in relays {
        let Some((port, pin)) = &relay.tls else {
            continue;
        };
        let addresses = reach_all(nat64.prefix(), &relay.addresses);
        let (name, port, pin) = (relay.name.clone(), *port, *pin);
        attempts.spawn(async move {
            let mut outcome = TlsOutcome::Fails("it has no address".to_owned());
            for address in addresses {
                outcome = tls(SocketAddr::new(address.ip(), port), pin).await;
                if outcome == TlsOutcome::Works {
                    break;
                }
            }
            (name, outcome)
        });
    }
    attempts.join_all().await.into_iter().collect()
}

async fn tls(address: SocketAddr, pin: CertificatePin) -> TlsOutcome {
    match probe_tls(address, pin, RELAY_ALPN).await {
        Ok(()) => TlsOutcome::Works,
        Err(ConnectError::WrongCertificate { .. }) => TlsOutcome::WrongCertificate,
        Err(error) => TlsOutcome::Fails(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relay_is_named_with_or_without_its_port() {
        for (text, expected) in [
            ("relay.example", Some(("relay.example", 3478))),
            ("relay.example:443", Some(("relay.example", 443))),
            ("192.0.2.1", Some(("192.0.2.1", 3478))),
            ("192.0.2.1:5000", Some(("192.0.2.1", 5000))),
            ("2001:db8::1", Some(("2001:db8::1", 3478))),
            ("[2001:db8::1]", Some(("2001:db8::1", 3478))),
            ("[2001:db8::1]:5000", Some(("2001:db8::1", 5000))),
            ("", None),
            (":3478", None),
            ("relay.example:0", None),
            ("relay.example:99999", None),
            ("[relay.example]:3478", None),
            ("[2001:db8::1", None),
        ] {
            assert_eq!(host_and_port(text), expected, "{text:?}");
        }
    }

    /// A relay on loopback, one that answers something else, and a port that nobody listens at.
    #[tokio::test]
    async fn answers_are_told_from_garbage_and_from_silence() {
        use culvert_relay_core::mac::Mac;
        use culvert_relay_core::message::Challenge;
        let relay = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let other = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let closed = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let targets = [&relay, &other, &closed].map(|socket| socket.local_addr().unwrap());
        drop(closed);
        let answers = async {
            let mut buffer = [0; MAX_DATAGRAM_LEN];
            loop {
                let (len, source) = relay.recv_from(&mut buffer).await.unwrap();
                let Some(Message::Ask(ask)) = Message::parse(&buffer[..len]) else {
                    panic!("no question");
                };
                let challenge = Challenge {
                    transaction: ask.transaction,
                    cookie: Mac::of(&[0; 32], &[]),
                    mapped: source,
                };
                relay.send_to(&challenge.encode(), source).await.unwrap();
            }
        };
        let garbage = async {
            let mut buffer = [0; MAX_DATAGRAM_LEN];
            loop {
                let (_, source) = other.recv_from(&mut buffer).await.unwrap();
                other.send_to(b"HTTP/1.1 302 Found", source).await.unwrap();
            }
        };
        let (outcomes, own) = tokio::select! {
            found = exchange(&targets) => found.unwrap(),
            () = answers => unreachable!(),
            () = garbage => unreachable!(),
        };
        let Outcome::Answered { mapped, .. } = outcomes[&targets[0]] else {
            panic!("{outcomes:?}");
        };
        assert_eq!(own, [mapped]);
        assert_eq!(outcomes[&targets[1]], Outcome::Garbage);
        assert_eq!(outcomes[&targets[2]], Outcome::Silent);
    }
}
