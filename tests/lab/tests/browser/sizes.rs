//! The places of all that a page shows: nothing is cut off, nothing lies over something else, and no word is broken,
//! on screens of all sizes.

use crate::console::Console;
use crate::page;
use anyhow::{Context, Result, bail};
use serde_json::Value;

/// Widths of screens in pixels: a phone, a tablet, a small, a usual and a large desk.
pub(crate) const WIDTHS: [u64; 5] = [390, 768, 1024, 1440, 1920];

/// The usual screen, and the rows of a list that it shows at least without scrolling.
const DESK: (u64, u64) = (1440, 900);
const ROWS: u64 = 12;

/// Everything that is cut off, covered or broken on the page that is open, as wide as it is, in words.
pub(crate) fn faults(console: &Console) -> Result<Vec<String>> {
    words(&console.browser.run(MEASURE, &[])?)
}

/// The list of words that a script answers.
pub(crate) fn words(answer: &Value) -> Result<Vec<String>> {
    let list = answer
        .as_array()
        .with_context(|| format!("no list: {answer}"))?;
    Ok(list.iter().map(Value::to_string).collect())
}

/// Fails where the list that is open has less than [`ROWS`] rows above the fold, by the height of its rows.
pub(crate) fn shows_rows_above_the_fold(console: &Console) -> Result<()> {
    let (width, height) = DESK;
    page::set_screen(console, width, height)?;
    let room = console
        .browser
        .run(ROWS_ABOVE_THE_FOLD, &[Value::from(height)])?;
    page::forget_screen(console)?;
    match room.as_u64() {
        Some(rows) if rows >= ROWS => Ok(()),
        Some(rows) => bail!(
            "{}: room for {rows} rows at {width}×{height}",
            console.path()?
        ),
        None => bail!("{}: there is no row", console.path()?),
    }
}

/// Rows that fit between the head of the first table and the end of the screen, if all are as high as those there are.
const ROWS_ABOVE_THE_FOLD: &str = "
    const rows = [...document.querySelectorAll('main table tbody tr')].slice(0, 12);
    if (rows.length === 0) return null;
    const begin = rows[0].getBoundingClientRect().top + scrollY;
    const heights = rows.map(row => row.getBoundingClientRect().height);
    const mean = heights.reduce((sum, height) => sum + height, 0) / heights.length;
    return Math.floor((arguments[0] - begin) / mean);";

/// All faults of the page that is open, in words. Times of today are short: the page is measured as if each were of
/// another day, and shows its own again after that.
const MEASURE: &str = r"
    const found = [];
    const times = [...document.querySelectorAll('time .short')].map(part => [part, part.textContent]);
    for (const [part] of times) part.textContent = 'Nov 30 23:46';
    const name = part => part.tagName.toLowerCase() + (part.className && typeof part.className === 'string'
        ? '.' + part.className.split(' ')[0] : '') + ' “' + part.textContent.trim().slice(0, 40) + '”';
    const isShown = part => part.checkVisibility({ opacityProperty: true, visibilityProperty: true })
        && part.getBoundingClientRect().width > 1 && part.getBoundingClientRect().height > 1;
    const scroller = part => {
        for (let above = part.parentElement; above; above = above.parentElement) {
            if (['auto', 'scroll'].includes(getComputedStyle(above).overflowX)) return above;
        }
        return null;
    };
    const wide = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth > wide) found.push('the page scrolls sideways');

    // On a desk a list shows all of its columns.
    for (const part of document.querySelectorAll('section:has(> h2.unseen) > .scroll')) {
        if (wide >= 1400 && part.scrollWidth > part.clientWidth + 1) {
            found.push('“' + part.getAttribute('aria-label') + '” is wider than its place');
        }
    }

    const all = [...document.body.querySelectorAll('a, button, input, select, textarea, summary, label, h1, h2, h3, '
        + 'p, th, td, dt, dd, li, pre, figcaption, .badge, time')].filter(isShown);
    for (const part of all) {
        const box = part.getBoundingClientRect();
        if (!part.matches('.skip') && !scroller(part) && (box.left < -1 || box.right > wide + 1)) {
            found.push(name(part) + ' is beyond the edge of the screen');
        }
        const style = getComputedStyle(part);
        const isCut = part.scrollWidth > part.clientWidth + 1 && ['hidden', 'clip'].includes(style.overflowX);
        if (isCut && part.clientWidth > 0 && !part.title && !part.matches('input, select')) {
            found.push(name(part) + ' is cut off');
        }
    }

    // Words that a line break tears apart.
    const walker = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const text = walker.currentNode;
        const parent = text.parentElement;
        if (!parent.closest('td, dd, th, h1, h2, button, a, .badge') || !isShown(parent)
            || parent.closest('pre, .lines, svg')) continue;
        for (const word of text.data.matchAll(/\S+/g)) {
            // A longer word than a phone is wide has to be broken.
            if (word[0].length > 24) continue;
            const range = document.createRange();
            range.setStart(text, word.index);
            range.setEnd(text, word.index + word[0].length);
            const tops = new Set([...range.getClientRects()].filter(box => box.width > 0)
                .map(box => Math.round(box.top)));
            if (tops.size > 1 && !/[-\u2010-\u2014\/]/.test(word[0])) found.push('“' + word[0] + '” is broken');
        }
    }

    // Things that lie over each other. What floats above the page, or stays while it scrolls, may do so.
    const floats = part => {
        for (let above = part; above; above = above.parentElement) {
            if (above.matches(':popover-open, .skip, .unseen') || ['fixed', 'sticky'].includes(
                getComputedStyle(above).position)) return true;
        }
        return false;
    };
    const solid = [...document.querySelectorAll('main :is(a, button, input, select, textarea, summary, label, h1, h2, '
        + 'h3, th, td, dt, dd, figcaption, .badge)')].filter(part => isShown(part) && !floats(part)
        && !part.closest('svg') && getComputedStyle(part).clipPath === 'none');
    const boxes = solid.map(part => part.getBoundingClientRect());
    for (let one = 0; one < solid.length; one++) {
        for (let other = one + 1; other < solid.length; other++) {
            if (found.length > 20) break;
            const [a, b] = [boxes[one], boxes[other]];
            const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
            const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
            if (across <= 2 || down <= 2 || solid[one].contains(solid[other])) continue;
            if (scroller(solid[one]) !== scroller(solid[other])) continue;
            found.push(name(solid[one]) + ' and ' + name(solid[other]) + ' overlap');
        }
    }
    for (const [part, text] of times) part.textContent = text;
    return found;";
