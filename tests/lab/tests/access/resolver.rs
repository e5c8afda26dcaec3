//! How the system's resolver comes to ask the client, and is put back.

use crate::common::SOON;
use crate::resolver_scene::{
    OTHER_ADDRESS, OTHER_DNS, PUBLIC_ADDRESS, PUBLIC_DNS, PUBLIC_NAME, Scene, before,
};
use culvert_lab::product::{PRIVATE_NAME, PRIVATE_V4};
use culvert_lab::wait_until;
use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::time::Duration;

#[test]
fn the_file_asks_the_client_for_every_name_and_is_put_back_even_after_a_crash() {
    let mut scene = Scene::new("--dns auto");
    scene.begin();
    scene.comes_to_be_applied();
    let address = scene.product.client.address().unwrap();
    let now = scene.now();
    assert!(
        now.starts_with("# Written by the culvert client")
            && now.ends_with(&format!(
                "\nnameserver {address}\nsearch lan\noptions edns0\n"
            )),
        "{now}"
    );
    scene.finds_names(PUBLIC_ADDRESS);
    let text = scene.product.client.status_text().unwrap();
    assert!(
        text.contains("dns        file: asks here for every name"),
        "{text}"
    );

    // The end puts it back, and so does the next start where there was none.
    scene.product.client.kill().unwrap();
    assert_eq!(scene.now(), now);
    scene.product.client.start().unwrap();
    scene.comes_to_be_applied();
    scene.finds_names(PUBLIC_ADDRESS);
    scene.product.client.stop().unwrap();
    assert_eq!(scene.now(), before());
    scene.product.client.start().unwrap();
    scene.comes_to_be_applied();
    scene.product.client.kill().unwrap();
    "--dns off".clone_into(&mut scene.product.client.arguments);
    scene.product.client.start().unwrap();
    assert_eq!(scene.now(), before());
    wait_until("the mode to be told", SOON, || {
        scene.control()["mode"] == "off"
    })
    .unwrap();
    scene.product.client.stop().unwrap();
    assert_eq!(scene.now(), before());
}

#[test]
fn a_file_that_is_mounted_by_itself_is_written_in_place() {
    let mut scene = Scene::new("--dns file");
    // As containers have it: nothing else can take its place.
    let mounted = scene.product.dir().join("mounted");
    fs::write(&mounted, before()).unwrap();
    let mount = format!("\nmount --bind {} /etc/resolv.conf", mounted.display());
    scene.product.client.machine.push_str(&mount);
    scene.begin();
    scene.comes_to_be_applied();
    scene.finds_names(PUBLIC_ADDRESS);
    scene.product.client.kill().unwrap();
    assert!(
        fs::read_to_string(&mounted)
            .unwrap()
            .starts_with("# Written by")
    );
    scene.product.client.start().unwrap();
    scene.comes_to_be_applied();
    scene.finds_names(PUBLIC_ADDRESS);
    scene.product.client.stop().unwrap();
    assert_eq!(fs::read_to_string(&mounted).unwrap(), before());
    assert_eq!(scene.now(), before(), "what lies below was never touched");
}

#[test]
fn what_others_write_into_the_file_stays_and_says_who_is_asked_for_other_names() {
    let mut scene = Scene::new("--dns file");
    scene.begin();
    scene.comes_to_be_applied();
    let written = scene.now();
    // A lease of another network.
    let theirs = format!("nameserver {OTHER_DNS}\n");
    scene.write(&theirs);
    scene.finds_names(OTHER_ADDRESS);
    assert!(scene.now().starts_with("# Written by"), "{}", scene.now());
    scene.product.client.stop().unwrap();
    assert_eq!(scene.now(), theirs);

    scene.product.client.start().unwrap();
    scene.comes_to_be_applied();
    scene.product.client.kill().unwrap();
    assert_ne!(scene.now(), written);
    scene.write(&before());
    scene.product.client.start().unwrap();
    scene.comes_to_be_applied();
    scene.product.client.stop().unwrap();
    assert_eq!(scene.now(), before());
}

