//! The text that comes up at the bottom of the window.

use super::{App, name};
use adw::prelude::*;
use culvert_desktop_core::text::reading_s;
use culvert_desktop_core::words::Message;
use gtk::pango;

/// The bounds of a line's length, in characters.
const LINE_CHARS: (i32, i32) = (24, 56);

/// The part of the window's width that is no text: margins and the button, in pixels of the display's scale.
const AROUND_PX: i32 = 110;

impl App {
    /// Shows a text at the bottom of the window, for as long as it takes to read it.
    pub(super) fn toast(&self, text: &str) {
        let Some(window) = self.window.get() else {
            return;
        };
        // The title of libadwaita has one line, and cuts what is longer.
        let label = gtk::Label::builder()
            .label(text)
            .css_classes(["heading"])
            .xalign(0.0)
            .wrap(true)
            .wrap_mode(pango::WrapMode::WordChar)
            .build();
        // Its height is that of the width that it asks for, so it asks for no more than there is.
        let width_px = window.toast_width() - AROUND_PX;
        let metrics = label.pango_context().metrics(None, None);
        // A heading is bold, and some fifth wider.
        let char_px = (metrics.approximate_char_width() * 6 / 5 / pango::SCALE).max(1) + 1;
        let (shortest, longest) = LINE_CHARS;
        label.set_max_width_chars((width_px / char_px).clamp(shortest, longest));
        let close = self.words.get(Message::Dismiss);
        label.connect_map(move |label| name_button(label, &close));
        let toast = adw::Toast::new("");
        toast.set_custom_title(Some(&label));
        toast.set_timeout(reading_s(text));
        window.toast(toast);
    }
}

/// Names the button that closes the text, which has only an icon.
fn name_button(label: &gtk::Label, close: &str) {
    let around = label.parent().and_then(|around| around.parent());
    let button = around.and_then(|around| around.last_child());
    if let Some(button) = button.and_downcast::<gtk::Button>() {
        name(&button, close);
    }
}
