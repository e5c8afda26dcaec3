//! Every page that can be reached by links, whichever they are: a page that is new is covered by itself.

use crate::console::Console;
use crate::page;
use anyhow::{Result, bail};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// More kinds of pages than the console will ever have: links that lead on for ever end here.
const MAX_PAGES: usize = 100;

/// A page and one of its forms.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Form {
    /// The page's address.
    pub(crate) page: String,
    /// The method and the path, as `post /sites`.
    pub(crate) action: String,
}

/// The result of a walk.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    /// A path of each kind of page, by the kind.
    pub(crate) pages: BTreeMap<String, String>,
    /// One form of each kind that has fields to write into.
    pub(crate) forms: Vec<Form>,
}

/// Pages of one thing that only [`Console::with_everything`] has.
const KINDS_OF_EVERYTHING: [&str; 3] = ["/clients/id", "/gateways/id", "/settings/providers/id"];

impl Walk {
    /// True if it passed every object of [`Console::with_everything`].
    pub(crate) fn has_everything(&self) -> bool {
        let has = |kind: &&str| self.pages.contains_key(*kind);
        KINDS_OF_EVERYTHING.iter().all(has)
    }
}

/// Opens each kind of page that links lead to from `/`, once, and has `visit` look at it.
pub(crate) fn walk(console: &Console, mut visit: impl FnMut(&str) -> Result<()>) -> Result<Walk> {
    let mut walk = Walk::default();
    let mut known = BTreeSet::from([kind_of("/")]);
    let mut ahead = VecDeque::from(["/".to_owned()]);
    while let Some(path) = ahead.pop_front() {
        console.open(&path)?;
        let loaded = page::look(console)?;
        if !loaded.is_page {
            continue;
        }
        // A user who may not read the overview is shown another page in its place.
        let shown = console.path()?;
        if loaded.status != 200 {
            bail!("a link leads to {path}, which answers {}", loaded.status);
        }
        visit(&shown)?;
        walk.pages.insert(kind_of(&shown), shown.clone());
        for link in strings(&console.browser.run(LINKS, &[])?) {
            if known.insert(kind_of(&link)) {
                ahead.push_back(link);
            }
        }
        for action in strings(&console.browser.run(FORMS, &[])?) {
            let is_new = |form: &Form| kind_of(&form.action) != kind_of(&action);
            if !action.is_empty() && walk.forms.iter().all(is_new) {
                let page = shown.clone();
                walk.forms.push(Form { page, action });
            }
        }
        if known.len() > MAX_PAGES {
            bail!("there are over {MAX_PAGES} kinds of pages: {known:?}");
        }
    }
    Ok(walk)
}

/// The targets of a page's links within the portal.
const LINKS: &str = "return [...document.querySelectorAll('a[href]')]
    .map(link => new URL(link.getAttribute('href'), location)).filter(url => url.origin === location.origin)
    .map(url => url.pathname + url.search)";

/// The targets of the forms of a page; nothing for a form without a field to write into.
const FORMS: &str = "return [...document.forms].map(form => [...form.elements].some(field =>
    field.matches('textarea, input:not([type=hidden]):not([type=checkbox]):not([type=radio])'))
    ? form.method + ' ' + new URL(form.action).pathname : '')";

fn strings(list: &Value) -> Vec<String> {
    let all = list.as_array().into_iter().flatten();
    all.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Pages about two things of one kind are one kind of page: ids and what is asked for do not count.
pub(crate) fn kind_of(path: &str) -> String {
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let is_id = |part: &&str| part.len() >= 16 && part.chars().any(|c| c.is_ascii_digit());
    let parts = path
        .split('/')
        .map(|part| if is_id(&part) { "id" } else { part });
    parts.collect::<Vec<_>>().join("/")
}
