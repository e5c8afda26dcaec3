//! The commands of the window as actions: buttons, menus and keys name them, and a command that makes no sense is disabled
//! in all of them.

use super::{App, dialogs, sign_in};
use adw::prelude::*;
use culvert_desktop_core::exchange::Request;
use culvert_desktop_core::phase::{Offer, Phase};
use culvert_desktop_core::sign_in::Progress;
use gtk::{gio, glib};
use std::rc::Rc;

/// The group that may command the service.
const JOIN_COMMAND: &str = "sudo usermod -aG culvert";

/// Adds the actions, with their keys.
pub(super) fn add(app: &Rc<App>) {
    let act = |name: &str, keys: &[&str], run: fn(&Rc<App>)| {
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
    };
    act("show", &[], App::present);
    act("sign-in", &["<Control>i"], sign_in::open);
    act("connect", &["<Control>k"], |app| app.send(Request::Up));
    act("disconnect", &["<Control>d"], |app| app.send(Request::Down));
    act("sign-out", &[], dialogs::ask_sign_out);
    act("cancel", &[], App::cancel_sign_in);
    act("open-browser", &[], App::open_browser);
    act("copy-link", &[], |app| {
        if let Some(code) = app.code() {
            app.copy(&code.url);
        }
    });
    act("copy-join", &[], |app| app.copy(&join_command()));
    act("search", &["<Control>f"], |app| {
        if let Some(window) = app.window.get() {
            window.search();
        }
    });
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
    act("check", &["F5"], |app| {
        if let Some(window) = app.window.get() {
            window.turn_to(super::window::DIAGNOSTICS);
            window.diagnostics.begin_check(&app.words);
            app.program.check_network(&app.mailbox);
        }
    });
    act("settings", &["<Control>comma"], dialogs::show_settings);
    act("shortcuts", &["<Control>question"], dialogs::show_shortcuts);
    act("about", &[], dialogs::show_about);
    act("close", &["<Control>w"], |app| {
        if let Some(window) = app.window.get() {
            window.close();
        }
    });
    act("quit", &["<Control>q"], |app| app.application.quit());
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
