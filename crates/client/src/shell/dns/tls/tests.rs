use super::*;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::PrivateKeyDer;
use rustls::{RootCertStore, ServerConfig};
use std::net::Ipv4Addr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

const NAME: &str = "dns.example";

/// A resolver that speaks TLS, and how a client trusts it.
struct Resolver {
    listener: TcpListener,
    acceptor: TlsAcceptor,
    trusting: ClientConfig,
}

impl Resolver {
    async fn start() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = params.self_signed(&key).unwrap();
        let issuer = Issuer::new(params, key);
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![NAME.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(authority.der().clone()).unwrap();
        let provider = Arc::new(aws_lc_rs::default_provider());
        let trusting = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let serving = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
            );
        Self {
            listener: TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap(),
            acceptor: TlsAcceptor::from(Arc::new(serving.unwrap())),
            trusting,
        }
    }

    /// The servers of a client that was told to ask this one under `name`.
    fn servers(&self, name: &str) -> (TlsServers, TlsServer) {
        let at = self.listener.local_addr().unwrap();
        let upstream = format!("{at}#{name}").parse().unwrap();
        let trusting = self.trusting.clone();
        let servers = TlsServers::start_with(&[upstream], move || Ok(trusting.clone()));
        let server = servers.get(at).unwrap();
        (servers, server)
    }

    async fn accept(&self) -> io::Result<TlsStream<TcpStream>> {
        let (stream, _) = self.listener.accept().await?;
        self.acceptor.accept(stream).await
    }
}

async fn heard(stream: &mut TlsStream<TcpStream>) -> Vec<u8> {
    let mut query = vec![0; usize::from(stream.read_u16().await.unwrap())];
    stream.read_exact(&mut query).await.unwrap();
    query
}

async fn say(stream: &mut TlsStream<TcpStream>, message: &[u8]) {
    stream
        .write_u16(message.len().try_into().unwrap())
        .await
        .unwrap();
    stream.write_all(message).await.unwrap();
    stream.flush().await.unwrap();
}

