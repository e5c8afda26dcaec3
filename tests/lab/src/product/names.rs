//! A DNS server of a few names, and a question to one.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::mem;
use std::net::{
    IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, TcpListener, TcpStream, UdpSocket,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::namespace::Namespace;

const DNS_PORT: u16 = 53;

/// The TTL of answers, in seconds: clients soon query names that move again.
const TTL_S: u32 = 1;

/// A message without extensions is at most this long (RFC 1035, §4.2.1).
const MAX_MESSAGE_LEN: usize = 512;
const HEADER_LEN: usize = 12;

/// The interval at which the server checks for its stop.
const STOP_INTERVAL: Duration = Duration::from_millis(100);

/// A client gives a waiting question up before this.
const ANSWER_LIMIT: Duration = Duration::from_secs(15);

/// The type of an alias.
const CNAME: u16 = 5;

const NO_SUCH_NAME: u8 = 3;

/// Aliases that the server follows from a name.
const MAX_ALIASES: usize = 16;

/// The type of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecordKind {
    /// IPv4 addresses.
    A = 1,
    /// A name.
    Ptr = 12,
    /// The kind of a machine.
    Hinfo = 13,
    /// Mail servers.
    Mx = 15,
    /// Text.
    Txt = 16,
    /// IPv6 addresses.
    Aaaa = 28,
    /// A place on Earth.
    Loc = 29,
    /// The host and port of a service.
    Srv = 33,
    /// A rule that rewrites a name.
    Naptr = 35,
    /// The fingerprint of an SSH host key.
    Sshfp = 44,
    /// The certificate of a service.
    Tlsa = 52,
    /// A key for mail.
    OpenPgpKey = 61,
    /// The parameters of a service.
    Svcb = 64,
    /// The parameters of a web server.
    Https = 65,
    /// A URI.
    Uri = 256,
    /// The authorities that may certify the name.
    Caa = 257,
    /// A type for private use, which no resolver knows (RFC 6895, section 3.1).
    Private = 65_280,
}

/// A server's answer for a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The response code: 0 where the name exists, 3 where it does not.
    pub code: u8,
    /// The addresses of the kind that was asked for.
    pub addresses: Vec<IpAddr>,
    /// The data of the other records of that kind.
    pub records: Vec<Vec<u8>>,
}

/// The names that a server knows, and the queries that it got.
#[derive(Debug, Default)]
struct Known {
    table: BTreeMap<String, Vec<IpAddr>>,
    /// Data of records that are no addresses.
    records: BTreeMap<(String, RecordKind), Vec<u8>>,
    /// Names that are others.
    aliases: BTreeMap<String, String>,
    /// Names that the server has no answer for, and the code that it says so with.
    faults: BTreeMap<String, u8>,
    /// Names that the server says nothing of.
    silent: BTreeSet<String>,
    /// Names of which the answers end in the middle of a record.
    cut_off: BTreeSet<String>,
    /// Names for which the server refers to others.
    referred: BTreeSet<String>,
    /// Names that were asked for, and from where, in their order.
    asked: Vec<(String, IpAddr)>,
}

type Table = Arc<Mutex<Known>>;

impl Known {
    /// True for a name that is known, and for one with a known name below it (RFC 8020).
    fn exists(&self, name: &str) -> bool {
        let below = format!(".{name}");
        let mut known = self.table.keys().chain(self.aliases.keys());
        known.any(|known| known == name || known.ends_with(&below))
    }

    /// The data of the records of a kind that a name has.
    fn records_of(&self, name: &str, kind: u16) -> Vec<Vec<u8>> {
        let addresses = self.table.get(name).into_iter().flatten();
        let fitting = addresses.filter_map(|address| {
            let (bytes, of_kind) = match address {
                IpAddr::V4(address) => (address.octets().to_vec(), RecordKind::A),
                IpAddr::V6(address) => (address.octets().to_vec(), RecordKind::Aaaa),
            };
            (of_kind as u16 == kind).then_some(bytes)
        });
        let other = self.records.iter();
        let other = other.filter(|((of, of_kind), _)| of == name && *of_kind as u16 == kind);
        fitting.chain(other.map(|(_, data)| data.clone())).collect()
    }
}

