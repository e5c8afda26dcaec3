//! Browsers in which a person signed in before, and who may pass for one.

use crate::browser::{Browser, PASSWORD, person};
use crate::console::guess_until_refused;
use crate::support::Running;
use culvert_store::Role;

/// Half of what a known browser has at once.
const FEWER_THAN_A_KNOWN_BROWSER_HAS: usize = 10;

/// A browser in which the person of that name has signed in, and has out again.
async fn known(running: &Running, name: &str) -> Browser {
    let mut browser = Browser::open(running).await;
    browser.sign_in(name, PASSWORD).await.expect(303);
    browser.submit("/sign-out", &[]).await.expect(303);
    browser
}

/// A browser that shows this mark.
async fn showing(running: &Running, mark: &str) -> Browser {
    let mut browser = Browser::open(running).await;
    browser.mark = Some(format!("__Host-culvert-browser={mark}"));
    browser
}

/// True if the browser has no guesses of its own under this name, when strangers have used up theirs.
async fn counts_as_a_stranger(browser: &mut Browser, name: &str) -> bool {
    for _ in 0..FEWER_THAN_A_KNOWN_BROWSER_HAS {
        let answer = browser.sign_in(name, "not the password").await;
        if answer.status == 429 {
            return true;
        }
        answer.expect(401);
    }
    false
}

fn mark_of(browser: &Browser) -> String {
    let cookie = browser.mark.as_deref().unwrap();
    cookie.split_once('=').unwrap().1.to_owned()
}

/// The mark with another letter at this place.
fn changed(mark: &str, at: usize) -> String {
    let other = match mark.as_bytes()[at] {
        b'A' => "B",
        _ => "A",
    };
    format!("{}{other}{}", &mark[..at], &mark[at + 1..])
}

#[tokio::test]
async fn a_mark_of_another_person_and_a_forged_one_make_no_browser_known() {
    let running = Running::start().await;
    let (_, name) = person(&running, Role::Admin).await;
    let (_, other) = person(&running, Role::Admin).await;
    let mut own = known(&running, &name).await;
    let mark = mark_of(&own);
    let of_another = mark_of(&known(&running, &other).await);
    let mut stranger = Browser::open(&running).await;
    guess_until_refused(&mut stranger, &name).await;

    for wrong in [
        of_another.as_str(),
        &changed(&mark, 0),
        &changed(&mark, mark.len() - 1),
        &mark[..mark.len() - 4],
        &format!("{mark}AAAA"),
        &"A".repeat(mark.len()),
        "",
    ] {
        let mut browser = showing(&running, wrong).await;
        assert!(counts_as_a_stranger(&mut browser, &name).await, "{wrong}");
    }
    // And the mark itself is still good.
    own.sign_in(&name, PASSWORD).await.expect(303);
}

#[tokio::test]
async fn who_has_one_browser_of_a_person_uses_up_no_guesses_of_another() {
    let running = Running::start().await;
    let (_, name) = person(&running, Role::Admin).await;
    let mut one = known(&running, &name).await;
    let mut other = known(&running, &name).await;
    assert_ne!(one.mark, other.mark);
    let mut copy = showing(&running, &mark_of(&one)).await;
    guess_until_refused(&mut one, &name).await;
    assert!(counts_as_a_stranger(&mut copy, &name).await, "one browser");
    other.sign_in(&name, PASSWORD).await.expect(303);
}

#[tokio::test]
async fn a_mark_from_before_a_new_password_gives_guesses_and_no_more() {
    let running = Running::start().await;
    let (_, name) = person(&running, Role::Admin).await;
    let mut known = known(&running, &name).await;
    let new = "a longer one than that";
    let mut other_browser = Browser::open(&running).await;
    other_browser.sign_in(&name, PASSWORD).await.expect(303);
    let fields = [("current", PASSWORD), ("password", new), ("again", new)];
    other_browser
        .submit("/me/password", &fields)
        .await
        .expect(303);

    let mut stranger = Browser::open(&running).await;
    guess_until_refused(&mut stranger, &name).await;
    known.sign_in(&name, PASSWORD).await.expect(401);
    assert!(known.cookie.is_none());
    known.sign_in(&name, new).await.expect(303);
    guess_until_refused(&mut known, &name).await;
}
