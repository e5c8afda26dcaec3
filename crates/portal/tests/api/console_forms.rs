//! Every form that stands on a page, filled in badly.

use crate::browser::{Browser, encode, signed_in};
use crate::console_faults::marked;
use crate::console_routes::{form_shapes, pages, shape};
use crate::support::{
    Answer, Running, enrol_client, enrol_gateway, enrol_relay, fresh_key, id_of, make_actor,
};
use culvert_store::{ActorKind, Role, Seq};
use serde_json::json;
use std::collections::BTreeSet;

/// The longest line about a fault, in bytes.
const MAX_LINE: usize = 600;

/// A form of a page, with its fields as they stand there.
#[derive(Clone, Debug)]
struct Form {
    page: String,
    /// `post`, or `get` of one that only asks.
    method: String,
    action: String,
    /// Name and value; which of them people write.
    fields: Vec<(String, String)>,
    written: Vec<String>,
    /// Those of them whose text comes back with a refusal: lists have no place for another text, and secrets are typed
    /// again.
    retained: Vec<String>,
}

/// The value of an attribute of the tag that `text` begins with.
fn attribute<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let tag = text.split('>').next()?;
    let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
    rest.split('"').next()
}

fn unescaped(text: &str) -> String {
    let text = text.replace("&#60;", "<").replace("&#62;", ">");
    let text = text.replace("&#34;", "\"").replace("&#39;", "'");
    text.replace("&#38;", "&")
}

fn forms_on(page: &str, html: &str) -> Vec<Form> {
    let mut forms = Vec::new();
    for text in html.split("<form").skip(1) {
        let text = text.split("</form>").next().unwrap();
        let mut form = Form {
            page: page.to_owned(),
            method: attribute(text, "method").unwrap().to_owned(),
            action: attribute(text, "action").unwrap().to_owned(),
            fields: Vec::new(),
            written: Vec::new(),
            retained: Vec::new(),
        };
        for input in text.split("<input").skip(1) {
            let name = attribute(input, "name").unwrap().to_owned();
            let value = unescaped(attribute(input, "value").unwrap_or_default());
            let kind = attribute(input, "type");
            if kind != Some("hidden") {
                form.written.push(name.clone());
            }
            if matches!(kind, Some("text" | "search")) && !is_secret(&name) {
                form.retained.push(name.clone());
            }
            form.fields.push((name, value));
        }
        for area in text.split("<textarea").skip(1) {
            let name = attribute(area, "name").unwrap().to_owned();
            let (_, value) = area.split_once('>').unwrap();
            let value = unescaped(value.split("</textarea>").next().unwrap());
            form.written.push(name.clone());
            form.retained.push(name.clone());
            form.fields.push((name, value.trim().to_owned()));
        }
        for select in text.split("<select").skip(1) {
            let name = attribute(select, "name").unwrap().to_owned();
            let chosen = select.split("<option").skip(1);
            let mut chosen = chosen.filter(|option| option.contains(" selected"));
            let value = chosen.next().and_then(|option| attribute(option, "value"));
            let first = select.split("<option").nth(1);
            let first = first.and_then(|option| attribute(option, "value"));
            form.written.push(name.clone());
            form.fields
                .push((name, value.or(first).unwrap().to_owned()));
        }
        forms.push(form);
    }
    forms
}

/// True for a field that is typed again: it never goes back to the browser.
fn is_secret(name: &str) -> bool {
    ["password", "again", "current", "code", "token", "secret"].contains(&name)
}

/// Checks a refusal: it names what is wrong in one line at the field, or above the form, and keeps what was typed.
fn is_told(form: &Form, name: &str, text: &str, answer: &Answer) -> Result<(), String> {
    let marked = marked(answer);
    let alert = answer
        .text
        .split("role=\"alert\"")
        .nth(1)
        .unwrap_or_default();
    let alert = alert.split("</p>").next().unwrap_or_default();
    if marked.is_empty() && (alert.is_empty() || alert.contains("marked fields")) {
        return Err("nothing says what is wrong".to_owned());
    }
    let again = forms_on("", &answer.text);
    let again = again.iter().find(|again| again.action == form.action);
    let Some(again) = again else {
        return Err("the form is gone".to_owned());
    };
    // A field may be a list now, of what the text may mean.
    if form.retained.iter().any(|retained| retained == name)
        && again.retained.iter().any(|retained| retained == name)
    {
        // Rows that are filled in come first.
        let root = name.split('.').next();
        let values = again.fields.iter();
        let values = values.filter(|(known, _)| known.split('.').next() == root);
        let has_kept = values.clone().any(|(_, value)| value.trim() == text.trim());
        if !has_kept {
            let shown = values.map(|(_, value)| value.chars().take(60).collect());
            return Err(format!(
                "not retained: {:?}",
                shown.collect::<Vec<String>>()
            ));
        }
    }
    let problems = answer.text.split("<span class=\"wrong\">").skip(1);
    let mut lines = problems.map(|part| part.split("</span>").next().unwrap_or_default());
    match lines.find(|line| line.len() > MAX_LINE || line.contains("\\u{")) {
        Some(line) => Err(format!("no line for people: {line}")),
        None => Ok(()),
    }
}