/// A DNS server, by both transports. It knows the names that it was told, and says of others that they do
/// not exist.
#[derive(Debug)]
pub struct Names {
    table: Table,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Names {
    /// Answers at an address of the namespace.
    ///
    /// # Errors
    /// When it can't.
    pub fn start(namespace: &Namespace, address: IpAddr) -> Result<Self> {
        Self::start_at(namespace, (address, DNS_PORT).into())
    }

    /// Answers at an address of the namespace that is good on one interface alone.
    ///
    /// # Errors
    /// When it can't.
    pub fn start_on_link(namespace: &Namespace, address: Ipv6Addr, interface: u32) -> Result<Self> {
        let at = SocketAddrV6::new(address, DNS_PORT, 0, interface);
        Self::start_at(namespace, at.into())
    }

    fn start_at(namespace: &Namespace, at: SocketAddr) -> Result<Self> {
        let (socket, listener) = namespace.inside(|| {
            let both = UdpSocket::bind(at).and_then(|udp| Ok((udp, TcpListener::bind(at)?)));
            both.with_context(|| format!("cannot answer DNS at {at}"))
        })?;
        socket.set_read_timeout(Some(STOP_INTERVAL))?;
        listener.set_nonblocking(true)?;
        let (table, stop) = (Table::default(), Arc::new(AtomicBool::new(false)));
        let (known, stopping) = (Arc::clone(&table), Arc::clone(&stop));
        let udp = thread::spawn(move || {
            let mut question = [0; MAX_MESSAGE_LEN];
            while !stopping.load(Ordering::Relaxed) {
                let Ok((len, from)) = socket.recv_from(&mut question) else {
                    continue;
                };
                if let Some(answer) = answer(&question[..len], from.ip(), &known) {
                    let _gone = socket.send_to(&cut(answer), from);
                }
            }
        });
        let (known, stopping) = (Arc::clone(&table), Arc::clone(&stop));
        let tcp = thread::spawn(move || {
            while !stopping.load(Ordering::Relaxed) {
                match listener.accept() {
                    // A client that closes its connection gets no answer.
                    Ok((stream, from)) => drop(answer_one(stream, from.ip(), &known)),
                    Err(_) => thread::sleep(STOP_INTERVAL / 4),
                }
            }
        });
        Ok(Self {
            table,
            stop,
            threads: vec![udp, tcp],
        })
    }

    /// The name has these addresses from now on. Without any it exists all the same.
    pub fn set(&self, name: &str, addresses: &[IpAddr]) {
        let mut known = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let name = name.to_ascii_lowercase();
        known.aliases.remove(&name);
        known.table.insert(name, addresses.to_vec());
    }

    /// The name does not exist from now on.
    pub fn remove(&self, name: &str) {
        let mut known = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let name = name.to_ascii_lowercase();
        known.table.remove(&name);
        known.aliases.remove(&name);
        known.records.retain(|(of, _), _| *of != name);
    }

    /// The name has a record with these data from now on, and perhaps no address.
    pub fn set_record(&self, name: &str, kind: RecordKind, data: &[u8]) {
        let mut known = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let name = name.to_ascii_lowercase();
        known.table.entry(name.clone()).or_default();
        known.records.insert((name, kind), data.to_vec());
    }

    /// The name is another from now on.
    pub fn set_alias(&self, name: &str, target: &str) {
        let mut known = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let (name, target) = (name.to_ascii_lowercase(), target.to_ascii_lowercase());
        known.aliases.insert(name, target);
    }

    /// The server has no answer for the name from now on, and says so with this code.
    pub fn set_fault(&self, name: &str, code: u8) {
        let mut known = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        known.faults.insert(name.to_ascii_lowercase(), code);
    }

    /// The server says nothing of the name from now on.
    pub fn set_silent(&self, name: &str) {
        let mut known = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        known.silent.insert(name.to_ascii_lowercase());
    }

    /// The server's answers about the name end in the middle of a record from now on.
    pub fn set_cut_off(&self, name: &str) {
        let mut known = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        known.cut_off.insert(name.to_ascii_lowercase());
    }

    /// The server does not look the name up from now on, and refers to the servers of the root, as one does that answers
    /// for its own zones alone.
    pub fn set_referral(&self, name: &str) {
        let mut known = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        known.referred.insert(name.to_ascii_lowercase());
    }

    /// From where it was asked for a name, each time.
    #[must_use]
    pub fn asked(&self, name: &str) -> Vec<IpAddr> {
        let known = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = known.asked.iter().filter(|(asked, _)| asked == name);
        asked.map(|(_, from)| *from).collect()
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _panicked = thread.join();
        }
    }
}

