//! A client without a package and without root, as docs/install.md says.

use crate::scene::{SOON, access};
use culvert_lab::product::{PRIVATE_V4, Product, Server};
use culvert_lab::{culvert_program, wait_until};
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};

/// Nobody.
const USER: u32 = 65_534;

#[test]
fn a_user_without_privileges_runs_a_client_whose_program_has_one_capability() {
    let mut product = Product::networks(1).unwrap();
    let _server = Server::start(&product.private, PRIVATE_V4.parse().unwrap(), 80).unwrap();
    product.declare(&access()).unwrap();
    let gateway = &mut product.gateways[0];
    let token = gateway.token_file();
    product.portal.token("gateway --site lab", &token).unwrap();
    gateway.start().unwrap();

    let home = product.dir().join("nobody");
    fs::create_dir(&home).unwrap();
    fs::set_permissions(product.dir(), fs::Permissions::from_mode(0o711)).unwrap();
    let (program, token) = (home.join("culvert"), home.join("token"));
    fs::copy(culvert_program().unwrap(), &program).unwrap();
    product
        .portal
        .token("client --actor laptop", &token)
        .unwrap();
    for path in [&home, &token] {
        chown(path, Some(USER), Some(USER)).unwrap();
    }
    culvert_lab::run(&format!("setcap cap_net_admin+ep {}", program.display())).unwrap();

    let client = &product.client.namespace;
    // The device as udev makes it, whatever this machine's looks like.
    let script = format!(
        "mount -t tmpfs tmpfs /dev/net; mknod -m 666 /dev/net/tun c 10 200
         exec setpriv --reuid {USER} --regid {USER} --clear-groups --inh-caps=-all \
         {program} client run --dns off --token-file {token} --state-dir {home}/state \
         --status-socket {home}/socket",
        program = program.display(),
        token = token.display(),
        home = home.display()
    );
    let process = client.spawn_script(&script).unwrap();
    let page = format!("curl -fsS -m 4 http://{PRIVATE_V4}/");
    wait_until("the web server to be reached", SOON, || {
        client.run(&page).is_ok()
    })
    .unwrap_or_else(|error| panic!("{error}\n{}", process.output()));
    process.stop().unwrap();
    let rules = client.run("ip rule").unwrap();
    assert_eq!(rules.lines().count(), 3, "it left rules:\n{rules}");
}
