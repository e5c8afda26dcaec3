//! Identity providers, and whom they know, from the shell.

use crate::scene::{Portal, write_secret};

const SECRET: &str = "a-secret-of-the-portal";

#[test]
fn a_provider_is_made_linked_changed_and_deleted_and_its_secret_is_never_said() {
    let (portal, shell) = Portal::set_up();
    let secret = portal.path("client.secret");
    write_secret(&secret, &format!("{SECRET}\n"));
    let secret = secret.to_str().unwrap();
    shell.line("group create Staff").ok();
    shell.line("actor create grace --kind user").ok();
    let line = "provider create Example --issuer https://id.example --client-id culvert \
                --scope profile,groups --groups-claim groups --group cn=staff,dc=x=Staff \
                --unknown-people make --client-secret-file";
    let mut words: Vec<&str> = line.split_whitespace().collect();
    words.push(secret);
    let mut said = vec![shell.run(&words).ok()];
    let shown = shell.json(&["provider", "show", "Example"]);
    assert_eq!(shown["scopes"], serde_json::json!(["profile", "groups"]));
    assert_eq!(shown["groups"][0]["value"], "cn=staff,dc=x");
    assert_eq!(shown["unknown_people"], "make");
    assert!(shown["secret_set"].is_string());
    let redirect = format!("{}/sign-in/callback", portal.url);
    assert_eq!(shown["redirect_uri"], redirect);

    said.push(
        shell
            .line("provider link Example --subject 00u1 --actor grace")
            .ok(),
    );
    let text = shell.line("provider show Example").ok();
    for part in ["00u1 is grace", "cn=staff,dc=x=Staff", &redirect] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let again = shell.line("provider link Example --subject 00u1 --actor grace");
    again.fails(1);
    let shown = shell.json(&["provider", "show", "Example"]);
    let identity = shown["identities"][0]["id"].as_str().unwrap().to_owned();
    said.push(shell.run(&["provider", "unlink", &identity]).ok());
    let changed = "provider set Example --no-client-secret --no-groups --disable";
    said.push(shell.line(changed).ok());
    let shown = shell.json(&["provider", "show", "Example"]);
    assert!(shown.get("secret_set").is_none() && shown.get("groups_claim").is_none());
    assert_eq!(shown["disabled"], true);
    shell.line("provider set Example").fails(2);
    said.push(shell.line("provider list").ok());
    said.push(shell.line("actor end-sessions grace").ok());
    said.push(shell.line("provider delete Example --yes").ok());
    said.push(text);
    said.push(shell.json(&["log", "changes"]).to_string());
    for said in said {
        assert!(!said.contains(SECRET), "{said}");
    }
}

#[test]
fn what_is_no_provider_is_refused_with_what_would_be_right() {
    let (portal, shell) = Portal::set_up();
    let create = "provider create Example --client-id culvert --issuer";
    let error = shell.line(&format!("{create} http://id.example")).fails(1);
    assert!(error.contains("issuer"), "{error}");
    let open = portal.path("open.secret");
    std::fs::write(&open, SECRET).unwrap();
    let good = format!("{create} https://id.example");
    let error = shell.line(&format!("{good} --client-secret-file {}", open.display()));
    let error = error.fails(3);
    assert!(error.contains("mode") && !error.contains(SECRET), "{error}");
    let no_group = shell.line(&format!("{good} --group staff")).fails(2);
    assert!(no_group.contains("VALUE=GROUP"), "{no_group}");
    let no_ca = portal.path("no.pem");
    std::fs::write(&no_ca, "nothing").unwrap();
    let error = shell
        .line(&format!("{good} --ca-file {}", no_ca.display()))
        .fails(1);
    assert!(error.contains("certificate"), "{error}");
}
