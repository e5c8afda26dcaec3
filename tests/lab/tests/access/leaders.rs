//! Several portals on one PostgreSQL database: machines find the ones that are left, and traffic needs none.

use crate::common::{Bed, SOON, access};
use culvert_lab::product::{
    Download, FirstUse, FirstUses, Front, NumberedStream, Portal, Product, Server,
};
use culvert_lab::{Family, Namespace, wait_until};
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// The longest time for which a datagram of existing access may be without an answer: that of a busy test machine.
const GAP: Duration = Duration::from_secs(1);

/// "each new access within 5 s of the kill"
const NEW_ACCESS: Duration = Duration::from_secs(5);

/// The number of times that the leader is killed.
const KILLS: usize = 10;

/// Kills of a test after which new access may be later: a database beside all other tests stands still now and then.
const LATE_MAX: usize = 1;

/// The time since which nothing has changed, in milliseconds.
const AGE_MS: u32 = 600_000;

/// New uses after which a portal that grants something would have been seen.
const USES: usize = 3;

/// Two portals on one database, the first of which leads, and machines that know both.
struct Scene {
    bed: Bed,
    _unused: Server,
}

impl Scene {
    fn new(front: Front) -> Self {
        let mut product = Product::networks(1).unwrap();
        product.with_portals(2, front).unwrap();
        product.portal.start().unwrap();
        product.is_reached_within(SOON).unwrap();
        product.portal.set_up().unwrap();
        let access = format!("{}\n{}", access(), FirstUses::access());
        product.portal.apply(&access).unwrap();
        product.portal_mut(1).unwrap().start().unwrap();
        product.enrol().unwrap();
        // Grants of what has changed within a minute are signed anew after each change of the leader.
        let database = product.database.as_ref().unwrap();
        for table in ["resource", "client"] {
            let sql = format!("UPDATE {table} SET updated_ms = updated_ms - {AGE_MS}");
            database.query(&sql).unwrap();
        }
        let scene = Self {
            _unused: FirstUses::serve(&product).unwrap(),
            bed: Bed::around(product).unwrap(),
        };
        if front == Front::Urls {
            scene.wait_for_both_urls();
        }
        scene
    }

    /// The first portal tells machines of the other one once it has seen that in the database.
    fn wait_for_both_urls(&self) {
        let url = self.portal(1).own_url();
        let is_told = |output: &str| {
            let mut lines = output.lines();
            lines.any(|line| line.contains("told of its addresses") && line.contains(&url))
        };
        let product = &self.bed.product;
        wait_until("the machines to know both portals", SOON, || {
            is_told(&product.client.output()) && is_told(&product.gateways[0].output())
        })
        .unwrap_or_else(|error| panic!("{error}: {}", self.logs()));
    }

    fn portal(&self, number: usize) -> &Portal {
        self.bed.product.portals().nth(number).unwrap()
    }

    fn portal_mut(&mut self, number: usize) -> &mut Portal {
        self.bed.product.portal_mut(number).unwrap()
    }

    fn leader(&self) -> usize {
        self.bed.product.leader().unwrap().expect("a portal leads")
    }

    fn wait_for_leader(&self, number: usize) {
        wait_until("the other portal to lead", SOON, || {
            self.bed.product.leader().unwrap() == Some(number)
        })
        .unwrap_or_else(|error| panic!("{error}: {}", self.logs()));
    }

    fn first_uses(&self) -> FirstUses {
        FirstUses::start(&self.bed.product.client.namespace)
    }

    fn logs(&self) -> String {
        let product = &self.bed.product;
        let portals: Vec<_> = product.portals().map(Portal::output).collect();
        format!(
            "{}\n{}\n{}\n{}",
            portals.join("\n"),
            product.gateways[0].output(),
            product.client.output(),
            product.balancer_output()
        )
    }

    /// So many times, kills the leader while a request for access waits for it, sees that the other portal grants it, and
    /// starts the killed one again. All but [`LATE_MAX`] are in time.
    #[expect(clippy::print_stdout, reason = "the figures are for who asks for them")]
    fn leaders_are_killed_under_requests(&mut self, kills: usize, uses: &FirstUses) {
        let mut late = Vec::new();
        for kill in 1..=kills {
            let product = &mut self.bed.product;
            let epoch = product.epoch().unwrap();
            let killed = product.kill_leader_under_a_request(uses, SOON);
            let killed = killed.unwrap_or_else(|error| panic!("{error}: {}", self.logs()));
            let product = &mut self.bed.product;
            product.portal_mut(killed.leader).unwrap().start().unwrap();
            assert_eq!(product.leader().unwrap(), Some(killed.next));
            assert_eq!(product.epoch().unwrap(), epoch + 1);
            println!(
                "kill {kill}: the other portal leads after {:.1} s, new access after {:.1} s",
                killed.led_after.as_secs_f32(),
                killed.answered_after.as_secs_f32()
            );
            if killed.answered_after > NEW_ACCESS {
                late.push(kill);
            }
        }
        assert!(late.len() <= LATE_MAX, "{late:?}: {}", self.logs());
    }

