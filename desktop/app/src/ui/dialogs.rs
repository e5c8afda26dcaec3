//! Keyboard shortcuts, about, the log, and the question before signing out.

use super::accessible::name_buttons_once;
use super::{App, ID, name};
use adw::prelude::*;
use culvert_desktop_core::exchange::Request;
use culvert_desktop_core::text::{clean_line, escape_markup};
use culvert_desktop_core::words::Message;
use std::rc::Rc;

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
    name_buttons_once(&dialog);
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
        ("Tab", Message::KeyNext),
        ("Return", Message::KeyUse),
        ("Escape", Message::KeyLeave),
        ("<Control>i", Message::SignIn),
        ("<Control>k", Message::Connect),
        ("<Control>d", Message::Disconnect),
        ("F5", Message::NetcheckTitle),
        ("<Alt>1", Message::Resources),
        ("<Alt>2", Message::Gateways),
        ("<Alt>3", Message::Diagnostics),
        ("F10", Message::Menu),
        ("<Control>comma", Message::Settings),
        ("<Control>question", Message::Shortcuts),
        ("<Control>w", Message::CloseWindow),
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
