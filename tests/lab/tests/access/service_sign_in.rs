//! The client's service signs in with a browser: what other users of the machine see of it, how it is given up, and other
//! requests at its socket.

use crate::browser_sign_in::{begin, decide, waiting};
use crate::common::{SOON, access};
use culvert_lab::product::Product;
use culvert_lab::{culvert_program, wait_until};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// A person without any rights of their own, but for the files of the test, which are root's.
const PERSON: &str = "setpriv --reuid 65534 --regid 65534 --clear-groups \
                      --inh-caps +dac_override --ambient-caps +dac_override";

/// The status of a command that failed (docs/exit-status.md).
const FAILED: i32 = 1;

/// Sends one request to the client, as root.
fn request(product: &Product, request: &Value) -> Value {
    let mut stream = UnixStream::connect(product.client.socket()).unwrap();
    let line = json!({"schema_version": 1, "request": request});
    writeln!(stream, "{line}").unwrap();
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).unwrap();
    serde_json::from_str(&answer).unwrap()
}

/// The client's state, as somebody sees it who may not command.
fn status_of_person(product: &Product) -> Value {
    let line = format!(
        "{PERSON} {} status --json --socket {}",
        culvert_program().unwrap().display(),
        product.client.socket().display()
    );
    serde_json::from_str(&product.client.namespace.run(&line).unwrap()).unwrap()
}

#[test]
fn a_sign_in_is_interrupted_and_its_code_is_for_those_who_may_command() {
    let product = waiting();
    let (mut process, told) = begin(&product, "");
    let code = told["user_code"].as_str().unwrap();
    let seen = &product.client.status().unwrap()["service"]["sign_in"];
    assert_eq!(
        (&seen["state"], &seen["code"]),
        (&json!("waiting"), &json!(code))
    );
    assert_eq!(seen["url_complete"], told["url_with_code"]);
    let seen = &status_of_person(&product)["service"]["sign_in"];
    assert_eq!(seen["state"], "waiting", "{seen}");
    for concealed in ["url", "url_complete", "code"] {
        assert!(seen.get(concealed).is_none(), "{seen}");
    }
    let line = format!(
        "timeout 20 {PERSON} {} status --watch --json --socket {} | head -n 1",
        culvert_program().unwrap().display(),
        product.client.socket().display()
    );
    let watched = product.client.namespace.shell(&line).unwrap();
    let watched: Value = serde_json::from_str(&watched).unwrap();
    let seen = &watched["status"]["service"]["sign_in"];
    assert!(
        seen["state"] == "waiting" && seen.get("code").is_none(),
        "{seen}"
    );

    process.terminate().unwrap();
    let status = process.wait(SOON).unwrap();
    let output = process.output();
    assert_eq!(status.code(), Some(FAILED), "{output}");
    assert!(output.contains("the sign-in is given up"), "{output}");
    let status = product.client.status().unwrap();
    assert!(status["service"].get("sign_in").is_none(), "{status}");
    assert_eq!(status["service"]["state"], "signed_out");

    // The next one is denied, and the state says so until somebody gives it up.
    let (mut denied, told) = begin(&product, "");
    decide(&product, told["user_code"].as_str().unwrap(), "deny").unwrap();
    let status = denied.wait(SOON).unwrap();
    assert!(
        !status.success() && denied.output().contains("was denied"),
        "{}",
        denied.output()
    );
    let seen = &product.client.status().unwrap()["service"]["sign_in"];
    assert_eq!(seen["code_of_failure"], "refused");
    let state = request(&product, &json!("cancel_sign_in"));
    assert!(
        state["status"]["service"].get("sign_in").is_none(),
        "{state}"
    );
}

#[test]
fn the_log_is_told_to_those_who_may_command_and_a_bundle_has_it() {
    let product = waiting();
    let answer = request(&product, &json!("log"));
    let lines = answer["log"].as_array().unwrap();
    let has = |text: &str| {
        lines
            .iter()
            .any(|line| line.as_str().unwrap().contains(text))
    };
    assert!(has("signed out: waits for"), "{answer}");
    let bundle = |person: &str, name: &str| {
        let out = product.dir().join(name);
        let line = format!(
            "{person} {} debug bundle --out {} --client-socket {}",
            culvert_program().unwrap().display(),
            out.display(),
            product.client.socket().display()
        );
        product.client.namespace.run(&line).unwrap();
        fs::read_to_string(out.join("client-log.txt")).unwrap()
    };
    let log = bundle("", "of-root");
    assert!(log.contains("signed out: waits for"), "{log}");
    let log = bundle(PERSON, "of-person");
    assert!(log.contains("members of the group culvert"), "{log}");
}

#[test]
fn names_are_asked_elsewhere_while_the_setting_says_so_over_restarts() {
    /// Names a resolver that is not there.
    const BEFORE: &str = "# by hand\nnameserver 198.51.100.54\n";
    let mut product = Product::networks(1).unwrap();
    let etc = product.dir().join("etc");
    culvert_lab::run(&format!("cp -a /etc {}", etc.display())).unwrap();
    let resolv_conf = etc.join("resolv.conf");
    // The machine's may be a link.
    let _link = fs::remove_file(&resolv_conf);
    fs::write(&resolv_conf, BEFORE).unwrap();
    let asks = |file: &Path| fs::read_to_string(file).unwrap() != BEFORE;
    product.declare(&access()).unwrap();
    let token = product.client.token_file();
    product
        .portal
        .token("client --actor laptop", &token)
        .unwrap();
    let client = &mut product.client;
    client.machine = format!("mount --bind {} /etc", etc.display());
    "--dns file".clone_into(&mut client.arguments);
    client.takes_commands = true;
    client.launch().unwrap();
    wait_until("the socket", SOON, || product.client.status().is_ok()).unwrap();
    let line = format!("sign-in --token-file {}", token.display());
    assert!(product.client.tell(&line).unwrap().status.success());
    wait_until("names to be asked of the client", SOON, || {
        asks(&resolv_conf)
    })
    .unwrap();
    let interface = |product: &Product| {
        let index = "cat /sys/class/net/culvert0/ifindex";
        product.client.namespace.shell(index).unwrap()
    };
    let before = interface(&product);

    let state = request(&product, &json!({"settings": {"dns": false}}));
    assert_eq!(
        state["status"]["service"]["settings"]["dns"], false,
        "{state}"
    );
    wait_until("the file of before", SOON, || !asks(&resolv_conf)).unwrap();
    let is_off = || {
        let status = product.client.status().unwrap();
        status["dns"]["control"]["applied"] == false && status["ready"] == true
    };
    wait_until("the state to say so", SOON, is_off).unwrap();
    assert_eq!(interface(&product), before, "the tunnel stays");

    product.client.kill().unwrap();
    product.client.launch().unwrap();
    let is_ready = || product.client.status().is_ok_and(|it| it["ready"] == true);
    wait_until("the client to be back", SOON, is_ready).unwrap();
    assert!(!asks(&resolv_conf));
    request(&product, &json!({"settings": {"dns": true}}));
    wait_until("names to be asked of the client", SOON, || {
        asks(&resolv_conf)
    })
    .unwrap();
}
