//! Resolvers that a client asks over TLS: HAProxy speaks it in front of the lab's own.

use crate::common::SOON;
use crate::resolver_scene::{PUBLIC_ADDRESS, PUBLIC_DNS, PUBLIC_NAME, Scene};
use culvert_lab::{Process, peer_program, wait_until};
use std::fs;
use std::path::Path;

const NAME: &str = "dns.example";

/// Counts what the client's machine asks in the clear, of whomever.
const COUNT_CLEAR: &str = "add table inet seen
add chain inet seen out { type filter hook output priority 0; }
add rule inet seen out oifname \"veth*\" meta l4proto { tcp, udp } th dport 53 counter";

/// The files of a resolver whose certificate is for `name`, and HAProxy with them.
fn serve(scene: &Scene, name: &str) -> Process {
    let made = rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let dir = scene.product.dir();
    fs::write(authority(dir), &certificate).unwrap();
    let (both, configuration) = (dir.join("dns.pem"), dir.join("dns.cfg"));
    fs::write(&both, format!("{certificate}{key}")).unwrap();
    let text = format!(
        "defaults\n mode tcp\n timeout connect 5s\n timeout client 50s\n timeout server 50s\n\
         listen dns\n bind {PUBLIC_DNS}:853 ssl crt {}\n server one {PUBLIC_DNS}:53\n",
        both.display()
    );
    fs::write(&configuration, text).unwrap();
    let program = peer_program("haproxy").unwrap();
    let line = format!("{} -db -f {}", program.display(), configuration.display());
    let process = scene.product.internet.spawn(&line).unwrap();
    wait_until("HAProxy", SOON, || {
        let listening = scene.product.internet.run("ss -Hltn sport = :853");
        listening.is_ok_and(|lines| lines.contains(PUBLIC_DNS))
    })
    .unwrap_or_else(|error| panic!("{error}: {}", process.output()));
    process
}

fn authority(dir: &Path) -> std::path::PathBuf {
    dir.join("authority.pem")
}

/// Asks until the status says this of the resolver, and the log, which is not repeated.
fn comes_to_say(scene: &Scene, what: &str) {
    let client = &scene.product.client;
    wait_until(what, SOON, || {
        assert!(scene.addresses(PUBLIC_NAME).is_empty());
        let status = client.status().unwrap();
        status["problems"].to_string().contains(what)
    })
    .unwrap_or_else(|error| panic!("{error}: {}", client.output()));
    let output = client.output();
    let lines = output.lines();
    let said = lines.filter(|line| line.contains("can't be asked over TLS") && line.contains(what));
    assert_eq!(said.count(), 1, "{output}");
}

#[test]
fn names_that_are_to_be_asked_over_tls_are_asked_in_no_other_way_whatever_fails() {
    let arguments = format!("--dns file --dns-upstream {PUBLIC_DNS}#{NAME}");
    let mut scene = Scene::new(&arguments);
    let export = format!(
        "\nexport SSL_CERT_FILE={}",
        authority(scene.product.dir()).display()
    );
    scene.product.client.machine.push_str(&export);
    let resolver = serve(&scene, NAME);
    let namespace = scene.product.client.namespace.clone();
    namespace.shell(&format!("nft '{COUNT_CLEAR}'")).unwrap();
    let clear = || namespace.run("nft list chain inet seen out").unwrap();

    scene.begin();
    scene.comes_to_be_applied();
    scene.finds_names(PUBLIC_ADDRESS);
    let status = scene.product.client.status().unwrap();
    let over_tls = &status["dns"]["over_tls"][0];
    assert_eq!(over_tls["address"], format!("{PUBLIC_DNS}:853"));
    assert_eq!(
        (&over_tls["name"], over_tls["trouble"].is_null()),
        (&NAME.into(), true)
    );

    drop(resolver);
    comes_to_say(&scene, "Connection refused");
    let other = serve(&scene, "other.example");
    comes_to_say(&scene, "not valid for name");
    drop(other);
    let again = serve(&scene, NAME);
    scene.finds_names(PUBLIC_ADDRESS);
    assert!(scene.product.client.output().contains("over TLS again"));
    drop(again);

    assert!(clear().contains("packets 0 "), "{}", clear());
}
