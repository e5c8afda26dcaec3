//! The suite is the grant's: what both ends do fast, and nothing that one of them says later.

use crate::scene::{Scene, TRIP_MS, application, longest_gap_ms};
use crate::seeds;
use culvert_sim::access::{Machine, Tally};
use culvert_wire::Cipher::{Aes256Gcm, ChaCha20Poly1305};

fn chosen(seed: u64, is_traced: bool) -> Tally {
    let offers = [
        vec![ChaCha20Poly1305],
        vec![Aes256Gcm, ChaCha20Poly1305],
        vec![ChaCha20Poly1305, Aes256Gcm],
        Vec::new(),
    ];
    let pick = |number: u64| offers[usize::try_from(number % 4).unwrap_or(0)].clone();
    let (of_client, of_gateway) = (pick(seed), pick(seed / 4));
    let mut world = Scene::new(2, 1).world(seed, is_traced);
    for machine in [Machine::Client(0), Machine::Gateway(0)] {
        world.kill(machine, false);
    }
    world.set_ciphers(0, of_client.clone());
    world.set_gateway_ciphers(0, of_gateway.clone());
    world.start_all();
    world.run_ms(3_000);
    let id = application(&mut world, 0, 1);
    world.run_ms(5_000);
    let both = of_client.contains(&Aes256Gcm) && of_gateway.contains(&Aes256Gcm);
    let (right, wrong) = match both {
        true => (Aes256Gcm, ChaCha20Poly1305),
        false => (ChaCha20Poly1305, Aes256Gcm),
    };
    let grants = world.config().grants();
    assert_eq!(grants.len(), 1);
    assert!(
        grants.values().all(|grant| grant.cipher == right),
        "{grants:?}"
    );
    assert_eq!(world.tally().mismatches, 0);
    // The same secret with the other suite opens nothing.
    let before = world.tally().handshakes;
    world.handshake_with(0, 0, wrong);
    world.run_ms(1_000);
    assert_eq!(world.tally().mismatches, 1);
    assert_eq!(world.tally().handshakes, before);
    let gap_ms = longest_gap_ms(world.log(id), world.now_ms() - 3_000, world.now_ms());
    assert!(gap_ms <= TRIP_MS, "the tunnel broke for {gap_ms} ms");
    world.tally().clone()
}

#[test]
fn the_suite_is_what_both_ends_do_fast_and_bound_by_the_grant() {
    seeds::run(32, chosen);
}