/// An answer as it leaves over UDP: one that is too long has no records, and says that it was cut short.
fn cut(mut answer: Vec<u8>) -> Vec<u8> {
    const TRUNCATED: u8 = 0x02;
    if answer.len() > MAX_MESSAGE_LEN {
        let name = answer.get(HEADER_LEN..).and_then(read_name);
        let after = name.map_or(0, |(_, rest)| rest.len());
        answer.truncate(answer.len() - after + 4);
        answer[2] |= TRUNCATED;
        answer[6..12].fill(0);
    }
    answer
}

/// Answers the first question of a connection.
fn answer_one(mut stream: TcpStream, from: IpAddr, table: &Table) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(STOP_INTERVAL * 10))?;
    let mut len = [0; 2];
    stream.read_exact(&mut len)?;
    let mut question = vec![0; u16::from_be_bytes(len).into()];
    stream.read_exact(&mut question)?;
    if let Some(answer) = answer(&question, from, table) {
        let len = u16::try_from(answer.len()).map_err(std::io::Error::other)?;
        stream.write_all(&[&len.to_be_bytes()[..], &answer].concat())?;
    }
    Ok(())
}

/// The answer to a message, if that is a question.
fn answer(message: &[u8], from: IpAddr, table: &Table) -> Option<Vec<u8>> {
    let (name, rest) = read_name(message.get(HEADER_LEN..)?)?;
    let kind = u16::from_be_bytes([*rest.first()?, *rest.get(1)?]);
    let question_len = message.len() - HEADER_LEN - rest.len() + 4;
    let question = message.get(HEADER_LEN..HEADER_LEN + question_len)?;
    let mut table = table.lock().unwrap_or_else(PoisonError::into_inner);
    table.asked.push((name.clone(), from));
    // Pointers to the name of the question, and the names behind it.
    let mut owner = vec![0xc0, 0x0c];
    let mut records = Vec::new();
    let mut target = &name;
    while records.len() < MAX_ALIASES
        && let Some(next) = table.aliases.get(target)
    {
        let written = written_name(next);
        records.push((mem::replace(&mut owner, written.clone()), CNAME, written));
        target = next;
        if *target == name {
            break;
        }
    }
    if table.silent.contains(target) {
        return None;
    }
    if table.referred.contains(&name) {
        return Some(referral(message, question));
    }
    let code = match table.faults.get(target) {
        Some(code) => *code,
        None if table.aliases.contains_key(target) || table.exists(target) => 0,
        None => NO_SUCH_NAME,
    };
    let found = table.records_of(target, kind).into_iter();
    records.extend(found.map(|data| (owner.clone(), kind, data)));
    let mut answer = message[..2].to_vec();
    // A response, recursion desired and available.
    answer.extend([0x81, 0x80 | code, 0, 1]);
    answer.extend(u16::try_from(records.len()).ok()?.to_be_bytes());
    answer.extend([0; 4]);
    answer.extend(question);
    if table.cut_off.contains(&name) {
        // One record more than there is.
        answer[7] += 1;
    }
    for (owner, kind, data) in records {
        answer.extend(owner);
        answer.extend(kind.to_be_bytes());
        // The class of the Internet.
        answer.extend([0, 1]);
        answer.extend(TTL_S.to_be_bytes());
        answer.extend(u16::try_from(data.len()).ok()?.to_be_bytes());
        answer.extend(data);
    }
    Some(answer)
}

