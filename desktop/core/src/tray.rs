//! The tray icon: its icon and texts for each state, and the entries of its menu.

use crate::phase::{Offer, Phase};
use crate::pixels::Tone;
use crate::present::Headline;
use crate::sign_in::Progress;
use crate::words::{Message, Words};

/// An entry of the menu.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The action that it activates; none of a separator, and of a line that only says something.
    pub action: Option<&'static str>,
    /// The text; empty for a separator.
    pub label: String,
}

/// The tray icon in one state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tray {
    /// The name of an icon of the icon theme.
    pub icon: &'static str,
    /// The colour behind the icon, where it is drawn as pixels.
    pub tone: Tone,
    /// The title of the state.
    pub title: String,
    /// A sentence about it.
    pub detail: String,
    /// True if somebody has to act.
    pub needs_attention: bool,
    /// The entries of the menu.
    pub menu: Vec<Entry>,
}

impl Tray {
    /// The tray icon in the state `phase`, which has this headline.
    #[must_use]
    pub fn of(words: &Words, phase: &Phase, headline: &Headline, offer: Offer) -> Self {
        let entry = |action, message| Entry {
            action: Some(action),
            label: words.get(message),
        };
        let line = |label: String| Entry {
            action: None,
            label,
        };
        let mut menu = vec![
            line(plain(&headline.title)),
            line(String::new()),
            entry("show", Message::ShowWindow),
        ];
        let commands = [
            (offer.up, "connect", Message::Connect),
            (offer.down, "disconnect", Message::Disconnect),
            (offer.sign_in, "sign-in", Message::SignIn),
            (offer.sign_out, "sign-out", Message::SignOut),
        ];
        for (_, action, message) in commands.into_iter().filter(|(is_offered, ..)| *is_offered) {
            menu.push(entry(action, message));
        }
        menu.extend([line(String::new()), entry("quit", Message::Quit)]);
        Self {
            icon: headline.icon,
            tone: Tone::of(phase),
            title: plain(&headline.title),
            detail: plain(&headline.detail),
            needs_attention: matches!(
                phase,
                Phase::Refused { .. } | Phase::SigningIn(Progress::Code(_) | Progress::Failed(_))
            ),
            menu,
        }
    }
}

/// Hosts draw the texts in their own way, and some draw isolates as boxes.
fn plain(text: &str) -> String {
    text.replace(['\u{2068}', '\u{2069}'], "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::present::{Around, headline};
    use crate::status::Control;
    use crate::words::Language;

    fn tray(phase: &Phase, control: Control) -> Tray {
        let words = Words::new(Language::English);
        let around = Around {
            socket: "/s",
            portal_url: "https://p.example",
            now_ms: 0,
        };
        let headline = headline(&words, phase, &around);
        Tray::of(&words, phase, &headline, Offer::of(phase, control))
    }

    fn actions(tray: &Tray) -> Vec<&'static str> {
        tray.menu.iter().filter_map(|entry| entry.action).collect()
    }

    #[test]
    fn the_menu_offers_the_commands_of_the_state() {
        let connected = tray(&Phase::Connected(None), Control::Commands);
        assert_eq!(connected.menu[0].label, "Connected to p.example");
        assert_eq!(
            actions(&connected),
            ["show", "disconnect", "sign-out", "quit"]
        );
        let signed_out = tray(&Phase::SignedOut, Control::Commands);
        assert_eq!(actions(&signed_out), ["show", "sign-in", "quit"]);
        assert_ne!(connected.icon, signed_out.icon);
        assert_eq!(
            actions(&tray(&Phase::Connected(None), Control::Token)),
            ["show", "quit"]
        );
        assert_eq!(
            actions(&tray(&Phase::ServiceAway, Control::Commands)),
            ["show", "quit"]
        );
    }

    #[test]
    fn a_refusal_needs_attention() {
        let refused = Phase::Refused {
            code: "denied".to_owned(),
            text: String::new(),
        };
        assert!(tray(&refused, Control::Commands).needs_attention);
        assert!(!tray(&Phase::Down, Control::Commands).needs_attention);
    }
}
