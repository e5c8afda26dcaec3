//! The overview draws the network as it is at this moment.

use crate::console::{self, Console, SOON};
use crate::page;
use culvert_lab::product::{Download, PRIVATE_V4, Server};
use culvert_lab::wait_until;
use std::fmt::Write;

/// The port that the policies allow.
const WEB_PORT: u16 = 80;

/// Resources of the account that is shown, with their sites and the groups that may use them.
const RESOURCES: [(&str, &str, &str, &str); 7] = [
    ("gitlab", "frankfurt", "gitlab.corp.example", "engineering"),
    ("grafana", "frankfurt", "grafana.corp.example", "operations"),
    ("kubernetes", "frankfurt", "10.80.0.0/16", "operations"),
    ("build farm", "frankfurt", "10.81.4.0/24", "engineering"),
    ("accounting", "office", "10.50.2.10", "finance"),
    ("printers", "office", "10.50.3.0/24", "everybody"),
    ("telescope", "observatory", "10.90.0.7", "science"),
];

#[test]
fn the_overview_draws_who_may_use_what_through_which_gateway_and_how_much_flows() {
    let console = Console::with_everything().unwrap();
    let mut access = console::access();
    for site in ["frankfurt", "observatory"] {
        writeln!(access, "[[site]]\nname = \"{site}\"").unwrap();
    }
    for group in [
        "engineering",
        "operations",
        "finance",
        "everybody",
        "science",
    ] {
        writeln!(
            access,
            "[[group]]\nname = \"{group}\"\nmembers = [\"olivia\", \"ursula\"]"
        )
        .unwrap();
    }
    for (name, site, address, group) in RESOURCES {
        writeln!(
            access,
            "[[resource]]\nname = \"{name}\"\nsite = \"{site}\"\naddress = \"{address}\"\nallow = \"any\"\n\
             [[policy]]\nname = \"{group} may use {name}\"\ngroup = \"{group}\"\nresource = \"{name}\""
        )
        .unwrap();
    }
    let product = &console.product;
    product.portal.apply(&access).unwrap();
    let address = PRIVATE_V4.parse().unwrap();
    let _server = Server::start(&product.private, address, WEB_PORT).unwrap();
    let mut download = None;
    wait_until("a download", SOON, || {
        download = Download::start(&product.client.namespace, address, WEB_PORT).ok();
        download.is_some()
    })
    .unwrap();

    console.sign_in("olivia").unwrap();
    let drawn = |selector: &str| -> Vec<String> {
        let script = format!(
            "return [...document.querySelectorAll('svg.network {selector}')].map(part => part.textContent)"
        );
        let found = console.browser.run(&script, &[]).unwrap();
        let texts = found.as_array().into_iter().flatten();
        texts
            .map(|text| text.as_str().unwrap().to_owned())
            .collect()
    };
    // The gateway tells its rate every five seconds, and the page follows it.
    wait_until("throughput in the picture", SOON, || {
        drawn("text.end")
            .iter()
            .any(|rate| rate.ends_with("Mbit/s"))
    })
    .unwrap();
    let names = drawn("text.name");
    for name in [
        "staff",
        "engineering",
        "gitlab",
        "telescope",
        "frankfurt",
        "office",
    ] {
        assert!(names.iter().any(|shown| shown == name), "{name}: {names:?}");
    }
    assert_eq!(drawn("text.line"), ["gateway-1"]);
    let used = drawn(".edges path.used");
    assert!(!used.is_empty(), "the lines that were used are wider");
    page::is_usable(&console, "overview-of-a-network").unwrap();

    console.browser.follow_by_name("gateway-1").unwrap();
    assert!(console.path().unwrap().starts_with("/gateways/gw_"));
}
