//! Commands of people at a client's machine: their resources, and the path to one.

use crate::common::{Bed, OTHER_PORT, SOON, WEB_PORT, access, access_with};
use culvert_lab::product::{PRIVATE_V4, PRIVATE_V6};
use culvert_lab::{Family, culvert_program, in_one_of_some_attempts, wait_until};
use std::process::Output;
use std::time::{Duration, Instant};

/// The output of `culvert …` for the client of a bed.
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

/// Waits until the client has carried nothing for longer than it believes a grant to be in use.
fn wait_until_idle(bed: &Bed) {
    const QUIET: Duration = Duration::from_secs(12);
    let sent_bytes = || bed.product.client.status().unwrap()["gateways"][0]["tx_bytes"].clone();
    let mut last = (sent_bytes(), Instant::now());
    wait_until("the client to be idle", Duration::from_secs(60), || {
        let now = sent_bytes();
        if now != last.0 {
            last = (now, Instant::now());
        }
        last.1.elapsed() > QUIET
    })
    .unwrap();
}

#[test]
fn a_port_that_is_added_to_an_address_in_use_works_at_once() {
    // Linux repeats a lost SYN after a second: it was not lost.
    const AT_ONCE: Duration = Duration::from_millis(900);
    let six = format!(
        "\n[[resource]]\nname = \"six\"\nsite = \"lab\"\nkind = \"address\"\naddress = \"{PRIVATE_V6}\"\n\
         filters = [{{ protocol = \"tcp\", ports = [80] }}]\n\n[[policy]]\nname = \"staff-six\"\ngroup = \"staff\"\nresource = \"six\"\n"
    );
    let bed = Bed::with_access(1, &(access() + &six)).unwrap();
    for address in [PRIVATE_V4, PRIVATE_V6] {
        bed.comes_to_reach(address, WEB_PORT).unwrap();
    }
    wait_until_idle(&bed);
    let portal = &bed.product.portal;
    for (name, address) in [("late", PRIVATE_V4), ("late-six", PRIVATE_V6)] {
        let mut attempts = 0;
        in_one_of_some_attempts(|| {
            attempts += 1;
            if attempts > 1 {
                for kind in ["policy", "resource"] {
                    portal
                        .admin(&format!("{kind} delete {name} --yes"))
                        .unwrap();
                }
                wait_until_idle(&bed);
            }
            let resource =
                format!("resource create {name} --site lab --address {address} --allow tcp:81");
            portal.admin(&resource).unwrap();
            let policy = format!("policy create {name} --group staff --resource {name}");
            portal.admin(&policy).unwrap();
            let began = Instant::now();
            assert!(bed.reaches(address, OTHER_PORT), "{address}");
            let took = began.elapsed();
            println!("{address}: {} ms", took.as_millis());
            match took < AT_ONCE {
                true => Ok(()),
                false => Err(format!("{address} took {took:?}")),
            }
        })
        .unwrap();
    }
}

#[test]
fn a_resource_on_the_gateways_own_machine_names_the_option_that_serves_it_everywhere() {
    let bed = Bed::new(1).unwrap();
    let own = bed.product.gateways[0].private_address(Family::V4);
    let portal = &bed.product.portal;
    let resource = format!("resource create own --site lab --address {own} --allow tcp:80");
    portal.admin(&resource).unwrap();
    portal
        .admin("policy create --group staff --resource own")
        .unwrap();
    wait_until("ping to name the option", SOON, || {
        let (code, said) = ping(&bed, "own");
        code == Some(1) && said.contains("--host-access")
    })
    .unwrap_or_else(|error| panic!("{error}: {:?}", ping(&bed, "own")));
    let explained = portal
        .admin_outcome("explain --client laptop --resource own")
        .unwrap();
    let explained = String::from_utf8(explained.stdout).unwrap();
    assert!(explained.contains("--host-access"), "{explained}");
    let status = bed.product.gateways[0].status().unwrap();
    let problems = status["problems"].to_string();
    assert!(problems.contains("--host-access"), "{problems}");
}
