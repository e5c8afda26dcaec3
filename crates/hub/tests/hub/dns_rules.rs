//! The account's rules about names reach every client that can follow them, and no other.

use crate::world::{ACCOUNT, World, client};
use culvert_ids::ClientId;
use culvert_store::{Account, AccountSettings, Stamp};
use culvert_wire::messages::{ClientFeature, ToClient};
use culvert_wire::model::{Dns, DnsDomain};

fn rules() -> Dns {
    Dns {
        search: vec!["corp.example".to_owned()],
        domains: vec![DnsDomain {
            name: "corp.example".to_owned(),
            servers: vec!["10.0.0.53".to_owned()],
        }],
    }
}

fn account(dns: Dns) -> Account {
    Account {
        id: ACCOUNT,
        name: "corp".to_owned(),
        settings: AccountSettings {
            dns,
            ..AccountSettings::default()
        },
        stamp: Stamp::default(),
    }
}

/// A client that is connected; whether it can follow rules.
fn connected(follows: bool) -> World {
    let mut world = World::simple();
    if follows {
        let features = &mut world.clients.entry(client(1)).or_default().features;
        features.push(ClientFeature::Dns);
    }
    world.join_client(1);
    world
}

/// The DNS rules that clients were told since the last call.
fn told(world: &mut World) -> Vec<(ClientId, Dns)> {
    let said = std::mem::take(&mut world.to_clients);
    let told = said.into_iter().filter_map(|(id, message)| match message {
        ToClient::Welcome { dns, .. } | ToClient::DnsSet { dns } => Some((id, dns)),
        _ => None,
    });
    told.collect()
}

#[test]
fn a_client_hears_the_rules_with_its_welcome_and_with_each_change_of_them() {
    let mut world = connected(true);
    assert_eq!(told(&mut world), [(client(1), Dns::default())]);
    world.set(account(rules()));
    assert_eq!(told(&mut world), [(client(1), rules())]);
    // Another change of the account is none of the rules.
    let mut same = account(rules());
    same.settings.grant_lifetime_s = 600;
    world.set(same);
    assert_eq!(told(&mut world), []);
    world.join_client(1);
    assert_eq!(told(&mut world), [(client(1), rules())]);
    world.set(account(Dns::default()));
    assert_eq!(told(&mut world), [(client(1), Dns::default())]);
}

#[test]
fn a_client_that_does_not_know_them_hears_nothing_of_them() {
    let mut world = connected(false);
    world.set(account(rules()));
    world.join_client(1);
    let heard = told(&mut world);
    assert!(!heard.is_empty());
    assert!(heard.iter().all(|(_, dns)| dns.is_empty()), "{heard:?}");
}
