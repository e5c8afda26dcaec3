use super::*;

/// A workspace of these members, with these edges.
fn workspace(members: &[&str], edges: &[(&str, &str)]) -> Workspace {
    let mut workspace = Workspace::default();
    for name in members {
        workspace.members.push(Member {
            name: (*name).to_owned(),
            folder: "/nowhere".into(),
            roots: Vec::new(),
        });
    }
    for (from, to) in edges {
        let entry = workspace.dependencies.entry((*from).to_owned());
        entry.or_default().push((*to).to_owned());
    }
    workspace
}

fn purity_of(members: &[&str], edges: &[(&str, &str)]) -> Vec<String> {
    // Without an edge for each permission, one would be stale.
    let permitted = PERMITTED.map(|(from, to, _)| (from, to));
    purity(&workspace(members, &[&permitted, edges].concat()))
}

#[test]
fn an_edge_that_the_table_lacks_is_a_problem() {
    let members = ["culvert-session", "culvert-policy", "culvert-aead"];
    let good = workspace(&members, &[("culvert-session", "culvert-aead")]);
    assert!(edges(&good).is_empty());
    let bad = workspace(&members, &[("culvert-session", "culvert-policy")]);
    assert_eq!(
        edges(&bad),
        ["culvert-session may not depend on culvert-policy"]
    );
    let bad = workspace(&members, &[("culvert-policy", "culvert-session")]);
    assert_eq!(edges(&bad).len(), 1);
}

#[test]
fn a_crate_that_the_table_lacks_is_a_problem() {
    let problems = edges(&workspace(&["culvert-novelty"], &[]));
    assert_eq!(problems.len(), 1);
    assert!(problems[0].starts_with("culvert-novelty is not in the table"));
}

#[test]
fn only_keepers_depend_on_the_operating_system() {
    let members = ["culvert", "culvert-tun"];
    let good = workspace(&members, &[("culvert-tun", "libc"), ("culvert", "rustix")]);
    assert!(holders(&good).is_empty());
    let bad = workspace(&members, &[("culvert", "libc")]);
    assert_eq!(holders(&bad).len(), 1);
    let bad = workspace(&["culvert-engine"], &[("culvert-engine", "tokio")]);
    assert_eq!(holders(&bad).len(), 1);
}

#[test]
fn a_pure_crate_reaches_nothing_impure_even_through_others() {
    let members = ["culvert-packet", "culvert-tun"];
    assert!(purity_of(&members, &[("culvert-packet", "thiserror")]).is_empty());
    assert!(purity_of(&members, &[("culvert-tun", "libc")]).is_empty());
    let ways = [("culvert-packet", "harmless"), ("harmless", "tokio")];
    assert_eq!(
        purity_of(&members, &ways),
        ["a pure crate reaches an impure one: culvert-packet → harmless → tokio"]
    );
}

#[test]
fn a_permitted_edge_permits_itself_alone() {
    let through = [("culvert-aead", "aws-lc-rs")];
    assert!(purity_of(&["culvert-aead"], &through).is_empty());
    let direct = [("culvert-aead", "aws-lc-sys")];
    assert_eq!(purity_of(&["culvert-aead"], &direct).len(), 1);
    let beside = [("culvert-aead", "aws-lc-rs"), ("aws-lc-rs", "libc")];
    assert_eq!(purity_of(&["culvert-aead"], &beside).len(), 1);
}

#[test]
fn a_permission_that_nobody_needs_is_a_problem() {
    assert_eq!(purity(&workspace(&[], &[])).len(), PERMITTED.len());
}

fn rust(text: &str) -> syn::File {
    syn::parse_file(text).expect("Rust")
}

#[test]
fn every_root_but_the_devices_forbids_unsafe_code() {
    let forbids = &rust("//! A crate.\n\n#![forbid(unsafe_code)]\n");
    let silent = &rust("//! A crate.\n// #![forbid(unsafe_code)]\n");
    assert_eq!(unsafe_code("culvert-engine", "lib.rs", forbids), None);
    assert!(unsafe_code("culvert-engine", "lib.rs", silent).is_some());
    assert_eq!(unsafe_code("culvert-tun", "lib.rs", silent), None);
    assert!(unsafe_code("culvert-tun", "lib.rs", forbids).is_some());
    let denies = &rust("#![deny(unsafe_code)]\n");
    assert_eq!(unsafe_code("culvert-aead", "lib.rs", denies), None);
    assert!(unsafe_code("culvert-aead", "lib.rs", silent).is_some());
    assert!(unsafe_code("culvert-engine", "lib.rs", denies).is_some());
}

#[test]
fn a_pure_crate_names_no_clock_file_socket_or_environment() {
    for bad in [
        "use std::time::Instant;",
        "use std::time::{Duration, SystemTime};",
        "use std::{env, fmt};",
        "fn f() { std::fs::read(p) }",
        "fn f() { ::std::process::exit(1) }",
        "use core::net::IpAddr; use std::net::{IpAddr as A, UdpSocket};",
        "fn f() { std::thread::sleep(d) }",
        "use std::time; fn f() -> time::Instant { time::Instant::now() }",
        "use std::io::Write as _;",
        "use std::{collections::{BTreeMap, BTreeSet}, os::fd::OwnedFd};",
        "pub use std :: env :: args;",
    ] {
        assert!(!impure_names("lib.rs", &rust(bad)).is_empty(), "{bad}");
    }
    for good in [
        "use std::time::Duration; use std::net::{IpAddr, SocketAddr};",
        "//! Unlike std::time::Instant, this is pure.\nuse std::fmt;",
        "/* std::env */ const NAME: &str = \"std::fs\"; const C: char = '\"';",
        "use crate::env::Thing; use std::sync::Mutex;",
        "const MANIFEST: &str = env!(\"CARGO_PKG_NAME\");",
        "fn f() { std::thread::scope(|s| g(s)) }",
    ] {
        assert_eq!(impure_names("lib.rs", &rust(good)), [""; 0], "{good}");
    }
    let text = "use std::fmt;\n\nfn f() {\n    std::env::args()\n}\n";
    assert_eq!(
        impure_names("a.rs", &rust(text)),
        ["a.rs:4: a pure crate may not use std::env::args"]
    );
}
