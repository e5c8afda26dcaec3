//! The page of resources: search, choice, and a list that draws only the rows that are seen.

use super::row::{bind, row_of, set_up};
use super::{App, headline, name};
use adw::prelude::*;
use culvert_desktop_core::address;
use culvert_desktop_core::ended::Trace;
use culvert_desktop_core::exchange::Request;
use culvert_desktop_core::favourites::Favourites;
use culvert_desktop_core::present;
use culvert_desktop_core::resources::{
    Choice, MAX_QUERY_CHARS, Row, Rows, Splice, difference, search,
};
use culvert_desktop_core::status::Status;
use culvert_desktop_core::words::{Message, Value, Words};
use culvert_desktop_link::now_ms;
use gtk::{gio, glib};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

const CHOICES: [(Choice, Message); 4] = [
    (Choice::All, Message::ChoiceAll),
    (Choice::Favourites, Message::ChoiceFavourites),
    (Choice::Granted, Message::ChoiceGranted),
    (Choice::Denied, Message::ChoiceDenied),
];

/// The page.
pub(super) struct Resources {
    pub(super) page: gtk::Box,
    entry: gtk::SearchEntry,
    list: Rc<List>,
}

/// The list items that show a row at the moment, by its id. The list has some 200, whatever the number of rows.
type Bound = Rc<RefCell<HashMap<String, gtk::ListItem>>>;

/// The rows and the widgets that show them.
struct List {
    all: RefCell<Rows>,
    /// True once the rows are those of a status.
    is_filled: Cell<bool>,
    found: RefCell<Vec<Rc<Row>>>,
    store: gio::ListStore,
    bound: Bound,
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
        // The button within it is what has the keys.
        if let Some(button) = choice.first_child() {
            name(&button, &words.get(Message::Choice));
        }
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
        let bound = Bound::default();
        let view = view(app, &store, &bound);
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
            bound,
            entry: entry.clone(),
            choice,
            count,
            stack,
            empty,
        });
        list.connect(app);
        Self { page, entry, list }
    }

    /// Shows the resources of a status, and those that are gone from it.
    pub(super) fn show(
        &self,
        words: &Words,
        status: &Status,
        ended: &[Trace],
        favourites: &Favourites,
    ) {
        let mut all = self.list.all.borrow_mut();
        let is_changed = all.update(status, ended, favourites, now_ms());
        drop(all);
        let was_filled = self.list.is_filled.replace(true);
        if is_changed || !was_filled {
            self.list.find(words);
        }
    }

    /// The moment at which a rate ends that is shown.
    pub(super) fn next_ms(&self) -> Option<u64> {
        self.list.all.borrow().next_ms(now_ms())
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
        let before = self.found.replace(now.clone());
        for step in difference(&before, &now) {
            self.apply(words, step, &before, &now);
        }
        let total = all.len();
        let number = |count: usize| Value::Number(u64::try_from(count).unwrap_or(u64::MAX));
        let values = [("shown", number(now.len())), ("total", number(total))];
        headline::set(&self.count, &words.with(Message::ResourcesCount, &values));
        let is_empty = now.is_empty();
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

    fn apply(&self, words: &Words, step: Splice, before: &[Rc<Row>], now: &[Rc<Row>]) {
        let place = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let new = &now[step.at..step.at + step.added];
        // Places are the same in both lists only where nothing was added or removed.
        let old = before.get(step.at..step.at + step.removed).unwrap_or(&[]);
        let is_in_place = old.len() == new.len()
            && before.len() == now.len()
            && old.iter().zip(new).all(|(old, new)| old.id == new.id);
        if is_in_place {
            for (number, (old, new)) in old.iter().zip(new).enumerate() {
                if old != new {
                    self.replace(words, place(step.at + number), old, new);
                }
            }
            return;
        }
        let added: Vec<glib::BoxedAnyObject> = new
            .iter()
            .map(|row| glib::BoxedAnyObject::new(Rc::clone(row)))
            .collect();
        self.store
            .splice(place(step.at), place(step.removed), &added);
    }

    /// Changes a row in its place: a widget that shows it is set anew, and nothing moves.
    fn replace(&self, words: &Words, place: u32, old: &Row, new: &Rc<Row>) {
        let item = self.store.item(place);
        if let Some(object) = item.and_downcast::<glib::BoxedAnyObject>() {
            object.replace(Rc::clone(new));
        }
        let shown = self.bound.borrow().get(&new.id).cloned();
        if let Some(item) = shown {
            bind(words, &item, Some(old));
        }
    }
}