    /// Has the machines come to the portal that follows, by refusing them the way to the one that leads.
    fn machines_go_to_the_follower(&self) {
        let product = &self.bed.product;
        let (leader, follower) = (self.leader(), 1 - self.leader());
        let from = [
            product.nat_address(),
            product.gateways[0].public_address(Family::V4),
        ];
        let leader = self.portal(leader).address().ip();
        let cut = Cut::before(&product.internet, &from, leader);
        let connected = format!("connected to {}", self.portal(follower).own_url());
        let gateway = format!("portal=\"{}\"", self.portal(follower).own_url());
        wait_until("the machines to be at the other portal", SOON, || {
            product.client.output().contains(&connected)
                && product.gateways[0].output().contains(&gateway)
        })
        .unwrap_or_else(|error| panic!("{error}: {}", self.logs()));
        drop(cut);
    }

    /// New access that begins from now on, several times.
    fn gives_new_access(&self, uses: &FirstUses) {
        for _ in 0..USES {
            let now = Instant::now();
            wait_until("new access", SOON, || uses.first_after(now).is_some())
                .unwrap_or_else(|error| panic!("{error}: {}", self.logs()));
        }
    }
}

/// Traffic of existing access, of which nothing may be lost.
struct Flows {
    download: Download,
    stream: NumberedStream,
}

impl Flows {
    fn start(scene: &Scene) -> Self {
        Self {
            download: scene.bed.download().unwrap(),
            stream: scene.bed.numbered_stream().unwrap(),
        }
    }

    /// Checks that, and says what there was.
    fn have_lost_nothing(self) -> String {
        self.download.goes_on(GAP).unwrap();
        let gap = self.stream.longest_gap();
        assert!(gap < GAP, "{gap:?}");
        let tally = self.stream.finish();
        assert_eq!(tally.missing, Vec::<u64>::new());
        format!("{} datagrams, longest gap {gap:?}", tally.sent)
    }
}

/// A firewall that drops everything between a machine and an address, until it is dropped itself.
struct Cut<'a>(&'a Namespace);

impl<'a> Cut<'a> {
    fn between(machine: &'a Namespace, address: IpAddr) -> Self {
        machine
            .shell(&format!(
                "nft 'add table inet cut; \
                 add chain inet cut out {{ type filter hook output priority 0; }}; \
                 add chain inet cut in {{ type filter hook input priority 0; }}; \
                 add rule inet cut out ip daddr {address} drop; \
                 add rule inet cut in ip saddr {address} drop'"
            ))
            .unwrap();
        Self(machine)
    }

    /// The same for all that a router passes on to an address; who connects is refused.
    fn before(router: &'a Namespace, from: &[IpAddr], address: IpAddr) -> Self {
        let from: Vec<_> = from.iter().map(IpAddr::to_string).collect();
        router
            .shell(&format!(
                "nft 'add table inet cut; \
                 add chain inet cut pass {{ type filter hook forward priority 0; }}; \
                 add rule inet cut pass ip saddr {{ {} }} ip daddr {address} meta l4proto tcp \
                 reject with tcp reset'",
                from.join(", ")
            ))
            .unwrap();
        Self(router)
    }
}

impl Drop for Cut<'_> {
    fn drop(&mut self) {
        // A test that fails takes its namespaces with it.
        let _gone = self.0.run("nft delete table inet cut");
    }
}

#[test]
fn while_the_leader_is_killed_ten_times_no_datagram_is_lost_and_each_new_access_comes_in_time() {
    let mut scene = Scene::new(Front::Urls);
    let flows = Flows::start(&scene);
    let uses = scene.first_uses();
    scene.leaders_are_killed_under_requests(KILLS, &uses);
    let longest = uses.so_far().iter().map(FirstUse::took).max();
    println!(
        "{} new accesses, the longest in {longest:?}",
        uses.so_far().len()
    );
    println!("{}", flows.have_lost_nothing());
}