/// One of everything, and the pages that show it.
async fn everything(running: &Running) -> Vec<String> {
    let mut owner = running.owner().await;
    let (store, account) = (running.store.as_ref(), running.account());
    let site = owner.post("/api/v1/sites", json!({"name": "site"})).await;
    let site = id_of(&site.expect(201).json());
    let group = owner.post("/api/v1/groups", json!({"name": "group"})).await;
    let group = id_of(&group.expect(201).json());
    let actor = make_actor(store, account, ActorKind::User).await;
    let machine = make_actor(store, account, ActorKind::ServiceAccount).await;
    let resource = json!({
        "site": site, "name": "resource", "kind": "address", "address": "10.0.0.1", "filters": [],
    });
    let resource = owner.post("/api/v1/resources", resource).await;
    let resource = id_of(&resource.expect(201).json());
    let policy = json!({"name": "policy", "group": group, "resource": resource});
    let policy = owner.post("/api/v1/policies", policy).await;
    let policy = id_of(&policy.expect(201).json());
    let members = format!("/api/v1/groups/{group}/members");
    let member = owner.post(&members, json!({ "actor": actor })).await;
    member.expect(201);
    let sign_in = json!({"role": "user", "password": "correct horse battery"});
    let path = format!("/api/v1/actors/{actor}/sign-in");
    owner.post(&path, sign_in).await.expect(200);
    let (client, _) = enrol_client(store, account, actor).await;
    let (verified, _) = enrol_client(store, account, actor).await;
    let path = format!("/api/v1/clients/{verified}/verify");
    owner.send("POST", &path, &[], None).await.expect(200);
    let (gateway, _) = enrol_gateway(store, account, site.parse().unwrap()).await;
    let (draining, _) = enrol_gateway(store, account, site.parse().unwrap()).await;
    for word in ["drain", "verify"] {
        let path = format!("/api/v1/gateways/{draining}/{word}");
        owner.send("POST", &path, &[], None).await.expect(200);
    }
    let device = json!({
        "name": "phone", "public_key": fresh_key().to_string(), "gateways": [gateway], "actor": actor,
    });
    let device = owner.post("/api/v1/plain-clients", device).await;
    let device = id_of(&device.expect(201).json()["client"]);
    let (relay, _) = enrol_relay(store, account).await;
    let (drained, _) = enrol_relay(store, account).await;
    let path = format!("/api/v1/relays/{drained}/drain");
    owner.send("POST", &path, &[], None).await.expect(200);
    let idle = json!({"name": "idle", "group": group, "resource": resource, "disabled": true});
    owner.post("/api/v1/policies", idle).await.expect(201);
    let disabled = make_actor(store, account, ActorKind::User).await;
    let path = format!("/api/v1/actors/{disabled}");
    owner
        .patch(&path, "*", json!({"disabled": true}))
        .await
        .expect(200);

    let provider = json!({
        "name": "provider", "issuer": "https://id.example", "client_id": "culvert",
    });
    let provider = owner.post("/api/v1/providers", provider).await;
    let provider = id_of(&provider.expect(201).json());
    let identity = json!({"provider": provider, "subject": "1", "actor": actor});
    let identity = owner.post("/api/v1/identities", identity).await;
    identity.expect(201);
    for (name, paused) in [("archive", false), ("idle", true)] {
        let sink = json!({
            "name": name, "logs": ["access"], "paused": paused,
            "target": {"kind": "file", "file": format!("{name}.jsonl"), "max_mib": 1, "keep": 1},
        });
        let sink = owner.post("/api/v1/sinks", json!({ "sink": sink })).await;
        sink.expect(201);
    }

    let mut paths = pages();
    paths.extend(["/sign-in".to_owned(), "/set-up".to_owned()]);
    paths.extend([
        format!("/sites/{site}"),
        format!("/groups/{group}"),
        format!("/people/{actor}"),
        format!("/people/{machine}"),
        format!("/people/{disabled}"),
        format!("/resources/{resource}"),
        format!("/policies/{policy}"),
        format!("/settings/providers/{provider}"),
        format!("/clients/{client}"),
        format!("/clients/{device}"),
        format!("/wireguard/{device}"),
        format!("/gateways/{gateway}"),
        format!("/gateways/{draining}"),
        format!("/relays/{relay}"),
        format!("/relays/{drained}"),
    ]);
    paths
}

