//! What people ask at a client's machine: its resources, and whether there is a way to one.

use crate::common::{Bed, SOON, access, access_with};
use culvert_lab::{culvert_program, wait_until};
use std::process::Output;

/// What `culvert …` says about the client of a bed.
fn culvert(bed: &Bed, words: &str) -> Output {
    let client = &bed.product.client;
    let program = culvert_program().unwrap();
    let line = format!(
        "{} {words} --socket {}",
        program.display(),
        client.socket().display()
    );
    client.namespace.outcome(&line).unwrap()
}

/// The exit status and what was said.
fn ping(bed: &Bed, resource: &str) -> (Option<i32>, String) {
    let output = culvert(bed, &format!("ping {resource}"));
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(said).unwrap())
}

#[test]
fn ping_says_at_which_step_the_way_to_a_resource_ends() {
    let mut bed = Bed::with_access(1, &access_with("verified = true")).unwrap();
    let (code, said) = ping(&bed, "everything");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("no resource `everything`"), "{said}");

    let (code, said) = ping(&bed, "web");
    assert_eq!(code, Some(5), "{said}");
    assert!(said.contains("web: access is denied: "), "{said}");
    let table = String::from_utf8(culvert(&bed, "resources").stdout).unwrap();
    let is_denied = |line: &str| line.contains("web ") && line.contains("denied");
    assert!(table.lines().any(is_denied), "{table}");

    bed.product.portal.apply(&access()).unwrap();
    wait_until("a way to the resource", SOON, || {
        let (code, said) = ping(&bed, "10.50.0.10");
        code == Some(0) && said.contains("web: access is granted, gateway-1 answers at ")
    })
    .unwrap_or_else(|error| panic!("{error}: {}", ping(&bed, "web").1));
    let json = culvert(&bed, "resources --json").stdout;
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let resources = json["resources"].as_array().unwrap();
    let web = resources.iter().find(|resource| resource["name"] == "web");
    assert_eq!(web.unwrap()["state"], "granted");

    // Another one, without anybody to ask.
    bed.product.portal.kill().unwrap();
    let name = culvert_lab::product::PRIVATE_NAME;
    wait_until("the client to notice", SOON, || {
        let status = bed.product.client.status().unwrap();
        status["portal"]["state"] != "connected"
    })
    .unwrap();
    let (code, said) = ping(&bed, name);
    assert_eq!(code, Some(4), "{said}");
    assert!(
        said.contains("the portal can't be asked for access"),
        "{said}"
    );
}