#[test]
fn behind_haproxy_as_the_documents_configure_it_a_leader_is_killed_and_new_access_comes_in_time() {
    let mut scene = Scene::new(Front::Balancer);
    let flows = Flows::start(&scene);
    let uses = scene.first_uses();
    scene.leaders_are_killed_under_requests(2, &uses);
    // The administrator finds the portal that is left.
    scene.portal_mut(0).kill().unwrap();
    let listed = || scene.bed.product.portal.admin("portal list");
    wait_until("the other portal to be listed", SOON, || {
        listed().is_ok_and(|it| it.contains("leads (this one)"))
    })
    .unwrap_or_else(|error| panic!("{error}: {:?} {}", listed(), scene.logs()));
    println!("{}", flows.have_lost_nothing());
}

#[test]
fn a_portal_that_follows_is_killed_with_all_machines_and_no_datagram_is_lost() {
    let mut scene = Scene::new(Front::Urls);
    let flows = Flows::start(&scene);
    let uses = scene.first_uses();
    let (epoch, follower) = (scene.bed.product.epoch().unwrap(), 1 - scene.leader());
    scene.machines_go_to_the_follower();
    scene.gives_new_access(&uses);

    let killed = Instant::now();
    scene.portal_mut(follower).kill().unwrap();
    wait_until("new access by the leader", NEW_ACCESS, || {
        uses.first_after(killed).is_some()
    })
    .unwrap_or_else(|error| panic!("{error}: {}", scene.logs()));
    println!("new access after {:?}", killed.elapsed());
    assert_eq!(scene.bed.product.epoch().unwrap(), epoch);
    println!("{}", flows.have_lost_nothing());
}

#[test]
fn a_leader_that_is_cut_off_from_the_database_grants_nothing_after_another_leads() {
    let scene = Scene::new(Front::Urls);
    let flows = Flows::start(&scene);
    let uses = scene.first_uses();
    let epoch = scene.bed.product.epoch().unwrap();
    let (leader, other) = (
        scene.portal(scene.leader()),
        scene.portal(1 - scene.leader()),
    );
    let other_number = 1 - scene.leader();
    assert!(leader.metric("granted_total").unwrap() > 0);

    let database = scene.bed.product.database_address();
    let cut = Cut::between(&leader.namespace, database);
    let began = Instant::now();
    scene.wait_for_leader(other_number);
    println!("the other portal leads after {:?}", began.elapsed());
    let granted = leader.metric("granted_total").unwrap();
    let granted_by_other = other.metric("granted_total").unwrap();
    scene.gives_new_access(&uses);
    println!("new access after {:?}", began.elapsed());
    assert!(leader.metric("granted_total").unwrap() <= granted);
    let now = other.metric("granted_total").unwrap();
    assert!(now >= granted_by_other + USES as u64, "{now}");
    let (is_ready, why) = leader.readiness().unwrap();
    assert!(!is_ready, "{why}");

    drop(cut);
    wait_until("the portal to be ready again", SOON, || {
        leader.readiness().unwrap().0
    })
    .unwrap_or_else(|error| panic!("{error}: {}", scene.logs()));
    assert_eq!(scene.leader(), other_number);
    assert_eq!(scene.bed.product.epoch().unwrap(), epoch + 1);
    scene.gives_new_access(&uses);
    println!("{}", flows.have_lost_nothing());
}

#[test]
fn a_portal_that_does_not_reach_the_leader_grants_nothing_and_its_machines_go_to_the_leader() {
    let scene = Scene::new(Front::Urls);
    let product = &scene.bed.product;
    let flows = Flows::start(&scene);
    let uses = scene.first_uses();
    let epoch = product.epoch().unwrap();
    let (leader, follower) = (scene.portal(0), scene.portal(1));
    assert_eq!(scene.leader(), 0);

    scene.machines_go_to_the_follower();
    scene.gives_new_access(&uses);

    let cut = Cut::between(&leader.namespace, follower.address().ip());
    wait_until("the portal to miss the leader", SOON, || {
        !follower.readiness().unwrap().0
    })
    .unwrap_or_else(|error| panic!("{error}: {}", scene.logs()));
    let granted = leader.metric("granted_total").unwrap();
    let began = Instant::now();
    scene.gives_new_access(&uses);
    println!("new access after {:?}", began.elapsed());
    assert!(leader.metric("granted_total").unwrap() >= granted + USES as u64);
    let (is_ready, why) = follower.readiness().unwrap();
    assert!(!is_ready, "{why}");

    drop(cut);
    wait_until("the portal to follow again", SOON, || {
        follower.readiness().unwrap().0
    })
    .unwrap_or_else(|error| panic!("{error}: {}", scene.logs()));
    assert_eq!((scene.leader(), product.epoch().unwrap()), (0, epoch));
    println!("{}", flows.have_lost_nothing());
}