/// Forms on pages in a state that [`everything`] does not have; their own tests send them. In such a state
/// somebody is about to sign in, or has a second factor, an identity or a waiting machine, or the portal has a
/// name. Their own tests send them.
const IN_OTHER_STATES: [&str; 18] = [
    "/confirm/passkey",
    "/confirm/provider",
    "/device/approve",
    "/device/deny",
    "/invitation",
    "/me/passkeys",
    "/me/passkeys/*/name",
    "/me/passkeys/*/remove",
    "/me/passkeys/confirm",
    "/me/recovery-codes",
    "/me/second-factor/confirm",
    "/me/second-factor/remove",
    "/me/unlink/*",
    "/people/*/reset-second-factor",
    "/people/*/withdraw",
    "/sign-in/code",
    "/sign-in/passkey",
    "/sign-in/passkey/second",
];

async fn all_forms(browser: &mut Browser, running: &Running) -> Vec<Form> {
    let mut forms = Vec::new();
    for path in everything(running).await {
        let page = browser.get(&path).await.expect(200);
        forms.extend(forms_on(&path, &page.text));
    }
    forms
}

async fn seq(running: &Running) -> Seq {
    running.store.snapshot(running.account()).await.unwrap().seq
}

#[tokio::test]
async fn every_form_of_the_router_stands_on_a_page() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Owner).await;
    let mut forms = all_forms(&mut browser, &running).await;
    forms.retain(|form| form.method == "post");
    let shown: BTreeSet<String> = forms.iter().map(|form| shape(&form.action)).collect();
    let mut known = form_shapes();
    known.retain(|form| !IN_OTHER_STATES.contains(&form.as_str()));
    let unexpected: Vec<_> = shown.symmetric_difference(&known).collect();
    assert!(unexpected.is_empty(), "{unexpected:?}");
}

#[tokio::test]
async fn no_field_of_any_form_takes_what_misleads_or_breaks_out() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Owner).await;
    let forms = all_forms(&mut browser, &running).await;
    let long = "x".repeat(10_000);
    let bad: [(&str, &str); 10] = [
        ("stored script", "<script>alert(1)</script>\"'&<b>"),
        ("too long", &long),
        ("control characters", "a\u{0}b\u{7}c\u{1b}[31m"),
        ("bidi marks", "a\u{202e}txt.exe\u{2066}"),
        ("line separators", "a\u{2028}b"),
        ("invisible letters", "a\u{200b}b"),
        ("template", "{{ 7*7 }} {% raw %} ${7*7}"),
        ("no number that is known", "99999999999999999999999"),
        ("a day that is not", "2027-02-30"),
        ("a negative number", "-1"),
    ];
    let mut problems = Vec::new();
    let token = browser.form_token().await;
    let mut tried = BTreeSet::new();
    for form in &forms {
        // Signing out, or in as somebody else, changes the session.
        let is_session = form.action.starts_with("/me/") || form.action.starts_with("/sign-");
        // A form that shows the design takes nothing.
        if form.page == "/components"
            || is_session
            || form.written.is_empty()
            || form.method != "post"
        {
            continue;
        }
        for name in &form.written {
            if !tried.insert((shape(&form.action), name.clone())) {
                continue;
            }
            browser.move_on(&running).await;
            for (what, text) in bad {
                let before = seq(&running).await;
                let value = |(known, value): &(String, String)| match known == name {
                    true => (known.clone(), text.to_owned()),
                    false => (known.clone(), value.clone()),
                };
                let fields: Vec<_> = form.fields.iter().map(value).collect();
                let pairs = fields.iter().map(|(name, value)| (&**name, &**value));
                let pairs: Vec<_> = pairs.filter(|(name, _)| *name != "form_token").collect();
                let answer = browser.submit_with(&form.action, &token, &pairs).await;
                let (page, to) = (&form.page, &form.action);
                let at = format!("{page}: {to} {name}: {what}: {}", answer.status);
                assert!(!answer.status.is_server_error(), "{at}");
                assert_ne!(answer.status, 429, "{at}");
                for part in ["<script>alert", "<b>"] {
                    assert!(!answer.text.contains(part), "{at}: {part:?}");
                }
                // No page sends another value of a list than those in it.
                if answer.status == 422 && form.retained.contains(name) {
                    let told = is_told(form, name, text, &answer);
                    problems.extend(told.err().map(|problem| format!("{at}: {problem}")));
                }
                let hides = ["control characters", "bidi marks", "invisible letters"];
                if hides.contains(&what)
                    && !is_secret(name)
                    && seq(&running).await != before
                    && form.retained.contains(name)
                {
                    problems.push(format!("{at}: taken"));
                }
                let names = ["name", "site", "owner", "account", "gateway", "client"];
                let is_name = names.contains(&&**name);
                let misleads = matches!(
                    what,
                    "too long"
                        | "control characters"
                        | "bidi marks"
                        | "line separators"
                        | "invisible letters"
                );
                if is_name && misleads {
                    assert!(answer.status.is_client_error(), "{at}");
                    assert_eq!(seq(&running).await, before, "{at}");
                }
            }
        }
    }
    assert!(tried.len() >= 60, "{tried:?}");
    assert!(problems.is_empty(), "{problems:#?}");
}

