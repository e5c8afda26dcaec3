//! The session with the portal, and what it does to ends.

use crate::end::{End, GATEWAY, client, unix_now};
use crate::scene::{PORTS, Scene};
use culvert_relay_core::message::RefusalReason;
use culvert_relay_core::registration::Output;
use culvert_wire::messages::{FromRelay, Reason, ReasonCode, ToRelay};

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_says_where_it_is_and_which_ports_it_has() {
    let scene = Scene::start().await;
    let FromRelay::Hello {
        addresses,
        first_port,
        ports,
        draining,
        assigned,
        name,
        ..
    } = &scene.hello
    else {
        panic!("it says hello first: {:?}", scene.hello);
    };
    assert_eq!(addresses, &[scene.at(scene.first_port - 1)]);
    assert_eq!((*first_port, *ports), (scene.first_port, PORTS));
    assert_eq!(
        (*draining, assigned.len(), name.as_str()),
        (false, 0, "relay-1")
    );
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_withdrawn_client_leaves() {
    let mut scene = Scene::start().await;
    let mut end = End::new(scene.at(scene.first_port), Some(client(1)));
    end.register();
    scene.status_where(|status| status.client_count == 1).await;
    let withdraw = ToRelay::Withdraw {
        gateway: GATEWAY,
        client: Some(client(1)),
        until: unix_now(),
    };
    scene.session.say(withdraw).await;
    scene.status_where(|status| status.client_count == 0).await;
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_that_the_portal_drains_takes_no_new_ends() {
    let mut scene = Scene::start().await;
    let mut known = End::new(scene.at(scene.first_port), Some(client(1)));
    known.register();
    scene.session.say(ToRelay::Drain { on: true }).await;
    let status = scene.status_where(|status| status.draining).await;
    assert!(!status.ready && !status.draining_by_itself);
    let mut new = End::new(scene.at(scene.first_port), Some(client(2)));
    let refused = Output::Refused(RefusalReason::Draining);
    new.until(|end| end.outputs.contains(&refused));
    scene.status_where(|status| status.client_count == 1).await;
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ends_stay_while_the_portal_is_away_and_the_relay_tells_their_ports_when_it_is_back() {
    let mut scene = Scene::start().await;
    let mut gateway = End::new(scene.at(scene.first_port + 2), None);
    gateway.register();
    scene.status_where(|status| status.gateway_count == 1).await;
    let reason = Reason {
        code: ReasonCode::TryLater,
        text: "come back".to_owned(),
    };
    let refused = ToRelay::Refused {
        reason,
        retry_after_s: Some(1),
    };
    scene.session.say(refused).await;
    let (mut session, hello) = scene.portal.accept(4).await;
    let FromRelay::Hello { assigned, .. } = hello else {
        panic!("it says hello first");
    };
    assert_eq!(assigned.len(), 1);
    assert_eq!(
        (assigned[0].port, assigned[0].gateway),
        (scene.first_port + 2, GATEWAY)
    );
    session.welcome().await;
    gateway.check();
    gateway.until(|end| {
        let mut outputs = end.outputs.iter();
        outputs.any(|output| matches!(output, Output::Alive { .. }))
    });
    scene.finish().await;
}
