//! The frame of the window: header, the state, and the pages.

use super::diagnostics::Diagnostics;
use super::gateways::Gateways;
use super::headline::Headline;
use super::preferences::Preferences;
use super::resources::Resources;
use super::{App, ID};
use adw::prelude::*;
use culvert_desktop_core::words::{Message, Words};
use gtk::{gdk, gio, glib};
use std::cell::RefCell;
use std::rc::Rc;

/// The names of the pages, in order. Keys turn to them.
pub(super) const PAGES: [&str; 3] = ["resources", "gateways", DIAGNOSTICS];

/// The name of the page with diagnostics.
pub(super) const DIAGNOSTICS: &str = "diagnostics";

/// The window.
pub(super) struct Window {
    window: adw::ApplicationWindow,
    pages: adw::ViewStack,
    /// The page of resources: the state, or the list.
    state_or_list: gtk::Stack,
    toasts: adw::ToastOverlay,
    pub(super) headline: Headline,
    pub(super) resources: Resources,
    pub(super) gateways: Gateways,
    pub(super) diagnostics: Diagnostics,
    /// The settings while they are open.
    pub(super) preferences: RefCell<Option<Rc<Preferences>>>,
}

impl Window {
    /// The window, which is not shown yet.
    pub(super) fn new(app: &Rc<App>) -> Self {
        load_style();
        let words = &app.words;
        let (headline, resources) = (Headline::new(app), Resources::new(app));
        let (gateways, diagnostics) = (Gateways::new(words), Diagnostics::new(app));
        let state_or_list = gtk::Stack::builder()
            .transition_type(gtk::StackTransitionType::Crossfade)
            .vexpand(true)
            .build();
        state_or_list.add_named(&headline.page, Some("state"));
        state_or_list.add_named(&resources.page, Some("list"));
        let pages = adw::ViewStack::builder().vexpand(true).build();
        let add = |child: &gtk::Widget, name, title, icon| {
            let page = pages.add_titled(child, Some(name), &words.get(title));
            page.set_icon_name(Some(icon));
        };
        let [first, second, third] = PAGES;
        add(
            state_or_list.upcast_ref(),
            first,
            Message::Resources,
            "network-server-symbolic",
        );
        add(
            gateways.page.upcast_ref(),
            second,
            Message::Gateways,
            "network-workgroup-symbolic",
        );
        add(
            diagnostics.page.upcast_ref(),
            third,
            Message::Diagnostics,
            "preferences-system-symbolic",
        );
        let (header, bottom) = switchers(words, &pages);
        let content = gtk::Box::new(gtk::Orientation::Vertical, 0);
        content.append(&header);
        content.append(&headline.bar);
        content.append(&pages);
        content.append(&bottom);
        let toasts = adw::ToastOverlay::new();
        toasts.set_child(Some(&content));
        let window = adw::ApplicationWindow::builder()
            .application(&app.application)
            .title(words.get(Message::AppName))
            .icon_name(ID)
            .default_width(760)
            .default_height(700)
            .width_request(360)
            .height_request(400)
            .content(&toasts)
            .build();
        // A closed window goes on in the tray and with notifications; the menu ends the program.
        window.set_hide_on_close(true);
        Self {
            window,
            pages,
            state_or_list,
            toasts,
            headline,
            resources,
            gateways,
            diagnostics,
            preferences: RefCell::default(),
        }
    }

    pub(super) fn show(&self) {
        self.window.present();
    }

    pub(super) fn close(&self) {
        self.window.close();
    }

    pub(super) fn is_visible(&self) -> bool {
        self.window.is_visible()
    }

    pub(super) fn is_active(&self) -> bool {
        self.window.is_active()
    }

    pub(super) fn clipboard(&self) -> gdk::Clipboard {
        self.window.clipboard()
    }

    /// The window that dialogs belong to.
    pub(super) const fn parent(&self) -> &adw::ApplicationWindow {
        &self.window
    }

    /// The width that there is for a text at the bottom, in pixels of the display's scale.
    pub(super) fn toast_width(&self) -> i32 {
        match self.preferences.borrow().as_ref() {
            Some(open) => open.width(),
            None => self.window.width(),
        }
    }

    /// Shows a text for some seconds: in the settings while they are open, which are in front.
    pub(super) fn toast(&self, toast: adw::Toast) {
        match self.preferences.borrow().as_ref() {
            Some(open) => open.toast(toast),
            None => self.toasts.add_toast(toast),
        }
    }

    /// Shows the list of resources, or the state in its place.
    pub(super) fn show_resources(&self, has_resources: bool) {
        self.state_or_list
            .set_visible_child_name(match has_resources {
                true => "list",
                false => "state",
            });
        self.headline.bar.set_reveal_child(has_resources);
    }

    pub(super) fn turn_to(&self, page: &str) {
        self.pages.set_visible_child_name(page);
    }

    /// Goes to the search field.
    pub(super) fn search(&self) {
        self.turn_to(PAGES[0]);
        self.resources.focus_search();
    }
}

/// The header with the switcher of pages, and the switcher at the bottom of a narrow window.
fn switchers(words: &Words, pages: &adw::ViewStack) -> (adw::HeaderBar, adw::ViewSwitcherBar) {
    let title = adw::ViewSwitcherTitle::builder()
        .stack(pages)
        .title(words.get(Message::AppName))
        .build();
    let menu = gio::Menu::new();
    let section = |entries: &[(Message, &str)]| {
        let section = gio::Menu::new();
        for (message, action) in entries {
            section.append(Some(&words.get(*message)), Some(action));
        }
        menu.append_section(None, &section);
    };
    section(&[
        (Message::Connect, "app.connect"),
        (Message::Disconnect, "app.disconnect"),
        (Message::SignOut, "app.sign-out"),
    ]);
    section(&[
        (Message::Settings, "app.settings"),
        (Message::Shortcuts, "app.shortcuts"),
        (Message::About, "app.about"),
    ]);
    section(&[(Message::Quit, "app.quit")]);
    let button = gtk::MenuButton::builder()
        .icon_name("open-menu-symbolic")
        .menu_model(&menu)
        .primary(true)
        .tooltip_text(words.get(Message::Menu))
        .build();
    super::name(&button, &words.get(Message::Menu));
    let header = adw::HeaderBar::new();
    header.set_title_widget(Some(&title));
    header.pack_end(&button);
    let bottom = adw::ViewSwitcherBar::builder().stack(pages).build();
    title
        .bind_property("title-visible", &bottom, "reveal")
        .flags(glib::BindingFlags::SYNC_CREATE)
        .build();
    (header, bottom)
}

fn load_style() {
    let provider = gtk::CssProvider::new();
    provider.load_from_data(include_str!("style.css"));
    if let Some(display) = gdk::Display::default() {
        gtk::style_context_add_provider_for_display(
            &display,
            &provider,
            gtk::STYLE_PROVIDER_PRIORITY_APPLICATION,
        );
    }
}
