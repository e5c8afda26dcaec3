//! Several portals on one PostgreSQL database: machines find the ones that are left, and traffic needs none.

#[path = "../../../../crates/store-sql/tests/postgres/process.rs"]
mod process;

use crate::common::{Bed, SOON, access};
use culvert_lab::product::{PRIVATE_NAME, Product};
use culvert_lab::{Process, culvert_program, wait_until};
use process::programs;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{Duration, Instant};

/// The longest time for which a datagram of existing access may be without an answer: that of a busy test machine.
const GAP: Duration = Duration::from_secs(1);

/// Two portals on one database, and the machines of one of them.
struct Scene {
    bed: Bed,
    second: Process,
    _server: process::Process,
}

impl Scene {
    /// The first portal leads, since it was there before the second one.
    fn new() -> Self {
        let server = process::Process::start();
        let made = Command::new(programs().join("createdb"))
            .args(["culvert", "--username=culvert"])
            .arg(format!("--host={}", server.socket.display()))
            .status();
        assert!(made.unwrap().success());
        let mut product = Product::networks(1).unwrap();
        fs::create_dir_all(product.portal.home()).unwrap();
        let file = product.portal.home().join("database-url");
        let socket = server.socket.display();
        fs::write(
            &file,
            format!("postgres:///culvert?host={socket}&user=culvert"),
        )
        .unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        let url = product.portal.url();
        let other = url.replace(":8443", ":8444");
        let arguments = format!("--database-file {} --also-url {other}", file.display());
        product.portal.arguments.clone_from(&arguments);
        product.declare(&access()).unwrap();
        let state = product.portal.home().join("second");
        let line = format!(
            "{} portal run --listen [::]:8444 --url {url} --state-dir {} {arguments}",
            culvert_program().unwrap().display(),
            state.display()
        );
        let second = product.portal.namespace.spawn(&line).unwrap();
        product.enrol().unwrap();
        wait_until("the second portal to follow", SOON, || {
            let listed = product.portal.admin("portal list");
            listed.is_ok_and(|listed| listed.contains("follows"))
        })
        .unwrap_or_else(|error| panic!("{error}: {}", second.output()));
        let bed = Bed::around(product).unwrap();
        Self {
            bed,
            second,
            _server: server,
        }
    }

    fn reaches_by_name(&self) -> bool {
        let line = format!("curl -fsS -m 4 http://{PRIVATE_NAME}/");
        self.bed.product.client.run_with_dns(&line).is_ok()
    }
}

#[test]
fn after_the_portal_that_leads_was_killed_no_datagram_is_lost_and_the_other_one_gives_new_access() {
    let mut scene = Scene::new();
    let download = scene.bed.download().unwrap();
    let stream = scene.bed.numbered_stream().unwrap();
    scene.bed.product.portal.kill().unwrap();
    let killed = Instant::now();
    wait_until("new access by the other portal", SOON, || {
        scene.reaches_by_name()
    })
    .unwrap_or_else(|error| {
        let client = scene.bed.product.client.output();
        panic!("{error}: {client}\n{}", scene.second.output())
    });
    println!(
        "new access {:.1} s after the end of the leader",
        killed.elapsed().as_secs_f32()
    );
    download.goes_on(GAP).unwrap();
    assert!(stream.longest_gap() < GAP, "{:?}", stream.longest_gap());
    assert_eq!(stream.finish().missing, Vec::<u64>::new());
}
