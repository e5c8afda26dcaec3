//! Settings, keyboard shortcuts, about, and the question before signing out.

use super::{App, ID, name};
use adw::prelude::*;
use culvert_desktop_core::exchange::Request;
use culvert_desktop_core::settings::Theme;
use culvert_desktop_core::text::{clean_line, escape_markup};
use culvert_desktop_core::words::Message;
use std::rc::Rc;

const THEMES: [(Theme, Message); 3] = [
    (Theme::System, Message::ThemeSystem),
    (Theme::Light, Message::ThemeLight),
    (Theme::Dark, Message::ThemeDark),
];

/// Opens the settings.
pub(super) fn show_settings(app: &Rc<App>) {
    let Some(window) = app.window.get() else {
        return;
    };
    let words = &app.words;
    let names: Vec<String> = THEMES
        .iter()
        .map(|(_, message)| words.get(*message))
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let theme = adw::ComboRow::builder()
        .title(words.get(Message::Theme))
        .model(&gtk::StringList::new(&names))
        .build();
    let settings = app.model.borrow().settings.clone();
    let place = THEMES
        .iter()
        .position(|(theme, _)| *theme == settings.theme);
    theme.set_selected(
        place
            .and_then(|place| u32::try_from(place).ok())
            .unwrap_or(0),
    );
    let weak = Rc::downgrade(app);
    theme.connect_selected_notify(move |row| {
        let chosen = usize::try_from(row.selected())
            .ok()
            .and_then(|place| THEMES.get(place));
        if let (Some(app), Some((theme, _))) = (weak.upgrade(), chosen) {
            app.change_settings(|settings| settings.theme = *theme);
        }
    });
    let appearance = adw::PreferencesGroup::builder()
        .title(words.get(Message::Appearance))
        .build();
    appearance.add(&theme);
    let behaviour = adw::PreferencesGroup::builder()
        .title(words.get(Message::Behaviour))
        .build();
    behaviour.add(&switch(
        app,
        Message::Notifications,
        Message::NotificationsDetail,
        settings.notifications,
        |app, is_on| app.change_settings(|settings| settings.notifications = is_on),
    ));
    behaviour.add(&switch(
        app,
        Message::Autostart,
        Message::AutostartDetail,
        app.files.starts_with_session(),
        |app, is_on| app.report(app.files.set_start_with_session(is_on)),
    ));
    let page = adw::PreferencesPage::new();
    page.add(&appearance);
    page.add(&behaviour);
    let dialog = adw::PreferencesWindow::builder()
        .transient_for(window.parent())
        .modal(true)
        .title(words.get(Message::Settings))
        .default_width(520)
        .default_height(420)
        .search_enabled(false)
        .build();
    dialog.add(&page);
    dialog.present();
}

fn switch(
    app: &Rc<App>,
    title: Message,
    detail: Message,
    is_on: bool,
    set: fn(&App, bool),
) -> adw::ActionRow {
    let title = app.words.get(title);
    let switch = gtk::Switch::builder()
        .active(is_on)
        .valign(gtk::Align::Center)
        .build();
    name(&switch, &title);
    let weak = Rc::downgrade(app);
    switch.connect_active_notify(move |switch| {
        if let Some(app) = weak.upgrade() {
            set(&app, switch.is_active());
        }
    });
    let row = adw::ActionRow::builder()
        .title(title)
        .subtitle(app.words.get(detail))
        .activatable_widget(&switch)
        .build();
    row.add_suffix(&switch);
    row
}

/// Asks before it signs out: coming back takes a browser or another token.
pub(super) fn ask_sign_out(app: &Rc<App>) {
    let Some(window) = app.shown_window() else {
        return;
    };
    let words = &app.words;
    let dialog = adw::MessageDialog::new(
        Some(window.parent()),
        Some(&words.get(Message::SignOutQuestion)),
        Some(&words.get(Message::SignOutDetail)),
    );
    dialog.add_response("cancel", &words.get(Message::Cancel));
    dialog.add_response("sign-out", &words.get(Message::SignOut));
    dialog.set_response_appearance("sign-out", adw::ResponseAppearance::Destructive);
    dialog.set_default_response(Some("cancel"));
    dialog.set_close_response("cancel");
    let weak = Rc::downgrade(app);
    dialog.connect_response(Some("sign-out"), move |_, _| {
        if let Some(app) = weak.upgrade() {
            app.send(Request::SignOut);
        }
    });
    dialog.present();
}

