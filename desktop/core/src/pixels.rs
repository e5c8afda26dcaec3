//! The tray icon in pixels, for trays that draw no icons of the theme: the icon of the state in white, on a square whose
//! colour is seen on light and dark panels.

use crate::phase::Phase;
use crate::sign_in::Progress;

/// The widths and heights in which the icon is offered, in pixels: the sizes of panels, also at twice the scale.
pub const SIZES: [i16; 5] = [16, 22, 24, 32, 48];

/// A colour: red, green and blue.
pub type Rgb = [u8; 3];

/// The colour behind the icon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// Connected.
    Good,
    /// Not connected, and nothing is wrong.
    #[default]
    Off,
    /// Something is wrong, or somebody has to act.
    Trouble,
}

impl Tone {
    /// The tone of a state.
    #[must_use]
    pub const fn of(phase: &Phase) -> Self {
        match phase {
            Phase::Connected(None) => Self::Good,
            Phase::Starting
            | Phase::Checking
            | Phase::SignedOut
            | Phase::SigningIn(Progress::Asking)
            | Phase::Down
            | Phase::GoingDown
            | Phase::Connecting(_) => Self::Off,
            _ => Self::Trouble,
        }
    }

    /// The colour. White on it has the contrast of text (WCAG 2.1, 1.4.3).
    #[must_use]
    pub const fn rgb(self) -> Rgb {
        match self {
            Self::Good => [0x0b, 0x6b, 0x66],
            Self::Off => [0x5e, 0x5c, 0x64],
            Self::Trouble => [0x9c, 0x4d, 0x00],
        }
    }
}

/// The width of the icon within a square of this width: an even number of pixels are left around it.
#[must_use]
pub const fn icon_size(size: i16) -> i16 {
    let margin = size / 8;
    size - 2 * margin
}

/// Pixels as a StatusNotifierItem has them, alpha, red, green and blue, from those of Cairo: 32-bit words of this machine,
/// whose colours are multiplied by alpha.
#[must_use]
pub fn network_argb(words: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(words.len());
    for word in words.chunks_exact(4) {
        let word = u32::from_ne_bytes([word[0], word[1], word[2], word[3]]);
        let [alpha, colours @ ..] = word.to_be_bytes();
        bytes.push(alpha);
        bytes.extend(colours.map(|colour| divided(colour, alpha)));
    }
    bytes
}

/// A colour that was multiplied by `alpha`, without that.
fn divided(colour: u8, alpha: u8) -> u8 {
    let (colour, alpha) = (u32::from(colour), u32::from(alpha));
    let rounded = (colour * 255 + alpha / 2).checked_div(alpha);
    rounded.map_or(0, |colour| u8::try_from(colour).unwrap_or(u8::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_are_in_network_order_and_not_multiplied_by_alpha() {
        let words = [0xff01_0203_u32, 0x8040_2000, 0x0000_0000, 0x01ff_0000];
        let bytes: Vec<u8> = words.into_iter().flat_map(u32::to_ne_bytes).collect();
        assert_eq!(
            network_argb(&bytes),
            [
                [0xff, 1, 2, 3],
                [0x80, 0x80, 0x40, 0],
                [0, 0, 0, 0],
                // More than alpha is no colour that Cairo has.
                [1, 0xff, 0, 0],
            ]
            .concat()
        );
    }

    #[test]
    fn the_icon_is_in_the_middle_of_each_size() {
        for size in SIZES {
            let icon = icon_size(size);
            assert_eq!((size - icon) % 2, 0, "{size}");
            assert!(icon * 4 >= size * 3 && icon < size, "{size}: {icon}");
        }
    }

    #[test]
    fn white_is_read_on_each_tone() {
        let luminance = |rgb: Rgb| {
            let [red, green, blue] = rgb.map(|colour| {
                let part = f64::from(colour) / 255.0;
                match part <= 0.040_45 {
                    true => part / 12.92,
                    false => ((part + 0.055) / 1.055).powf(2.4),
                }
            });
            0.2126 * red + 0.7152 * green + 0.0722 * blue
        };
        for tone in [Tone::Good, Tone::Off, Tone::Trouble] {
            let contrast = 1.05 / (luminance(tone.rgb()) + 0.05);
            assert!(contrast >= 4.5, "{tone:?}: {contrast}");
        }
    }

    #[test]
    fn a_state_that_is_good_looks_like_no_other() {
        assert_eq!(Tone::of(&Phase::Connected(None)), Tone::Good);
        assert_eq!(
            Tone::of(&Phase::Connected(Some(String::new()))),
            Tone::Trouble
        );
        assert_eq!(Tone::of(&Phase::Down), Tone::Off);
        // Both have the same icon of the theme.
        assert_eq!(Tone::of(&Phase::ServiceAway), Tone::Trouble);
    }
}