#[test]
fn a_lease_that_writes_the_file_again_and_again_hides_no_resource_and_its_mode_and_group_stay() {
    /// It was looked at every five seconds.
    const AT_ONCE: Duration = Duration::from_secs(3);
    let mut scene = Scene::new("--dns file");
    fs::set_permissions(scene.path(), fs::Permissions::from_mode(0o664)).unwrap();
    chown(scene.path(), None, Some(100)).unwrap();
    let path = scene.path();
    let told_of = |path: &Path| {
        let found = fs::metadata(path).unwrap();
        (found.permissions().mode() & 0o7777, found.gid())
    };
    scene.begin();
    scene.comes_to_be_applied();
    assert_eq!(told_of(&path), (0o664, 100));
    let unfinished = scene.etc.join("resolv.conf.dhclient-new");
    for round in 0..12 {
        let (server, public) =
            [(OTHER_DNS, OTHER_ADDRESS), (PUBLIC_DNS, PUBLIC_ADDRESS)][round % 2];
        let lease = format!("nameserver {server}\n");
        // dhclient has a file take the other's place, others write it in place.
        if round % 3 == 0 {
            scene.write(&lease);
        } else {
            fs::write(&unfinished, &lease).unwrap();
            fs::rename(&unfinished, scene.path()).unwrap();
        }
        wait_until("the client to be asked again", AT_ONCE, || {
            scene.now().starts_with("# Written by")
        })
        .unwrap();
        assert!(!scene.addresses(PRIVATE_NAME).is_empty(), "round {round}");
        let public: IpAddr = public.parse().unwrap();
        assert_eq!(
            scene.addresses(PUBLIC_NAME).first(),
            Some(&public),
            "round {round}"
        );
    }
    scene.write(&before());
    wait_until("the client to be asked again", AT_ONCE, || {
        scene.now().starts_with("# Written by")
    })
    .unwrap();
    chown(scene.path(), None, Some(100)).unwrap();
    scene.product.client.stop().unwrap();
    assert_eq!((scene.now(), told_of(&path).1), (before(), 100));
}

#[test]
fn a_file_that_can_not_be_written_is_a_problem_that_leaves_the_tunnel_alone() {
    let mut scene = Scene::new("--dns auto");
    let target = scene.etc.join("elsewhere");
    fs::rename(scene.path(), &target).unwrap();
    symlink("elsewhere", scene.path()).unwrap();
    scene.begin();
    let problem = |scene: &Scene| {
        let status = scene.product.client.status().unwrap();
        status["problems"].to_string()
    };
    wait_until("the problem to be told", SOON, || {
        problem(&scene).contains("/etc/resolv.conf is a symbolic link to elsewhere")
    })
    .unwrap();
    assert_eq!(scene.control()["applied"], false);
    assert_eq!(fs::read_to_string(&target).unwrap(), before());
    let line = format!("curl -fsS -m 8 http://{PRIVATE_V4}/");
    scene.product.client.run(&line).unwrap();
    let product = &mut scene.product;
    product.client.stop().unwrap();

    // Who asks for the file and nothing else hears it at once.
    "--dns file".clone_into(&mut product.client.arguments);
    product.client.launch().unwrap();
    let ended = product.client.process().unwrap().wait(SOON).unwrap();
    assert_eq!(ended.code(), Some(1));
    let output = product.client.output();
    assert!(
        output.contains("is a symbolic link to elsewhere"),
        "{output}"
    );

    // One that nobody may write.
    fs::remove_file(scene.etc.join("resolv.conf")).unwrap();
    fs::write(scene.etc.join("resolv.conf"), before()).unwrap();
    product
        .client
        .machine
        .push_str("\nmount -o remount,bind,ro /etc");
    product.client.start().unwrap();
    wait_until("the problem to be told", SOON, || {
        let problems = product.client.status().unwrap()["problems"].to_string();
        problems.contains("cannot write /etc/resolv.conf") && problems.contains("--dns off")
    })
    .unwrap();
    product.client.stop().unwrap();
    let now = fs::read_to_string(scene.etc.join("resolv.conf")).unwrap();
    assert_eq!(now, before());
}

