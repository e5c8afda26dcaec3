//! The portal's REST API.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use culvert_wire::api::PREFIX;
use culvert_wire::token::{Bearer, Portal};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, IF_MATCH, RETRY_AFTER};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde_json::Value;
use tokio::time::sleep;

/// A REST client: the portal and the credential of its requests.
pub(super) struct Rest<'a> {
    portal: &'a Portal,
    bearer: &'a Bearer,
}

/// One request.
pub(super) struct Ask {
    method: &'static str,
    path: String,
    if_match: Option<String>,
    body: Vec<u8>,
}

impl Ask {
    pub(super) fn new(method: &'static str, path: &str) -> Self {
        Self {
            method,
            path: format!("{PREFIX}{path}"),
            if_match: None,
            body: Vec::new(),
        }
    }

    pub(super) fn with(mut self, body: &impl Serialize) -> Self {
        // All of them have a JSON form.
        self.body = serde_json::to_vec(body).unwrap_or_default();
        self
    }

    pub(super) fn if_match(mut self, tag: String) -> Self {
        self.if_match = Some(tag);
        self
    }
}

impl<'a> Rest<'a> {
    pub(super) const fn new(portal: &'a Portal, bearer: &'a Bearer) -> Self {
        Self { portal, bearer }
    }

    pub(super) async fn is_ready(&self) -> bool {
        let ready = Ask {
            path: "/readyz".to_owned(),
            ..Ask::new("GET", "")
        };
        let answer = self.send(&ready).await;
        answer.is_ok_and(|answer| answer.status().is_success())
    }

    /// Asks on a connection of its own; waits where the portal says so.
    pub(super) async fn ask(&self, ask: &Ask) -> Result<Value> {
        loop {
            let answer = self.send(ask).await?;
            let status = answer.status();
            let wait = answer.headers().get(RETRY_AFTER).cloned();
            let body = answer.into_body();
            if status.is_success() {
                return Ok(serde_json::from_slice(&body)?);
            }
            match wait.and_then(|wait| wait.to_str().ok()?.parse().ok()) {
                Some(wait_s) if status.as_u16() == 429 => sleep(Duration::from_secs(wait_s)).await,
                _ => {
                    let text = String::from_utf8_lossy(&body);
                    bail!("{} {}: {status} {text}", ask.method, ask.path);
                }
            }
        }
    }

    async fn send(&self, ask: &Ask) -> Result<Response<Bytes>> {
        let stream = culvert_link::open(self.portal).await?;
        let (mut sender, driver) = http1::handshake(TokioIo::new(stream)).await?;
        // It ends with the sender, which is told what it meets.
        tokio::spawn(driver);
        let authority = self.portal.url.trim_start_matches("https://");
        let bearer = format!("Bearer {}", *self.bearer.expose());
        let mut request = Request::builder()
            .method(ask.method)
            .uri(&ask.path)
            .header(HOST, authority)
            .header(AUTHORIZATION, bearer);
        if let Some(tag) = &ask.if_match {
            request = request.header(IF_MATCH, tag);
        }
        if !ask.body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let request = request.body(Full::new(Bytes::from(ask.body.clone())))?;
        let answer = sender.send_request(request).await.context("no answer")?;
        let (head, body) = answer.into_parts();
        Ok(Response::from_parts(head, body.collect().await?.to_bytes()))
    }
}
