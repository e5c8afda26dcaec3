//! A QR code as one path of an SVG, which stands in the page itself: no address has the secret, and no
//! style or script is needed.

use qrcodegen::{QrCode, QrCodeEcc};
use std::fmt::Write;

/// Modules of white around it, as ISO/IEC 18004 asks for.
const QUIET: i32 = 4;

/// A picture of squares.
#[derive(Clone)]
pub(super) struct Drawing {
    /// Of a side, in modules.
    pub(super) size: i32,
    /// The dark squares, as the path of an SVG.
    pub(super) path: String,
}

/// It shows a secret.
impl std::fmt::Debug for Drawing {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Drawing")
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

impl Drawing {
    /// The text as a QR code; none for a text that is too long for one.
    pub(super) fn qr(text: &str) -> Option<Self> {
        let code = QrCode::encode_text(text, QrCodeEcc::Medium).ok()?;
        let mut path = String::new();
        for y in 0..code.size() {
            for x in (0..code.size()).filter(|x| code.get_module(*x, y)) {
                // Writing to a string does not fail.
                let _ = write!(path, "M{} {}h1v1h-1z", x + QUIET, y + QUIET);
            }
        }
        Some(Self {
            size: code.size() + 2 * QUIET,
            path,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_has_its_three_corners_and_white_around() {
        let drawing = Drawing::qr("otpauth://totp/Culvert:ada?secret=AAAA").unwrap();
        let last = drawing.size - QUIET - 1;
        for (x, y) in [(QUIET, QUIET), (last, QUIET), (QUIET, last)] {
            let square = format!("M{x} {y}h1v1h-1z");
            assert!(drawing.path.contains(&square), "{square}");
        }
        for place in drawing.path.split('M').skip(1) {
            let (x, rest) = place.split_once(' ').unwrap();
            let (y, _) = rest.split_once('h').unwrap();
            for at in [x, y] {
                let at: i32 = at.parse().unwrap();
                assert!((QUIET..=last).contains(&at), "{at}");
            }
        }
        assert!(!format!("{drawing:?}").contains("h1v1"));
        assert!(Drawing::qr(&"x".repeat(5_000)).is_none());
    }
}
