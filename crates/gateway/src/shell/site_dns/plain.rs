//! Queries of plain WireGuard devices: the way of their answers, and questions to the system's resolver in their name.

use super::message::Asked;
use super::records::records;
use crate::shell::resolver::SystemResolver;
use culvert_dns::{ForwardId, Transport};
use culvert_gateway_core::{MAX_LOOKUPS, RESOLVE_LIMIT_MS};
use culvert_ids::ClientId;
use hickory_resolver::proto::op::ResponseCode;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UdpSocket;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

/// The result of a question to the system's resolver.
#[derive(Debug)]
pub(crate) struct LookedUp {
    pub(crate) client: ClientId,
    pub(crate) query: (ForwardId, Transport),
    /// None where it gave none in time.
    pub(crate) answer: Option<Vec<u8>>,
}

/// The destinations of answers, and the results of questions.
#[derive(Debug)]
pub(crate) struct PlainAnswers {
    socket: Option<Arc<UdpSocket>>,
    /// The most connections that there are.
    max_connections: usize,
    /// Those that wait, and at most as many that have ended.
    connections: BTreeMap<SocketAddr, oneshot::Sender<Vec<u8>>>,
    said: mpsc::Sender<LookedUp>,
    pub(crate) looked_up: mpsc::Receiver<LookedUp>,
}

impl PlainAnswers {
    pub(super) fn new(max_connections: usize) -> Self {
        let (said, looked_up) = mpsc::channel(MAX_LOOKUPS);
        Self {
            socket: None,
            max_connections,
            connections: BTreeMap::new(),
            said,
            looked_up,
        }
    }

    pub(super) fn set_socket(&mut self, socket: Arc<UdpSocket>) {
        self.socket = Some(socket);
    }

    /// A connection waits for an answer.
    pub(super) fn wait(&mut self, from: SocketAddr, answer: oneshot::Sender<Vec<u8>>) {
        if self.connections.len() >= 2 * self.max_connections {
            self.connections.retain(|_, waiting| !waiting.is_closed());
        }
        self.connections.insert(from, answer);
    }

    /// An answer may be lost, as any datagram: the device asks again.
    pub(crate) fn answer(&mut self, bytes: Vec<u8>, to: SocketAddr, transport: Transport) {
        match transport {
            Transport::Udp => {
                let _lost = self
                    .socket
                    .as_ref()
                    .map(|socket| socket.try_send_to(&bytes, to));
            }
            Transport::Tcp => {
                let waiting = self.connections.remove(&to);
                let _gone = waiting.map(|waiting| waiting.send(bytes));
            }
        }
    }

    /// Asks the system's resolver; the result comes out of [`Self::looked_up`]. The core asks no more than [`MAX_LOOKUPS`]
    /// questions at once.
    pub(crate) fn look_up(
        &self,
        client: ClientId,
        query: (ForwardId, Transport),
        bytes: &[u8],
        resolver: Option<SystemResolver>,
    ) {
        let said = self.said.clone();
        // The core shortens an answer that is too long for a datagram.
        let asked = Asked::read(bytes, false);
        tokio::spawn(async move {
            let limit = Duration::from_millis(RESOLVE_LIMIT_MS);
            let answer = match asked {
                Some(asked) => timeout(limit, answer_of(&asked, resolver)).await.ok(),
                None => None,
            };
            let looked_up = LookedUp {
                client,
                query,
                answer,
            };
            // Nobody listens where the gateway ended.
            let _unheard = said.send(looked_up).await;
        });
    }
}

async fn answer_of(asked: &Asked, resolver: Option<SystemResolver>) -> Vec<u8> {
    let question = match asked.question() {
        Ok(question) => question,
        Err(code) => return asked.answer(code),
    };
    let Some(resolver) = resolver else {
        return asked.answer(ResponseCode::ServFail);
    };
    // The stub asks in letters of its own choice, which are none of the resolver's business.
    let name = question.whole.to_lowercase();
    asked.answer_with(&records(&resolver, name, question.kind).await)
}
