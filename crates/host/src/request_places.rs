//! The places of requests at the socket, so that no user takes those of all others.
//!
//! A connection that has sent no request yet costs its buffer; one that is answered costs the answer, which may have
//! megabytes. So there are many places of the first kind and few of the second. Root and the user who runs the
//! service have places of their own of both kinds.

use crate::{ErrorCode, SocketError};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Connections of one user at once: some collectors and windows, each with a request under way. Each has a buffer of
/// 5 KiB.
pub(crate) const MAX_CONNECTIONS_PER_USER: usize = 32;

/// Connections of all users but root and the one who runs the service: eight users at their bound.
const MAX_CONNECTIONS: usize = 8 * MAX_CONNECTIONS_PER_USER;

/// Answers of one user at once. Further ones wait.
const MAX_ANSWERS_PER_USER: usize = 4;

/// Answers of all users but root and the one who runs the service at once. With 10,000 resources an answer has 4 MiB.
const MAX_ANSWERS: usize = 16;

/// The places, and the users who have some.
#[derive(Debug)]
pub(crate) struct RequestPlaces {
    /// The user who runs this process.
    own: u32,
    users: Mutex<BTreeMap<u32, User>>,
    answers: Arc<Semaphore>,
}

#[derive(Debug)]
struct User {
    connections: usize,
    answers: Arc<Semaphore>,
}

impl RequestPlaces {
    /// All places are free. `own` is the user who runs this process.
    pub(crate) fn new(own: u32) -> Self {
        Self {
            own,
            users: Mutex::default(),
            answers: Arc::new(Semaphore::new(MAX_ANSWERS)),
        }
    }

    /// A place for a connection of this user; otherwise the reason why there is none.
    pub(crate) fn enter(self: &Arc<Self>, uid: u32) -> Result<ConnectionPlace, SocketError> {
        let mut users = self.users();
        let of_others = users
            .iter()
            .filter(|(uid, _)| !self.has_own_places(**uid))
            .map(|(_, user)| user.connections)
            .sum::<usize>();
        if !self.has_own_places(uid) && of_others >= MAX_CONNECTIONS {
            return Err(ErrorCode::TooManyRequests.because(format!(
                "{of_others} requests are under way, which is the limit: try again"
            )));
        }
        let user = users.entry(uid).or_insert_with(|| User {
            connections: 0,
            answers: Arc::new(Semaphore::new(MAX_ANSWERS_PER_USER)),
        });
        if user.connections >= MAX_CONNECTIONS_PER_USER {
            return Err(ErrorCode::TooManyRequests.because(format!(
                "{} requests of this user are under way, which is the limit: try again",
                user.connections
            )));
        }
        user.connections += 1;
        let answers = Arc::clone(&user.answers);
        drop(users);
        Ok(ConnectionPlace {
            places: Arc::clone(self),
            uid,
            answers,
        })
    }

    const fn has_own_places(&self, uid: u32) -> bool {
        uid == 0 || uid == self.own
    }

    fn users(&self) -> MutexGuard<'_, BTreeMap<u32, User>> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of one connection.
#[derive(Debug)]
pub(crate) struct ConnectionPlace {
    places: Arc<RequestPlaces>,
    uid: u32,
    answers: Arc<Semaphore>,
}

/// The place of one answer.
#[derive(Debug)]
pub(crate) struct AnswerPlace {
    _of_user: OwnedSemaphorePermit,
    _of_all: Option<OwnedSemaphorePermit>,
}

impl ConnectionPlace {
    /// A place for the answer, once there is one. Nothing if the program ends.
    pub(crate) async fn answer(&self) -> Option<AnswerPlace> {
        let of_user = Arc::clone(&self.answers).acquire_owned().await.ok()?;
        let of_all = match self.places.has_own_places(self.uid) {
            true => None,
            false => {
                let of_all = Arc::clone(&self.places.answers).acquire_owned();
                Some(of_all.await.ok()?)
            }
        };
        Some(AnswerPlace {
            _of_user: of_user,
            _of_all: of_all,
        })
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        let mut users = self.places.users();
        if let Some(user) = users.get_mut(&self.uid) {
            user.connections -= 1;
            if user.connections == 0 {
                users.remove(&self.uid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::time::timeout;

    /// The user who runs the service, and others.
    const OWN: u32 = 990;
    const ADA: u32 = 1_000;

    fn fill(places: &Arc<RequestPlaces>, uid: u32) -> Vec<ConnectionPlace> {
        std::iter::from_fn(|| places.enter(uid).ok()).collect()
    }

    #[test]
    fn silent_connections_of_one_user_leave_room_for_all_others() {
        let places = Arc::new(RequestPlaces::new(OWN));
        let mut held = fill(&places, ADA);
        assert_eq!(held.len(), MAX_CONNECTIONS_PER_USER);
        let refusal = places.enter(ADA).unwrap_err();
        assert!(refusal.text.contains("of this user"), "{refusal}");
        assert_eq!(refusal.code, ErrorCode::TooManyRequests);
        assert!(places.enter(ADA + 1).is_ok());
        held.pop();
        assert!(places.enter(ADA).is_ok());
    }

    #[test]
    fn root_and_the_service_have_places_however_many_users_there_are() {
        let places = Arc::new(RequestPlaces::new(OWN));
        let held: Vec<_> = (0..100)
            .flat_map(|number| fill(&places, ADA + number))
            .collect();
        assert_eq!(held.len(), MAX_CONNECTIONS);
        assert!(places.enter(ADA + 200).is_err());
        for uid in [0, OWN] {
            assert_eq!(fill(&places, uid).len(), MAX_CONNECTIONS_PER_USER);
        }
        drop(held);
        assert!(places.users().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn answers_of_one_user_wait_for_each_other_and_for_nobody_else() {
        let places = Arc::new(RequestPlaces::new(OWN));
        let connections = fill(&places, ADA);
        let mut held = Vec::new();
        for connection in &connections[..MAX_ANSWERS_PER_USER] {
            held.push(connection.answer().await.unwrap());
        }
        let waits = connections[MAX_ANSWERS_PER_USER].answer();
        assert!(timeout(Duration::from_secs(60), waits).await.is_err());
        for number in 1..4 {
            let connection = places.enter(ADA + number).unwrap();
            for _ in 0..MAX_ANSWERS_PER_USER {
                held.push(connection.answer().await.unwrap());
            }
        }
        let other = places.enter(ADA + 9).unwrap();
        assert!(
            timeout(Duration::from_secs(60), other.answer())
                .await
                .is_err()
        );
        let own = places.enter(OWN).unwrap();
        assert!(own.answer().await.is_some());
        held.pop();
        assert!(other.answer().await.is_some());
    }
}
