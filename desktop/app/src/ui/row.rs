//! A row of the list of resources: its widgets, and what they show.

use super::{App, headline, name};
use adw::prelude::*;
use culvert_desktop_core::present;
use culvert_desktop_core::resources::Row;
use culvert_desktop_core::status::AccessState;
use culvert_desktop_core::words::{Language, Message, Value, Words};
use gtk::{glib, pango};
use std::rc::{Rc, Weak};

/// The width of the three buttons of a row, in pixels of the display's scale.
const BUTTONS_WIDTH_PX: i32 = 104;

/// The widgets of a row, in the order of [`set_up`].
struct RowWidgets {
    star: gtk::ToggleButton,
    name: gtk::Label,
    target: gtk::Label,
    about: gtk::Label,
    state: gtk::Label,
    ask: gtk::Button,
    copy: gtk::Button,
    open: gtk::Button,
    /// Of a resource that is gone, in the place of the others.
    dismiss: gtk::Button,
}

/// The row that a list item shows.
pub(super) fn row_of(item: &gtk::ListItem) -> Option<Rc<Row>> {
    let row = item.item().and_downcast::<glib::BoxedAnyObject>()?;
    Some(Rc::clone(&row.borrow::<Rc<Row>>()))
}

pub(super) fn set_up(app: &Rc<App>, item: &gtk::ListItem) {
    let label = |classes: &[&str]| {
        let classes: Vec<String> = classes.iter().map(|&class| class.to_owned()).collect();
        gtk::Label::builder()
            .css_classes(classes)
            .xalign(0.0)
            .ellipsize(pango::EllipsizeMode::End)
            .build()
    };
    let button = |icon: &str| {
        gtk::Button::builder()
            .icon_name(icon)
            .css_classes(["flat", "circular"])
            .valign(gtk::Align::Center)
            .build()
    };
    let widgets = RowWidgets {
        star: gtk::ToggleButton::builder()
            .icon_name("non-starred-symbolic")
            .css_classes(["flat", "circular"])
            .valign(gtk::Align::Center)
            .build(),
        name: label(&["heading"]),
        target: label(&["dim-label", "caption", "numeric"]),
        about: label(&["caption"]),
        state: gtk::Label::builder()
            .css_classes(["pill-state"])
            .valign(gtk::Align::Center)
            .build(),
        ask: button("dialog-password-symbolic"),
        copy: button("edit-copy-symbolic"),
        open: button("adw-external-link-symbolic"),
        dismiss: button("window-close-symbolic"),
    };
    let texts = gtk::Box::builder()
        .orientation(gtk::Orientation::Vertical)
        .spacing(1)
        .hexpand(true)
        .build();
    for label in [&widgets.name, &widgets.target, &widgets.about] {
        texts.append(label);
    }
    // The reason of a denial is what its reader came for.
    widgets.about.set_wrap(true);
    widgets.about.set_lines(2);
    let content = gtk::Box::builder()
        .spacing(8)
        .css_classes(["resource"])
        .build();
    content.append(&widgets.star);
    content.append(&texts);
    content.append(&widgets.state);
    // As wide as with all buttons, so that the states stand below each other.
    let buttons = gtk::Box::builder()
        .width_request(BUTTONS_WIDTH_PX)
        .hexpand(false)
        .build();
    buttons.append(&gtk::Box::builder().hexpand(true).build());
    for button in [&widgets.ask, &widgets.copy, &widgets.open, &widgets.dismiss] {
        buttons.append(button);
    }
    content.append(&buttons);
    connect(app, item, &widgets);
    item.set_child(Some(&content));
}

/// Connects the buttons. An item shows one row after the other, so they look for the present one.
fn connect(app: &Rc<App>, item: &gtk::ListItem, widgets: &RowWidgets) {
    let clicked = |button: &gtk::Button, run: fn(&Rc<App>, &str)| {
        let (item, app): (glib::WeakRef<gtk::ListItem>, Weak<App>) =
            (item.downgrade(), Rc::downgrade(app));
        button.connect_clicked(move |_| {
            let row = item.upgrade().as_ref().and_then(row_of);
            if let (Some(app), Some(row)) = (app.upgrade(), row) {
                run(&app, &row.id);
            }
        });
    };
    clicked(&widgets.ask, App::ask_for);
    clicked(&widgets.copy, App::copy_address);
    clicked(&widgets.open, App::open_resource);
    clicked(&widgets.dismiss, App::dismiss_ended);
    let (item, app) = (item.downgrade(), Rc::downgrade(app));
    widgets.star.connect_toggled(move |star| {
        let row = item.upgrade().as_ref().and_then(row_of);
        let (Some(app), Some(row)) = (app.upgrade(), row) else {
            return;
        };
        let is_favourite = star.is_active();
        // Binding a row sets the button too.
        if row.is_favourite != is_favourite {
            // The row moves, and with it this button: after the click is over.
            glib::idle_add_local_once(move || app.set_favourite(&row.id, is_favourite));
        }
    });
}

