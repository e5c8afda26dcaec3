//! Charts as SVG.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::sheet::{At, Sheet};
use crate::statistics::digits;

/// Readable on a page that is light or dark: the chart brings its own paper.
const PAPER: RGBColor = RGBColor(255, 255, 255);

/// Colours that people who see no red or no green tell apart (Okabe and Ito, 2008).
const COLORS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(213, 94, 0),
    RGBColor(90, 90, 90),
    RGBColor(240, 228, 66),
];

const WIDTH: u32 = 860;

/// Pixels of a bar, and of the gap between groups of bars.
const BAR: u32 = 16;

/// Pixels beside the lines for the names of what they show.
const LEGEND: u32 = 160;

/// Bars of one table: a group for each row, a bar for each column that is chosen.
pub(crate) fn bars(
    path: &Path,
    sheet: &Sheet,
    table: &str,
    columns: &[&str],
    title: &str,
) -> Result<()> {
    let rows = sheet.rows(table);
    let value = |row: &str, column: &str| sheet.median(At { table, row, column });
    let most = rows
        .iter()
        .flat_map(|row| columns.iter().filter_map(|column| value(row, column)))
        .fold(0.0, f64::max);
    if most <= 0.0 {
        return Ok(());
    }
    let bars_a_group = columns.len();
    let slots = rows.len() * (bars_a_group + 1);
    let height = 70 + slots as u32 * BAR;
    // Half a gap above the first group, and half a gap below the last.
    let low_edge = |group: usize, bar: usize| {
        ((rows.len() - 1 - group) * (bars_a_group + 1) + bars_a_group - 1 - bar) as f64 + 0.5
    };
    let area = SVGBackend::new(path, (WIDTH, height)).into_drawing_area();
    area.fill(&PAPER).map_err(failed)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(24)
        .y_label_area_size(190)
        .build_cartesian_2d(0.0..most * 1.08, 0.0..slots as f64)
        .map_err(failed)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .light_line_style(WHITE.mix(0.0))
        .y_labels(0)
        .x_labels(8)
        .x_label_formatter(&|value| scale(*value))
        .label_style(("sans-serif", 12))
        .draw()
        .map_err(failed)?;
    for (number, column) in columns.iter().enumerate() {
        let color = COLORS[number % COLORS.len()];
        let rectangles = rows.iter().enumerate().filter_map(|(group, row)| {
            let value = value(row, column)?;
            let low = low_edge(group, number);
            Some(Rectangle::new(
                [(0.0, low), (value, low + 1.0)],
                color.filled(),
            ))
        });
        let series = chart.draw_series(rectangles).map_err(failed)?;
        series
            .label(*column)
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 12, y + 5)], color.filled()));
    }
    let label = |anchor| {
        let style = ("sans-serif", 12).into_text_style(&area);
        style.pos(Pos::new(anchor, VPos::Center))
    };
    for (group, row) in rows.iter().enumerate() {
        let middle = low_edge(group, bars_a_group - 1) + bars_a_group as f64 / 2.0;
        let (left, y) = chart.backend_coord(&(0.0, middle));
        area.draw(&Text::new(*row, (left - 8, y), label(HPos::Right)))
            .map_err(failed)?;
        for (number, column) in columns.iter().enumerate() {
            let Some(value) = value(row, column) else {
                continue;
            };
            let (right, y) = chart.backend_coord(&(value, low_edge(group, number) + 0.5));
            area.draw(&Text::new(digits(value), (right + 4, y), label(HPos::Left)))
                .map_err(failed)?;
        }
    }
    if columns.len() > 1 {
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::LowerRight)
            .background_style(PAPER.mix(0.9))
            .border_style(BLACK.mix(0.3))
            .label_font(("sans-serif", 12))
            .draw()
            .map_err(failed)?;
    }
    area.present().map_err(failed)
}

/// Lines of one table: its rows from left to right, a line for each column.
pub(crate) fn lines(path: &Path, sheet: &Sheet, table: &str, title: &str) -> Result<()> {
    let (rows, columns) = (sheet.rows(table), sheet.columns(table));
    let value = |row: &str, column: &str| sheet.median(At { table, row, column });
    let most = rows
        .iter()
        .flat_map(|row| columns.iter().filter_map(|column| value(row, column)))
        .fold(0.0, f64::max);
    if most <= 0.0 || rows.len() < 2 {
        return Ok(());
    }
    let area = SVGBackend::new(path, (WIDTH, 380)).into_drawing_area();
    area.fill(&PAPER).map_err(failed)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .margin_right(LEGEND)
        .x_label_area_size(28)
        .y_label_area_size(52)
        .build_cartesian_2d(0..rows.len() - 1, 0.0..most * 1.08)
        .map_err(failed)?;
    let name = |index: &usize| rows.get(*index).map_or(String::new(), ToString::to_string);
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(WHITE.mix(0.0))
        .x_labels(rows.len())
        .x_label_formatter(&name)
        .y_label_formatter(&|value| scale(*value))
        .label_style(("sans-serif", 12))
        .draw()
        .map_err(failed)?;
    let (right, top) = chart.backend_coord(&(rows.len() - 1, most));
    let named = ("sans-serif", 12)
        .into_text_style(&area)
        .pos(Pos::new(HPos::Left, VPos::Center));
    // The first column comes last, so that its line is above those that run along it.
    for (number, column) in columns.iter().enumerate().rev() {
        let color = COLORS[number % COLORS.len()];
        let points: Vec<_> = rows
            .iter()
            .enumerate()
            .filter_map(|(index, row)| Some((index, value(row, column)?)))
            .collect();
        chart
            .draw_series(LineSeries::new(points, color.stroke_width(2)).point_size(3))
            .map_err(failed)?;
        // Beside the lines: whatever they do, nothing hides them.
        let y = top + number as i32 * 18;
        let sample = [(right + 24, y), (right + 40, y)];
        area.draw(&PathElement::new(sample, color.stroke_width(3)))
            .map_err(failed)?;
        area.draw(&Text::new(*column, (right + 46, y), named.clone()))
            .map_err(failed)?;
    }
    area.present().map_err(failed)
}

/// A number at an axis: without digits that say nothing.
fn scale(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The library's errors hold what they borrow.
pub(super) fn failed(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("cannot draw: {error}")
}
