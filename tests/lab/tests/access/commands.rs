//! A client that was given no token waits at its socket, and does what it is told there.

use crate::common::{Bed, SOON, WEB_PORT, access};
use culvert_lab::product::{PRIVATE_V4, Product};
use culvert_lab::{Namespace, culvert_program, wait_until};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;

/// Exit statuses (docs/exit-status.md).
const FAILED: i32 = 1;
const NOT_ENROLLED: i32 = 3;
const UNREACHABLE: i32 = 4;
const REVOKED: i32 = 5;

/// A product with a gateway and a client's token, whose client waits for commands.
fn waiting() -> Product {
    let mut product = Product::networks(1).unwrap();
    product.declare(&access()).unwrap();
    let gateway = &mut product.gateways[0];
    let token = gateway.token_file();
    product.portal.token("gateway --site lab", &token).unwrap();
    gateway.start().unwrap();
    let token = product.client.token_file();
    product
        .portal
        .token("client --actor laptop", &token)
        .unwrap();
    product.client.takes_commands = true;
    product.client.launch().unwrap();
    product
}

/// Waits until the client says that it is there.
fn comes_to(product: &Product, state: &str) {
    let mut last = String::new();
    let stands = || match product.client.status() {
        Ok(status) => {
            last = status["service"].to_string();
            status["service"]["state"] == state
        }
        Err(_) => false,
    };
    wait_until(state, SOON, stands)
        .unwrap_or_else(|error| panic!("{error}: {last}\n{}", product.client.output()));
}

/// The line on standard error of a command that ended with `status`.
fn line_of(output: &Output, status: i32) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(status), "{said}");
    let errors: Vec<&str> = said
        .lines()
        .filter(|it| it.starts_with("culvert: "))
        .collect();
    let [line] = errors[..] else {
        panic!("not one line: {said}");
    };
    line.to_owned()
}

