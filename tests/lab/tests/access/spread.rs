//! Many clients and few gateways.

use crate::common::{Bed, SOON};
use culvert_lab::product::Client;
/// The number of clients at each gateway, as the web server sees it, if all begin at the same
/// moment.
fn shares(bed: &Bed, clients: &[&Client]) -> Vec<usize> {
    let ways: Vec<usize> = std::thread::scope(|scope| {
        let asking: Vec<_> = clients
            .iter()
            .map(|client| scope.spawn(|| bed.way_of(client, SOON).unwrap()))
            .collect();
        let answered = asking.into_iter();
        answered.map(|asking| asking.join().unwrap()).collect()
    });
    let gateways = 0..bed.product.gateways.len();
    gateways
        .map(|gateway| ways.iter().filter(|way| **way == gateway).count())
        .collect()
}

#[test]
fn clients_that_come_together_are_spread_over_the_gateways() {
    let bed = Bed::new(2).unwrap();
    let crowd = bed.product.crowd(5).unwrap();
    let mut clients: Vec<&Client> = crowd.iter().collect();
    clients.push(&bed.product.client);
    let shares = shares(&bed, &clients);
    assert!(shares.iter().all(|share| *share >= 2), "{shares:?}");
    for (gateway, share) in bed.product.gateways.iter().zip(shares) {
        let status = gateway.status().unwrap();
        assert_eq!(status["client_count"], share, "{status}");
    }
}

#[test]
fn new_clients_go_to_the_gateway_that_is_less_busy() {
    let bed = Bed::new(2).unwrap();
    let crowd = bed.product.crowd(3).unwrap();
    let _downloads = [(); 4].map(|()| bed.download().unwrap());
    let busy = bed.serving();
    bed.comes_to_be_busy(busy).unwrap();
    let crowd: Vec<&Client> = crowd.iter().collect();
    let mut expected = [0, 0];
    expected[1 - busy] = crowd.len();
    assert_eq!(shares(&bed, &crowd), expected);
}