/// The widgets of a row that was set up.
fn widgets_of(item: &gtk::ListItem) -> Option<RowWidgets> {
    fn next<W: IsA<gtk::Widget>>(widget: &impl IsA<gtk::Widget>) -> Option<W> {
        widget.as_ref().next_sibling().and_downcast()
    }
    let star: gtk::ToggleButton = item.child()?.first_child().and_downcast()?;
    let texts: gtk::Box = next(&star)?;
    let name: gtk::Label = texts.first_child().and_downcast()?;
    let target: gtk::Label = next(&name)?;
    let about = next(&target)?;
    let state: gtk::Label = next(&texts)?;
    let buttons: gtk::Box = next(&state)?;
    let ask: gtk::Button = next(&buttons.first_child()?)?;
    let copy: gtk::Button = next(&ask)?;
    let open: gtk::Button = next(&copy)?;
    let dismiss = next(&open)?;
    Some(RowWidgets {
        star,
        name,
        target,
        about,
        state,
        ask,
        copy,
        open,
        dismiss,
    })
}

/// Shows the row of a list item. `before` is the row that it shows already, if it is another state of the same.
pub(super) fn bind(words: &Words, item: &gtk::ListItem, before: Option<&Row>) {
    let (Some(row), Some(widgets)) = (row_of(item), widgets_of(item)) else {
        return;
    };
    headline::set(&widgets.name, &row.name);
    headline::set(&widgets.target, &row.target);
    let about = present::about(words, &row, local_time);
    if widgets.about.text() != about || before.is_none() {
        widgets.about.set_visible(!about.is_empty());
        widgets.about.set_text(&about);
        let tooltip = (!about.is_empty()).then_some(about.as_str());
        widgets.about.set_tooltip_text(tooltip);
    }
    headline::set(&widgets.state, &present::state_of(words, &row));
    let is_ended = row.end.is_some();
    let class = match is_ended {
        true => "ended",
        false => class_of(row.state),
    };
    if !widgets.state.has_css_class(class) {
        widgets.state.set_css_classes(&["pill-state", class]);
    }
    let asks = matches!(row.state, AccessState::Denied | AccessState::Idle);
    widgets.ask.set_visible(asks && !is_ended);
    widgets.copy.set_visible(!is_ended);
    widgets.open.set_visible(row.opens);
    widgets.dismiss.set_visible(is_ended);
    match is_ended {
        true => widgets.name.add_css_class("dim-label"),
        false => widgets.name.remove_css_class("dim-label"),
    }
    let has_names = before
        .is_some_and(|before| before.name == row.name && before.is_favourite == row.is_favourite);
    if !has_names {
        name_buttons(words, &row, &widgets);
    }
    if let Some(content) = item.child() {
        let label = present::label(words, &row);
        name(&content, &label);
        // The row of the list around it is what a screen reader stops at.
        if let Some(around) = content.parent() {
            name(&around, &label);
        }
    }
}

fn name_buttons(words: &Words, row: &Row, widgets: &RowWidgets) {
    widgets.star.set_icon_name(match row.is_favourite {
        true => "starred-symbolic",
        false => "non-starred-symbolic",
    });
    widgets.star.set_active(row.is_favourite);
    let label = |widget: &gtk::Widget, message| {
        let text = words.with(message, &[("name", Value::Text(&row.name))]);
        widget.set_tooltip_text(Some(&text));
        name(widget, &text);
    };
    label(
        widgets.star.upcast_ref(),
        match row.is_favourite {
            true => Message::FavouriteRemove,
            false => Message::FavouriteAdd,
        },
    );
    label(widgets.ask.upcast_ref(), Message::AskOf);
    label(widgets.copy.upcast_ref(), Message::CopyAddressOf);
    label(widgets.open.upcast_ref(), Message::OpenOf);
    label(widgets.dismiss.upcast_ref(), Message::DismissOf);
}

/// A moment in the time of this machine, in the form of the language.
fn local_time(words: &Words, unix_s: i64) -> Option<String> {
    let form = match words.language() {
        Language::English => "%Y-%m-%d %H:%M",
        Language::German => "%d.%m.%Y, %H:%M",
    };
    let local = glib::DateTime::from_unix_local(unix_s).ok()?;
    local.format(form).ok().map(Into::into)
}

const fn class_of(state: AccessState) -> &'static str {
    match state {
        AccessState::Granted => "granted",
        AccessState::Denied => "denied",
        AccessState::Asking => "asking",
        AccessState::Idle | AccessState::Other => "idle",
    }
}
