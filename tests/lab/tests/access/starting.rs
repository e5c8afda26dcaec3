//! Portal, gateway and client start in any order, and again, and come together by themselves.

use crate::common::{Bed, SOON, WEB_PORT, access};
use crate::forgery::Forger;
use crate::kept_grants::kept_grants;
use culvert_lab::product::{Gateway, PRIVATE_OTHER_V4, PRIVATE_V4, PRIVATE_V6, Product};
use culvert_lab::wait_until;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// An attempt that succeeds takes this long at most while others compile.
const BUSY: Duration = Duration::from_secs(5);

/// "a client in which somebody waits for access tries within 2 s of the last attempt […]; so does a
/// gateway always"
const HURRIED: Duration = Duration::from_secs(2);

/// "A 'no' stands for up to ten seconds before the portal is asked again"
const NO_STANDS: Duration = Duration::from_secs(10);

/// A handshake that the gateway's restart has made void is made again. After 2 s of silence a client
/// begins one, and it is lost if the gateway is not there yet.
const NEW_HANDSHAKE: Duration = Duration::from_secs(10);

/// The programs as `culvert wg` runs them begin a handshake after 15 s of silence (WireGuard's keepalive
/// and rekey timeouts), and again 5 s later.
const WIREGUARD_NOTICES: Duration = Duration::from_secs(30);

/// "waits 1 s […] and a random time of up to 1 s, which doubles with each attempt up to 30 s"
fn longest_wait(attempts: u64) -> Duration {
    let spread_s = 1_u64 << attempts.saturating_sub(1).min(5);
    Duration::from_secs(1 + spread_s.min(30))
}

