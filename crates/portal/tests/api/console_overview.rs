//! The overview: the picture of the network and the sums of the last 24 hours.

use crate::browser::signed_in;
use crate::support::Running;
use culvert_store::Role;

#[tokio::test]
async fn the_picture_counts_what_it_does_not_show_by_its_kind() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Admin).await;
    let empty = browser.get("/").await.expect(200).text;
    assert!(!empty.contains("class=\"network\""), "{empty}");
    browser
        .submit("/sites", &[("name", "lab")])
        .await
        .expect(303);
    for name in ["staff", "guests"] {
        browser
            .submit("/groups", &[("name", name)])
            .await
            .expect(303);
    }
    for number in 0..11 {
        let name = format!("web {number:02}");
        let fields = [
            ("name", &*name),
            ("site", "lab"),
            ("address", "10.1.2.3"),
            ("protocol.0", "tcp"),
            ("ports.0", "443"),
        ];
        browser.submit("/resources/new", &fields).await.expect(303);
    }
    let policy = [("group", "staff"), ("resource", "web 10")];
    browser.submit("/policies", &policy).await.expect(303);

    let page = browser.get("/").await.expect(200).text;
    let (_, picture) = page.split_once("class=\"network\"").unwrap();
    let picture = picture.split("</svg>").next().unwrap();
    let all = "Network: 2 groups, 11 resources, 1 site, 0 gateways connected.";
    assert!(picture.contains(all), "{picture}");
    // The newest are shown, and only groups that may use one of them.
    assert!(
        picture.contains(">web 10<") && !picture.contains(">web 02<"),
        "{picture}"
    );
    assert!(
        picture.contains(">staff<") && !picture.contains(">guests<"),
        "{picture}"
    );
    assert_eq!(picture.matches("and 3 more").count(), 1, "{picture}");
    assert_eq!(picture.matches("and 1 more").count(), 1, "{picture}");
    assert!(
        picture.contains("staff may use web 10: 0 requests in 24 hours"),
        "{picture}"
    );
}
