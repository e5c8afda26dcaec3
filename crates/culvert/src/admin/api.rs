//! Operations on objects of the API that are the same for every kind.

use super::http::{Ask, Http, RequestError};
use crate::exit::{Failure, Status};
use crate::json;
use culvert_base::quoted;
use culvert_ids::{
    ActorId, ClientId, GatewayId, GroupId, PolicyId, ProviderId, RelayId, ResourceId, SiteId,
    TokenId,
};
use culvert_wire::api::{
    Account, AccountPatch, Actor, ChangeLogEntry, Client, Gateway, Group, MAX_PAGE_LEN, PREFIX,
    Page, Policy, ProblemKind, Provider, Relay, Resource, Site, Token,
};
use hyper::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::HashMap;
use std::fmt::Display;
use std::hash::Hash;
use std::str::FromStr;

/// Most entries of a list that are fetched: the portal has at most 10,000 resources and as many
/// policies in one configuration; ten times that is still a terminal's patience.
pub(super) const MAX_LIST_LEN: usize = 100_000;

/// A kind of thing that the API manages.
pub(super) trait Entity: DeserializeOwned + Serialize {
    type Id: FromStr + Display + Copy + Eq + Hash;
    /// Its name on the command line.
    const KIND: &'static str;
    /// Its list, under [`PREFIX`].
    const PATH: &'static str;

    fn id(&self) -> Self::Id;
    fn name(&self) -> &str;
    fn version(&self) -> u64;
    /// Another one may have its name.
    fn is_revoked(&self) -> bool {
        false
    }
    /// The portal's warnings about it.
    fn warnings(&self) -> &[String] {
        &[]
    }
}

macro_rules! entities {
    ($($name:ident($id:ident) = $kind:literal, $path:literal $(, revoked: $revoked:ident)? $(, warnings: $warnings:ident)?;)*) => {$(
        impl Entity for $name {
            type Id = $id;
            const KIND: &'static str = $kind;
            const PATH: &'static str = $path;

            fn id(&self) -> $id {
                self.id
            }

            fn name(&self) -> &str {
                &self.name
            }

            fn version(&self) -> u64 {
                self.version
            }

            $(fn is_revoked(&self) -> bool {
                self.$revoked.is_some()
            })?

            $(fn warnings(&self) -> &[String] {
                &self.$warnings
            })?
        }
    )*};
}

entities! {
    Actor(ActorId) = "actor", "/actors";
    Client(ClientId) = "client", "/clients", revoked: revoked;
    Gateway(GatewayId) = "gateway", "/gateways", revoked: revoked;
    Group(GroupId) = "group", "/groups";
    Policy(PolicyId) = "policy", "/policies", warnings: warnings;
    Provider(ProviderId) = "identity provider", "/providers";
    Relay(RelayId) = "relay", "/relays", revoked: revoked;
    Resource(ResourceId) = "resource", "/resources", warnings: warnings;
    Site(SiteId) = "site", "/sites";
    Token(TokenId) = "token", "/tokens", revoked: revoked;
}

