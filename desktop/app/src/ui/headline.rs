//! The state of the client: a bar above the list while there are resources, otherwise a page in its place.

use super::{App, actions};
use adw::prelude::*;
use culvert_desktop_core::phase::{Offer, Phase};
use culvert_desktop_core::present::{self, Headline as Shown};
use culvert_desktop_core::sign_in::{Code, Progress};
use culvert_desktop_core::text::escape_markup;
use culvert_desktop_core::words::{Message, Value};
use culvert_desktop_link::now_ms;
use gtk::pango;
use std::cell::RefCell;
use std::rc::Rc;

/// The widgets of the state.
pub(super) struct Headline {
    pub(super) bar: gtk::Revealer,
    pub(super) page: adw::StatusPage,
    bar_box: gtk::Box,
    bar_icon: gtk::Image,
    bar_title: gtk::Label,
    bar_detail: gtk::Label,
    code: CodeLabels,
    command: gtk::Label,
    managed: gtk::Label,
    buttons: Vec<(gtk::Button, Button)>,
    /// The state that is shown: widgets that are set anew are drawn anew.
    last: RefCell<Option<(Phase, Shown, Offer, bool)>>,
}

/// The labels of a code.
struct CodeLabels {
    code: gtk::Label,
    left: gtk::Label,
    /// A line that says what the address is for.
    about: gtk::Label,
    address: gtk::Label,
}

impl CodeLabels {
    fn all(&self) -> [&gtk::Label; 4] {
        [&self.code, &self.left, &self.about, &self.address]
    }

    /// Shows the code and its address, so that both can be copied where no browser opens.
    fn show(&self, app: &App, code: Option<&Code>) {
        for label in self.all() {
            label.set_visible(code.is_some());
        }
        let Some(code) = code else {
            return;
        };
        set(&self.code, &code.user_code);
        let left = match code.left_s(now_ms()) {
            Some(seconds) => {
                let time = present::time(&app.words, seconds);
                app.words
                    .with(Message::CodeLeft, &[("time", Value::Text(&time))])
            }
            None => app.words.get(Message::CodeExpired),
        };
        set(&self.left, &left);
        let about = match app.model.borrow().browser_failed {
            true => Message::BrowserFailed,
            false => Message::CodeAddress,
        };
        set(&self.about, &app.words.get(about));
        set(&self.address, &code.url);
    }
}

/// A button of the page.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Button {
    SignIn,
    Connect,
    OpenBrowser,
    CopyCode,
    CopyLink,
    CopyCommand,
    Cancel,
    Dismiss,
    Check,
}

const BUTTONS: [(Button, Message, &str, bool); 9] = [
    (Button::SignIn, Message::SignIn, "app.sign-in", true),
    (Button::Connect, Message::Connect, "app.connect", true),
    (
        Button::OpenBrowser,
        Message::OpenBrowser,
        "app.open-browser",
        true,
    ),
    (Button::CopyCode, Message::CopyCode, "app.copy-code", false),
    (Button::CopyLink, Message::CopyLink, "app.copy-link", false),
    (
        Button::CopyCommand,
        Message::CopyCommand,
        "app.copy-join",
        true,
    ),
    (Button::Cancel, Message::Cancel, "app.cancel", false),
    (Button::Dismiss, Message::Dismiss, "app.cancel", false),
    (
        Button::Check,
        Message::Diagnostics,
        "app.diagnostics",
        false,
    ),
];

/// The height of a line at the bottom of the window, in pixels of the display's scale: it hides no buttons.
const TOAST_HEIGHT_PX: i32 = 48;

impl Headline {
    pub(super) fn new(app: &Rc<App>) -> Self {
        let words = &app.words;
        let label = |classes: &[&str]| {
            gtk::Label::builder()
                .css_classes(
                    classes
                        .iter()
                        .map(|&class| class.to_owned())
                        .collect::<Vec<_>>(),
                )
                .wrap(true)
                .selectable(true)
                .visible(false)
                .build()
        };
        let code = CodeLabels {
            code: label(&["code"]),
            left: label(&["dim-label"]),
            about: label(&["dim-label", "caption"]),
            address: label(&["command"]),
        };
        // An address has no spaces to break at.
        code.address.set_wrap_mode(pango::WrapMode::WordChar);
        let (command, managed) = (label(&["command"]), label(&["dim-label"]));
        // A narrow window has them below each other.
        let row = gtk::FlowBox::builder()
            .column_spacing(8)
            .row_spacing(8)
            .selection_mode(gtk::SelectionMode::None)
            .max_children_per_line(4)
            .build();
        let buttons: Vec<(gtk::Button, Button)> = BUTTONS
            .into_iter()
            .map(|(button, message, action, is_suggested)| {
                let widget = gtk::Button::builder()
                    .label(words.get(message))
                    .action_name(action)
                    .halign(gtk::Align::Center)
                    .build();
                widget.add_css_class("pill");
                if is_suggested {
                    widget.add_css_class("suggested-action");
                }
                let place = gtk::FlowBoxChild::builder()
                    .child(&widget)
                    .focusable(false)
                    .build();
                // A button that is hidden has no place.
                widget
                    .bind_property("visible", &place, "visible")
                    .sync_create()
                    .build();
                row.insert(&place, -1);
                (widget, button)
            })
            .collect();
        let below = gtk::Box::builder()
            .orientation(gtk::Orientation::Vertical)
            .spacing(14)
            .margin_bottom(TOAST_HEIGHT_PX)
            .build();
        for widget in code.all().into_iter().chain([&command, &managed]) {
            below.append(widget);
        }
        below.append(&row);
        let page = adw::StatusPage::builder().child(&below).build();
        let (bar, bar_box, bar_icon, bar_title, bar_detail) = bar(&words.get(Message::Disconnect));
        Self {
            bar,
            page,
            bar_box,
            bar_icon,
            bar_title,
            bar_detail,
            code,
            command,
            managed,
            buttons,
            last: RefCell::default(),
        }
    }

