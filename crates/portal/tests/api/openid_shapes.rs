//! Identity providers as they are: what they call groups, where these stand, and what fails beside.

use crate::openid_provider::at_own_name;
use crate::scripted_provider::{Key, Reply, Stage};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// The failures of userinfo endpoints at providers whose administrators never needed them.
fn failures() -> Vec<Reply> {
    let html = "<!doctype html><title>Sign in</title>";
    vec![
        Reply::Body(401, "application/json", "{}".to_owned()),
        Reply::Body(403, "text/plain", "insufficient_scope".to_owned()),
        Reply::Body(500, "text/html", html.to_owned()),
        Reply::Body(200, "text/html", html.to_owned()),
        Reply::Body(200, "application/json", r#"{"name":"Ada"}"#.to_owned()),
        Reply::Body(302, "text/html", String::new()),
        Reply::Body(200, "application/jwt", "e30.e30.e30".to_owned()),
        Reply::Body(204, "application/json", String::new()),
        Reply::Body(200, "application/json", String::new()),
        Reply::Body(200, "application/json", r#"{"sub":"s-1","#.to_owned()),
        Reply::Body(200, "application/json", "[]".to_owned()),
        Reply::Body(200, "application/json", "null".to_owned()),
        Reply::Body(200, "application/json", r#"{"sub":7}"#.to_owned()),
        Reply::Body(200, "application/jwt", "not a token".to_owned()),
        Reply::Body(404, "text/plain", "no such page".to_owned()),
        Reply::Body(
            429,
            "application/json",
            r#"{"error":"slow_down"}"#.to_owned(),
        ),
        Reply::Body(503, "text/html", html.to_owned()),
        Reply::Body(200, "application/json", " ".repeat(2 << 20)),
        Reply::Silence,
    ]
}

#[tokio::test]
async fn a_userinfo_endpoint_that_fails_keeps_nobody_out_whose_name_alone_was_wanted() {
    for (at, failure) in failures().into_iter().enumerate() {
        let mut stage = Stage::new(json!({"unknown_people": "make"})).await;
        stage.says(&json!({}), failure);
        let arrived = stage.sign_in().await;
        assert_eq!(arrived.status, 303, "{at}: {}", arrived.text);
        assert_eq!(stage.known().await.len(), 1, "{at}");
    }
}

#[tokio::test]
async fn a_linked_person_signs_in_whatever_userinfo_answers_and_keeps_their_groups() {
    let (mut stage, staff) = Stage::with_staff("groups", json!({"unknown_people": "make"})).await;
    stage.says(
        &json!({}),
        Reply::json(&json!({"sub": "s-1", "groups": ["staff"]})),
    );
    stage.sign_in().await.expect(303);
    let ada = stage.known().await;
    assert_eq!(stage.members(&staff).await, ada);
    for failure in failures() {
        stage.says(&json!({}), failure);
        stage.sign_in().await.expect(303);
        assert_eq!(stage.members(&staff).await, ada, "nobody said otherwise");
    }
    // An answer without the claim says that the person is in no group.
    stage.says(&json!({}), Reply::json(&json!({"sub": "s-1"})));
    stage.sign_in().await.expect(303);
    assert!(stage.members(&staff).await.is_empty());
}

#[tokio::test]
async fn somebody_new_whose_groups_nobody_says_is_not_let_in_and_not_made() {
    let (mut stage, _) = Stage::with_staff("groups", json!({"unknown_people": "make"})).await;
    stage.says(
        &json!({"name": "Ada"}),
        Reply::Body(500, "text/plain", String::new()),
    );
    let refused = stage.sign_in().await.expect(403);
    for said in ["groups", "/me", "500"] {
        assert!(refused.text.contains(said), "{said}: {}", refused.text);
    }
    assert!(stage.known().await.is_empty());
}

#[tokio::test]
async fn userinfo_about_somebody_else_is_refused() {
    let stage = Stage::new(json!({"unknown_people": "make"})).await;
    for reply in [
        Reply::json(&json!({"sub": "s-2", "name": "Eve"})),
        Reply::Signed(json!({"sub": "s-2", "iss": stage.issuer, "aud": "culvert"})),
    ] {
        stage.says(&json!({}), reply);
        let refused = stage.sign_in().await.expect(403);
        assert!(refused.text.contains("two people"), "{}", refused.text);
    }
}

#[tokio::test]
async fn userinfo_in_a_signed_token_is_verified_and_read() {
    let (mut stage, staff) = Stage::with_staff("groups", json!({"unknown_people": "make"})).await;
    let claims = |change: Value| {
        let mut claims = json!({
            "sub": "s-1", "iss": stage.issuer, "aud": ["culvert"], "groups": ["staff"],
        });
        let change = change.as_object().unwrap().clone();
        claims.as_object_mut().unwrap().extend(change);
        Reply::Signed(claims)
    };
    let (good, of_another, for_another) = (
        claims(json!({})),
        claims(json!({"iss": "https://evil.example"})),
        claims(json!({"aud": "other"})),
    );
    // Nothing of a token that is not this provider's, or not for the portal, is believed.
    for wrong in [of_another, for_another] {
        stage.says(&json!({}), wrong);
        stage.sign_in().await.expect(403);
        assert!(stage.known().await.is_empty());
    }
    stage.says(&json!({}), good);
    stage.sign_in().await.expect(303);
    let ada = stage.known().await;
    assert_eq!(stage.members(&staff).await, ada);
}

/// Entra ID puts up to 200 groups into a token, and a reference above that.
#[tokio::test]
async fn groups_that_a_token_only_refers_to_refuse_the_sign_in_and_change_no_group() {
    let (mut stage, staff) = Stage::with_staff("groups", json!({"unknown_people": "make"})).await;
    let nothing = || Reply::json(&json!({"sub": "s-1"}));
    stage.says(&json!({"groups": ["staff"]}), nothing());
    stage.sign_in().await.expect(303);
    let ada = stage.known().await;
    let source = json!({"src1": {"endpoint": "https://graph.example/getMemberObjects"}});
    let too_many: Vec<String> = (0..6_000).map(|number| format!("g{number}")).collect();
    for refers in [
        json!({"_claim_names": {"groups": "src1"}, "_claim_sources": source}),
        json!({"groups": "src1", "_claim_sources": source}),
        json!({"groups": ["staff"], "_claim_names": {"groups": "src1"}}),
        json!({"hasgroups": true}),
        json!({"hasgroups": "true"}),
        json!({"groups:src1": "https://graph.example/getMemberObjects"}),
        json!({"groups": too_many}),
    ] {
        let mut there = refers.clone();
        there["sub"] = json!("s-1");
        for (id_token, user_info) in [
            (refers.clone(), nothing()),
            (json!({}), Reply::json(&there)),
        ] {
            stage.says(&id_token, user_info);
            let refused = stage.sign_in().await;
            assert_eq!(refused.status, 403, "{:.200}", refers.to_string());
            assert!(
                refused.text.contains("groups assigned to the application"),
                "{}",
                refused.text
            );
            assert_eq!(stage.members(&staff).await, ada);
        }
    }
    // Another claim may be elsewhere, and what userinfo lists counts.
    for (id_token, user_info) in [
        (
            json!({"groups": ["staff"], "_claim_names": {"address": "src1"}}),
            nothing(),
        ),
        (
            json!({"hasgroups": true}),
            Reply::json(&json!({"sub": "s-1", "groups": ["staff"]})),
        ),
    ] {
        stage.says(&id_token, user_info);
        stage.sign_in().await.expect(303);
        assert_eq!(stage.members(&staff).await, ada);
    }
}

#[tokio::test]
async fn no_group_of_many_is_cut_off() {
    let (mut stage, staff) = Stage::with_staff("groups", json!({"unknown_people": "make"})).await;
    let mut groups: Vec<String> = (0..2_500).map(|number| format!("g{number}")).collect();
    groups.push("staff".to_owned());
    stage.says(&json!({"groups": groups}), Reply::Silence);
    stage.sign_in().await.expect(303);
    assert_eq!(stage.members(&staff).await, stage.known().await);
}

#[tokio::test]
async fn groups_are_found_by_path_and_by_pointer_in_the_id_token_and_in_userinfo() {
    let (mut stage, staff) = Stage::with_staff("groups", json!({"unknown_people": "make"})).await;
    let realm = json!({"realm_access": {"roles": ["staff"]}});
    let client = json!({"resource_access": {"my.app": {"roles": ["staff"]}}});
    let flat = json!({
        "realm_access.roles": ["staff"], "realm_access": {"roles": ["other"]},
    });
    for (claim, claims) in [
        ("realm_access.roles", &realm),
        ("/realm_access/roles", &realm),
        ("resource_access.my.app.roles", &client),
        ("/resource_access/my.app/roles", &client),
        ("realm_access.roles", &flat),
        ("groups", &json!({"groups": [{"id": 1, "name": "staff"}]})),
        ("groups", &json!({"groups": {"name": "staff"}})),
        (
            "https://app.example/groups",
            &json!({"https://app.example/groups": ["staff"]}),
        ),
    ] {
        stage.change(json!({"groups_claim": claim})).await;
        let mut info = claims.clone();
        info["sub"] = json!("s-1");
        for (id_token, user_info) in [
            (claims.clone(), Reply::json(&json!({"sub": "s-1"}))),
            (json!({}), Reply::json(&info)),
        ] {
            stage.says(&json!({"name": "Ada"}), Reply::json(&json!({"sub": "s-1"})));
            stage.sign_in().await.expect(303);
            assert!(stage.members(&staff).await.is_empty(), "{claim}");
            stage.says(&id_token, user_info);
            stage.sign_in().await.expect(303);
            assert_eq!(stage.members(&staff).await, stage.known().await, "{claim}");
        }
    }
}

/// Every suite of TLS 1.2 with ECDHE and AEAD, with the certificate that it is for.
#[tokio::test]
async fn a_provider_that_speaks_tls_1_2_signs_people_in() {
    let settings = json!({"unknown_people": "make"});
    let stage = Stage::speaking(&[&rustls::version::TLS12], settings.clone()).await;
    stage.sign_in().await.expect(303);
    let mut suites = 0;
    for suite in rustls::crypto::aws_lc_rs::ALL_CIPHER_SUITES {
        let rustls::SupportedCipherSuite::Tls12(_) = suite else {
            continue;
        };
        suites += 1;
        let stage = Stage::by_suite(*suite, settings.clone()).await;
        let arrived = stage.sign_in().await;
        assert_eq!(arrived.status, 303, "{suite:?}: {}", arrived.text);
    }
    assert_eq!(suites, 6);
}

/// Over TLS 1.2 certificates are checked as ever.
#[tokio::test]
async fn a_provider_that_speaks_tls_1_2_with_a_wrong_certificate_is_refused() {
    let mut stage = Stage::speaking(&[&rustls::version::TLS12], json!({})).await;
    let other = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let of_name = rcgen::generate_simple_self_signed(["id.example".to_owned()]).unwrap();
    for ca in [String::new(), other.cert.pem(), of_name.cert.pem()] {
        stage.change(json!({"ca": ca})).await;
        let mut browser = at_own_name(&stage.running).await;
        let page = stage.begin(&mut browser).await.expect(502).text;
        assert!(page.contains("certificate"), "{page}");
    }
}

/// The alerts of servers without TLS 1.2, and without ECDHE and an AEAD suite; and of one that breaks off, or speaks no TLS.
#[tokio::test]
async fn a_provider_whose_tls_is_too_old_is_refused_with_the_reason() {
    let mut stage = Stage::new(json!({})).await;
    let alert = |number: u8| vec![21, 3, 3, 0, 2, 2, number];
    for (number, (said, reasons)) in [
        (alert(70), &["TLS 1.2", "ECDHE"] as &[_]),
        (alert(40), &["cipher suite", "ECDHE"]),
        (alert(71), &["can&#39;t be asked"]),
        (alert(47), &["can&#39;t be asked"]),
        (alert(80), &["can&#39;t be asked"]),
        (Vec::new(), &["can&#39;t be asked"]),
        (
            b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
            &["can&#39;t be asked"],
        ),
        (b"SSH-2.0-OpenSSH_9.2\r\n".to_vec(), &["can&#39;t be asked"]),
    ]
    .into_iter()
    .enumerate()
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let issuer = format!("https://{}", listener.local_addr().unwrap());
        let new = json!({"name": number.to_string(), "issuer": issuer, "client_id": "c"});
        let made = stage.owner.post("/api/v1/providers", new).await.expect(201);
        let id = crate::support::id_of(&made.json());
        let refusing = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut hello = [0; 1024];
            let _length = stream.read(&mut hello).await.unwrap();
            stream.write_all(&said).await.unwrap();
            stream.shutdown().await.unwrap();
            stream
        };
        let mut browser = at_own_name(&stage.running).await;
        let way = format!("/sign-in/with/{id}");
        let (page, _open) = tokio::join!(browser.get(&way), refusing);
        let text = page.expect(502).text;
        for reason in reasons {
            assert!(text.contains(reason), "{said:?}: {text}");
        }
        assert!(text.contains(&issuer), "{said:?}: {text}");
    }
}

#[tokio::test]
async fn discovery_that_is_wrong_is_shown_as_it_came_and_as_it_was_expected() {
    let stage = Stage::new(json!({})).await;
    let issuer = stage.issuer.clone();
    let mut browser = at_own_name(&stage.running).await;
    let long = format!("https://{}", "x".repeat(5_000));
    let of = |said: &str| {
        Reply::json(&json!({
            "issuer": said, "authorization_endpoint": format!("{issuer}/auth"),
            "token_endpoint": format!("{issuer}/token"), "jwks_uri": format!("{issuer}/keys"),
        }))
    };
    let html = "<!doctype html><script>alert(1)</script>";
    for (reply, says) in [
        (
            Reply::Body(200, "text/html; charset=utf-8", html.to_owned()),
            vec!["text/html", "doctype", "JSON"],
        ),
        (Reply::Body(404, "text/html", html.to_owned()), vec!["404"]),
        (
            Reply::Body(302, "text/html", String::new()),
            vec!["302", "https://elsewhere.example/"],
        ),
        (
            Reply::json(&json!({"issuer": issuer})),
            vec!["authorization_endpoint"],
        ),
        (Reply::json(&json!([])), vec!["openid-configuration"]),
        (of(&format!("{issuer}/")), vec!["/</", &issuer]),
        (
            of("https://id.example/realms/a"),
            vec!["https://id.example/realms/a", &issuer],
        ),
        (
            of("https://login.example/{tenantid}/v2.0"),
            vec!["{tenantid}", "tenant"],
        ),
        (
            of("<script>alert(1)</script>\n\u{202e}"),
            vec!["&#60;script&#62;", "u{202e}"],
        ),
        (of(&long), vec!["https://xxx", &issuer]),
    ] {
        stage.script.lock().unwrap().metadata = Some(reply);
        let page = stage.begin(&mut browser).await.expect(502).text;
        for said in says {
            let said = if said == "/</" {
                &*format!("{issuer}/ ")
            } else {
                said
            };
            assert!(page.contains(said), "{said}: {page}");
        }
        assert!(
            !page.contains("<script>alert") && page.len() < 5_000,
            "{page}"
        );
    }
}

#[tokio::test]
async fn an_issuer_that_differs_is_shown_beside_the_one_that_was_expected() {
    let stage = Stage::new(json!({"unknown_people": "make"})).await;
    let mut browser = at_own_name(&stage.running).await;
    let more = "&iss=https%3A%2F%2Fother.example%2F%3Cb%3E";
    let page = stage.arrive_with(&mut browser, more).await.expect(403).text;
    for said in ["https://other.example/&#60;b&#62;", &stage.issuer] {
        assert!(page.contains(said), "{said}: {page}");
    }
    stage.says(&json!({"iss": "https://sts.example/1/"}), Reply::Silence);
    let page = stage.sign_in().await.expect(403).text;
    for said in ["https://sts.example/1/", &stage.issuer] {
        assert!(page.contains(said), "{said}: {page}");
    }
    stage.says(&json!({"aud": "someone"}), Reply::Silence);
    let page = stage.sign_in().await.expect(403).text;
    for said in ["someone", "culvert"] {
        assert!(page.contains(said), "{said}: {page}");
    }
}

#[tokio::test]
async fn a_key_that_changes_under_its_id_is_asked_for_once_and_not_again_within_a_minute() {
    let stage = Stage::new(json!({"unknown_people": "make"})).await;
    stage.sign_in().await.expect(303);
    assert_eq!(stage.asked("/keys"), 1);
    let change = |published: bool| {
        let key = Key::new();
        let mut script = stage.script.lock().unwrap();
        script.key = key.clone();
        if published {
            script.published = vec![key];
        }
    };
    change(true);
    stage.sign_in().await.expect(303);
    assert_eq!(stage.asked("/keys"), 2);
    stage.sign_in().await.expect(303);
    assert_eq!(stage.asked("/keys"), 2, "the new key is remembered");
    for published in [false, true] {
        change(published);
        let refused = stage.sign_in().await.expect(403);
        assert!(refused.text.contains("signature"), "{}", refused.text);
        assert_eq!(stage.asked("/keys"), 2, "once a minute");
    }
}

/// The ways in which a provider changes its keys, after which the next sign-in works.
#[tokio::test]
async fn a_key_that_changes_is_asked_for_once_however_it_changes() {
    let old = Key::new();
    let new = Key::new();
    type Published<'a> = Vec<&'a Key>;
    for (change, signs, published) in [
        (
            "in place of the one with the same id",
            &new,
            vec![&new] as Published<'_>,
        ),
        ("beside the one with the same id", &new, vec![&old, &new]),
        ("before the one with the same id", &new, vec![&new, &old]),
        (
            "with an id of its own",
            &new.named("next"),
            vec![&old, &new.named("next")],
        ),
        (
            "with an id of its own, alone",
            &new.named("next"),
            vec![&new.named("next")],
        ),
        ("without any id", &new.unnamed(), vec![&new.unnamed()]),
        (
            "without an id in the token alone",
            &new.unnamed(),
            vec![&new],
        ),
    ] {
        let stage = Stage::new(json!({"unknown_people": "make"})).await;
        stage.script.lock().unwrap().signs_by(&old, &[&old]);
        stage.sign_in().await.expect(303);
        stage.script.lock().unwrap().signs_by(signs, &published);
        let arrived = stage.sign_in().await;
        assert_eq!(arrived.status, 303, "{change}: {}", arrived.text);
        assert_eq!(stage.asked("/keys"), 2, "{change}");
        stage.sign_in().await.expect(303);
        assert_eq!(stage.asked("/keys"), 2, "{change}: it is remembered");
    }
}

#[tokio::test]
async fn a_member_added_by_hand_stays_when_the_claim_that_gave_the_group_goes() {
    let (mut stage, staff) = Stage::with_staff("groups", json!({"unknown_people": "make"})).await;
    let nothing = || Reply::json(&json!({"sub": "s-1"}));
    let says = |stage: &Stage, groups: &[&str]| stage.says(&json!({"groups": groups}), nothing());
    says(&stage, &["staff"]);
    stage.sign_in().await.expect(303);
    let ada = stage.known().await;
    let at = format!("/api/v1/groups/{staff}/members");
    let member = json!({"actor": ada[0]});
    stage.owner.post(&at, member.clone()).await.expect(201);
    assert_eq!(stage.members(&staff).await, ada, "once");
    stage.owner.post(&at, member.clone()).await.expect(409);
    for groups in [&["staff"][..], &[], &["staff"], &[]] {
        says(&stage, groups);
        stage.sign_in().await.expect(303);
        assert_eq!(stage.members(&staff).await, ada, "{groups:?}");
    }
    // Removed by hand, it is the provider's again.
    let own = format!("{at}/{}", ada[0]);
    stage.owner.delete(&own).await.expect(204);
    says(&stage, &["staff"]);
    stage.sign_in().await.expect(303);
    assert_eq!(stage.members(&staff).await, ada);
    says(&stage, &[]);
    stage.sign_in().await.expect(303);
    assert!(stage.members(&staff).await.is_empty());
}

/// The ways in which what a provider said of a group goes. A member added by hand stays in each.
#[tokio::test]
async fn a_member_added_by_hand_stays_however_the_providers_word_goes() {
    let nothing = || Reply::json(&json!({"sub": "s-1"}));
    let settings = json!({"unknown_people": "make"});
    for is_by_hand_first in [false, true] {
        let (mut stage, staff) = Stage::with_staff("groups", settings.clone()).await;
        let at = format!("/api/v1/groups/{staff}/members");
        stage.says(&json!({"groups": []}), nothing());
        stage.sign_in().await.expect(303);
        let ada = stage.known().await;
        let member = json!({"actor": ada[0]});
        if is_by_hand_first {
            stage.owner.post(&at, member.clone()).await.expect(201);
        }
        stage.says(&json!({"groups": ["staff"]}), nothing());
        stage.sign_in().await.expect(303);
        if !is_by_hand_first {
            stage.owner.post(&at, member).await.expect(201);
        }
        for claims in [
            json!({"groups": []}),
            json!({}),
            json!({"groups": null}),
            json!({"groups": ["others"]}),
            json!({"groups": ["Staff"]}),
            json!({"groups": ""}),
            json!({"roles": ["staff"]}),
        ] {
            stage.says(&json!({"groups": ["staff"]}), nothing());
            stage.sign_in().await.expect(303);
            stage.says(&claims, nothing());
            stage.sign_in().await.expect(303);
            assert_eq!(stage.members(&staff).await, ada, "{claims}");
        }
        // The mapping goes, or another claim is read; then it is whole again.
        for change in [
            json!({"groups": []}),
            json!({"groups_claim": "roles"}),
            json!({"groups": [], "groups_claim": "/nothing/here"}),
        ] {
            stage.change(change.clone()).await;
            stage.says(&json!({"groups": ["staff"]}), nothing());
            stage.sign_in().await.expect(303);
            assert_eq!(stage.members(&staff).await, ada, "{change}");
            let whole = json!([{"value": "staff", "group": staff}]);
            stage
                .change(json!({"groups_claim": "groups", "groups": whole}))
                .await;
            stage.sign_in().await.expect(303);
        }
        // The identity goes, and at last the provider.
        let identities = stage
            .owner
            .get("/api/v1/identities")
            .await
            .expect(200)
            .json();
        let id = identities["items"][0]["id"].as_str().unwrap().to_owned();
        let identity = format!("/api/v1/identities/{id}");
        stage.owner.delete(&identity).await.expect(204);
        assert_eq!(stage.members(&staff).await, ada, "without the identity");
        let provider = format!("/api/v1/providers/{}", stage.id);
        stage.owner.delete(&provider).await.expect(204);
        assert_eq!(stage.members(&staff).await, ada, "without the provider");
    }
}

#[tokio::test]
async fn a_member_that_a_file_declares_stays_when_the_claim_that_gave_the_group_goes() {
    let (mut stage, staff) = Stage::with_staff("groups", json!({"unknown_people": "make"})).await;
    let nothing = || Reply::json(&json!({"sub": "s-1"}));
    stage.says(&json!({"name": "Ada", "groups": ["staff"]}), nothing());
    stage.sign_in().await.expect(303);
    let ada = stage.known().await;
    let file = json!({"groups": [{"name": "Staff", "members": ["Ada"]}]});
    let applied = async |stage: &mut Stage| {
        let answer = stage.owner.post("/api/v1/apply", file.clone()).await;
        answer.expect(200).json()["changes"]
            .as_array()
            .unwrap()
            .len()
    };
    applied(&mut stage).await;
    assert_eq!(applied(&mut stage).await, 0, "nothing is left to do");
    stage.says(&json!({}), nothing());
    stage.sign_in().await.expect(303);
    assert_eq!(stage.members(&staff).await, ada);
}
