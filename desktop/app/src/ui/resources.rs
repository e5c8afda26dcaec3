//! The page of resources: search, choice, and a list that draws only the rows that are seen.

use super::{App, headline, name};
use adw::prelude::*;
use culvert_desktop_core::address;
use culvert_desktop_core::exchange::Request;
use culvert_desktop_core::favourites::Favourites;
use culvert_desktop_core::present;
use culvert_desktop_core::resources::{
    Choice, MAX_QUERY_CHARS, Row, Rows, Splice, difference, search,
};
use culvert_desktop_core::status::{AccessState, Status};
use culvert_desktop_core::words::{Language, Message, Value, Words};
use gtk::{gio, glib, pango};
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

const CHOICES: [(Choice, Message); 4] = [
    (Choice::All, Message::ChoiceAll),
    (Choice::Favourites, Message::ChoiceFavourites),
    (Choice::Granted, Message::ChoiceGranted),
    (Choice::Denied, Message::ChoiceDenied),
];

/// The width of the three buttons of a row, in pixels of the display's scale.
const BUTTONS_WIDTH_PX: i32 = 104;

/// The page.
pub(super) struct Resources {
    pub(super) page: gtk::Box,
    entry: gtk::SearchEntry,
    list: Rc<List>,
}

/// The rows and the widgets that show them.
struct List {
    all: RefCell<Rows>,
    /// True once the rows are those of a status.
    is_filled: Cell<bool>,
    found: RefCell<Vec<Rc<Row>>>,
    store: gio::ListStore,
    entry: gtk::SearchEntry,
    choice: gtk::DropDown,
    count: gtk::Label,
    /// The list, or a page that says that it is empty.
    stack: gtk::Stack,
    empty: adw::StatusPage,
}

impl Resources {
    pub(super) fn new(app: &Rc<App>) -> Self {
        let words = &app.words;
        let hint = words.get(Message::SearchResources);
        let entry = gtk::SearchEntry::builder()
            .placeholder_text(&hint)
            .hexpand(true)
            .build();
        name(&entry, &hint);
        let names: Vec<String> = CHOICES
            .iter()
            .map(|(_, message)| words.get(*message))
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let choice = gtk::DropDown::from_strings(&names);
        choice.set_tooltip_text(Some(&words.get(Message::Choice)));
        name(&choice, &words.get(Message::Choice));
        let count = gtk::Label::builder()
            .css_classes(["dim-label", "caption"])
            .xalign(1.0)
            .build();
        let top = gtk::Box::builder().spacing(8).build();
        for widget in [
            entry.upcast_ref::<gtk::Widget>(),
            choice.upcast_ref(),
            count.upcast_ref(),
        ] {
            top.append(widget);
        }
        let top = adw::Clamp::builder()
            .child(&top)
            .maximum_size(900)
            .margin_top(10)
            .margin_start(12)
            .margin_end(12)
            .margin_bottom(6)
            .build();
        let store = gio::ListStore::new::<glib::BoxedAnyObject>();
        let view = view(app, &store);
        let empty = adw::StatusPage::builder()
            .icon_name("edit-find-symbolic")
            .build();
        let stack = gtk::Stack::builder().vexpand(true).build();
        stack.add_named(&view, Some("list"));
        stack.add_named(&empty, Some("empty"));
        let page = gtk::Box::new(gtk::Orientation::Vertical, 0);
        page.append(&top);
        page.append(&stack);
        let list = Rc::new(List {
            all: RefCell::default(),
            is_filled: Cell::default(),
            found: RefCell::default(),
            store,
            entry: entry.clone(),
            choice,
            count,
            stack,
            empty,
        });
        list.connect(app);
        Self { page, entry, list }
    }

    /// Shows the resources of a status.
    pub(super) fn show(&self, words: &Words, status: &Status, favourites: &Favourites) {
        let is_changed = self.list.all.borrow_mut().update(status, favourites);
        if is_changed || !self.list.is_filled.replace(true) {
            self.list.find(words);
        }
    }

    /// Shows none: what the list had is not so any more.
    pub(super) fn clear(&self) {
        if self.list.is_filled.replace(false) {
            self.list.all.take();
            self.list.found.take();
            self.list.store.remove_all();
        }
    }

    pub(super) fn focus_search(&self) {
        self.entry.grab_focus();
    }
}

impl List {
    /// Searches anew when the query or the choice changes.
    fn connect(self: &Rc<Self>, app: &Rc<App>) {
        let (list, weak) = (Rc::downgrade(self), Rc::downgrade(app));
        let find = Rc::new(move || {
            if let (Some(list), Some(app)) = (list.upgrade(), weak.upgrade()) {
                list.find(&app.words);
            }
        });
        let again = Rc::clone(&find);
        // Not `search-changed`, which waits: a search is shown with each key.
        self.entry.connect_changed(move |_| again());
        self.choice.connect_selected_notify(move |_| find());
        self.entry.connect_stop_search(|entry| entry.set_text(""));
    }

    /// Shows the rows that the query finds.
    fn find(&self, words: &Words) {
        let query: String = self.entry.text().chars().take(MAX_QUERY_CHARS).collect();
        let choice = usize::try_from(self.choice.selected())
            .ok()
            .and_then(|place| CHOICES.get(place));
        let choice = choice.map_or(Choice::All, |(choice, _)| *choice);
        let all = self.all.borrow();
        let all = all.all();
        let now = search(all, &query, choice);
        for step in difference(&self.found.borrow(), &now) {
            self.apply(step, &now);
        }
        let total = all.len();
        let number = |count: usize| Value::Number(u64::try_from(count).unwrap_or(u64::MAX));
        let values = [("shown", number(now.len())), ("total", number(total))];
        headline::set(&self.count, &words.with(Message::ResourcesCount, &values));
        let is_empty = now.is_empty();
        self.found.replace(now);
        if is_empty {
            let (title, detail) = match total {
                0 => (Message::ResourcesNoneTitle, Message::ResourcesNoneDetail),
                _ => (
                    Message::ResourcesNotFoundTitle,
                    Message::ResourcesNotFoundDetail,
                ),
            };
            self.empty.set_title(&words.get(title));
            self.empty.set_description(Some(&words.get(detail)));
        }
        self.stack
            .set_visible_child_name(if is_empty { "empty" } else { "list" });
    }