    /// Shows the state.
    pub(super) fn show(
        &self,
        app: &App,
        phase: &Phase,
        shown: &Shown,
        offer: Offer,
        is_managed: bool,
    ) {
        let words = &app.words;
        let code = match phase {
            Phase::SigningIn(Progress::Code(code)) => Some(code),
            _ => None,
        };
        self.code.show(app, code);
        let now = Some((phase.clone(), shown.clone(), offer, is_managed));
        if self.last.replace(now.clone()) == now {
            return;
        }
        set_icon(&self.bar_icon, shown.icon);
        set(&self.bar_title, &shown.title);
        set(&self.bar_detail, &shown.detail);
        let is_good = matches!(phase, Phase::Connected(None));
        self.bar_box
            .set_css_classes(&["state-bar", if is_good { "good" } else { "bad" }]);
        self.page.set_icon_name(Some(shown.icon));
        // The title of a page is text and its description is markup.
        self.page.set_title(&shown.title);
        self.page
            .set_description(Some(&escape_markup(&shown.detail)));
        let is_forbidden = *phase == Phase::NotPermitted;
        self.command.set_visible(is_forbidden);
        if is_forbidden {
            set(&self.command, &actions::join_command());
        }
        self.managed.set_visible(is_managed);
        set(&self.managed, &words.get(Message::Managed));
        let is_under_way = matches!(
            phase,
            Phase::SigningIn(Progress::Asking | Progress::Code(_))
        );
        let is_troubled = matches!(
            phase,
            Phase::Connecting(_) | Phase::Failed(_) | Phase::Broken(_)
        );
        for (widget, button) in &self.buttons {
            widget.set_visible(match button {
                Button::SignIn => offer.sign_in,
                Button::Connect => offer.up && !offer.sign_in,
                Button::OpenBrowser | Button::CopyCode | Button::CopyLink => code.is_some(),
                Button::CopyCommand => is_forbidden,
                Button::Cancel => is_under_way,
                Button::Dismiss => !is_under_way && matches!(phase, Phase::SigningIn(_)),
                Button::Check => is_troubled,
            });
        }
        self.place_buttons();
    }
}

impl Headline {
    /// Two buttons are beside each other in the middle. More share the width, as far as there is one.
    fn place_buttons(&self) {
        let shown = self
            .buttons
            .iter()
            .filter(|(widget, _)| widget.get_visible());
        let count = u32::try_from(shown.count()).unwrap_or(u32::MAX).max(1);
        let place = self.buttons.first().and_then(|(widget, _)| widget.parent());
        let row = place.and_then(|place| place.parent());
        let Some(row) = row.and_downcast::<gtk::FlowBox>() else {
            return;
        };
        let (least, align) = match count {
            1 | 2 => (count, gtk::Align::Center),
            _ => (1, gtk::Align::Fill),
        };
        row.set_min_children_per_line(least);
        row.set_max_children_per_line(count);
        row.set_halign(align);
    }
}

/// The bar above the list.
fn bar(disconnect: &str) -> (gtk::Revealer, gtk::Box, gtk::Image, gtk::Label, gtk::Label) {
    let label = |class: &str| {
        gtk::Label::builder()
            .css_classes([class])
            .xalign(0.0)
            .wrap(true)
            .wrap_mode(pango::WrapMode::WordChar)
            .build()
    };
    let (title, detail) = (label("heading"), label("caption"));
    let texts = gtk::Box::builder()
        .orientation(gtk::Orientation::Vertical)
        .hexpand(true)
        .build();
    texts.append(&title);
    texts.append(&detail);
    let icon = gtk::Image::builder()
        .pixel_size(24)
        .accessible_role(gtk::AccessibleRole::Presentation)
        .build();
    let button = gtk::Button::builder()
        .label(disconnect)
        .action_name("app.disconnect")
        .valign(gtk::Align::Center)
        .build();
    let content = gtk::Box::builder().spacing(12).build();
    content.append(&icon);
    content.append(&texts);
    content.append(&button);
    let bar = gtk::Revealer::builder().child(&content).build();
    (bar, content, icon, title, detail)
}

/// Sets a text only if it is another one: a screen reader reads out what is set.
pub(super) fn set(label: &gtk::Label, text: &str) {
    if label.text() != text {
        label.set_text(text);
    }
}

fn set_icon(image: &gtk::Image, icon: &str) {
    if image.icon_name().as_deref() != Some(icon) {
        image.set_icon_name(Some(icon));
    }
}
