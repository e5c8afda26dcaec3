//! Machines by what they are at this moment, the numbers of lists, and what somebody has to look after.

use crate::browser::{Browser, signed_in};
use crate::live_machines;
use crate::support::{Running, enrol_client, enrol_gateway, id_of, make_actor, seen};
use culvert_ids::SiteId;
use culvert_portal::{CertificateFiles, Home};
use culvert_store::{ActorKind, MachineId, Role, SeenMachine};
use rcgen::{CertificateParams, KeyPair};
use serde_json::json;
use std::path::Path;
use std::time::{Duration, SystemTime};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

async fn site(running: &Running, name: &str) -> SiteId {
    let mut owner = running.owner().await;
    let made = owner.post("/api/v1/sites", json!({ "name": name })).await;
    id_of(&made.expect(201).json()).parse().unwrap()
}

async fn text(browser: &mut Browser, path: &str) -> String {
    browser.get(path).await.expect(200).text
}

/// The row of the thing with this name, cell by cell.
fn row(page: &str, name: &str) -> Vec<String> {
    let rows = page.split("<tr><td").skip(1);
    let mut rows = rows.filter(|row| row.contains(&format!(">{name}</a>")));
    let row = rows.next().unwrap_or_else(|| panic!("no {name}: {page}"));
    let row = row.split("</tr>").next().unwrap();
    let cells = row.split("</td>").map(|cell| {
        let pieces = cell.split('<').filter_map(|piece| piece.split_once('>'));
        pieces.map(|(_, text)| text).collect::<String>()
    });
    cells.map(|cell| cell.trim().to_owned()).collect()
}

#[tokio::test]
async fn lists_of_machines_are_narrowed_to_those_that_are_connected() {
    let running = Running::start().await;
    let (store, account) = (running.store.as_ref(), running.account());
    let actor = make_actor(store, account, ActorKind::ServiceAccount).await;
    let site = site(&running, "lab").await;
    let (away, _) = enrol_client(store, account, actor).await;
    let (down, _) = enrol_gateway(store, account, site).await;
    let mut browser = signed_in(&running, Role::Auditor).await;
    for (list, away) in [
        ("/clients", away.to_string()),
        ("/gateways", down.to_string()),
    ] {
        let all = text(&mut browser, list).await;
        assert!(all.contains(&away), "{all}");
        assert!(all.contains(&format!("href=\"{list}?state=connected\"")));
        let none = text(&mut browser, &format!("{list}?state=connected")).await;
        assert!(none.contains("Nothing here is “Connected”."), "{none}");
    }
    let _gateway = live_machines::gateway(&running, site).await;
    let _client = live_machines::client(&running, actor).await;
    let connected = text(&mut browser, "/clients?state=connected").await;
    assert!(connected.contains(">laptop</a>"), "{connected}");
    assert!(!connected.contains(&away.to_string()), "{connected}");
    assert!(connected.contains("class=\"count\">1</p>"), "{connected}");
    let connected = text(&mut browser, "/gateways?state=connected").await;
    assert!(connected.contains(">gateway</a>"), "{connected}");
    assert!(!connected.contains(&down.to_string()), "{connected}");
    // The owner of another client learns nothing of this one by it.
    let mut user = signed_in(&running, Role::User).await;
    let own = text(&mut user, "/clients?state=connected").await;
    assert!(!own.contains("laptop"), "{own}");
}

#[tokio::test]
async fn older_machines_are_told_of_and_found_in_their_lists() {
    let running = Running::start().await;
    let (store, account) = (running.store.as_ref(), running.account());
    let actor = make_actor(store, account, ActorKind::ServiceAccount).await;
    let site = site(&running, "lab").await;
    let (old, _) = enrol_gateway(store, account, site).await;
    let (same, _) = enrol_gateway(store, account, site).await;
    let (client, _) = enrol_client(store, account, actor).await;
    let mut browser = signed_in(&running, Role::Auditor).await;
    let page = text(&mut browser, "/").await;
    assert!(!page.contains("Needs attention"), "{page}");
    let older = |id: MachineId| SeenMachine {
        id,
        seen: seen("0.0.9"),
    };
    let machines = vec![
        older(MachineId::Gateway(old)),
        older(MachineId::Client(client)),
    ];
    store.record_seen(account, machines).await.unwrap();
    let page = text(&mut browser, "/").await;
    for told in [
        "1 gateway runs an older version than the portal",
        "1 client runs an older version than the portal",
        "href=\"/gateways?state=outdated\"",
        "href=\"/clients?state=outdated\"",
    ] {
        assert!(page.contains(told), "{told}: {page}");
    }
    let list = text(&mut browser, "/gateways?state=outdated").await;
    assert!(list.contains(&old.to_string()), "{list}");
    assert!(!list.contains(&same.to_string()), "{list}");
    // One that is revoked is nobody's work any more.
    let mut owner = running.owner().await;
    let revoke = format!("/api/v1/gateways/{old}/revoke");
    let revoked = owner.send("POST", &revoke, &[], None).await;
    revoked.expect(200);
    let page = text(&mut browser, "/").await;
    assert!(!page.contains("1 gateway runs an older"), "{page}");
}