/// Closes a dialog with the key Escape.
pub(super) fn close_by_escape(dialog: &adw::Window) {
    let keys = gtk::EventControllerKey::new();
    let closed = dialog.downgrade();
    keys.connect_key_pressed(move |_, key, _, _| match key {
        gtk::gdk::Key::Escape => {
            if let Some(dialog) = closed.upgrade() {
                dialog.close();
            }
            gtk::glib::Propagation::Stop
        }
        _ => gtk::glib::Propagation::Proceed,
    });
    dialog.add_controller(keys);
}

/// Shows lines of the service's log.
pub(super) fn show_log(app: &Rc<App>, lines: &[String]) {
    let Some(window) = app.window.get() else {
        return;
    };
    let title = app.words.get(Message::Log);
    let dialog = adw::Window::builder()
        .transient_for(window.parent())
        .modal(true)
        .default_width(720)
        .default_height(560)
        .title(&title)
        .build();
    let lines: Vec<String> = lines.iter().map(|line| clean_line(line)).collect();
    let text = lines.join("\n");
    let view = gtk::TextView::builder()
        .editable(false)
        .cursor_visible(false)
        .monospace(true)
        .wrap_mode(gtk::WrapMode::WordChar)
        .left_margin(12)
        .right_margin(12)
        .top_margin(8)
        .bottom_margin(8)
        .build();
    name(&view, &title);
    view.buffer().set_text(&text);
    let scrolled = gtk::ScrolledWindow::builder()
        .child(&view)
        .vexpand(true)
        .build();
    let copy = gtk::Button::builder()
        .label(app.words.get(Message::LogCopy))
        .build();
    let weak = Rc::downgrade(app);
    copy.connect_clicked(move |_| {
        if let Some(app) = weak.upgrade() {
            app.copy(&text);
        }
    });
    let header = adw::HeaderBar::new();
    header.pack_start(&copy);
    let content = gtk::Box::new(gtk::Orientation::Vertical, 0);
    content.append(&header);
    content.append(&scrolled);
    dialog.set_content(Some(&content));
    close_by_escape(&dialog);
    dialog.present();
    // The newest lines are the last ones.
    let end = view
        .buffer()
        .create_mark(None, &view.buffer().end_iter(), false);
    view.scroll_to_mark(&end, 0.0, false, 0.0, 0.0);
}

/// Lists the keys.
pub(super) fn show_shortcuts(app: &Rc<App>) {
    let Some(window) = app.window.get() else {
        return;
    };
    let keys = [
        ("<Control>f", Message::SearchResources),
        ("<Control>i", Message::SignIn),
        ("<Control>k", Message::Connect),
        ("<Control>d", Message::Disconnect),
        ("F5", Message::NetcheckTitle),
        ("<Alt>1", Message::Resources),
        ("<Alt>2", Message::Gateways),
        ("<Alt>3", Message::Diagnostics),
        ("<Control>comma", Message::Settings),
        ("<Control>q", Message::Quit),
    ];
    let rows: String = keys
        .iter()
        .map(|(key, message)| {
            let (key, title) = (escape_markup(key), escape_markup(&app.words.get(*message)));
            format!(
                "<child><object class='GtkShortcutsShortcut'><property name='accelerator'>{key}</property>\
                 <property name='title'>{title}</property></object></child>"
            )
        })
        .collect();
    // The children of these widgets can be added by a description alone before GTK 4.14.
    let description = format!(
        "<interface><object class='GtkShortcutsWindow' id='shortcuts'><property name='modal'>1</property><child>\
         <object class='GtkShortcutsSection'><child><object class='GtkShortcutsGroup'>{rows}</object></child></object>\
         </child></object></interface>"
    );
    let builder = gtk::Builder::from_string(&description);
    if let Some(shortcuts) = builder.object::<gtk::ShortcutsWindow>("shortcuts") {
        shortcuts.set_transient_for(Some(window.parent()));
        shortcuts.present();
    }
}

/// Shows the version and the licence.
pub(super) fn show_about(app: &Rc<App>) {
    let Some(window) = app.window.get() else {
        return;
    };
    adw::AboutWindow::builder()
        .transient_for(window.parent())
        .modal(true)
        .application_name(app.words.get(Message::AppName))
        .application_icon(ID)
        .version(env!("CARGO_PKG_VERSION"))
        .comments(app.words.get(Message::AppSummary))
        .license_type(gtk::License::Apache20)
        .build()
        .present();
}
