//! From a new portal to machines that may use something, by commands alone.

use crate::scene::{Portal, mode, write_secret};
use culvert_wire::token::{Token, TokenKind};

#[test]
fn a_new_portal_is_set_up_and_filled_by_commands() {
    let portal = Portal::start();
    let shell = portal.shell("ada");
    let file = portal.path("setup.token");
    write_secret(&file, &portal.setup_token);
    let file = file.to_str().unwrap();
    let set_up = [
        "setup",
        "--token-file",
        file,
        "--owner",
        "ada",
        "--account",
        "Example",
    ];
    let said = shell.run(&set_up).ok();
    assert!(said.contains("\"ada\" owns account \"Example\""), "{said}");
    assert!(said.contains(&portal.url), "{said}");
    assert_eq!(mode(&shell.saved_token()), 0o600);
    assert_eq!(mode(shell.saved_token().parent().unwrap()), 0o700);

    for line in [
        "site create office",
        "resource create db --site office --address 10.1.2.3 --allow tcp:5432",
        "resource create net --site office --address 10.0.0.0/8 --allow tcp:80,443 --allow icmp",
        "resource create wiki --site office --address *.corp.example --allow any",
        "actor create ci --kind service-account",
        "actor create grace --kind user",
        "group create build --member ci",
        "group add-member build grace",
        "policy create --group build --resource db",
        "policy create evenings --group build --resource net --verified --country de --expires 4h",
    ] {
        let said = shell.line(line).ok();
        assert_eq!(said.lines().count(), 1, "{line}: {said}");
    }
    let resources = shell.json(&["resource", "list"]);
    let kinds: Vec<&str> = resources["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["address", "cidr", "dns"]);
    let group = shell.json(&["group", "show", "build"]);
    assert_eq!(group["members"].as_array().unwrap().len(), 2, "{group}");
    let evenings = shell.json(&["policy", "show", "evenings"]);
    let conditions = evenings["conditions"].as_array().unwrap();
    assert_eq!(conditions.len(), 3, "{evenings}");

    let secret = shell.line("token create --kind gateway --site office").ok();
    let token = Token::parse_as(&secret, TokenKind::Gateway).unwrap();
    assert_eq!(token.portal.unwrap().url, portal.url);
    let secret = shell
        .line("token create --kind client --actor ci --one-time")
        .ok();
    Token::parse_as(&secret, TokenKind::Client).unwrap();
}

#[test]
fn things_are_changed_and_deleted_by_name_or_id() {
    let (_portal, shell) = Portal::set_up();
    for line in [
        "site create office",
        "resource create db --site office --address 10.1.2.3 --allow tcp:5432",
        "actor create ci --kind service-account",
        "group create build",
        "policy create p --group build --resource db --verified",
    ] {
        shell.line(line).ok();
    }
    let id = |kind: &str, name: &str| {
        let shown = shell.json(&[kind, "show", name]);
        shown["id"].as_str().unwrap().to_owned()
    };
    shell
        .run(&["site", "set", &id("site", "office"), "--name", "hq"])
        .ok();
    shell.line("actor set ci --disable").ok();
    shell
        .line("resource set db --address db.corp.example --allow none")
        .ok();
    shell
        .line("policy set p --without verified --from-address 203.0.113.9 --disable")
        .ok();
    shell.line("group create reserve").ok();
    shell.line("policy set p --group reserve").ok();
    assert_eq!(
        shell.json(&["policy", "show", "p"])["group"],
        shell.json(&["group", "show", "reserve"])["id"]
    );
    shell.line("policy set p --group build --resource db").ok();
    shell.line("group set build --name builders").ok();

    assert_eq!(shell.json(&["actor", "show", "ci"])["disabled"], true);
    let resource = shell.json(&["resource", "show", "db"]);
    assert_eq!(
        (&resource["kind"], &resource["filters"]),
        (&"dns".into(), &serde_json::json!([]))
    );
    let policy = shell.json(&["policy", "show", "p"]);
    assert_eq!(
        policy["conditions"],
        serde_json::json!([{"kind": "public_address", "cidrs": ["203.0.113.9/32"]}])
    );
    assert_eq!(policy["disabled"], true);

    let error = shell.line("site delete hq --yes").fails(1);
    assert!(
        error.contains("resource \"db\" (res_"),
        "names, not ids alone: {error}"
    );
    assert!(error.contains("site \"hq\" (site_"), "{error}");
    assert!(
        error.contains("in use") && error.contains("--cascade"),
        "{error}"
    );
    shell.line("site delete hq --cascade --yes").ok();
    assert_eq!(
        shell.json(&["policy", "list"])["items"],
        serde_json::json!([])
    );
    shell.line("group delete builders --yes").ok();
    shell.line("actor delete ci --yes").ok();
    assert!(
        shell
            .line("actor show ci")
            .fails(1)
            .contains("culvert admin actor list")
    );
}

#[test]
fn a_member_that_is_removed_is_in_the_group_no_longer() {
    let (_portal, shell) = Portal::set_up();
    shell.line("actor create ci --kind service-account").ok();
    shell.line("group create build --member ci").ok();
    let error = shell.line("group add-member build ci").fails(1);
    assert!(!error.is_empty());
    shell.line("group remove-member build ci").ok();
    let group = shell.json(&["group", "show", "build"]);
    assert_eq!(group["members"], serde_json::json!([]));
    shell.line("group remove-member build ci").fails(1);
    // A group with a member that does not exist is not made.
    shell.line("group create other --member nobody").fails(1);
    shell.line("group show other").fails(1);
}