    fn apply(&self, step: Splice, now: &[Rc<Row>]) {
        let added: Vec<glib::BoxedAnyObject> = now[step.at..step.at + step.added]
            .iter()
            .map(|row| glib::BoxedAnyObject::new(Rc::clone(row)))
            .collect();
        let place = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        self.store
            .splice(place(step.at), place(step.removed), &added);
    }
}

fn view(app: &Rc<App>, store: &gio::ListStore) -> gtk::ScrolledWindow {
    let factory = gtk::SignalListItemFactory::new();
    let weak = Rc::downgrade(app);
    factory.connect_setup(move |_, item| {
        if let (Some(app), Some(item)) = (weak.upgrade(), item.downcast_ref::<gtk::ListItem>()) {
            set_up(&app, item);
        }
    });
    let weak = Rc::downgrade(app);
    factory.connect_bind(move |_, item| {
        if let (Some(app), Some(item)) = (weak.upgrade(), item.downcast_ref::<gtk::ListItem>()) {
            bind(&app, item);
        }
    });
    let selection = gtk::SingleSelection::builder()
        .model(store)
        .autoselect(false)
        .can_unselect(true)
        .build();
    let view = gtk::ListView::new(Some(selection), Some(factory));
    view.add_css_class("resources");
    name(&view, &app.words.get(Message::Resources));
    let weak = Rc::downgrade(app);
    let shown = store.clone();
    view.connect_activate(move |_, place| {
        let row = shown.item(place).and_downcast::<glib::BoxedAnyObject>();
        if let (Some(app), Some(row)) = (weak.upgrade(), row) {
            let row = Rc::clone(&row.borrow::<Rc<Row>>());
            match row.opens {
                true => app.open_resource(&row.id),
                false => app.copy_address(&row.id),
            }
        }
    });
    let clamp = adw::ClampScrollable::builder()
        .child(&view)
        .maximum_size(900)
        .build();
    gtk::ScrolledWindow::builder()
        .child(&clamp)
        .hscrollbar_policy(gtk::PolicyType::Never)
        .vexpand(true)
        .margin_start(8)
        .margin_end(8)
        .build()
}

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
}

/// The row that a list item shows.
fn row_of(item: &gtk::ListItem) -> Option<Rc<Row>> {
    let row = item.item().and_downcast::<glib::BoxedAnyObject>()?;
    Some(Rc::clone(&row.borrow::<Rc<Row>>()))
}

fn set_up(app: &Rc<App>, item: &gtk::ListItem) {
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
    for button in [&widgets.ask, &widgets.copy, &widgets.open] {
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
    let open = next(&copy)?;
    Some(RowWidgets {
        star,
        name,
        target,
        about,
        state,
        ask,
        copy,
        open,
    })
}

fn bind(app: &App, item: &gtk::ListItem) {
    let (Some(row), Some(widgets)) = (row_of(item), widgets_of(item)) else {
        return;
    };
    let words = &app.words;
    headline::set(&widgets.name, &row.name);
    headline::set(&widgets.target, &row.target);
    let about = present::about(words, &row, local_time);
    widgets.about.set_visible(!about.is_empty());
    headline::set(&widgets.about, &about);
    widgets
        .about
        .set_tooltip_text((!about.is_empty()).then_some(&about));
    headline::set(&widgets.state, &present::state(words, row.state));
    let class = class_of(row.state);
    if !widgets.state.has_css_class(class) {
        widgets.state.set_css_classes(&["pill-state", class]);
    }
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
    widgets
        .ask
        .set_visible(matches!(row.state, AccessState::Denied | AccessState::Idle));
    widgets.open.set_visible(row.opens);
    if let Some(content) = item.child() {
        name(&content, &present::label(words, &row));
        // The row of the list around it is what a screen reader stops at.
        if let Some(around) = content.parent() {
            name(&around, &present::label(words, &row));
        }
    }
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

impl App {
    fn ask_for(self: &Rc<Self>, id: &str) {
        self.send(Request::Ask(id.to_owned()));
        self.toast(&self.words.get(Message::Asked));
    }

    fn copy_address(self: &Rc<Self>, id: &str) {
        let status = self.status();
        let resource = status
            .iter()
            .flat_map(|status| &status.resources)
            .find(|resource| resource.id == id);
        match resource.and_then(|resource| address::to_copy(resource)) {
            Some(target) => self.copy(target),
            None => self.toast(&self.words.get(Message::NotAnAddress)),
        }
    }

    fn open_resource(self: &Rc<Self>, id: &str) {
        let status = self.status();
        let resource = status
            .iter()
            .flat_map(|status| &status.resources)
            .find(|resource| resource.id == id);
        if let Some(url) = resource.and_then(|resource| address::to_open(resource)) {
            self.open_url(&url);
        }
    }

    /// Opens a URL by the program that the desktop has for it.
    pub(super) fn open_url(&self, url: &str) {
        let opened = gio::AppInfo::launch_default_for_uri(url, gio::AppLaunchContext::NONE);
        if opened.is_err() {
            self.toast(&self.words.get(Message::BrowserFailed));
        }
    }
}
