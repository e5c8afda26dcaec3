//! Stands in for a browser that uses the console, as far as it matters for the requests sent.

use crate::support::{Answer, Client, Running, birth, make_actor, now};
use culvert_ids::ActorId;
use culvert_store::{ActorKind, Role};
use serde_json::json;

pub(crate) const PASSWORD: &str = "correct horse battery";

/// The header that a page's script sends when it asks for the page again.
pub(crate) const LIVE: &[(&str, &str)] = &[("x-culvert-live", "1")];

/// A browser that keeps cookies, and sends forms as browsers do.
pub(crate) struct Browser {
    pub(crate) client: Client,
    pub(crate) cookie: Option<String>,
    /// The cookie that it keeps while it is on the way to an identity provider.
    pub(crate) way: Option<String>,
    /// By what it is known at the next sign-in.
    pub(crate) mark: Option<String>,
    /// The notice for the next page.
    notice: Option<String>,
    theme: Option<String>,
    moves: u8,
}

impl Browser {
    pub(crate) async fn open(running: &Running) -> Self {
        Self {
            client: running.client().await,
            cookie: None,
            way: None,
            mark: None,
            notice: None,
            theme: None,
            moves: 0,
        }
    }

    /// Goes on at the next address.
    pub(crate) async fn move_on(&mut self, running: &Running) {
        self.moves = self.moves.wrapping_add(1);
        self.client = running.client_at(self.moves).await;
    }

    pub(crate) async fn get(&mut self, path: &str) -> Answer {
        self.send("GET", path, &[], None).await
    }

    /// Sends a form of a page of this session.
    pub(crate) async fn submit(&mut self, path: &str, fields: &[(&str, &str)]) -> Answer {
        let form_token = match self.cookie {
            Some(_) => self.form_token().await,
            None => String::new(),
        };
        self.submit_with(path, &form_token, fields).await
    }

    /// The same for who must get a second factor first, and sees no other page.
    pub(crate) async fn submit_enrolling(&mut self, path: &str, fields: &[(&str, &str)]) -> Answer {
        let page = self.get("/me/second-factor").await.expect(200);
        let form_token = Self::form_token_of(&page);
        self.submit_with(path, &form_token, fields).await
    }

    pub(crate) async fn submit_with(
        &mut self,
        path: &str,
        form_token: &str,
        fields: &[(&str, &str)],
    ) -> Answer {
        let origin = format!("https://{}", self.client.host);
        let headers = [("origin", &*origin), ("sec-fetch-site", "same-origin")];
        let body = encode(form_token, fields);
        self.send("POST", path, &headers, Some(body)).await
    }

    /// The token that forms on the pages of this session send.
    pub(crate) async fn form_token(&mut self) -> String {
        let page = self.get("/me").await.expect(200);
        Self::form_token_of(&page)
    }

    fn form_token_of(page: &Answer) -> String {
        let (_, rest) = page
            .text
            .split_once("name=\"form_token\" value=\"")
            .unwrap();
        rest.split('"').next().unwrap().to_owned()
    }

    pub(crate) async fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        form: Option<String>,
    ) -> Answer {
        let mut headers = headers.to_vec();
        let cookies = [
            &self.cookie,
            &self.way,
            &self.mark,
            &self.notice,
            &self.theme,
        ];
        let cookies = cookies.into_iter().flatten();
        let cookies: Vec<String> = cookies.cloned().collect();
        let cookies = cookies.join("; ");
        if !cookies.is_empty() {
            headers.push(("cookie", &cookies));
        }
        if form.is_some() {
            headers.push(("content-type", "application/x-www-form-urlencoded"));
        }
        let body = form.map(String::into_bytes);
        let answer = self.client.send(method, path, &headers, body).await;
        for cookie in answer.headers.get_all("set-cookie") {
            let pair = cookie.to_str().unwrap().split(';').next().unwrap();
            let is_stored = !pair.ends_with('=');
            let stored = is_stored.then(|| pair.to_owned());
            match pair.split_once('=') {
                Some(("__Host-culvert-way", _)) => self.way = stored,
                Some(("__Host-culvert-browser", _)) => self.mark = stored,
                Some(("__Host-culvert-notice", _)) => self.notice = stored,
                Some(("__Host-culvert-theme", _)) => self.theme = stored,
                _ => self.cookie = stored,
            }
        }
        answer
    }

    pub(crate) async fn sign_in(&mut self, name: &str, password: &str) -> Answer {
        self.submit("/sign-in", &[("name", name), ("password", password)])
            .await
    }
}

pub(crate) fn encode(form_token: &str, fields: &[(&str, &str)]) -> String {
    let mut body = form_urlencoded::Serializer::new(String::new());
    body.append_pair("form_token", form_token);
    for (name, value) in fields {
        body.append_pair(name, value);
    }
    body.finish()
}

/// Someone who signs in with [`PASSWORD`].
pub(crate) async fn person(running: &Running, role: Role) -> (ActorId, String) {
    let kind = match role {
        Role::User => ActorKind::User,
        Role::Auditor | Role::Admin | Role::Owner => ActorKind::Admin,
    };
    let actor = make_actor(running.store.as_ref(), running.account(), kind).await;
    let mut owner = running.owner().await;
    let role = serde_json::to_value(role).unwrap();
    let body = json!({"role": role, "password": PASSWORD});
    owner
        .post(&format!("/api/v1/actors/{actor}/sign-in"), body)
        .await
        .expect(200);
    (actor, format!("actor {actor}"))
}

/// A browser in which someone of that role has signed in.
pub(crate) async fn signed_in(running: &Running, role: Role) -> Browser {
    let (_, name) = person(running, role).await;
    let mut browser = Browser::open(running).await;
    browser.sign_in(&name, PASSWORD).await.expect(303);
    assert!(browser.cookie.is_some());
    browser
}

/// A name that nothing has yet.
pub(crate) fn fresh(what: &str) -> String {
    let (_, random) = birth();
    let _ = now();
    format!(
        "{what} {:x}",
        u64::from_be_bytes(random[..8].try_into().unwrap())
    )
}