/// A certificate that ends in so many days.
fn certificate(dir: &Path, days: u32) -> CertificateFiles {
    let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    params.not_after = (SystemTime::now() + DAY * days + DAY / 2).into();
    let key = KeyPair::generate().unwrap();
    let made = params.self_signed(&key).unwrap();
    let files = CertificateFiles {
        certificate: dir.join("certificate.pem"),
        key: dir.join("key.pem"),
    };
    std::fs::write(&files.certificate, made.pem()).unwrap();
    std::fs::write(&files.key, key.serialize_pem()).unwrap();
    files
}

#[tokio::test]
async fn a_certificate_that_ends_soon_or_can_not_be_renewed_is_told_of() {
    let dir = tempfile::tempdir().unwrap();
    let files = certificate(dir.path(), 10);
    let running = Running::start_certified(files.clone()).await;
    let mut browser = signed_in(&running, Role::Auditor).await;
    let page = text(&mut browser, "/").await;
    let soon = "certificate ends in 10 days";
    assert!(page.contains(soon), "{page}");
    std::fs::write(&files.certificate, "nothing").unwrap();
    running.portal.reload().await.unwrap_err();
    let page = text(&mut browser, "/").await;
    assert!(page.contains(soon), "{page}");
    assert!(
        page.contains("The new certificate can&#39;t be used"),
        "{page}"
    );
    certificate(dir.path(), 90);
    running.portal.reload().await.unwrap();
    let page = text(&mut browser, "/").await;
    assert!(!page.contains("Needs attention"), "{page}");
}

#[tokio::test]
async fn a_certificate_that_could_not_be_noted_for_commands_is_noted_as_soon_as_that_is_possible() {
    let dir = tempfile::tempdir().unwrap();
    let files = certificate(dir.path(), 90);
    let running = Running::start_certified(files).await;
    let noted = running.state.join("portal.json");
    // No file takes the place of a directory: the write fails as on a full disk.
    std::fs::remove_file(&noted).unwrap();
    std::fs::create_dir(&noted).unwrap();
    certificate(dir.path(), 90);
    running.portal.reload().await.unwrap_err();
    std::fs::remove_dir(&noted).unwrap();
    running.portal.reload().await.unwrap();
    let home = Home::open_beside(&running.state).unwrap();
    let told = home.whereabouts().unwrap().unwrap();
    assert_eq!(told, running.portal.whereabouts());
}

#[tokio::test]
async fn sites_and_groups_are_listed_with_what_they_have() {
    let running = Running::start().await;
    let (store, account) = (running.store.as_ref(), running.account());
    let (lab, office) = (site(&running, "lab").await, site(&running, "office").await);
    site(&running, "empty").await;
    enrol_gateway(store, account, office).await;
    enrol_gateway(store, account, lab).await;
    let _gateway = live_machines::gateway(&running, lab).await;
    let (gone, _) = enrol_gateway(store, account, lab).await;
    let mut owner = running.owner().await;
    let revoke = format!("/api/v1/gateways/{gone}/revoke");
    let revoked = owner.send("POST", &revoke, &[], None).await;
    revoked.expect(200);
    let mut admin = signed_in(&running, Role::Admin).await;
    let resource = [
        ("name", "web"),
        ("site", "lab"),
        ("address", "10.1.2.3"),
        ("protocol.0", "tcp"),
        ("ports.0", "443"),
    ];
    admin.submit("/resources/new", &resource).await.expect(303);
    for group in ["staff", "nobody"] {
        let fields = [("name", group)];
        admin.submit("/groups", &fields).await.expect(303);
    }
    let policy = [("group", "staff"), ("resource", "web")];
    admin.submit("/policies", &policy).await.expect(303);
    let invited = [("name", "clara"), ("role", "user")];
    let invited = admin.submit("/people/invitations/new", &invited).await;
    invited.expect(200);
    let group = text(&mut admin, "/groups").await;
    let group = group.split("href=\"/groups/grp_").nth(2).unwrap();
    let group = format!("/groups/grp_{}", group.split('"').next().unwrap());
    let joined = admin.submit(&group, &[("actors", "clara")]).await;
    joined.expect(303);

    let mut browser = signed_in(&running, Role::Auditor).await;
    let sites = text(&mut browser, "/sites").await;
    assert_eq!(row(&sites, "lab")[1..3], ["1 of 2", "1"]);
    assert_eq!(row(&sites, "office")[1..3], ["0 of 1", "0"]);
    assert_eq!(row(&sites, "empty")[1..3], ["none yet", "0"]);
    let groups = text(&mut browser, "/groups").await;
    assert_eq!(row(&groups, "staff")[1..3], ["1", "1"]);
    assert_eq!(row(&groups, "nobody")[1..3], ["0", "0"]);
}
