//! Every route of the API that changes something, asked for by someone who is shut out once the portal has
//! let them in.

use crate::armed::sign_in_as_owner;
use crate::browser::PASSWORD;
use crate::held_store::HeldStore;
use crate::logs::TIMEOUT;
use crate::roles::{Route, clear_providers};
use crate::served::served;
use crate::support::{Answer, Client, Running, api_token, make_actor, make_token};
use crate::things::{Things, make_things};
use culvert_ids::{ActorId, TokenId};
use culvert_store::{ActorKind, Change, MAX_CHANGES_READ, Role, Store, TokenScope};
use serde_json::json;
use std::sync::Arc;
use tokio::time::timeout;

/// The action of an owner against someone whose request is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShutOut {
    RevokeToken,
    EndSessions,
    Disable,
    Delete,
    Demote,
    EndSignIn,
    SetPassword,
}

/// A portal that holds requests back, and an owner of it.
pub(crate) struct World {
    pub(crate) running: Running,
    pub(crate) held: Arc<HeldStore>,
    owner: String,
    /// The address of the next connection, so that no address asks too often.
    from: u8,
}

/// Someone whose request is to be held back.
pub(crate) struct Caller {
    pub(crate) actor: ActorId,
    pub(crate) token: TokenId,
    pub(crate) bearer: String,
}

impl World {
    pub(crate) async fn start(url: Option<&str>) -> Self {
        let mut held = None;
        let hold = |store: Arc<dyn Store>| -> Arc<dyn Store> {
            let store = Arc::new(HeldStore::new(store));
            held = Some(Arc::clone(&store));
            store
        };
        let running = Running::start_on(tempfile::tempdir().unwrap(), url, hold).await;
        let owner = api_token(running.store.as_ref(), running.account(), Role::Owner).await;
        let held = held.unwrap();
        Self {
            running,
            held,
            owner,
            from: 0,
        }
    }

    /// A connection of nobody yet.
    pub(crate) async fn client(&mut self) -> Client {
        self.from = self.from % 250 + 1;
        self.running.client_at(self.from).await
    }

    pub(crate) async fn owner(&mut self) -> Client {
        let owner = self.owner.clone();
        self.client().await.with(&owner)
    }

    /// An owner with a token of that scope, who signs in.
    pub(crate) async fn caller(&self, scope: impl Fn(ActorId) -> TokenScope) -> Caller {
        let (store, account) = (self.running.store.as_ref(), self.running.account());
        let actor = make_actor(store, account, ActorKind::Admin).await;
        sign_in_as_owner(&self.running, actor).await;
        let (token, bearer) = make_token(store, account, scope(actor)).await;
        Caller {
            actor,
            token,
            bearer,
        }
    }

    /// One of everything, with people who have signed in.
    pub(crate) async fn things(&self) -> Things {
        clear_providers(&self.running).await;
        let (store, account) = (self.running.store.as_ref(), self.running.account());
        let things = make_things(store, account).await;
        for actor in [things.actor, things.member] {
            make_token(store, account, TokenScope::Session { actor }).await;
        }
        things
    }

    async fn shut_out(&mut self, how: ShutOut, caller: &Caller) {
        let Caller { actor, token, .. } = caller;
        let at = format!("/api/v1/actors/{actor}");
        let sign_in = format!("{at}/sign-in");
        let mut owner = self.owner().await;
        let answer = match how {
            ShutOut::RevokeToken => {
                let revoke = format!("/api/v1/tokens/{token}/revoke");
                owner.send("POST", &revoke, &[], None).await
            }
            ShutOut::EndSessions => {
                let sessions = format!("{at}/sessions");
                owner.delete(&sessions).await
            }
            ShutOut::Disable => owner.patch(&at, "*", json!({"disabled": true})).await,
            ShutOut::Delete => owner.delete(&format!("{at}?cascade=true")).await,
            ShutOut::Demote => owner.post(&sign_in, json!({"role": "auditor"})).await,
            ShutOut::EndSignIn => owner.delete(&sign_in).await,
            ShutOut::SetPassword => {
                let body = json!({"role": "owner", "password": PASSWORD});
                owner.post(&sign_in, body).await
            }
        };
        assert!(answer.status.is_success(), "{how:?}: {answer:?}");
    }

