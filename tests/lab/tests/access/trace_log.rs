//! The portal's own output at its most talkative level.

use crate::common::SOON;
use culvert_lab::product::{PASSWORD, Product, form_token};
use culvert_lab::wait_until;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

const SINK_TOKEN: &str = "planted-sink-token";
const CLIENT_SECRET: &str = "planted-client-secret";

/// An administrator's requests to the API.
struct Api<'a> {
    product: &'a Product,
    token: String,
}

impl Api<'_> {
    fn post(&self, path: &str, body: &Value) -> Value {
        let portal = &self.product.portal;
        let answer = portal.namespace.shell(&format!(
            "curl -fsSk -m 20 -H 'Authorization: Bearer {}' -H 'Content-Type: application/json' \
             -d '{body}' {}/api/v1{path}",
            self.token,
            portal.url()
        ));
        serde_json::from_str(&answer.unwrap()).unwrap()
    }
}

/// Signs in as a person does, and begins to set up an app. Returns the session and the app's secret.
fn sign_in(product: &Product, name: &str) -> [String; 2] {
    let (url, jar) = (product.portal.url(), product.dir().join("cookies"));
    let jar = jar.display();
    let curl = format!("curl -fsSk -m 20 -b {jar} -c {jar} -H 'Origin: {url}'");
    let namespace = &product.portal.namespace;
    let shell = |line: String| namespace.shell(&line).unwrap();
    shell(format!(
        "{curl} -o /dev/null --data-urlencode name={name} \
         --data-urlencode 'password={PASSWORD}' {url}/sign-in"
    ));
    let page = shell(format!("{curl} {url}/me/second-factor"));
    let token = form_token(&page).unwrap();
    let page = shell(format!(
        "{curl} --data-urlencode form_token={token} {url}/me/second-factor"
    ));
    let (_, rest) = page
        .split_once("data-copy=\"Or type this secret into it\">")
        .unwrap();
    let secret = rest.split('<').next().unwrap().to_owned();
    let cookies = std::fs::read_to_string(product.dir().join("cookies")).unwrap();
    let session = cookies.lines().find(|line| line.contains("__Host-culvert"));
    let session = session.unwrap().split_whitespace().last().unwrap();
    [session.to_owned(), secret]
}

/// The sink's endpoint gets what it is to get, with its token.
fn takes_one(listener: &TcpListener) {
    let (mut stream, _) = listener.accept().unwrap();
    stream
        .set_read_timeout(Some(Duration::from_millis(500)))
        .unwrap();
    let mut request = Vec::new();
    let mut part = [0; 4096];
    while let Ok(len @ 1..) = stream.read(&mut part) {
        request.extend_from_slice(&part[..len]);
    }
    let request = String::from_utf8(request).unwrap();
    assert!(request.contains(SINK_TOKEN), "{request}");
    stream
        .write_all(b"HTTP/1.1 204 No Content\r\ncontent-length: 0\r\n\r\n")
        .unwrap();
}

#[test]
fn a_portal_that_logs_everything_it_can_logs_no_secret() {
    let mut product = Product::networks(0).unwrap();
    "--log-level trace".clone_into(&mut product.portal.arguments);
    product.portal.start().unwrap();
    product.portal.set_up().unwrap();
    let portal = &product.portal;
    let listener = portal
        .namespace
        .inside(|| Ok(TcpListener::bind("127.0.0.1:9000")?));
    let listener = listener.unwrap();

    let api = Api {
        product: &product,
        token: portal.owner_token().unwrap(),
    };
    let actor = api.post("/actors", &json!({"name": "ada", "kind": "admin"}));
    let path = format!("/actors/{}/sign-in", actor["id"].as_str().unwrap());
    api.post(&path, &json!({"role": "owner", "password": PASSWORD}));
    let target = json!({"kind": "http", "url": "http://127.0.0.1:9000/"});
    let sink = json!({"name": "siem", "logs": ["changes"], "target": target});
    api.post("/sinks", &json!({"sink": sink, "token": SINK_TOKEN}));
    let provider = json!({"name": "p", "issuer": "https://id.example", "client_id": "culvert",
                          "client_secret": CLIENT_SECRET});
    api.post("/providers", &provider);
    let token = json!({"kind": "client", "actor": actor["id"], "name": "laptop"});
    let token = api.post("/tokens", &token);
    let device = api.post("/device-sign-ins", &json!({"machine": "laptop"}));
    let [session, app] = sign_in(&product, "ada");
    takes_one(&listener);

    let last = "method=\"POST\" route=\"/me/second-factor\"";
    wait_until("lines of all of that", SOON, || {
        portal.output().contains(last)
    })
    .unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let planted = [
        PASSWORD.to_owned(),
        SINK_TOKEN.to_owned(),
        CLIENT_SECRET.to_owned(),
        api.token.clone(),
        text(&token["secret"]),
        text(&device["device_code"]),
        session,
        app,
    ];
    let output = portal.output();
    for secret in planted {
        // Of tokens the part that proves something is behind the first dot.
        let secret = secret.split('.').nth(1).unwrap_or(&secret);
        assert!(secret.len() >= 16, "{secret}");
        for line in output.lines() {
            assert!(!line.contains(secret), "{secret} in {line}");
        }
    }
}