/// The number of the client's attempts to reach the portal.
fn attempts(product: &Product) -> u64 {
    let status = product.client.status();
    let attempts = status.map(|status| status["portal"]["attempts"].as_u64());
    attempts.ok().flatten().unwrap_or(0)
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Program {
    Portal,
    Gateway,
    Client,
}

/// Starts a program, and waits until it has found the others or has tried to in vain.
fn start(product: &mut Product, program: Program) {
    match program {
        Program::Portal => product.portal.start().unwrap(),
        Program::Gateway => {
            let gateway = &mut product.gateways[0];
            gateway.launch().unwrap();
            wait_until("the gateway's first attempt", SOON, || {
                let said = gateway.output();
                said.contains("connected to the portal")
                    || said.contains("the portal can't be reached")
            })
            .unwrap();
        }
        Program::Client => {
            product.client.launch().unwrap();
            wait_until("the client's first attempt", SOON, || {
                product.client.status().is_ok_and(|status| {
                    status["portal"]["state"] == "connected"
                        || !status["portal"]["last_error"].is_null()
                })
            })
            .unwrap();
        }
    }
}

#[test]
fn a_client_and_a_gateway_that_first_start_without_their_portal_find_it_within_the_backoff() {
    let mut product = Product::networks(1).unwrap();
    product.declare(&access()).unwrap();
    let portal = &product.portal;
    let tokens = [
        ("client --actor laptop", product.client.token_file()),
        ("gateway --site lab", product.gateways[0].token_file()),
    ];
    for (of, file) in tokens {
        portal.token(of, &file).unwrap();
    }
    product.portal.stop().unwrap();
    start(&mut product, Program::Client);
    start(&mut product, Program::Gateway);
    wait_until("several attempts in vain", SOON, || attempts(&product) >= 3).unwrap();
    start(&mut product, Program::Portal);
    let ready = Instant::now();
    let longest = longest_wait(attempts(&product)) + BUSY;
    let gateway = &mut product.gateways[0];
    gateway.is_welcomed_within(HURRIED + BUSY).unwrap();
    let left = longest.saturating_sub(ready.elapsed());
    product.client.is_welcomed_within(left).unwrap();
    let bed = Bed::around(product).unwrap();
    assert!(bed.reaches(PRIVATE_V4, WEB_PORT));
}

#[test]
fn in_whatever_order_the_three_start_again_access_comes_by_itself() {
    use Program::{Client, Gateway, Portal};
    let mut bed = Bed::new(1).unwrap();
    for order in [
        [Portal, Client, Gateway],
        [Gateway, Portal, Client],
        [Gateway, Client, Portal],
        [Client, Portal, Gateway],
        [Client, Gateway, Portal],
    ] {
        let product = &mut bed.product;
        product.client.stop().unwrap();
        product.gateways[0].stop().unwrap();
        product.portal.stop().unwrap();
        assert!(!bed.reaches(PRIVATE_V4, WEB_PORT), "nothing runs");
        for program in order {
            start(&mut bed.product, program);
        }
        let longest = longest_wait(attempts(&bed.product)) + NO_STANDS + BUSY;
        let what = format!("access after {order:?}");
        wait_until(&what, longest, || bed.reaches(PRIVATE_V4, WEB_PORT)).unwrap();
    }
}

/// The grants that a restart of the gateway would find.
fn persisted(product: &Product) -> usize {
    kept_grants(&product.gateways[0]).len()
}

fn wait_until_persisted(product: &Product, grants: usize) {
    let what = format!("{grants} kept grants");
    wait_until(&what, SOON, || persisted(product) == grants).unwrap();
}

#[test]
fn a_gateway_that_restarts_without_the_portal_goes_on_with_its_grants() {
    let mut bed = Bed::new(1).unwrap();
    assert!(bed.reaches(PRIVATE_V4, WEB_PORT));
    wait_until_persisted(&bed.product, 1);
    bed.product.portal.kill().unwrap();
    // As asked, and by a crash.
    for end in [Gateway::stop, Gateway::kill] {
        end(&mut bed.product.gateways[0]).unwrap();
        start(&mut bed.product, Program::Gateway);
        wait_until("the grant to be served again", NEW_HANDSHAKE, || {
            bed.reaches(PRIVATE_V4, WEB_PORT)
        })
        .unwrap();
        bed.download().unwrap().goes_on(SOON).unwrap();
    }
}

#[test]
fn a_gateway_that_was_away_for_long_without_the_portal_goes_on_with_its_grants() {
    let mut bed = Bed::new(1).unwrap();
    assert!(bed.reaches(PRIVATE_V4, WEB_PORT));
    wait_until_persisted(&bed.product, 1);
    bed.product.portal.kill().unwrap();
    bed.product.gateways[0].kill().unwrap();
    // Somebody goes on trying until the client knows that nobody answers, and beyond.
    let silent_for_ms = || {
        assert!(!bed.reaches(PRIVATE_V4, WEB_PORT));
        let status = bed.product.client.status().unwrap();
        status["gateways"][0]["silent_for_ms"].as_u64()
    };
    wait_until("the gateway to be silent for long", SOON * 2, || {
        silent_for_ms().is_some_and(|silent_for_ms| silent_for_ms > 8_000)
    })
    .unwrap();
    start(&mut bed.product, Program::Gateway);
    wait_until("the grant to be served again", NEW_HANDSHAKE, || {
        bed.reaches(PRIVATE_V4, WEB_PORT)
    })
    .unwrap();
}

/// Additions to the usual access: two more servers for the same group.
fn more_access(web_policy_keys: &str) -> String {
    let mut access = crate::common::access_with(web_policy_keys);
    for (name, address) in [("other", PRIVATE_OTHER_V4), ("six", PRIVATE_V6)] {
        access += &format!(
            r#"
[[resource]]
name = "{name}"
site = "lab"
kind = "address"
address = "{address}"
filters = [{{ protocol = "tcp", ports = [{WEB_PORT}] }}]

[[policy]]
name = "staff-{name}"
group = "staff"
resource = "{name}"
"#
        );
    }
    access
}

/// True if someone who has the client's keys, and asks nobody, gets an answer.
fn gets(forger: &Forger, address: &str) -> bool {
    let host = match address.contains(':') {
        true => format!("[{address}]"),
        false => address.to_owned(),
    };
    let curl = format!("curl -gfsS -m 4 http://{host}:{WEB_PORT}/");
    let outcome = forger.namespace.outcome(&curl);
    outcome.is_ok_and(|outcome| outcome.status.success())
}

/// A bed in which all three servers are granted, and known to be kept.
fn three_grants() -> Bed {
    let mut product = Product::networks(1).unwrap();
    product.begin(&more_access("")).unwrap();
    let bed = Bed::around(product).unwrap();
    for address in [PRIVATE_V4, PRIVATE_OTHER_V4, PRIVATE_V6] {
        bed.comes_to_reach(address, WEB_PORT).unwrap();
    }
    wait_until_persisted(&bed.product, 3);
    bed
}

/// The number of grants that the gateway reports as enforced.
fn enforced(product: &Product) -> u64 {
    let status = product.gateways[0].status().unwrap();
    status["grant_count"].as_u64().unwrap()
}

#[test]
fn a_gateway_that_restarts_without_the_portal_serves_no_grant_that_is_over() {
    /// The client's keys are in other hands by then, on a machine that compiles as well.
    const LEAD_S: u64 = 15;
    let mut bed = three_grants();
    let portal = &bed.product.portal;
    portal.admin("policy delete staff-six --yes").unwrap();
    wait_until_persisted(&bed.product, 2);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let end_unix_s = now.as_secs() + LEAD_S;
    let end = culvert_lab::run(&format!("date -u -d @{end_unix_s} +%Y-%m-%dT%H:%M:%SZ")).unwrap();
    let expiring = more_access(&format!("expires = {}", end.trim()));
    let expiring = expiring.replace(
        "name = \"staff-six\"\n",
        "name = \"staff-six\"\ndisabled = true\n",
    );
    portal.apply(&expiring).unwrap();
    let forger = Forger::take_over(&mut bed.product).unwrap();
    let product = &mut bed.product;
    wait_until("its way through the tunnel", WIREGUARD_NOTICES, || {
        gets(&forger, PRIVATE_OTHER_V4)
    })
    .unwrap();
    assert!(gets(&forger, PRIVATE_V4), "until its policy expires");
    product.portal.kill().unwrap();
    product.gateways[0].kill().unwrap();
    assert_eq!(persisted(product), 2, "it did not see the end");
    let ended = || SystemTime::now() >= UNIX_EPOCH + Duration::from_secs(end_unix_s);
    wait_until("the policy to expire", Duration::from_secs(LEAD_S), ended).unwrap();

    start(product, Program::Gateway);
    wait_until("what still stands", WIREGUARD_NOTICES, || {
        gets(&forger, PRIVATE_OTHER_V4)
    })
    .unwrap();
    assert!(!gets(&forger, PRIVATE_V4), "it has expired");
    assert!(!gets(&forger, PRIVATE_V6), "it was revoked");
    assert_eq!(enforced(product), 1);
}

#[test]
fn what_was_revoked_while_a_gateway_was_away_ends_when_it_hears_the_portal() {
    let mut bed = three_grants();
    let forger = Forger::take_over(&mut bed.product).unwrap();
    let product = &mut bed.product;
    // A portal that sees its gateway go ends all grants through it.
    product.portal.kill().unwrap();
    product.gateways[0].kill().unwrap();
    product.portal.start().unwrap();
    product
        .portal
        .admin("policy delete staff-web --yes")
        .unwrap();
    product.portal.kill().unwrap();
    start(product, Program::Gateway);
    // It can't know.
    wait_until("what is kept", WIREGUARD_NOTICES, || {
        gets(&forger, PRIVATE_V4)
    })
    .unwrap();
    product.portal.start().unwrap();
    let gateway = &mut product.gateways[0];
    gateway.is_welcomed_within(HURRIED + BUSY).unwrap();
    wait_until("the end of what was revoked", BUSY, || {
        enforced(product) == 2
    })
    .unwrap();
    assert!(!gets(&forger, PRIVATE_V4), "it was revoked");
    assert!(gets(&forger, PRIVATE_OTHER_V4), "it was not");
}