fn view(app: &Rc<App>, store: &gio::ListStore, bound: &Bound) -> gtk::ScrolledWindow {
    let factory = gtk::SignalListItemFactory::new();
    let weak = Rc::downgrade(app);
    factory.connect_setup(move |_, item| {
        if let (Some(app), Some(item)) = (weak.upgrade(), item.downcast_ref::<gtk::ListItem>()) {
            set_up(&app, item);
        }
    });
    let (weak, shown) = (Rc::downgrade(app), Rc::clone(bound));
    factory.connect_bind(move |_, item| {
        if let (Some(app), Some(item)) = (weak.upgrade(), item.downcast_ref::<gtk::ListItem>()) {
            bind(&app.words, item, None);
            if let Some(row) = row_of(item) {
                shown.borrow_mut().insert(row.id.clone(), item.clone());
            }
        }
    });
    let shown = Rc::clone(bound);
    factory.connect_unbind(move |_, item| {
        // The row may be shown by another item already.
        if let Some(row) = item.downcast_ref::<gtk::ListItem>().and_then(row_of) {
            let mut shown = shown.borrow_mut();
            if shown.get(&row.id).map(gtk::ListItem::upcast_ref) == Some(item) {
                shown.remove(&row.id);
            }
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
            match (row.end, row.opens) {
                (Some(_), _) => app.toast(&present::state_of(&app.words, &row)),
                (None, true) => app.open_resource(&row.id),
                (None, false) => app.copy_address(&row.id),
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

impl App {
    pub(super) fn ask_for(self: &Rc<Self>, id: &str) {
        self.send(Request::Ask(id.to_owned()));
        self.toast(&self.words.get(Message::Asked));
    }

    /// Takes a resource that is gone out of the list.
    pub(super) fn dismiss_ended(self: &Rc<Self>, id: &str) {
        self.model.borrow_mut().ended.dismiss(id);
        self.refresh();
    }

    /// Takes resources out of the list whose time is over, and comes back for the next.
    pub(super) fn expire_ended(self: &Rc<Self>) {
        let ended = &mut self.model.borrow_mut().ended;
        ended.expire(now_ms());
        if let Some(next_ms) = ended.next_ms() {
            let wait_ms = next_ms.saturating_sub(now_ms()).max(1);
            self.after(wait_ms, |app| &app.timers.ended, Self::refresh);
        }
    }

    pub(super) fn copy_address(self: &Rc<Self>, id: &str) {
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

    pub(super) fn open_resource(self: &Rc<Self>, id: &str) {
        let status = self.status();
        let resource = status
            .iter()
            .flat_map(|status| &status.resources)
            .find(|resource| resource.id == id);
        if let Some(url) = resource.and_then(|resource| address::to_open(resource)) {
            self.open_url(&url);
        }
    }

    /// Opens a URL by the program that the desktop has for it. False if there is none.
    pub(super) fn launch(url: &str) -> bool {
        gio::AppInfo::launch_default_for_uri(url, gio::AppLaunchContext::NONE).is_ok()
    }

    /// Opens a URL, or says that nothing opened.
    pub(super) fn open_url(&self, url: &str) {
        if !Self::launch(url) {
            self.toast(&self.words.get(Message::BrowserFailed));
        }
    }
}
