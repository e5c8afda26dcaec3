//! The settings: those of this program, and the one of the service that a person may change.

use super::App;
use adw::prelude::*;
use culvert_desktop_core::dns::Switch;
use culvert_desktop_core::settings::{Settings, Theme};
use culvert_desktop_core::words::{Message, Value, Words};
use gtk::glib;
use std::cell::Cell;
use std::rc::Rc;

const THEMES: [(Theme, Message); 3] = [
    (Theme::System, Message::ThemeSystem),
    (Theme::Light, Message::ThemeLight),
    (Theme::Dark, Message::ThemeDark),
];

/// The settings while they are open.
pub(super) struct Preferences {
    dialog: adw::PreferencesWindow,
    row: adw::ActionRow,
    switch: gtk::Switch,
    /// The switch for names as it is shown.
    shown: Cell<Option<Switch>>,
}

impl Preferences {
    /// Shows the setting of the service, or the reason why it can't be changed.
    pub(super) fn show(&self, words: &Words, shown: Switch) {
        if self.shown.replace(Some(shown)) == Some(shown) {
            return;
        }
        self.row.set_subtitle(&words.get(shown.detail));
        self.row.set_sensitive(shown.may_change);
        // A switch has no third position: a setting that is not told has none.
        self.switch.set_visible(shown.is_on.is_some());
        self.switch.set_active(shown.is_on.unwrap_or(false));
    }

    /// Sends what a person has switched. The switch goes back until the service tells that it is so.
    fn switched(self: &Rc<Self>, app: &App) {
        let command = self
            .shown
            .get()
            .and_then(|shown| shown.command(self.switch.is_active()));
        let Some(command) = command else { return };
        app.send(command);
        // Before the next frame, and not within the change: GTK tells a screen reader the outer change last.
        let open = Rc::clone(self);
        glib::idle_add_local_full(glib::Priority::HIGH, move || {
            let is_on = open.shown.get().and_then(|shown| shown.is_on);
            open.switch.set_active(is_on.unwrap_or(false));
            glib::ControlFlow::Break
        });
    }

    pub(super) fn width(&self) -> i32 {
        self.dialog.width()
    }

    pub(super) fn toast(&self, toast: adw::Toast) {
        self.dialog.add_toast(toast);
    }
}

/// Opens the settings.
pub(super) fn show_settings(app: &Rc<App>) {
    let Some(window) = app.window.get() else {
        return;
    };
    if let Some(open) = window.preferences.borrow().as_ref() {
        return open.dialog.present();
    }
    let words = &app.words;
    let page = adw::PreferencesPage::new();
    page.add(&appearance(app));
    page.add(&behaviour(app));
    let (connection, row, switch) = connection(words);
    page.add(&connection);
    let dialog = adw::PreferencesWindow::builder()
        .transient_for(window.parent())
        .modal(true)
        .title(words.get(Message::Settings))
        .default_width(520)
        .default_height(520)
        .search_enabled(false)
        .build();
    dialog.add(&page);
    let weak = Rc::downgrade(app);
    dialog.connect_close_request(move |_| {
        if let Some(window) = weak.upgrade().as_ref().and_then(|app| app.window.get()) {
            window.preferences.take();
        }
        glib::Propagation::Proceed
    });
    let weak = Rc::downgrade(app);
    switch.connect_active_notify(move |_| {
        let Some(app) = weak.upgrade() else { return };
        let open = app
            .window
            .get()
            .and_then(|window| window.preferences.borrow().clone());
        if let Some(open) = open {
            open.switched(&app);
        }
    });
    let open = Rc::new(Preferences {
        dialog: dialog.clone(),
        row,
        switch,
        shown: Cell::default(),
    });
    open.show(words, Switch::of(&app.phase(), app.status().as_deref()));
    window.preferences.replace(Some(open));
    dialog.present();
}

/// The row of the switch for names.
fn connection(words: &Words) -> (adw::PreferencesGroup, adw::ActionRow, gtk::Switch) {
    let title = words.get(Message::DnsSetting);
    let switch = gtk::Switch::builder().valign(gtk::Align::Center).build();
    // The row names the switch that it activates.
    let row = adw::ActionRow::builder()
        .title(title)
        .activatable_widget(&switch)
        .build();
    row.add_suffix(&switch);
    let group = adw::PreferencesGroup::builder()
        .title(words.get(Message::Computer))
        .build();
    group.add(&row);
    (group, row, switch)
}

fn appearance(app: &Rc<App>) -> adw::PreferencesGroup {
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
    appearance
}

fn behaviour(app: &Rc<App>) -> adw::PreferencesGroup {
    let words = &app.words;
    let settings = app.model.borrow().settings.clone();
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
    behaviour
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

impl App {
    pub(super) fn apply_theme(&self) {
        adw::StyleManager::default().set_color_scheme(match self.model.borrow().settings.theme {
            Theme::System => adw::ColorScheme::Default,
            Theme::Light => adw::ColorScheme::ForceLight,
            Theme::Dark => adw::ColorScheme::ForceDark,
        });
    }

    /// Changes the settings and saves them.
    pub(super) fn change_settings(&self, change: impl FnOnce(&mut Settings)) {
        let mut model = self.model.borrow_mut();
        change(&mut model.settings);
        let saved = self.files.save_settings(&model.settings);
        drop(model);
        self.apply_theme();
        self.report(saved);
    }

    pub(super) fn report(&self, saved: std::io::Result<()>) {
        if let Err(error) = saved {
            let why = error.to_string();
            self.toast(
                &self
                    .words
                    .with(Message::SettingNotKept, &[("why", Value::Text(&why))]),
            );
        }
    }
}