/// An answer without records, by a server that does not look names up. The root's server is the authority.
fn referral(message: &[u8], question: &[u8]) -> Vec<u8> {
    const NS: u16 = 2;
    let server = written_name("a.root-servers.net");
    let mut answer = message[..2].to_vec();
    // A response, recursion desired and not available, one record of authority.
    answer.extend([0x81, 0, 0, 1, 0, 0, 0, 1, 0, 0]);
    answer.extend(question);
    answer.push(0);
    answer.extend(NS.to_be_bytes());
    answer.extend([0, 1]);
    answer.extend(TTL_S.to_be_bytes());
    answer.extend([0, u8::try_from(server.len()).expect("it is short")]);
    answer.extend(server);
    answer
}

fn written_name(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for label in name.split('.') {
        bytes.push(u8::try_from(label.len()).expect("labels of tests are short"));
        bytes.extend(label.as_bytes());
    }
    bytes.push(0);
    bytes
}

/// The bytes behind a name, which may end with a pointer to another.
fn behind_name(mut bytes: &[u8]) -> Option<&[u8]> {
    loop {
        let (&len, rest) = bytes.split_first()?;
        bytes = match len {
            0 => return Some(rest),
            0xc0.. => return rest.get(1..),
            len => rest.get(usize::from(len)..)?,
        };
    }
}

/// Reads a name that is written out; returns what follows it as well.
fn read_name(mut bytes: &[u8]) -> Option<(String, &[u8])> {
    let mut labels = Vec::new();
    loop {
        let (&len, rest) = bytes.split_first()?;
        if len == 0 {
            return Some((labels.join("."), rest));
        }
        let label = rest.get(..usize::from(len))?;
        labels.push(String::from_utf8_lossy(label).to_ascii_lowercase());
        bytes = &rest[usize::from(len)..];
    }
}

/// Asks a DNS server, from inside a namespace: by UDP, and by TCP where the answer is too long for that.
pub(super) fn ask(
    namespace: &Namespace,
    server: IpAddr,
    name: &str,
    kind: RecordKind,
) -> Result<Answer> {
    ask_at(namespace, (server, DNS_PORT).into(), name, kind)
}

/// The same, at another port.
///
/// # Errors
/// When nobody answers.
pub fn ask_at(
    namespace: &Namespace,
    server: SocketAddr,
    name: &str,
    kind: RecordKind,
) -> Result<Answer> {
    // Number 1, recursion desired, one question.
    let mut question = vec![0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        question.push(u8::try_from(label.len())?);
        question.extend(label.as_bytes());
    }
    question.push(0);
    question.extend((kind as u16).to_be_bytes());
    question.extend([0, 1]);
    let answer = exchange(namespace, server, &question)
        .with_context(|| format!("nobody answered for {name}"))?;
    if answer.len() < question.len() || answer[..2] != question[..2] {
        bail!("no answer to the question for {name}: {answer:?}");
    }
    let count = usize::from(u16::from_be_bytes([answer[6], answer[7]]));
    let (addresses, records) = match kind {
        RecordKind::A | RecordKind::Aaaa => {
            let data = data(&answer[question.len()..], count, kind)?;
            let addresses = data.iter().map(|data| match kind {
                RecordKind::A => Ok(<[u8; 4]>::try_from(&data[..])?.into()),
                _ => Ok(<[u8; 16]>::try_from(&data[..])?.into()),
            });
            (addresses.collect::<Result<_>>()?, Vec::new())
        }
        _ => (Vec::new(), data(&answer[question.len()..], count, kind)?),
    };
    Ok(Answer {
        code: answer[3] & 0x0f,
        addresses,
        records,
    })
}

