//! Every page as every role: it answers, loads nothing from elsewhere, and can be used by everybody.

use crate::console::{Console, PEOPLE};
use crate::{crawl, page};

#[test]
fn every_page_that_a_role_is_led_to_answers_and_is_usable_by_everybody() {
    let console = Console::with_people().unwrap();
    for path in ["/sign-in", "/set-up"] {
        console.open(path).unwrap();
        page::look(&console).unwrap();
        page::is_for_everybody(&console).unwrap();
        page::keep_pictures(&console, path.trim_matches('/')).unwrap();
    }
    for (name, role) in PEOPLE {
        console.sign_in(name).unwrap();
        let walk = crawl::walk(&console, |path| {
            // Administrators see the same pages, auditors the same with fewer forms.
            if matches!(role, "owner" | "user") {
                page::is_for_everybody(&console)?;
                page::keep_pictures(&console, &picture_name(role, path))?;
            }
            Ok(())
        });
        let walk = walk.unwrap();
        let enough = if role == "user" { 2 } else { 13 };
        assert!(walk.pages.len() >= enough, "{role}: {:#?}", walk.pages);
        let may_change = matches!(role, "owner" | "admin");
        let makes = walk
            .forms
            .iter()
            .any(|form| form.action == "post /policies");
        assert_eq!(makes, may_change, "{role}: {:#?}", walk.forms);
    }
}

fn picture_name(role: &str, path: &str) -> String {
    let page = crawl::kind_of(path).replace('/', "-");
    match page.trim_matches('-') {
        "" => format!("{role}-overview"),
        page => format!("{role}-{page}"),
    }
}
