//! The commands of the window as actions: buttons, menus and keys name them, and a command that makes no sense is disabled
//! in all of them.

use super::{App, dialogs, preferences, sign_in};
use adw::prelude::*;
use culvert_desktop_core::exchange::Request;
use culvert_desktop_core::phase::{Offer, Phase};
use culvert_desktop_core::sign_in::Progress;
use gtk::{gio, glib};
use std::rc::Rc;

/// The group that may command the service.
const JOIN_COMMAND: &str = "sudo usermod -aG culvert";

/// An action: its name, its keys, and what it does.
type Action = (&'static str, &'static [&'static str], fn(&Rc<App>));

const ACTIONS: [Action; 21] = [
    ("show", &[], App::present),
    ("toggle", &[], App::toggle),
    ("sign-in", &["<Control>i"], sign_in::open),
    ("connect", &["<Control>k"], |app| app.send(Request::Up)),
    ("disconnect", &["<Control>d"], |app| app.send(Request::Down)),
    ("sign-out", &[], dialogs::ask_sign_out),
    ("cancel", &[], App::cancel_sign_in),
    ("open-browser", &[], App::open_browser),
    ("copy-link", &[], |app| {
        if let Some(code) = app.code() {
            app.copy(&code.url);
        }
    }),
    ("copy-code", &[], |app| {
        if let Some(code) = app.code() {
            app.copy(&code.user_code);
        }
    }),
    ("copy-join", &[], |app| app.copy(&join_command())),
    ("search", &["<Control>f"], |app| {
        if let Some(window) = app.window.get() {
            window.search();
        }
    }),
    ("check", &["F5"], |app| {
        if let Some(window) = app.window.get() {
            window.turn_to(super::window::DIAGNOSTICS);
            window.diagnostics.begin_check(&app.words);
            app.program.check_network(&app.mailbox);
        }
    }),
    ("make-bundle", &[], App::make_bundle),
    ("open-bundle", &[], App::open_bundle),
    ("show-log", &[], |app| app.send(Request::Log)),
    ("settings", &["<Control>comma"], preferences::show_settings),
    ("shortcuts", &["<Control>question"], dialogs::show_shortcuts),
    ("about", &[], dialogs::show_about),
    ("close", &["<Control>w"], |app| {
        if let Some(window) = app.window.get() {
            window.close();
        }
    }),
    ("quit", &["<Control>q"], |app| app.application.quit()),
];

/// Adds the actions, with their keys.
pub(super) fn add(app: &Rc<App>) {
    for (name, keys, run) in ACTIONS {
        let action = gio::SimpleAction::new(name, None);
        let weak = Rc::downgrade(app);
        action.connect_activate(move |_, _| {
            if let Some(app) = weak.upgrade() {
                run(&app);
            }
        });
        app.application.add_action(&action);
        app.application
            .set_accels_for_action(&format!("app.{name}"), keys);
    }
    for (number, page) in super::window::PAGES.into_iter().enumerate() {
        let action = gio::SimpleAction::new(page, None);
        let weak = Rc::downgrade(app);
        action.connect_activate(move |_, _| {
            if let Some(window) = weak.upgrade().as_ref().and_then(|app| app.window.get()) {
                window.turn_to(page);
            }
        });
        app.application.add_action(&action);
        app.application
            .set_accels_for_action(&format!("app.{page}"), &[&format!("<Alt>{}", number + 1)]);
    }
}

/// The command that makes this user a member of the group.
pub(super) fn join_command() -> String {
    let user = glib::user_name();
    format!("{JOIN_COMMAND} {}", user.to_string_lossy())
}

/// Enables the commands that make sense.
pub(super) fn enable(app: &App, phase: &Phase, offer: Offer) {
    let has_code = matches!(phase, Phase::SigningIn(Progress::Code(_)));
    let enabled = [
        ("sign-in", offer.sign_in),
        ("connect", offer.up),
        ("disconnect", offer.down),
        ("sign-out", offer.sign_out),
        ("cancel", matches!(phase, Phase::SigningIn(_))),
        ("open-browser", has_code),
        ("copy-link", has_code),
        ("copy-code", has_code),
        ("copy-join", *phase == Phase::NotPermitted),
    ];
    for (name, is_enabled) in enabled {
        if let Some(action) = app
            .application
            .lookup_action(name)
            .and_downcast::<gio::SimpleAction>()
        {
            action.set_enabled(is_enabled);
        }
    }
}