#[tokio::test]
async fn no_question_breaks_by_what_is_asked() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Owner).await;
    let forms = all_forms(&mut browser, &running).await;
    let long = "x".repeat(1_000);
    let bad = [
        "<script>alert(1)</script>\"'&<b>",
        &long,
        "a\u{0}b\u{7}c\u{1b}[31m",
        "a\u{202e}txt.exe\u{2066}",
        "a\u{200b}b",
        "Mu\u{308}ller",
        "99999999999999999999999",
        "2027-02-30",
        "%",
        "_",
    ];
    let (mut tried, mut problems) = (BTreeSet::new(), Vec::new());
    let before = seq(&running).await;
    for form in forms.iter().filter(|form| form.method == "get") {
        for name in &form.written {
            if !tried.insert((shape(&form.action), name.clone())) {
                continue;
            }
            for text in bad {
                let mut query = form_urlencoded::Serializer::new(String::new());
                for (known, value) in &form.fields {
                    let value = if known == name { text } else { value };
                    query.append_pair(known, value);
                }
                let path = format!("{}?{}", form.action, query.finish());
                let answer = browser.get(&path).await;
                let at = format!("{} {name} {text:?}: {}", form.action, answer.status);
                assert!(matches!(answer.status.as_u16(), 200 | 422), "{at}");
                for part in ["<script>alert", "<b>"] {
                    assert!(!answer.text.contains(part), "{at}: {part:?}");
                }
                if answer.status == 422 {
                    let told = is_told(form, name, text, &answer);
                    problems.extend(told.err().map(|problem| format!("{at}: {problem}")));
                }
            }
        }
    }
    assert!(tried.len() >= 20, "{tried:?}");
    assert!(problems.is_empty(), "{problems:#?}");
    assert_eq!(seq(&running).await, before, "a question changes nothing");
}

#[tokio::test]
async fn no_form_takes_more_than_it_must() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Owner).await;
    let token = browser.form_token().await;
    let mut forms = all_forms(&mut browser, &running).await;
    forms.retain(|form| form.method == "post");
    let before = seq(&running).await;
    let mut actions: Vec<String> = forms.into_iter().map(|form| form.action).collect();
    actions.sort();
    actions.dedup();
    let cookie = browser.cookie.clone();
    for action in actions {
        // A body that is too long to be read ends the connection.
        let mut browser = Browser::open(&running).await;
        browser.cookie.clone_from(&cookie);
        let body = encode(&token, &[("name", &"x".repeat(64 * 1024))]);
        let origin = [("origin", "https://localhost")];
        let answer = browser.send("POST", &action, &origin, Some(body)).await;
        assert_eq!(answer.status, 413, "{action}");
        let mut browser = Browser::open(&running).await;
        browser.cookie.clone_from(&cookie);
        let many = (0..65)
            .map(|at| format!("f{at}=x"))
            .collect::<Vec<_>>()
            .join("&");
        let answer = browser.send("POST", &action, &origin, Some(many)).await;
        assert_eq!(answer.status, 400, "{action}");
    }
    assert_eq!(seq(&running).await, before, "nothing was changed");
}
