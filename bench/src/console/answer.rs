//! Asking for a page, as a browser does that has signed in, or as a program with a token.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use culvert_wire::token::{Bearer, Portal};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{
    AUTHORIZATION, CONTENT_TYPE, COOKIE, HOST, HeaderName, HeaderValue, ORIGIN, RETRY_AFTER,
    SET_COOKIE,
};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::time::sleep;

use super::pages::{Page, Until, Who};
use crate::portal::process::Process;

/// The owner's password.
const PASSWORD: &str = "correct horse battery";

/// Lets the owner sign in.
pub(crate) async fn give_password(portal: &Process) -> Result<()> {
    let owner = portal.get("/actors?name=owner").await?;
    let id = owner["items"][0]["id"].as_str().unwrap_or_default();
    let password = json!({"role": "owner", "password": PASSWORD});
    let path = format!("/actors/{id}/sign-in");
    portal.post(&path, &password).await?;
    Ok(())
}

/// Somebody who has signed in to the console, and has a token of the API.
pub(crate) struct Asker {
    portal: Portal,
    cookie: HeaderValue,
    authorization: HeaderValue,
}

/// An HTTP response.
pub(super) struct Answer {
    pub(super) took: Duration,
    pub(super) bytes: usize,
}

impl Asker {
    pub(crate) async fn sign_in(portal: &Process) -> Result<Self> {
        let to = portal.portal().clone();
        let form = format!("name=owner&password={}", PASSWORD.replace(' ', "+"));
        let request = Request::post("/sign-in")
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(ORIGIN, &to.url)
            .header("sec-fetch-site", "same-origin")
            .body(Full::new(Bytes::from(form)))?;
        let answer = send(&to, request).await?.1;
        let cookie = answer.headers().get(SET_COOKIE).context("no session")?;
        let cookie = cookie.to_str()?.split(';').next().unwrap_or_default();
        Ok(Self {
            cookie: HeaderValue::from_str(cookie)?,
            authorization: bearer(portal.owner())?,
            portal: to,
        })
    }

    /// Asks, and waits first where the portal wants that of who asks so often.
    pub(super) async fn ask(&self, page: &Page) -> Result<Answer> {
        loop {
            let (name, value): (HeaderName, _) = match page.who {
                Who::Person => (COOKIE, &self.cookie),
                Who::Program => (AUTHORIZATION, &self.authorization),
            };
            let request = Request::get(&page.path)
                .header(name, value)
                .body(Full::default())?;
            let (began, answer) = send(&self.portal, request).await?;
            let status = answer.status().as_u16();
            if let (429, Some(wait)) = (status, answer.headers().get(RETRY_AFTER)) {
                sleep(Duration::from_secs(wait.to_str()?.parse()?)).await;
                continue;
            }
            ensure!(status == 200, "{}: status {status}", page.path);
            let bytes = match page.until {
                Until::End => answer.into_body().collect().await?.to_bytes().len(),
                Until::FirstByte => first_part(answer.into_body()).await?,
            };
            let took = began.elapsed();
            return Ok(Answer { took, bytes });
        }
    }
}

fn bearer(token: &Bearer) -> Result<HeaderValue> {
    let mut value = HeaderValue::from_str(&format!("Bearer {}", *token.expose()))?;
    value.set_sensitive(true);
    Ok(value)
}

async fn first_part(mut body: Incoming) -> Result<usize> {
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data()
            && !data.is_empty()
        {
            return Ok(data.len());
        }
    }
    bail!("an export is empty")
}

/// Sends it on a connection of its own, and says when: the connection was there by then.
async fn send(
    portal: &Portal,
    mut request: Request<Full<Bytes>>,
) -> Result<(Instant, Response<Incoming>)> {
    let stream = culvert_link::open(portal).await?;
    let (mut sender, driver) = http1::handshake(TokioIo::new(stream)).await?;
    // It ends with the sender and the body, which are told what it meets.
    tokio::spawn(driver);
    let authority = portal.url.trim_start_matches("https://");
    let host = HeaderValue::from_str(authority)?;
    request.headers_mut().insert(HOST, host);
    let began = Instant::now();
    let answer = sender.send_request(request).await.context("no answer")?;
    Ok((began, answer))
}