    /// Holds a request of the caller back, shuts the caller out, and lets the request go on: its answer, and what
    /// it has changed.
    pub(crate) async fn attempt(
        &mut self,
        caller: &Caller,
        how: Option<ShutOut>,
        request: impl Future<Output = Answer>,
    ) -> (Answer, Vec<Change>) {
        let mut hold = self.held.hold(caller.token);
        let store = Arc::clone(&self.running.store);
        let account = self.running.account();
        let meanwhile = async {
            hold.reached().await;
            if let Some(how) = how {
                self.shut_out(how, caller).await;
            }
            let seq = store.snapshot(account).await.unwrap().seq;
            hold.release();
            seq
        };
        let both = async { tokio::join!(request, meanwhile) };
        let (answer, seq) = timeout(TIMEOUT, both).await.expect("it is held and let go");
        let changes = store.changes_after(account, seq, MAX_CHANGES_READ).await;
        (answer, changes.unwrap())
    }
}

const WAYS: [ShutOut; 5] = [
    ShutOut::RevokeToken,
    ShutOut::Disable,
    ShutOut::Delete,
    ShutOut::Demote,
    ShutOut::EndSignIn,
];

/// Has the thing be such that the route changes something.
async fn prepare(owner: &mut Client, route: &Route, things: &Things) {
    if (&*route.method, &*route.template) == ("DELETE", "/api/v1/actors/{id}/invitation") {
        let invite = owner
            .post(&route.path(things), json!({"role": "auditor"}))
            .await;
        invite.expect(201);
        return;
    }
    let before = match route.template.strip_prefix("/api/v1/").unwrap() {
        "clients/{id}/unverify" => format!("clients/{}/verify", things.client),
        "gateways/{id}/unverify" => format!("gateways/{}/verify", things.gateway),
        "gateways/{id}/undrain" => format!("gateways/{}/drain", things.gateway),
        "relays/{id}/undrain" => format!("relays/{}/drain", things.relay),
        _ => return,
    };
    let path = format!("/api/v1/{before}");
    owner.send("POST", &path, &[], None).await.expect(200);
}

#[tokio::test]
async fn no_route_of_the_api_does_anything_for_whom_was_shut_out_while_it_worked() {
    let mut world = World::start(None).await;
    let served = served(&world.running).into_iter();
    let changing = served.filter(|route| route.is_of_api() && route.is_mutating());
    let changing = changing.map(|route| Route {
        method: route.method,
        template: route.template,
    });
    // Those who come without an API token: `setup` uses its token up in the write, machines sign in for
    // nobody yet, and sessions and other portals look again (`tests/sessions`).
    let is_other = |route: &Route| route.is_setup() || route.template.contains("/session/");
    let (others, routes): (Vec<Route>, Vec<Route>) = changing.partition(is_other);
    assert_eq!(others.len(), 7, "{others:?}");
    let (mut wrong, mut tried) = (Vec::new(), 0);
    for route in &routes {
        let things = world.things().await;
        prepare(&mut world.owner().await, route, &things).await;
        for how in WAYS.map(Some).into_iter().chain([None]) {
            let role = Role::Owner;
            let caller = world.caller(|actor| TokenScope::Api { actor, role }).await;
            let mut client = world.client().await.with(&caller.bearer);
            let request = route.send(&mut client, &things);
            let (answer, changes) = world.attempt(&caller, how, request).await;
            let status = answer.status.as_u16();
            // A line that a sink takes is in no log of changes.
            let is_logged = !route.template.ends_with("/test");
            let is_right = match how {
                Some(ShutOut::Demote) => status == 403 && changes.is_empty(),
                Some(_) => status == 401 && changes.is_empty(),
                None => answer.status.is_success() && changes.is_empty() != is_logged,
            };
            if !is_right {
                wrong.push(format!("{route:?} {how:?}: {answer:?} {changes:?}"));
            }
        }
        tried += 1;
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    println!(
        "{tried} routes of the API were tried in {} ways",
        WAYS.len()
    );
    assert_eq!(tried, routes.len());
    assert!(tried >= 40, "{tried}");
}