/// The query string of a request.
#[derive(Clone, Debug, Default)]
pub(super) struct Query(Vec<(&'static str, String)>);

impl Query {
    pub(super) fn with(mut self, name: &'static str, value: impl Display) -> Self {
        self.0.push((name, value.to_string()));
        self
    }

    pub(super) fn with_some(self, name: &'static str, value: Option<impl Display>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    fn path(&self, path: &str) -> String {
        if self.0.is_empty() {
            return format!("{PREFIX}{path}");
        }
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(&self.0);
        format!("{PREFIX}{path}?{}", query.finish())
    }
}

/// The names of a kind's things, by their ids.
#[derive(Debug)]
pub(super) struct Names<I>(HashMap<I, String>);

impl<I: Eq + Hash + Display> Names<I> {
    /// The name; the id of an object that is gone.
    pub(super) fn of(&self, id: &I) -> String {
        self.0.get(id).cloned().unwrap_or_else(|| id.to_string())
    }
}

/// The portal's API, by its types.
pub(super) struct Api {
    http: Http,
}

impl Api {
    pub(super) const fn new(http: Http) -> Self {
        Self { http }
    }

    /// The URL of the portal.
    pub(super) fn url(&self) -> &str {
        &self.http.portal().url
    }

    pub(super) async fn get<T: DeserializeOwned>(
        &mut self,
        path: &str,
        query: &Query,
    ) -> Result<T, RequestError> {
        self.http.send(&Ask::get(&query.path(path))).await
    }

    pub(super) async fn post<T: DeserializeOwned>(
        &mut self,
        path: &str,
        query: &Query,
        body: &impl Serialize,
    ) -> Result<T, RequestError> {
        self.post_at(&query.path(path), None, body).await
    }

    /// The same; with a version, only if the object is still at that.
    pub(super) async fn post_at<T: DeserializeOwned>(
        &mut self,
        path: &str,
        if_match: Option<u64>,
        body: &impl Serialize,
    ) -> Result<T, RequestError> {
        let ask = Ask {
            method: Method::POST,
            if_match,
            body: Some(json::body(body)?),
            ..Ask::get(path)
        };
        self.http.send(&ask).await
    }

    /// Hands over an answer as it comes, until `take` has enough.
    pub(super) async fn stream(
        &mut self,
        path: &str,
        query: &Query,
        take: impl FnMut(&[u8]) -> Result<bool, Failure>,
    ) -> Result<(), RequestError> {
        self.http.stream(&Ask::get(&query.path(path)), take).await
    }

    /// The first `most` entries of a list.
    pub(super) async fn list_of<T: DeserializeOwned>(
        &mut self,
        path: &str,
        query: &Query,
        most: usize,
    ) -> Result<Vec<T>, RequestError> {
        let mut items = Vec::new();
        let mut cursor: Option<String> = None;
        while items.len() < most {
            let limit = (most - items.len()).min(usize::from(MAX_PAGE_LEN));
            let query = query
                .clone()
                .with("limit", limit)
                .with_some("cursor", cursor.as_ref());
            let page: Page<T> = self.get(path, &query).await?;
            items.extend(page.items);
            let Some(next) = page.next_cursor else {
                break;
            };
            cursor = Some(next);
        }
        items.truncate(most);
        Ok(items)
    }

    /// Everything of a kind.
    pub(super) async fn list<T: Entity>(&mut self, query: &Query) -> Result<Vec<T>, Failure> {
        Ok(self.list_of(T::PATH, query, MAX_LIST_LEN).await?)
    }

    pub(super) async fn names<T: Entity>(&mut self) -> Result<Names<T::Id>, Failure> {
        let items: Vec<T> = self.list(&Query::default()).await?;
        let named = items.iter().map(|item| (item.id(), item.name().to_owned()));
        Ok(Names(named.collect()))
    }

    /// The thing that `which` names, by its id or its name. Of several with one name, all but one are
    /// revoked.
    pub(super) async fn find<T: Entity>(&mut self, which: &str) -> Result<T, Failure> {
        if let Ok(id) = which.parse::<T::Id>() {
            return Ok(self.by_id(id).await?);
        }
        let query = Query::default().with("name", which);
        let found: Vec<T> = self.list(&query).await?;
        let (revoked, mut live): (Vec<T>, Vec<T>) = found.into_iter().partition(T::is_revoked);
        let candidates = if live.is_empty() { &revoked } else { &live };
        let kind = T::KIND;
        match candidates.len() {
            0 => Err(Failure::new(
                Status::Failed,
                format_args!(
                    "there is no {kind} named {}; `culvert admin {kind} list` shows all",
                    quoted(which)
                ),
            )),
            1 => Ok(live
                .pop()
                .or_else(|| revoked.into_iter().next())
                .ok_or_else(|| {
                    let which = quoted(which);
                    Failure::new(Status::Failed, format_args!("there is no {kind} {which}"))
                })?),
            _ => {
                let ids = candidates.iter().map(|item| item.id().to_string());
                let ids = ids.collect::<Vec<_>>().join(", ");
                Err(Failure::new(
                    Status::Usage,
                    format_args!(
                        "several are named {}; say which by its id: {ids}",
                        quoted(which)
                    ),
                ))
            }
        }
    }

    /// The id of the thing that `which` names.
    pub(super) async fn id_of<T: Entity>(&mut self, which: &str) -> Result<T::Id, Failure> {
        match which.parse() {
            Ok(id) => Ok(id),
            Err(_) => Ok(self.find::<T>(which).await?.id()),
        }
    }

    /// The same, where there is something to look for.
    pub(super) async fn id_of_some<T: Entity>(
        &mut self,
        which: Option<&str>,
    ) -> Result<Option<T::Id>, Failure> {
        match which {
            Some(which) => self.id_of::<T>(which).await.map(Some),
            None => Ok(None),
        }
    }

    pub(super) async fn account(&mut self) -> Result<Account, RequestError> {
        self.get("/account", &Query::default()).await
    }

    /// Changes an object without an id of its own; with a version, only if it is still at that.
    pub(super) async fn patch<T: DeserializeOwned>(
        &mut self,
        path: &str,
        if_match: Option<u64>,
        patch: &impl Serialize,
    ) -> Result<T, RequestError> {
        let path = format!("{PREFIX}{path}");
        let ask = Ask {
            method: Method::PATCH,
            if_match,
            body: Some(json::body(patch)?),
            ..Ask::get(&path)
        };
        self.http.send(&ask).await
    }

    /// Changes the account if it is still at `version`.
    pub(super) async fn change_account(
        &mut self,
        version: u64,
        patch: &AccountPatch,
    ) -> Result<Account, RequestError> {
        self.patch("/account", Some(version), patch).await
    }

    pub(super) async fn by_id<T: Entity>(&mut self, id: T::Id) -> Result<T, RequestError> {
        self.get(&format!("{}/{id}", T::PATH), &Query::default())
            .await
    }

    pub(super) async fn create<T: Entity>(&mut self, new: &impl Serialize) -> Result<T, Failure> {
        Ok(self.post(T::PATH, &Query::default(), new).await?)
    }

    /// Changes the object, unless someone else has changed it since. `expected` is the version that
    /// the user has seen, where they said so.
    pub(super) async fn change<T: Entity>(
        &mut self,
        found: &T,
        expected: Option<u64>,
        patch: &impl Serialize,
    ) -> Result<T, Failure> {
        let path = format!("{PREFIX}{}/{}", T::PATH, found.id());
        let ask = Ask {
            method: Method::PATCH,
            path: &path,
            if_match: Some(expected.unwrap_or(found.version())),
            body: Some(json::body(patch)?),
        };
        let changed = self.http.send(&ask).await;
        self.or_who_changed(found, changed).await
    }

    /// Does what the word at the end of the path says, such as `revoke`.
    pub(super) async fn act<T: Entity>(
        &mut self,
        found: &T,
        expected: Option<u64>,
        word: &str,
    ) -> Result<T, Failure> {
        self.ask_of(Method::POST, found, expected, word).await
    }

    /// The same, with a body.
    pub(super) async fn act_with<T: Entity>(
        &mut self,
        found: &T,
        expected: Option<u64>,
        word: &str,
        body: &impl Serialize,
    ) -> Result<T, Failure> {
        let path = format!("{PREFIX}{}/{}/{word}", T::PATH, found.id());
        let ask = Ask {
            method: Method::POST,
            path: &path,
            if_match: expected,
            body: Some(json::body(body)?),
        };
        let done = self.http.send(&ask).await;
        self.or_who_changed(found, done).await
    }

    /// Takes away what the word at the end of the path says, such as `second-factor`.
    pub(super) async fn take_away<T: Entity>(
        &mut self,
        found: &T,
        word: &str,
    ) -> Result<T, Failure> {
        self.ask_of(Method::DELETE, found, None, word).await
    }

    async fn ask_of<T: Entity>(
        &mut self,
        method: Method,
        found: &T,
        expected: Option<u64>,
        word: &str,
    ) -> Result<T, Failure> {
        let path = format!("{PREFIX}{}/{}/{word}", T::PATH, found.id());
        let ask = Ask {
            method,
            if_match: expected,
            ..Ask::get(&path)
        };
        let done = self.http.send(&ask).await;
        self.or_who_changed(found, done).await
    }

    /// Deletes the object, unless someone else has changed it since. `fix` is what to do where
    /// something still uses it.
    pub(super) async fn delete<T: Entity>(
        &mut self,
        found: &T,
        expected: Option<u64>,
        query: &Query,
        fix: &str,
    ) -> Result<(), Failure> {
        let path = query.path(&format!("{}/{}", T::PATH, found.id()));
        let ask = Ask {
            method: Method::DELETE,
            if_match: Some(expected.unwrap_or(found.version())),
            ..Ask::get(&path)
        };
        let mut deleted = self.http.send(&ask).await;
        if let Err(RequestError::Problem(problem)) = &mut deleted
            && problem.status == ProblemKind::Conflict.status()
            && let Some(detail) = problem.detail.take()
        {
            problem.detail = Some(self.with_names(&detail).await + fix);
        }
        self.or_who_changed(found, deleted).await
    }

    /// A text in which ids stand behind what they name.
    async fn with_names(&mut self, text: &str) -> String {
        let mut told = String::new();
        for part in text.split_inclusive([' ', ',', ';']) {
            let id = part.trim_end_matches([' ', ',', ';']);
            let known = self.named(id).await;
            let known = known.unwrap_or_else(|| id.to_owned());
            told += &known;
            told += &part[id.len()..];
        }
        told
    }

    /// `resource "db" (res_…)`; nothing for an object without a name.
    async fn named(&mut self, id: &str) -> Option<String> {
        match id.split_once('_')?.0 {
            "act" => self.named_as::<Actor>(id).await,
            "cli" => self.named_as::<Client>(id).await,
            "gw" => self.named_as::<Gateway>(id).await,
            "grp" => self.named_as::<Group>(id).await,
            "pol" => self.named_as::<Policy>(id).await,
            "rly" => self.named_as::<Relay>(id).await,
            "res" => self.named_as::<Resource>(id).await,
            "site" => self.named_as::<Site>(id).await,
            "tok" => self.named_as::<Token>(id).await,
            _ => None,
        }
    }

    async fn named_as<T: Entity>(&mut self, id: &str) -> Option<String> {
        let found: T = self.by_id(id.parse().ok()?).await.ok()?;
        Some(format!("{} {} ({id})", T::KIND, quoted(found.name())))
    }

    /// Deletes an object that has neither name nor version.
    pub(super) async fn remove(&mut self, path: &str) -> Result<(), Failure> {
        let path = format!("{PREFIX}{path}");
        let ask = Ask {
            method: Method::DELETE,
            ..Ask::get(&path)
        };
        Ok(self.http.send(&ask).await?)
    }

    /// If the version was another one, says who made it so.
    async fn or_who_changed<T: Entity, R>(
        &mut self,
        found: &T,
        result: Result<R, RequestError>,
    ) -> Result<R, Failure> {
        let is_conflict = |status| status == ProblemKind::VersionConflict.status();
        match result {
            Err(RequestError::Problem(problem)) if is_conflict(problem.status) => {
                let version = problem.current_version.unwrap_or_default();
                let (kind, name, id) = (T::KIND, quoted(found.name()), found.id());
                let by = self.who_changed(&id.to_string()).await.unwrap_or_default();
                Err(Failure::new(
                    Status::Failed,
                    format_args!(
                        "{kind} {name} was changed in the meantime{by}: it is at version {version} \
                         now; look at it (`culvert admin {kind} show {id}`), then try again"
                    ),
                ))
            }
            result => Ok(result?),
        }
    }

    /// ` by NAME at INSTANT`, as far as the change log says it.
    async fn who_changed(&mut self, id: &str) -> Option<String> {
        let query = Query::default().with("entity_id", id);
        let entries = self.list_of("/log/changes", &query, 1).await.ok()?;
        let entry: &ChangeLogEntry = entries.first()?;
        let by = match entry.actor {
            Some(actor) => match self.by_id::<Actor>(actor).await {
                Ok(actor) => quoted(&actor.name),
                Err(_) => actor.to_string(),
            },
            None => "the portal itself".to_owned(),
        };
        Some(format!(" by {by} at {}", entry.at))
    }
}
