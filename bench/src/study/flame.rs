//! Flame graphs (Gregg, CACM 2016): a box for each function on a stack, as wide as the share of samples
//! that it is on, the outermost at the bottom.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use plotters::prelude::*;

use super::chart::failed;
use super::stacks::Stacks;

const WIDTH: i32 = 1200;
const ROW: i32 = 17;

/// Boxes narrower than this say nothing.
const NARROWEST: f64 = 1.0;

/// The pixels of a letter: the library measures no text, and need not.
const LETTER: f64 = 6.4;

/// Deeper stacks than this are cut: a packet on its way through the host comes to about sixty.
const DEEPEST: usize = 64;

/// A function below others, and how often it was there.
#[derive(Debug, Default)]
struct Tree {
    samples: usize,
    inner: BTreeMap<String, Self>,
}

/// Draws all samples into an SVG file.
pub(crate) fn draw(path: &Path, title: &str, stacks: &Stacks) -> Result<()> {
    let tree = Tree::of(stacks);
    let rows = tree.depth(tree.samples) as i32;
    let height = rows * ROW + 40;
    let area = SVGBackend::new(path, (WIDTH as u32, height as u32)).into_drawing_area();
    area.fill(&WHITE).map_err(failed)?;
    area.draw(&Text::new(title.to_owned(), (10, 8), ("sans-serif", 16)))
        .map_err(failed)?;
    let mut boxes = Vec::new();
    let scale = f64::from(WIDTH - 20) / samples(tree.samples);
    tree.lay_out(10.0, height - 8, scale, &mut boxes);
    for Box {
        left,
        right,
        bottom,
        name,
    } in boxes
    {
        let corners = [(left as i32, bottom - ROW + 1), (right as i32, bottom)];
        area.draw(&Rectangle::new(corners, color(&name).filled()))
            .map_err(failed)?;
        let letters = ((right - left - 4.0) / LETTER) as usize;
        if letters >= 3 {
            let shown = shorten(&name, letters);
            let at = (left as i32 + 2, bottom - ROW + 4);
            area.draw(&Text::new(shown, at, ("sans-serif", 11)))
                .map_err(failed)?;
        }
    }
    area.present().map_err(failed)
}

struct Box {
    left: f64,
    right: f64,
    bottom: i32,
    name: String,
}

impl Tree {
    fn of(stacks: &Stacks) -> Self {
        let mut root = Self::default();
        for (stack, count) in stacks.iter() {
            root.samples += count;
            let mut node = &mut root;
            for frame in stack.outermost_first().take(DEEPEST) {
                node = node.inner.entry(frame.to_owned()).or_default();
                node.samples += count;
            }
        }
        root
    }

    /// Rows that are wide enough to be drawn, of a picture of `all` samples.
    fn depth(&self, all: usize) -> usize {
        let drawn = self
            .inner
            .values()
            .filter(|inner| samples(inner.samples) * f64::from(WIDTH) >= NARROWEST * samples(all));
        drawn.map(|inner| 1 + inner.depth(all)).max().unwrap_or(0)
    }

    fn lay_out(&self, mut left: f64, bottom: i32, scale: f64, boxes: &mut Vec<Box>) {
        for (name, inner) in &self.inner {
            let width = samples(inner.samples) * scale;
            if width >= NARROWEST {
                boxes.push(Box {
                    left,
                    right: left + width,
                    bottom,
                    name: name.clone(),
                });
                inner.lay_out(left, bottom - ROW, scale, boxes);
            }
            left += width;
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "thousands of samples")]
fn samples(count: usize) -> f64 {
    count as f64
}

/// The last parts of a path say more than the first.
fn shorten(name: &str, letters: usize) -> String {
    let count = name.chars().count();
    if count <= letters {
        return name.to_owned();
    }
    if name.contains("::") {
        let tail: String = name.chars().skip(count - (letters - 1)).collect();
        return format!("…{tail}");
    }
    let head: String = name.chars().take(letters - 1).collect();
    format!("{head}…")
}

/// The kernel in blue, this program in orange, the cipher in green.
fn color(name: &str) -> RGBColor {
    let shade = name
        .bytes()
        .fold(0_u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte))
        % 40;
    if name.contains("aead") || name.contains("aws_lc") || name.contains("chacha") {
        RGBColor(110, 190 + shade, 120)
    } else if name.contains("::") {
        RGBColor(240, 160 + shade, 90)
    } else {
        RGBColor(130 + shade, 180 + shade, 235)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_are_as_wide_as_their_share_and_stand_on_their_callers() {
        let stacks =
            Stacks::parse("1 copy\n1 read\n\n1 copy\n1 read\n\n1 sum\n1 read\n\n1 idle\n\n");
        let tree = Tree::of(&stacks);
        assert_eq!(tree.depth(4), 2);
        let mut boxes = Vec::new();
        tree.lay_out(0.0, 100, 10.0, &mut boxes);
        let find = |name| boxes.iter().find(|one| one.name == name).unwrap();
        assert_eq!((find("read").left, find("read").right), (10.0, 40.0));
        assert_eq!((find("copy").left, find("copy").right), (10.0, 30.0));
        assert_eq!(find("copy").bottom, 100 - ROW);
    }

    #[test]
    fn a_drawing_is_an_svg_with_the_names_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("flame.svg");
        draw(&path, "the sender", &Stacks::parse("1 copy\n1 read\n")).unwrap();
        let svg = std::fs::read_to_string(path).unwrap();
        assert!(svg.starts_with("<svg") && svg.contains("copy") && svg.contains("the sender"));
    }
}
