//! The places of what the picture of the network shows: three columns of boxes, and the lines between them.

use std::collections::BTreeMap;

/// Width of the drawing in its own units.
pub(crate) const WIDTH: u32 = 1120;
/// Width of a column, and where the three begin.
pub(crate) const COLUMN: u32 = 270;
const COLUMN_XS: [u32; 3] = [0, 425, WIDTH - COLUMN];
/// Height of a column's heading, of a box with two lines of text, of each further line, and the space between boxes.
const HEADING: u32 = 34;
const BOX: u32 = 46;
const LINE: u32 = 24;
const GAP: u32 = 12;
/// Space for the text below a column about those that are not shown.
const FOOT: u32 = 22;
/// The thinnest and the widest line, in tenths of a unit.
const THIN: u64 = 15;
const WIDE: u64 = 80;
/// The most characters of one line of text: as many as the widest letters leave room for.
const MAX_CHARS: usize = 26;

/// The picture, ready to be drawn.
#[derive(Clone, Debug, Default)]
pub(crate) struct Picture {
    pub(crate) height: u32,
    pub(crate) columns: Vec<Column>,
    pub(crate) edges: Vec<Edge>,
    /// All that it shows, in a sentence.
    pub(crate) summary: String,
}

#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) title: &'static str,
    pub(crate) path: &'static str,
    pub(crate) x: u32,
    pub(crate) boxes: Vec<Placed>,
    /// The text about those that are not shown, and its place.
    pub(crate) rest: Option<(u32, String)>,
}

/// Something of the network, before it has a place.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) key: String,
    pub(crate) path: String,
    pub(crate) name: String,
    pub(crate) note: String,
    /// Lines of their own below, such as the gateways of a site.
    pub(crate) lines: Vec<Line>,
}

/// A line of a box.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) path: String,
    pub(crate) name: String,
    pub(crate) note: String,
    /// The class of its dot: `good`, `warn` or `bad`.
    pub(crate) state: &'static str,
}

#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub(crate) node: Node,
    pub(crate) x: u32,
    pub(crate) y: u32,
    pub(crate) height: u32,
}

impl Placed {
    pub(crate) fn name(&self) -> String {
        cut(&self.node.name)
    }

    pub(crate) fn note(&self) -> String {
        cut(&self.node.note)
    }

    pub(crate) const fn width(&self) -> u32 {
        COLUMN
    }

    /// The middle of the line of this number.
    pub(crate) fn line_y(&self, number: &usize) -> u32 {
        let number = u32::try_from(*number).unwrap_or(0);
        self.y + BOX + number * LINE + LINE / 2
    }
}

impl Line {
    pub(crate) fn short_name(&self) -> String {
        cut(&self.name)
    }
}

/// A connection between two boxes of neighbouring columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Edge {
    pub(crate) path: String,
    /// Tenths of a unit.
    pub(crate) width_tenths: u64,
    pub(crate) label: String,
    pub(crate) is_used: bool,
}

impl Edge {
    pub(crate) fn width(&self) -> String {
        format!("{}.{}", self.width_tenths / 10, self.width_tenths % 10)
    }
}

/// A connection between the boxes with these keys.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) label: String,
    /// The amount that its width stands for.
    pub(crate) weight: u64,
}

/// A column before it has places, and how many more there are of its kind.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) title: &'static str,
    pub(crate) path: &'static str,
    pub(crate) nodes: Vec<Node>,
    pub(crate) more: u64,
}

/// Gives everything its place. Links whose ends are not shown are left out.
pub(crate) fn place(parts: [Part; 3], links: &[Link], summary: String) -> Picture {
    let heights = parts.iter().map(height);
    let tallest = heights.max().unwrap_or(0);
    let mut places = BTreeMap::new();
    let columns = parts.into_iter().zip(COLUMN_XS).map(|(part, x)| {
        let mut y = HEADING + (tallest - height(&part)) / 2;
        let boxes = part.nodes.into_iter().map(|node| {
            let height = box_height(&node);
            places.insert(node.key.clone(), (x, y + BOX / 2));
            let placed = Placed { node, x, y, height };
            y += height + GAP;
            placed
        });
        let boxes = boxes.collect();
        let rest = (part.more > 0).then(|| (y + FOOT / 2, format!("and {} more", part.more)));
        Column {
            title: part.title,
            path: part.path,
            x,
            boxes,
            rest,
        }
    });
    let columns = columns.collect();
    let most = links.iter().map(|link| link.weight).max().unwrap_or(0);
    let edges = links.iter().filter_map(|link| {
        let (from, to) = (places.get(&link.from)?, places.get(&link.to)?);
        Some(edge(link, *from, *to, most))
    });
    Picture {
        height: HEADING + tallest + FOOT,
        edges: edges.collect(),
        columns,
        summary,
    }
}

