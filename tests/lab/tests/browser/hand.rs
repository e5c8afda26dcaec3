//! The ways in which somebody uses the console. Steps of a job are the same for all of them.

use crate::console::Console;
use crate::driver::{ENTER, Element, SHIFT, TAB};
use crate::page;
use anyhow::{Context, Result, bail, ensure};
use serde_json::json;

/// More stops than any page has on the way to something.
const MAX_STOPS: usize = 120;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hand {
    Mouse,
    /// No event of a mouse: Tab, Enter and typing.
    Keyboard,
    /// A mouse, in a browser that runs no script of a page.
    WithoutScript,
}

impl Hand {
    /// Has the browser be as this way needs it.
    pub(crate) fn take(self, console: &Console) -> Result<()> {
        let off = json!({ "value": self == Self::WithoutScript });
        let command = "Emulation.setScriptExecutionDisabled";
        console.browser.developer(command, &off).map(drop)
    }
}

/// Somebody who does a job, from the overview on.
#[derive(Debug)]
pub(crate) struct Worker<'c> {
    console: &'c Console,
    hand: Hand,
    /// Links, buttons and choices so far. Typing is no click.
    pub(crate) clicks: u32,
}

impl<'c> Worker<'c> {
    pub(crate) fn begin(console: &'c Console, hand: Hand) -> Result<Self> {
        console.open("/")?;
        page::look(console)?;
        Ok(Self {
            console,
            hand,
            clicks: 0,
        })
    }

    /// Follows the link of the list of pages.
    pub(crate) fn open_list(&mut self, path: &str) -> Result<()> {
        self.follow(&format!("nav[aria-label=Pages] a[href='{path}']"))
    }

    pub(crate) fn follow_link(&mut self, text: &str) -> Result<()> {
        let link = self.console.browser.link(text)?;
        self.lead(&link)
    }

    /// Uses a link or a button that leads to another page.
    pub(crate) fn follow(&mut self, selector: &str) -> Result<()> {
        let found = self.console.browser.one(selector)?;
        self.lead(&found)
    }

    fn lead(&mut self, by: &Element) -> Result<()> {
        self.clicks += 1;
        let browser = &self.console.browser;
        if self.hand == Hand::Keyboard {
            self.go_to(by)?;
            browser.leave_by(|| browser.press(ENTER))?;
        } else {
            browser.follow(by)?;
        }
        page::look(self.console).map(drop)
    }

    /// Uses a button of which the page opens something.
    pub(crate) fn press(&mut self, selector: &str) -> Result<()> {
        self.clicks += 1;
        let browser = &self.console.browser;
        let button = browser.one(selector)?;
        if self.hand == Hand::Keyboard {
            self.go_to(&button)?;
            return browser.press(ENTER);
        }
        browser.click(&button)
    }

    /// Writes into a field.
    pub(crate) fn write(&self, selector: &str, text: &str) -> Result<()> {
        let browser = &self.console.browser;
        if self.hand == Hand::Keyboard {
            self.go_to(&browser.one(selector)?)?;
            return browser.press(text);
        }
        browser.fill(selector, text)
    }

    /// Sends the form of the field that was just written into.
    pub(crate) fn send_by_enter(&self) -> Result<()> {
        let browser = &self.console.browser;
        browser.leave_by(|| browser.press(ENTER))?;
        page::look(self.console).map(drop)
    }

    /// Chooses from a list.
    pub(crate) fn choose(&mut self, selector: &str, value: &str) -> Result<()> {
        self.clicks += 1;
        let browser = &self.console.browser;
        let list = browser.one(selector)?;
        if self.hand == Hand::Keyboard {
            self.go_to(&list)?;
            browser.press(value)?;
        } else {
            let option = format!("{selector} option[value='{value}']");
            browser.click(&browser.one(&option)?)?;
        }
        let chosen = browser.run("return arguments[0].value", &[list.argument()])?;
        ensure!(
            chosen == value,
            "{selector} has {chosen} in place of {value}"
        );
        Ok(())
    }

    pub(crate) fn shows(&self, text: &str) -> Result<()> {
        let page = self.console.browser.page_text()?;
        ensure!(page.contains(text), "no “{text}”: {page}");
        Ok(())
    }

    pub(crate) fn has(&self, selector: &str) -> Result<()> {
        self.console.browser.one(selector).map(drop)
    }

    /// Goes from stop to stop. The focus is to be seen at each of them, and they come in the order of the page.
    fn go_to(&self, target: &Element) -> Result<()> {
        let browser = &self.console.browser;
        let ask = |script: &str| browser.run(script, &[target.argument()]);
        let mut way = ask(WAY)?;
        if way == "skip" {
            // The first stop leads past the list of pages.
            browser.press(TAB)?;
            browser.press(ENTER)?;
            let focused = browser.focused()?;
            let id = browser.attribute(&focused, "id")?;
            ensure!(id == "content", "the link to the content leads to “{id}”");
            way = json!("on");
        }
        let is_back = way == "back";
        let mut stops = Vec::new();
        while way != "here" {
            if stops.len() > MAX_STOPS {
                bail!(
                    "{}: no stop is {target:?}: {stops:#?}",
                    self.console.path()?
                );
            }
            match is_back {
                true => browser.press_holding(SHIFT, TAB)?,
                false => browser.press(TAB)?,
            }
            let stop = browser.run(STOP, &[target.argument(), json!(is_back)])?;
            way = stop["way"].clone();
            let name = stop["name"].as_str().context("a stop")?.to_owned();
            if let Some(problem) = stop["problem"].as_str() {
                bail!("{}: {name} {problem}: {stops:#?}", self.console.path()?);
            }
            stops.push(name);
        }
        Ok(())
    }
}

/// The way from the focus to something: `here`, `on`, `back`, or `skip` from the beginning of a page to its content.
const WAY: &str = "
    const at = document.activeElement, target = arguments[0];
    window.lastStop = at;
    if (at === target) return 'here';
    if (at === document.body) return document.getElementById('content').contains(target) ? 'skip' : 'on';
    return at.compareDocumentPosition(target) & Node.DOCUMENT_POSITION_PRECEDING ? 'back' : 'on';";

/// The stop at which the focus is now, and the problem with it.
const STOP: &str = "
    const [target, isBack] = arguments;
    const at = document.activeElement, before = window.lastStop;
    window.lastStop = at;
    const style = getComputedStyle(at), box = at.getBoundingClientRect();
    const isMarked = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0 || style.boxShadow !== 'none';
    const order = before.compareDocumentPosition(at);
    const isInOrder = before === document.body || at === document.body || before === at
        || Boolean(order & (isBack ? Node.DOCUMENT_POSITION_PRECEDING : Node.DOCUMENT_POSITION_FOLLOWING));
    let problem = null;
    if (at === document.body) problem = 'is the end of the page';
    else if (!at.matches(':focus-visible') || !isMarked) problem = 'does not show that it has the focus';
    else if (box.width < 1 || box.height < 1 || box.bottom < 0 || box.top > innerHeight) problem = 'is not to be seen';
    else if (!isInOrder) problem = 'comes in another order than on the page';
    const name = at.tagName.toLowerCase() + ' “' + (at.getAttribute('aria-label') || at.name || at.textContent).trim()
        .slice(0, 40) + '”';
    return { way: at === target ? 'here' : 'on', name, problem };";