/// Tells the client something that it does.
fn does(product: &Product, line: &str) -> String {
    let output = product.client.tell(line).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{line}: {said}\n{}",
        product.client.output()
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn sign_in(product: &Product) {
    let token = product.client.token_file();
    let said = does(
        product,
        &format!("sign-in --token-file {}", token.display()),
    );
    assert!(
        said.starts_with("up: laptop is connected to https://"),
        "{said}"
    );
}

/// Everything of the host that a client may change.
fn host(namespace: &Namespace) -> String {
    let script = "ip -o link; ip -o address; ip rule; ip -6 rule; \
                  ip route show table all; ip -6 route show table all; nft list ruleset";
    let said = namespace.shell(script).unwrap();
    // The kernel makes addresses of its own on each link, and takes a second to try them.
    let lasting = |line: &&str| !line.contains("fe80:");
    said.lines().filter(lasting).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_client_without_a_token_goes_up_and_down_as_told_and_comes_back_as_it_was() {
    let product = waiting();
    let before = {
        comes_to(&product, "signed_out");
        host(&product.client.namespace)
    };
    assert!(!before.contains("culvert0"), "{before}");
    let text = product.client.status_text().unwrap();
    assert!(
        text.contains("signed out: waits for `culvert sign-in`"),
        "{text}"
    );
    let error = line_of(&product.client.tell("up").unwrap(), NOT_ENROLLED);
    assert!(error.contains("culvert sign-in"), "{error}");

    sign_in(&product);
    let stored = product.client.state_dir().join("token");
    let mode = std::fs::metadata(&stored).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let bed = Bed::around(product).unwrap();
    bed.comes_to_reach(PRIVATE_V4, WEB_PORT).unwrap();
    let Bed { mut product, .. } = bed;

    // Killed while it is up: it comes up again by itself.
    product.client.kill().unwrap();
    product.client.launch().unwrap();
    product.client.is_welcomed_within(SOON).unwrap();
    comes_to(&product, "up");

    // Down, and the host is as it was; killed there, it stays so.
    assert_eq!(does(&product, "down"), "down\n");
    assert_eq!(host(&product.client.namespace), before);
    product.client.kill().unwrap();
    product.client.launch().unwrap();
    comes_to(&product, "down");
    assert_eq!(host(&product.client.namespace), before);

    // Killed on its way down, when it is no longer to be up and the host is still changed.
    let said: serde_json::Value = serde_json::from_str(&does(&product, "up --json")).unwrap();
    assert_eq!(
        (&said["schema_version"], &said["ready"]),
        (&1.into(), &true.into())
    );
    product.client.kill().unwrap();
    assert_ne!(host(&product.client.namespace), before);
    std::fs::write(product.client.state_dir().join("wish"), "down\n").unwrap();
    product.client.launch().unwrap();
    comes_to(&product, "down");
    assert_eq!(host(&product.client.namespace), before);

    does(&product, "up");
    assert_eq!(does(&product, "sign-out"), "signed out\n");
    assert!(!stored.exists());
    assert_eq!(host(&product.client.namespace), before);
    product.client.stop().unwrap();
    product.client.launch().unwrap();
    comes_to(&product, "signed_out");
}

#[test]
fn a_portal_that_refuses_is_told_to_who_asks_and_leaves_the_client_waiting() {
    let mut product = waiting();
    comes_to(&product, "signed_out");
    // A token with another secret.
    let file = product.dir().join("changed");
    std::fs::copy(product.client.token_file(), &file).unwrap();
    let mut token = std::fs::read_to_string(&file).unwrap();
    let secret = token.find('.').unwrap() + 20;
    let other = if token.as_bytes()[secret] == b'4' {
        "5"
    } else {
        "4"
    };
    token.replace_range(secret..=secret, other);
    std::fs::write(&file, &token).unwrap();
    let line = format!("sign-in --token-file {}", file.display());
    let error = line_of(&product.client.tell(&line).unwrap(), NOT_ENROLLED);
    assert!(error.contains("HTTP 401"), "{error}");
    comes_to(&product, "refused");

    sign_in(&product);
    product.portal.admin("client revoke laptop").unwrap();
    comes_to(&product, "refused");
    assert!(!host(&product.client.namespace).contains("culvert0"));
    let error = line_of(&product.client.tell("up").unwrap(), REVOKED);
    assert!(error.contains("denies this client"), "{error}");

    // Somebody else has the portal's address, or its administrator has lost the certificate.
    product.portal.kill().unwrap();
    std::fs::remove_file(product.portal.state_dir().join("certificate.pem")).unwrap();
    product.portal.start().unwrap();
    let error = line_of(&product.client.tell("up").unwrap(), UNREACHABLE);
    assert!(
        error.contains("another certificate than the token names"),
        "{error}"
    );
    let status = product.client.status().unwrap();
    assert_eq!(
        status["service"]["trouble"]["code"], "wrong_portal",
        "{status}"
    );
    assert!(product.client.process().unwrap().is_running().unwrap());
}

#[test]
fn a_client_that_is_up_takes_another_token_each_time_and_is_up_again() {
    let product = waiting();
    comes_to(&product, "signed_out");
    sign_in(&product);
    for time in 1..=10 {
        let token = product.client.token_file();
        let line = format!("sign-in --token-file {}", token.display());
        let output = product.client.tell(&line).unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "time {time}: {said}");
        let status = product.client.status().unwrap();
        assert_eq!(status["service"]["state"], "up", "time {time}: {status}");
    }
}

#[test]
fn a_fault_of_the_machine_is_told_to_who_asks_and_tried_again_until_it_is_mended_or_down_is_asked()
{
    let product = waiting();
    comes_to(&product, "signed_out");
    let machine = product.client.namespace.clone();
    let before = host(&machine);
    // Somebody else has the interface's name.
    machine.run("ip link add culvert0 type ifb").unwrap();
    let line = format!(
        "sign-in --token-file {}",
        product.client.token_file().display()
    );
    let error = line_of(&product.client.tell(&line).unwrap(), FAILED);
    assert!(error.contains("culvert0"), "{error}");
    let text = product.client.status_text().unwrap();
    assert!(text.contains("failed, tried again soon: "), "{text}");
    does(&product, "down");
    comes_to(&product, "down");
    let error = line_of(&product.client.tell("up").unwrap(), FAILED);
    assert!(error.contains("culvert0"), "{error}");
    machine.run("ip link delete culvert0").unwrap();
    comes_to(&product, "up");
    product.client.is_welcomed_within(SOON).unwrap();
    does(&product, "down");
    assert_eq!(host(&machine), before);
}

#[test]
fn the_setting_of_names_is_shown_and_changed_by_a_command_and_outlasts_a_kill() {
    let mut product = waiting();
    comes_to(&product, "signed_out");
    // The lab's clients rule it out.
    let shown = does(&product, "settings");
    assert!(shown.starts_with("dns  off "), "{shown}");
    let refused = product.client.tell("settings --dns on").unwrap();
    let error = line_of(&refused, FAILED);
    assert!(error.contains("`--dns off`"), "{error}");

    // One that is signed out leaves the machine's resolver alone.
    product.client.kill().unwrap();
    "--dns file".clone_into(&mut product.client.arguments);
    product.client.launch().unwrap();
    comes_to(&product, "signed_out");
    let shown = does(&product, "settings");
    assert!(shown.starts_with("dns  on "), "{shown}");
    let changed = does(&product, "settings --dns off");
    assert!(changed.starts_with("dns  off "), "{changed}");
    product.client.kill().unwrap();
    product.client.launch().unwrap();
    comes_to(&product, "signed_out");
    let said: serde_json::Value = serde_json::from_str(&does(&product, "settings --json")).unwrap();
    assert_eq!(said, serde_json::json!({"schema_version": 1, "dns": false}));
    let changed = does(&product, "settings --dns on");
    assert!(changed.starts_with("dns  on "), "{changed}");
    let wrong = product.client.tell("settings --dns perhaps").unwrap();
    let said = String::from_utf8_lossy(&wrong.stderr);
    assert_eq!(wrong.status.code(), Some(2), "{said}");
    assert!(said.contains("on, off"), "{said}");
}

#[test]
fn a_client_with_the_administrator_s_token_refuses_commands_and_says_why() {
    let bed = Bed::new(1).unwrap();
    let product = &bed.product;
    let sign_in = format!(
        "sign-in --token-file {}",
        product.client.token_file().display()
    );
    let said = does(product, "up");
    assert!(said.starts_with("already connected: "), "{said}");
    let error = line_of(&product.client.tell("settings").unwrap(), FAILED);
    assert!(error.contains("its options are its settings"), "{error}");
    for line in ["down", "sign-out", &sign_in, "settings --dns off"] {
        let error = line_of(&product.client.tell(line).unwrap(), FAILED);
        assert!(error.contains("administrator's token"), "{error}");
        assert!(error.contains("systemctl stop"), "{error}");
    }
    assert!(bed.reaches(PRIVATE_V4, WEB_PORT));
}

/// Files of a machine that has the group, a member of it, and somebody else.
fn give_machine_users(product: &mut Product) {
    let dir = product.dir().to_owned();
    let run = product.client.socket().parent().unwrap().to_owned();
    let write = |name: &str, text: &str| std::fs::write(dir.join(name), text).unwrap();
    write(
        "group",
        "root:x:0:\nculvert:x:4242:ada\nada:x:4243:\neve:x:4244:\n",
    );
    write(
        "passwd",
        "root:x:0:0::/:/bin/sh\nada:x:4243:4243::/:/bin/sh\neve:x:4244:4244::/:/bin/sh\n",
    );
    std::fs::create_dir_all(&run).unwrap();
    std::fs::set_permissions(&run, std::fs::Permissions::from_mode(0o755)).unwrap();
    // The directory of the lab is closed to others.
    product.client.machine = format!(
        "mount --bind {0}/group /etc/group; mount --bind {0}/passwd /etc/passwd; \
         mount --bind {1} /mnt",
        dir.display(),
        run.display()
    );
}

#[test]
fn commands_are_for_root_and_members_of_the_group_and_others_hear_how_to_become_one() {
    let mut product = Product::networks(1).unwrap();
    give_machine_users(&mut product);
    product.client.takes_commands = true;
    product.client.launch().unwrap();
    comes_to(&product, "signed_out");
    let socket = product.client.socket();
    let culvert = culvert_program().unwrap();
    let culvert = culvert.display();
    let tell = |user: &str, groups: &str, line: &str| {
        let line = format!(
            "setpriv --reuid {user} --regid {user} {groups} -- {culvert} {line} --socket /mnt/culvert.sock"
        );
        let script = format!("{}\nexec {line}", product.client.machine);
        let shell = format!("{line}: {script}");
        let output = product.client.namespace.outcome_of_script(&script);
        output.unwrap_or_else(|error| panic!("{shell}: {error}"))
    };
    assert_eq!(socket_of(&socket), (0, 4242, 0o660));
    // A member: what it asks for is done.
    let down = tell("4243", "--init-groups", "down");
    assert!(down.status.success(), "{down:?}");
    // A user who is no member can't even connect, and one who was let in may only read.
    let error = line_of(&tell("4244", "--init-groups", "status"), FAILED);
    assert!(error.contains("usermod -aG culvert"), "{error}");
    std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o666)).unwrap();
    let looks = tell("4244", "--init-groups", "status");
    assert!(looks.status.success(), "{looks:?}");
    let error = line_of(&tell("4244", "--init-groups", "down"), FAILED);
    assert!(error.contains("user eve may look"), "{error}");
    assert!(error.contains("`usermod -aG culvert eve`"), "{error}");
}

/// Owner, group and mode.
fn socket_of(path: &Path) -> (u32, u32, u32) {
    use std::os::unix::fs::MetadataExt;
    let found = std::fs::metadata(path).unwrap();
    (found.uid(), found.gid(), found.mode() & 0o777)
}