#[test]
fn resolved_asks_the_client_for_names_of_resources_alone_and_is_told_again_when_it_restarts() {
    let (mut scene, _bus) = Scene::with_bus("--dns auto");
    let mut resolved = scene.start_resolved();
    scene.begin();
    scene.comes_to_be_applied();
    let control = scene.control();
    assert_eq!(control["mode"], "resolved");
    assert_eq!(control["domains"], serde_json::json!([PRIVATE_NAME]));
    scene.finds_names(PUBLIC_ADDRESS);
    let status = scene.product.client.status().unwrap();
    let upstream = format!("{PUBLIC_DNS}:53");
    assert_eq!(status["dns"]["upstreams"], serde_json::json!([upstream]));

    // Whoever resolves other names does not notice the client at all.
    let other = "other.example.org";
    scene.names[0].set(other, &[PUBLIC_ADDRESS.parse().unwrap()]);
    scene.product.client.process().unwrap().pause().unwrap();
    let found = scene.addresses(other);
    scene.product.client.process().unwrap().resume().unwrap();
    assert!(!found.is_empty());

    resolved.kill().unwrap();
    resolved = scene.start_resolved();
    scene.finds_names(PUBLIC_ADDRESS);

    // A crash leaves nothing, and neither does an end.
    scene.product.client.kill().unwrap();
    wait_until("the name to be asked elsewhere", SOON, || {
        scene.addresses(PRIVATE_NAME).is_empty()
    })
    .unwrap();
    scene.product.client.start().unwrap();
    scene.comes_to_be_applied();
    scene.finds_names(PUBLIC_ADDRESS);
    scene.product.client.stop().unwrap();
    assert!(scene.addresses(PRIVATE_NAME).is_empty());
    assert!(!scene.addresses(PUBLIC_NAME).is_empty());
    assert_eq!(scene.now(), "nameserver 127.0.0.53\n");

    // Who asks for it and nothing else hears that it is not there.
    resolved.kill().unwrap();
    "--dns resolved".clone_into(&mut scene.product.client.arguments);
    scene.product.client.launch().unwrap();
    let ended = scene.product.client.process().unwrap().wait(SOON).unwrap();
    assert_eq!(ended.code(), Some(1));
    let output = scene.product.client.output();
    assert!(
        output.contains("systemd-resolved does not answer"),
        "{output}"
    );
}

#[test]
fn resolvconf_names_the_client_and_forgets_it_even_after_a_crash() {
    let lease = format!("nameserver {PUBLIC_DNS}\n");
    let mut scene = Scene::with_openresolv("--dns auto", &lease);
    let before = scene.now();
    assert!(before.contains(PUBLIC_DNS), "{before}");

    scene.begin();
    scene.comes_to_be_applied();
    assert_eq!(scene.control()["mode"], "resolvconf");
    let address = scene.product.client.address().unwrap();
    assert!(scene.now().contains(&format!("nameserver {address}\n")));
    scene.finds_names(PUBLIC_ADDRESS);
    scene.product.client.kill().unwrap();
    assert_ne!(scene.now(), before);
    scene.product.client.start().unwrap();
    scene.comes_to_be_applied();
    scene.finds_names(PUBLIC_ADDRESS);
    scene.product.client.stop().unwrap();
    assert_eq!(scene.now(), before);

    // What a crash leaves behind is undone, whatever way is taken then.
    scene.product.client.start().unwrap();
    scene.comes_to_be_applied();
    scene.product.client.kill().unwrap();
    "--dns off".clone_into(&mut scene.product.client.arguments);
    scene.product.client.start().unwrap();
    assert_eq!(scene.now(), before);
}

#[test]
fn resolved_that_speaks_tls_is_not_taken_the_place_of_in_the_clear() {
    let (mut scene, _bus) = Scene::with_bus("--dns resolved --dns-scope all");
    let configuration = scene.etc.join("systemd/resolved.conf");
    let mut text = fs::read_to_string(&configuration).unwrap();
    text.push_str("DNSOverTLS=opportunistic\n");
    fs::write(&configuration, text).unwrap();
    let _resolved = scene.start_resolved();
    scene.begin();
    wait_until("the problem to be told", SOON, || {
        let text = scene.product.client.status_text().unwrap();
        text.contains("DNSOverTLS=opportunistic") && text.contains("--dns-scope split")
    })
    .unwrap_or_else(|error| panic!("{error}: {}", scene.product.client.output()));
    assert_eq!(scene.control()["applied"], false);
    // As it was asked before: by systemd-resolved, by itself.
    assert!(!scene.addresses(PUBLIC_NAME).is_empty());
}