fn exchange(namespace: &Namespace, server: SocketAddr, question: &[u8]) -> Result<Vec<u8>> {
    const TRUNCATED: u8 = 0x02;
    let unspecified = match server {
        SocketAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = namespace.inside(|| Ok(UdpSocket::bind((unspecified, 0))?))?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(ANSWER_LIMIT))?;
    socket.send(question)?;
    let mut answer = [0; MAX_MESSAGE_LEN];
    let len = socket.recv(&mut answer)?;
    let answer = &answer[..len];
    if answer.get(2).is_none_or(|flags| flags & TRUNCATED == 0) {
        return Ok(answer.to_vec());
    }
    let mut stream = namespace.inside(|| Ok(TcpStream::connect(server)?))?;
    stream.set_read_timeout(Some(ANSWER_LIMIT))?;
    let len = u16::try_from(question.len())?;
    stream.write_all(&[&len.to_be_bytes()[..], question].concat())?;
    let mut len = [0; 2];
    stream.read_exact(&mut len)?;
    let mut answer = vec![0; u16::from_be_bytes(len).into()];
    stream.read_exact(&mut answer)?;
    Ok(answer)
}

/// The data of so many records, as far as they are of the kind.
fn data(mut records: &[u8], count: usize, kind: RecordKind) -> Result<Vec<Vec<u8>>> {
    const HEAD_LEN: usize = 10;
    let mut found = Vec::new();
    for _ in 0..count {
        records = behind_name(records).context("a record is cut short")?;
        let head = records.get(..HEAD_LEN).context("a record is cut short")?;
        let of_kind = u16::from_be_bytes([head[0], head[1]]);
        let end = HEAD_LEN + usize::from(u16::from_be_bytes([head[8], head[9]]));
        let data = records
            .get(HEAD_LEN..end)
            .context("a record is cut short")?;
        if of_kind == kind as u16 {
            found.push(data.to_vec());
        }
        records = &records[end..];
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alias_is_followed_to_the_end_of_its_chain_and_once_round_a_loop() {
        let namespace = Namespace::new().unwrap();
        let server = "127.0.0.1".parse().unwrap();
        let names = Names::start(&namespace, server).unwrap();
        let four = "10.0.0.1".parse().unwrap();
        names.set("end.example", &[four]);
        for (alias, target) in [
            ("one.example", "two.example"),
            ("two.example", "end.example"),
            ("left.example", "right.example"),
            ("right.example", "left.example"),
            ("dangling.example", "nothing.example"),
        ] {
            names.set_alias(alias, target);
        }
        for (name, code, addresses) in [
            ("one.example", 0, vec![four]),
            ("left.example", 0, vec![]),
            ("dangling.example", NO_SUCH_NAME, vec![]),
        ] {
            let answer = ask(&namespace, server, name, RecordKind::A).unwrap();
            assert_eq!((answer.code, answer.addresses), (code, addresses), "{name}");
        }
        names.remove("end.example");
        let answer = ask(&namespace, server, "one.example", RecordKind::A).unwrap();
        assert_eq!(answer.code, NO_SUCH_NAME);
    }

    #[test]
    fn a_name_has_the_addresses_that_were_set_and_another_does_not_exist() {
        let namespace = Namespace::new().unwrap();
        let server = "127.0.0.1".parse().unwrap();
        let names = Names::start(&namespace, server).unwrap();
        let six = "fd50::10".parse().unwrap();
        names.set("Only6.example", &[six]);
        for (name, kind, code, addresses) in [
            ("only6.example", RecordKind::A, 0, vec![]),
            ("only6.example", RecordKind::Aaaa, 0, vec![six]),
            ("other.example", RecordKind::A, NO_SUCH_NAME, vec![]),
        ] {
            let answer = ask(&namespace, server, name, kind).unwrap();
            assert_eq!((answer.code, answer.addresses), (code, addresses), "{name}");
        }
    }
}
