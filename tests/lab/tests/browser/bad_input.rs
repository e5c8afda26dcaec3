//! Every form with what nobody should write into it.

use crate::console::Console;
use crate::crawl::{self, Form};
use crate::page::{self, STORED_SCRIPT};
use anyhow::{Context, Result, bail};
use serde_json::json;

#[test]
fn no_form_breaks_by_nothing_or_a_script_and_scripts_are_shown_as_text() {
    let console = written(&[("nothing", ""), ("a script", STORED_SCRIPT)]);
    // An accepted value, such as a name, is now on pages that others read.
    console.sign_in("audrey").unwrap();
    let mut shown = 0;
    crawl::walk(&console, |_| {
        let text = console.browser.page_text()?;
        shown += usize::from(text.contains(STORED_SCRIPT));
        Ok(())
    })
    .unwrap();
    assert!(shown >= 3, "the script is text on {shown} pages alone");
}

#[test]
fn no_form_breaks_by_a_long_text_or_control_characters() {
    let control = "a\u{0}\u{1b}[31m\u{202e}b\u{feff}";
    // The address contains the values of a form; with some fields of this length, it still has room.
    let long = "x".repeat(1000);
    written(&[("1,000 letters", &long), ("control characters", control)]);
}

/// A console in which each of these texts, each with its description, was written into every field of a form at once.
fn written(inputs: &[(&str, &str)]) -> Console {
    let console = Console::with_everything().unwrap();
    console.sign_in("olivia").unwrap();
    let walk = crawl::walk(&console, |_| Ok(())).unwrap();
    assert!(walk.has_everything(), "{:#?}", walk.pages);
    assert!(walk.forms.len() >= 20, "{:#?}", walk.forms);
    for form in &walk.forms {
        for (what, text) in inputs {
            send(&console, form, text)
                .with_context(|| format!("{what} in the form {form:?}"))
                .unwrap();
        }
    }
    console
}

/// Fills a form and sends it as the browser would without its own checks.
fn send(console: &Console, form: &Form, text: &str) -> Result<()> {
    // Earlier forms have created rows that have forms of their own, so positions do not last.
    const FILL: &str = "const form = [...document.forms].find(form =>
            form.method + ' ' + new URL(form.action).pathname === arguments[0]);
        for (const field of form.elements) {
            if (field.matches('textarea, input:not([type=hidden]):not([type=checkbox]):not([type=radio])'))
                { field.type = field.type === 'textarea' ? field.type : 'text'; field.value = arguments[1]; }
        }
        form.noValidate = true; form.requestSubmit();";
    console.open(&form.page)?;
    page::look(console)?;
    let written = [json!(form.action), json!(text)];
    let browser = &console.browser;
    browser.leave_by(|| browser.run(FILL, &written).map(drop))?;
    let loaded = page::look(console)?;
    if !loaded.is_page || loaded.status >= 500 {
        bail!(
            "the answer was {loaded:?}: {}",
            console.browser.page_text()?
        );
    }
    console.browser.one("main h1").map(drop)
}