fn box_height(node: &Node) -> u32 {
    BOX + u32::try_from(node.lines.len()).unwrap_or(0) * LINE
}

fn height(part: &Part) -> u32 {
    let boxes: u32 = part.nodes.iter().map(|node| box_height(node) + GAP).sum();
    boxes.saturating_sub(GAP)
}

/// A curve that leaves and arrives level.
fn edge(link: &Link, (from_x, from_y): (u32, u32), (to_x, to_y): (u32, u32), most: u64) -> Edge {
    let begin = from_x + COLUMN;
    let middle = u32::midpoint(begin, to_x);
    let part = u128::from(link.weight) * u128::from(WIDE - THIN) / u128::from(most.max(1));
    Edge {
        path: format!("M{begin} {from_y}C{middle} {from_y} {middle} {to_y} {to_x} {to_y}"),
        width_tenths: THIN + u64::try_from(part).unwrap_or(0),
        label: link.label.clone(),
        is_used: link.weight > 0,
    }
}

/// Text that fits a box; SVG cuts nothing by itself.
fn cut(text: &str) -> String {
    match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end].trim_end()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(key: &str, lines: usize) -> Node {
        let line = Line {
            path: String::new(),
            name: String::new(),
            note: String::new(),
            state: "good",
        };
        Node {
            key: key.to_owned(),
            path: String::new(),
            name: key.to_owned(),
            note: String::new(),
            lines: vec![line; lines],
        }
    }

    fn part(nodes: Vec<Node>, more: u64) -> Part {
        Part {
            title: "",
            path: "",
            nodes,
            more,
        }
    }

    fn link(from: &str, to: &str, weight: u64) -> Link {
        Link {
            from: from.to_owned(),
            to: to.to_owned(),
            label: String::new(),
            weight,
        }
    }

    fn picture() -> Picture {
        let groups = part(vec![node("group", 0)], 0);
        let resources = (0..10).map(|number| node(&format!("resource {number}"), 0));
        let resources = part(resources.collect(), 990);
        let sites = part(vec![node("site", 4), node("other site", 0)], 0);
        let links = [
            link("group", "resource 3", 0),
            link("resource 3", "site", 5),
            link("resource 4", "other site", 10),
            link("resource 4", "gone", 20),
        ];
        place([groups, resources, sites], &links, String::new())
    }

    #[test]
    fn boxes_of_a_column_do_not_overlap_and_are_in_the_drawing() {
        let picture = picture();
        for column in &picture.columns {
            let mut below = HEADING;
            for placed in &column.boxes {
                assert!(placed.y >= below, "{placed:?}");
                below = placed.y + placed.height + GAP;
                assert!(placed.y + placed.height + FOOT <= picture.height);
                assert!(placed.x + placed.width() <= WIDTH);
            }
        }
        assert_eq!(
            picture.columns[1].rest.as_ref().map(|(_, text)| &**text),
            Some("and 990 more")
        );
        assert_eq!(picture.columns[0].rest, None);
    }

    #[test]
    fn lines_lead_from_box_to_box_as_wide_as_their_use() {
        let picture = picture();
        let group = &picture.columns[0].boxes[0];
        let edge = &picture.edges[0];
        let begin = format!("M{COLUMN} {}C", group.y + BOX / 2);
        assert!(edge.path.starts_with(&begin), "{edge:?}");
        assert!(!edge.is_used);
        // The widest one has an end that is not shown.
        let widths: Vec<_> = picture.edges.iter().map(Edge::width).collect();
        assert_eq!(widths, ["1.5", "3.1", "4.7"]);
    }

    #[test]
    fn a_long_name_is_cut_between_characters() {
        assert_eq!(cut("gitlab"), "gitlab");
        let long = "ü".repeat(MAX_CHARS + 1);
        assert_eq!(cut(&long), format!("{}…", "ü".repeat(MAX_CHARS)));
    }
}
