//! Names on clients.

use crate::scene::Portal;
use serde_json::json;

#[test]
fn names_on_clients_are_set_shown_and_taken_back() {
    let (_portal, shell) = Portal::set_up();
    let shown = shell.line("dns show").ok();
    assert!(shown.contains("none"), "{shown}");
    let said = shell.line("dns search Corp.Example lab.example").ok();
    assert!(said.contains("Corp.Example, lab.example"), "{said}");
    shell
        .line("dns set corp.example --server 10.0.0.53 --server fd0c::53")
        .ok();
    shell.line("dns set . --server 10.0.0.1").ok();
    // New settings of a domain replace the earlier ones.
    shell.line("dns set Corp.Example. --server 10.0.0.54").ok();
    let expected = json!({
        "search": ["corp.example", "lab.example"],
        "domains": [
            {"name": ".", "servers": ["10.0.0.1"]},
            {"name": "corp.example", "servers": ["10.0.0.54"]},
        ],
    });
    let mut shown = shell.json(&["dns", "show"]);
    shown.as_object_mut().unwrap().remove("schema_version");
    assert_eq!(shown, expected);
    let table = shell.line("dns show").ok();
    assert!(table.contains("corp.example asked of 10.0.0.54"), "{table}");

    shell.line("dns remove CORP.example").ok();
    let missing = shell.line("dns remove corp.example").fails(2);
    assert!(missing.contains("dns show"), "{missing}");
    shell.line("dns search --none").ok();
    let shown = shell.json(&["dns", "show"]);
    assert_eq!(shown["search"], json!([]));
    assert_eq!(shown["domains"].as_array().unwrap().len(), 1);
    let log = shell.line("log changes").ok();
    assert!(log.contains("account"), "{log}");
}

#[test]
fn what_can_not_be_is_refused_with_what_would_be_right() {
    let (_portal, shell) = Portal::set_up();
    for (line, holds) in [
        (
            "dns set corp.example --server dns.corp.example",
            "10.0.0.53",
        ),
        (
            "dns set corp.example --server 127.0.0.53",
            "the client itself",
        ),
        (
            "dns set corp.example --server 100.64.0.9",
            "the tunnel's own",
        ),
        ("dns set *.example --server 10.0.0.53", "`*`"),
        ("dns search a b c d e f g", "at most 6"),
    ] {
        let output = shell.line(line).0;
        assert!(!output.status.success(), "{line}");
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains(holds), "{line}: {error}");
    }
    for line in ["dns search", "dns search a --none", "dns set corp.example"] {
        assert_eq!(shell.line(line).0.status.code(), Some(2), "{line}");
    }
    assert_eq!(shell.json(&["dns", "show"])["domains"], json!([]));
}
