//! A QR code on a terminal.

use super::super::output::columns;
use crate::exit::{Failure, Status};
use qrcodegen::{QrCode, QrCodeEcc};
use zeroize::Zeroizing;

/// Modules of white around it, as ISO/IEC 18004 asks for.
const QUIET: i32 = 4;

/// Black on white, whatever the colours of the terminal: an app may not read an inverted code.
const BLACK_ON_WHITE: &str = "\u{1b}[38;5;16;48;5;231m";
const RESET: &str = "\u{1b}[0m";

/// The text as a QR code of lines for the terminal.
pub(super) fn drawn(text: &str) -> Result<Zeroizing<String>, Failure> {
    drawn_within(text, columns())
}

/// The same for a terminal of that many columns, or for one that does not say.
fn drawn_within(text: &str, columns: Option<usize>) -> Result<Zeroizing<String>, Failure> {
    let failed = |message: String| Failure::new(Status::Failed, message);
    let code = QrCode::encode_text(text, QrCodeEcc::Low).map_err(|_| {
        let len = text.len();
        failed(format!(
            "a QR code takes 2953 bytes, and the file has {len}: use --out FILE, or fewer gateways"
        ))
    })?;
    let needed = usize::try_from(code.size() + 2 * QUIET).unwrap_or(usize::MAX);
    if let Some(columns) = columns.filter(|columns| *columns < needed) {
        return Err(failed(format!(
            "the QR code has {needed} columns, and the terminal {columns}: widen it or shrink its letters, or use --out FILE"
        )));
    }
    let mut lines = Zeroizing::new(String::new());
    // A character shows two modules, one above the other.
    for y in (-QUIET..code.size() + QUIET).step_by(2) {
        lines.push_str(BLACK_ON_WHITE);
        for x in -QUIET..code.size() + QUIET {
            // Outside of the code is white.
            lines.push(match (code.get_module(x, y), code.get_module(x, y + 1)) {
                (true, true) => '█',
                (true, false) => '▀',
                (false, true) => '▄',
                (false, false) => ' ',
            });
        }
        lines.push_str(RESET);
        lines.push('\n');
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The modules of a drawing, row by row.
    fn modules(drawing: &str) -> Vec<Vec<bool>> {
        let mut rows = Vec::new();
        for line in drawing.lines() {
            let line = line.strip_prefix(BLACK_ON_WHITE).unwrap();
            let line = line.strip_suffix(RESET).unwrap();
            let row = |dark: [char; 2]| line.chars().map(|it| dark.contains(&it)).collect();
            rows.extend([row(['█', '▀']), row(['█', '▄'])]);
        }
        rows
    }

    #[test]
    fn the_drawing_has_each_module_of_the_code_and_white_around() {
        let text = "[Interface]\nPrivateKey = AAAA\n";
        let code = QrCode::encode_text(text, QrCodeEcc::Low).unwrap();
        let rows = modules(&drawn_within(text, None).unwrap());
        assert!(rows.len() >= usize::try_from(code.size() + 2 * QUIET).unwrap());
        for (y, row) in (-QUIET..).zip(&rows) {
            assert_eq!(row.len(), usize::try_from(code.size() + 2 * QUIET).unwrap());
            for (x, is_dark) in (-QUIET..).zip(row) {
                assert_eq!(*is_dark, code.get_module(x, y), "{x} {y}");
            }
        }
    }

    #[test]
    fn a_code_that_does_not_fit_is_refused_with_its_size() {
        let narrow = drawn_within("text", Some(20)).unwrap_err().to_string();
        assert!(
            narrow.contains("29 columns, and the terminal 20"),
            "{narrow}"
        );
        drawn_within("text", Some(29)).unwrap();
        drawn_within(&"a".repeat(2_953), None).unwrap();
        let long = drawn_within(&"a".repeat(2_954), None)
            .unwrap_err()
            .to_string();
        assert!(long.contains("2954"), "{long}");
    }
}