fn query(id: u8) -> Vec<u8> {
    let header = [0, id, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    [&header[..], b"\x03www\x07example\0\0\x01\0\x01"].concat()
}

fn answer(id: u8) -> Vec<u8> {
    let mut answer = query(id);
    answer[2] |= 0x80;
    answer
}

#[tokio::test]
async fn queries_share_a_connection_and_are_answered_in_any_order() {
    let resolver = Resolver::start().await;
    let (_servers, server) = resolver.servers(NAME);
    let serve = async {
        let mut stream = resolver.accept().await.unwrap();
        let (first, second) = (heard(&mut stream).await, heard(&mut stream).await);
        // An answer to nothing, then both, the second one in two pieces.
        say(&mut stream, &answer(9)).await;
        say(&mut stream, &answer(second[1])).await;
        let last = answer(first[1]);
        stream
            .write_u16(last.len().try_into().unwrap())
            .await
            .unwrap();
        stream.write_all(&last[..5]).await.unwrap();
        stream.flush().await.unwrap();
        tokio::task::yield_now().await;
        stream.write_all(&last[5..]).await.unwrap();
        stream.flush().await.unwrap();
        // A later query uses the same connection.
        let third = heard(&mut stream).await;
        say(&mut stream, &answer(third[1])).await;
        stream
    };
    let ask = async {
        let (first, second) = tokio::join!(server.ask(query(1)), server.ask(query(2)));
        let third = server.ask(query(3)).await;
        [first.unwrap(), second.unwrap(), third.unwrap()]
    };
    let (_stream, answers) = tokio::join!(serve, ask);
    assert_eq!(answers, [answer(1), answer(2), answer(3)]);
}

#[tokio::test]
async fn a_refusal_without_the_question_is_an_answer() {
    let resolver = Resolver::start().await;
    let (_servers, server) = resolver.servers(NAME);
    // FORMERR.
    let refusal = [0, 1, 0x80, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    let serve = async {
        let mut stream = resolver.accept().await.unwrap();
        let _query = heard(&mut stream).await;
        say(&mut stream, &refusal).await;
        stream
    };
    let (_stream, answered) = tokio::join!(serve, server.ask(query(1)));
    assert_eq!(answered.unwrap(), refusal);
}

#[tokio::test]
async fn a_query_that_was_lost_with_its_connection_is_asked_once_more() {
    let resolver = Resolver::start().await;
    let (_servers, server) = resolver.servers(NAME);
    let serve = async {
        let mut closed = resolver.accept().await.unwrap();
        let _query = heard(&mut closed).await;
        drop(closed);
        let mut stream = resolver.accept().await.unwrap();
        let asked = heard(&mut stream).await;
        say(&mut stream, &answer(asked[1])).await;
        stream
    };
    let (stream, answered) = tokio::join!(serve, server.ask(query(1)));
    assert_eq!(answered.unwrap(), answer(1));
    drop(stream);
    // A server that closes each connection is not asked for ever. The first try may go to the one that was closed.
    let serve = async {
        loop {
            let mut closed = resolver.accept().await.unwrap();
            let _query = heard(&mut closed).await;
        }
    };
    let answered = tokio::select! {
        answered = server.ask(query(2)) => answered,
        () = serve => unreachable!("it goes on"),
    };
    assert_eq!(answered.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn a_connection_on_which_the_server_is_silent_gives_way_to_another() {
    let resolver = Resolver::start().await;
    let (_servers, server) = resolver.servers(NAME);
    let serve = async {
        let mut silent = resolver.accept().await.unwrap();
        let _query = heard(&mut silent).await;
        let mut stream = resolver.accept().await.unwrap();
        let asked = heard(&mut stream).await;
        say(&mut stream, &answer(asked[1])).await;
        (silent, stream)
    };
    let (_streams, answered) = tokio::join!(serve, server.ask(query(1)));
    assert_eq!(answered.unwrap(), answer(1));
}

#[tokio::test]
async fn a_server_with_the_certificate_of_another_name_hears_no_query() {
    let resolver = Resolver::start().await;
    let (servers, server) = resolver.servers("other.example");
    let (accepted, answered) = tokio::join!(resolver.accept(), server.ask(query(1)));
    assert_eq!(answered.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    // In TLS 1.3 the server may be done before it hears that it is not trusted.
    if let Ok(mut stream) = accepted {
        let mut received = Vec::new();
        assert!(stream.read_to_end(&mut received).await.is_err());
        assert!(received.is_empty());
    }
    let [status] = servers.status().try_into().unwrap();
    let trouble = status.trouble.unwrap();
    assert!(trouble.contains("as other.example: "), "{trouble}");
    assert!(
        trouble.contains("Nothing is asked in the clear instead"),
        "{trouble}"
    );
}

#[tokio::test]
async fn trouble_is_told_until_the_server_can_be_asked_again() {
    let resolver = Resolver::start().await;
    let at = resolver.listener.local_addr().unwrap();
    let (servers, server) = resolver.servers(NAME);
    let Resolver {
        listener,
        acceptor,
        trusting,
    } = resolver;
    drop(listener);
    assert!(server.ask(query(1)).await.is_err());
    assert!(servers.status()[0].trouble.is_some());
    let again = Resolver {
        listener: TcpListener::bind(at).await.unwrap(),
        acceptor,
        trusting,
    };
    let serve = async {
        let mut stream = again.accept().await.unwrap();
        let asked = heard(&mut stream).await;
        say(&mut stream, &answer(asked[1])).await;
        stream
    };
    let (_stream, answered) = tokio::join!(serve, server.ask(query(2)));
    assert!(answered.is_ok());
    assert_eq!(servers.status()[0].trouble, None);
}

#[tokio::test]
async fn no_query_is_lost_that_waited_for_a_connection_which_then_failed() {
    let (near, far) = tokio::io::duplex(4096);
    drop(far);
    let (_asked, mut questions) = mpsc::channel(1);
    let (waits, _answered): (Vec<_>, Vec<_>) = (1..=3)
        .map(|id| {
            let (answer, answered) = oneshot::channel();
            let question = Question {
                query: query(id),
                answer,
                tries: 0,
            };
            (question, answered)
        })
        .unzip();
    let lost = Connection::new(near).exchange(waits, &mut questions).await;
    assert_eq!(lost.len(), 3);
}

#[tokio::test]
async fn an_idle_connection_is_closed() {
    let (near, mut far) = tokio::io::duplex(4096);
    let (_asked, mut questions) = mpsc::channel(1);
    let (waits, _answered) = oneshot::channel();
    let question = Question {
        query: query(1),
        answer: waits,
        tries: 0,
    };
    let exchange = tokio::spawn(async move {
        let lost = Connection::new(near)
            .exchange(vec![question], &mut questions)
            .await;
        lost.len()
    });
    let mut framed = vec![0; 2 + query(1).len()];
    far.read_exact(&mut framed).await.unwrap();
    let said = answer(1);
    far.write_u16(said.len().try_into().unwrap()).await.unwrap();
    far.write_all(&said).await.unwrap();
    assert_eq!(exchange.await.unwrap(), 0);
    let rest = timeout(Duration::from_secs(60), far.read_u8()).await;
    assert_eq!(
        rest.unwrap().unwrap_err().kind(),
        io::ErrorKind::UnexpectedEof
    );
}
