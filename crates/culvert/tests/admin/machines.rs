//! Clients and gateways, once they have enrolled; and what the logs say of it all.

use crate::scene::{Portal, Shell, enrol_client, enrol_gateway, stay_gateway};
use serde_json::json;

/// A client `laptop` of `ci`, a gateway `gate` in `office`, and a resource that `ci` may use if
/// verified.
fn enrolled() -> (Portal, Shell) {
    let (portal, shell) = Portal::with_office();
    shell
        .line("policy create --group build --resource db --verified")
        .ok();
    let token = shell.line("token create --kind client --actor ci").ok();
    enrol_client(&token, "laptop");
    let token = shell.line("token create --kind gateway --site office").ok();
    enrol_gateway(&token, "gate");
    (portal, shell)
}

#[test]
fn explain_says_why_and_its_status_says_whether() {
    let (_portal, shell) = enrolled();
    let explain = "explain --client laptop --resource db";
    let denied = shell.line(explain);
    assert_eq!(denied.0.status.code(), Some(5), "{denied:?}");
    let said = String::from_utf8(denied.0.stdout).unwrap();
    assert!(said.starts_with("laptop may not use db"), "{said}");
    assert!(
        said.contains("build may use db") && said.contains("verified"),
        "{said}"
    );
    assert!(denied.0.stderr.is_empty(), "the answer is no failure");

    shell.line("client verify laptop").ok();
    let said = shell.line(explain).ok();
    assert!(said.starts_with("laptop may use db"), "{said}");
    let explained = shell.json(&["explain", "--client", "laptop", "--resource", "db"]);
    assert_eq!(explained["verdict"], "allow");
    shell.line("client unverify laptop").ok();
    assert_eq!(shell.line(explain).0.status.code(), Some(5));
    shell
        .line("explain --client laptop --resource nothing")
        .fails(1);
}

#[test]
fn clients_are_renamed_revoked_and_deleted() {
    let (_portal, shell) = enrolled();
    shell.line("client set laptop --name thinkpad").ok();
    let list = shell.line("client list --actor ci").ok();
    assert!(
        list.contains("thinkpad") && list.contains("active"),
        "{list}"
    );
    shell.line("client revoke thinkpad").ok();
    let shown = shell.line("client show thinkpad").ok();
    assert!(shown.contains("revoked"), "{shown}");
    shell.line("client delete thinkpad --yes").ok();
    assert_eq!(shell.json(&["client", "list"])["items"], json!([]));
}

#[test]
fn gateways_are_drained_and_revoked() {
    let (_portal, shell) = enrolled();
    shell.line("gateway drain gate").ok();
    let list = shell.line("gateway list --site office").ok();
    assert!(list.contains("draining"), "{list}");
    shell.line("gateway undrain gate").ok();
    assert_eq!(shell.json(&["gateway", "show", "gate"])["draining"], false);
    shell.line("gateway revoke gate").ok();
    assert!(shell.line("gateway show gate").ok().contains("revoked"));
}

#[test]
fn gateways_are_verified_by_their_fingerprint_and_that_is_taken_back() {
    let (_portal, shell) = enrolled();
    let shown = shell.json(&["gateway", "show", "gate"]);
    let fingerprint = shown["fingerprint"].as_str().unwrap().to_owned();
    assert_eq!(fingerprint.split('-').count(), 8, "{fingerprint}");
    assert!(shown["enrolled_with"].as_str().unwrap().starts_with("tok_"));
    assert!(shown["verified"].is_null());
    assert!(shell.line("gateway show gate").ok().contains(&fingerprint));
    assert!(shell.line("gateway list").ok().contains("active"));

    let other = "gateway verify gate --fingerprint 0000-0000-0000-0000-0000-0000-0000-0000";
    shell.line(other).fails(1);
    assert!(shell.json(&["gateway", "show", "gate"])["verified"].is_null());
    let same = format!("gateway verify gate --fingerprint {fingerprint}");
    shell.line(&same).ok();
    assert!(shell.json(&["gateway", "show", "gate"])["verified"].is_string());
    assert!(shell.line("gateway list").ok().contains("verified"));
    shell.line("gateway unverify gate").ok();
    assert!(shell.json(&["gateway", "show", "gate"])["verified"].is_null());
    let log = shell
        .line("log changes --entity gateway --actor ada --limit 1")
        .ok();
    assert!(log.contains("verified"), "{log}");
    shell.line("gateway revoke gate").ok();
    shell.line("gateway verify gate").fails(1);
}

#[test]
fn requiring_verified_gateways_names_first_which_would_lose_access() {
    let (_portal, shell) = enrolled();
    let require = "account set --require-verified-gateways on";
    let refused = shell.line(require);
    assert_eq!(refused.0.status.code(), Some(2), "{refused:?}");
    let said = String::from_utf8(refused.0.stderr).unwrap();
    assert!(
        said.contains("\"gate\"") && said.contains("--yes"),
        "{said}"
    );
    let is_required = || shell.json(&["account", "show"])["require_verified_gateways"] == true;
    assert!(!is_required());

    shell
        .run(&[&*require.split(' ').collect::<Vec<_>>(), &["--yes"]].concat())
        .ok();
    assert!(is_required());
    assert!(shell.line("gateway list").ok().contains("waiting"));
    shell
        .line("account set --require-verified-gateways off")
        .ok();
    assert!(!is_required());
    // Nobody loses anything: nothing is asked.
    shell.line("gateway verify gate").ok();
    let said = shell.line(require).ok();
    assert!(!said.contains("not verified"), "{said}");
    assert!(is_required());
}

#[test]
fn the_status_counts_what_is_connected() {
    let (portal, shell) = enrolled();
    let said = shell.line("status").ok();
    assert!(
        said.contains(&portal.url) && said.contains("ready"),
        "{said}"
    );
    let status = shell.json(&["status"]);
    assert_eq!(status["portal"]["ready"], true);
    assert!(status["gateways"].is_array() && status["clients"].is_array());
}

#[test]
fn the_change_log_says_who_changed_what_and_how_it_was() {
    let (_portal, shell) = enrolled();
    shell.line("policy set build_may --disable").fails(1);
    let name = "build may use db";
    shell
        .run(&["policy", "set", name, "--disable", "--without", "verified"])
        .ok();
    let said = shell
        .line("log changes --entity policy --actor ada --from 1h --limit 1")
        .ok();
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        said.contains("ada update policy \"build may use db\":"),
        "{said}"
    );
    assert!(said.contains("disabled: no → yes"), "{said}");
    assert!(said.contains("conditions: verified → always"), "{said}");
    assert!(!said.contains("version"), "{said}");

    let id = shell.json(&["policy", "show", name])["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let of_it = shell.json(&["log", "changes", "--id", &id]);
    assert_eq!(of_it["items"].as_array().unwrap().len(), 2, "{of_it}");
    let before = shell.json(&["log", "changes", "--until", "2020-01-01T00:00:00Z"]);
    assert_eq!(before["items"], json!([]));
    let limited = shell.json(&["log", "changes", "--limit", "3"]);
    assert_eq!(limited["items"].as_array().unwrap().len(), 3);
    shell
        .line("log access --client laptop --decision denied --from 4h")
        .ok();
}

#[test]
fn lists_say_who_is_connected_and_when_others_were_seen_to_the_second() {
    let (_portal, shell) = Portal::with_office();
    let token = shell.line("token create --kind gateway --site office").ok();
    let session = stay_gateway(&token, "gate");
    let token = shell.line("token create --kind client --actor ci").ok();
    enrol_client(&token, "laptop");
    for (line, is_connected) in [("gateway list", true), ("client list", false)] {
        let words: Vec<_> = line.split(' ').collect();
        let table = shell.line(line).ok();
        let heading = table.lines().next().unwrap();
        let columns: Vec<_> = heading.split_whitespace().collect();
        let last = ["CONNECTED", "SINCE", "VERSION", "SEEN"];
        assert!(columns.ends_with(&last), "{line}: {table}");
        let item = shell.json(&words)["items"][0].clone();
        let row = table.lines().nth(1).unwrap();
        match is_connected {
            true => {
                let since = item["connected_since"].as_str().unwrap();
                let second = since.split('.').next().unwrap().trim_end_matches('Z');
                let shown = row.split_whitespace().collect::<Vec<_>>().join(" ");
                assert!(shown.contains(&format!(" yes {second}Z ")), "{line}: {row}");
            }
            false => {
                assert_eq!(item["connected_since"], json!(null), "{line}");
                assert!(row.contains("  no  "), "{line}: {row}");
            }
        }
        assert_eq!(item["connected"], is_connected, "{line}");
        let version = item["software"].as_str().unwrap_or("-");
        assert!(row.contains(&format!("  {version}  ")), "{line}: {row}");
        let count = |line: &str| {
            let words: Vec<_> = line.split(' ').collect();
            shell.json(&words)["items"].as_array().unwrap().len()
        };
        let connected = usize::from(is_connected);
        assert_eq!(count(&format!("{line} --connected")), connected);
        assert_eq!(count(&format!("{line} --not-connected")), 1 - connected);
        let both = shell.line(&format!("{line} --connected --not-connected"));
        assert_eq!(both.0.status.code(), Some(2), "{line}");
        let seen = item["last_seen"].as_str().unwrap();
        let second = seen.split('.').next().unwrap().trim_end_matches('Z');
        assert!(row.ends_with(&format!("{second}Z")), "{line}: {row}");
        let show = [words[0], "show", item["name"].as_str().unwrap()];
        let shown = shell.run(&show).ok();
        assert!(shown.contains("connected:"), "{line}: {shown}");
    }
    drop(session);
}
