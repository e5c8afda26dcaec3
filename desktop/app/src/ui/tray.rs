//! The tray icon: a StatusNotifierItem with a menu (com.canonical.dbusmenu), on the session's D-Bus. Without a
//! tray, nobody asks for it.

use super::App;
use super::pixmap::{self, Pixmap};
use adw::prelude::*;
use culvert_desktop_core::tray::{Entry, Tray as Shown};
use gtk::glib::variant::ObjectPath;
use gtk::{gio, glib};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

const WATCHER: &str = "org.kde.StatusNotifierWatcher";
const WATCHER_PATH: &str = "/StatusNotifierWatcher";
const ITEM: &str = "org.kde.StatusNotifierItem";
/// The path at which hosts look for an item that registers by the name of its connection.
const ITEM_PATH: &str = "/StatusNotifierItem";
const MENU: &str = "com.canonical.dbusmenu";
const MENU_PATH: &str = "/MenuBar";

/// The version of the menu's interface.
const MENU_VERSION: u32 = 3;

/// The tray icon.
pub(super) struct Tray {
    connection: gio::DBusConnection,
    application: adw::Application,
    shown: RefCell<Shown>,
    /// Counts the layouts of the menu.
    revision: Cell<u32>,
}

impl Tray {
    /// Offers the icon to the tray, also to one that comes later or again. None without a D-Bus.
    pub(super) fn new(application: &adw::Application) -> Option<Rc<Self>> {
        let connection = application.dbus_connection()?;
        let tray = Rc::new(Self {
            connection: connection.clone(),
            application: application.clone(),
            shown: RefCell::default(),
            revision: Cell::new(1),
        });
        if let Err(error) = tray.register() {
            glib::g_warning!("culvert-desktop", "no tray icon: {error}");
            return None;
        }
        let name = connection.unique_name()?;
        // Each new owner of the watcher's name is told: a tray that restarts knows nobody.
        gio::bus_watch_name_on_connection(
            &connection,
            WATCHER,
            gio::BusNameWatcherFlags::NONE,
            move |connection, _, _| {
                connection.call(
                    Some(WATCHER),
                    WATCHER_PATH,
                    WATCHER,
                    "RegisterStatusNotifierItem",
                    Some(&(name.as_str(),).to_variant()),
                    None,
                    gio::DBusCallFlags::NONE,
                    -1,
                    gio::Cancellable::NONE,
                    |answer| {
                        if let Err(error) = answer {
                            glib::g_warning!("culvert-desktop", "the tray refuses: {error}");
                        }
                    },
                );
            },
            |_, _| {},
        );
        Some(tray)
    }

    fn register(self: &Rc<Self>) -> Result<(), glib::Error> {
        let node = gio::DBusNodeInfo::for_xml(include_str!("tray.xml"))?;
        for (name, path) in [(ITEM, ITEM_PATH), (MENU, MENU_PATH)] {
            let Some(interface) = node.lookup_interface(name) else {
                continue;
            };
            let (called, asked) = (Rc::clone(self), Rc::clone(self));
            self.connection
                .register_object(path, &interface)
                .method_call(move |_, _, _, _, method, parameters, invocation| {
                    match called.call(method, &parameters) {
                        Some(answer) => invocation.return_value(Some(&answer)),
                        None => invocation.return_error(
                            gio::DBusError::InvalidArgs,
                            "there is no such entry or property",
                        ),
                    }
                })
                .property(move |_, _, _, interface, property| match interface {
                    ITEM => asked.item_property(property),
                    _ => menu_property(property),
                })
                .build()?;
        }
        Ok(())
    }

    /// Shows a state.
    pub(super) fn show(&self, shown: Shown) {
        let before = self.shown.replace(shown);
        let now = self.shown.borrow();
        if before == *now {
            return;
        }
        let say = |path, interface, signal, parameters: Option<&glib::Variant>| {
            // A connection that is closed has no tray either.
            let _closed = self
                .connection
                .emit_signal(None, path, interface, signal, parameters);
        };
        if before.menu != now.menu {
            let revision = self.revision.get().wrapping_add(1);
            self.revision.set(revision);
            let layout = (revision, 0_i32).to_variant();
            say(MENU_PATH, MENU, "LayoutUpdated", Some(&layout));
        }
        for signal in ["NewTitle", "NewIcon", "NewAttentionIcon", "NewToolTip"] {
            say(ITEM_PATH, ITEM, signal, None);
        }
        let status = (status(&now),).to_variant();
        say(ITEM_PATH, ITEM, "NewStatus", Some(&status));
    }

    fn item_property(&self, property: &str) -> glib::Variant {
        let shown = self.shown.borrow();
        match property {
            "Category" => "SystemServices".to_variant(),
            "Id" => super::ID.to_variant(),
            "Title" => shown.title.to_variant(),
            "Status" => status(&shown).to_variant(),
            "WindowId" => 0_i32.to_variant(),
            "IconName" | "AttentionIconName" => shown.icon.to_variant(),
            // For hosts that draw no icons of the theme. Others take the name.
            "IconPixmap" | "AttentionIconPixmap" => pixmap::of(&shown).to_variant(),
            "ToolTip" => {
                let no_pixels = Vec::<Pixmap>::new();
                (shown.icon, no_pixels, &shown.title, &shown.detail).to_variant()
            }
            "ItemIsMenu" => false.to_variant(),
            "Menu" => ObjectPath::try_from(MENU_PATH.to_owned())
                .map_or_else(|_| "".to_variant(), |path| path.to_variant()),
            _ => "".to_variant(),
        }
    }

    /// Carries a method of either interface out. Their names are all different.
    fn call(&self, method: &str, parameters: &glib::Variant) -> Option<glib::Variant> {
        let empty = Vec::<i32>::new();
        Some(match method {
            "Activate" | "SecondaryActivate" => {
                self.application.activate_action("toggle", None);
                ().to_variant()
            }
            "GetLayout" => {
                let (parent, ..): (i32, i32, Vec<String>) = parameters.get()?;
                (self.revision.get(), self.layout(parent)?).to_variant()
            }
            "GetGroupProperties" => {
                let (ids, _): (Vec<i32>, Vec<String>) = parameters.get()?;
                let shown = self.shown.borrow();
                let wanted = |id: &i32| ids.is_empty() || ids.contains(id);
                let entries: Vec<(i32, Properties)> = numbered(&shown.menu)
                    .filter(|(id, _)| wanted(id))
                    .map(|(id, entry)| (id, properties(entry)))
                    .collect();
                (entries,).to_variant()
            }
            "GetProperty" => {
                let (id, property): (i32, String) = parameters.get()?;
                let value = properties(&self.entry(id)?).remove(&property)?;
                (value,).to_variant()
            }
            "Event" => {
                let (id, event, ..): (i32, String, glib::Variant, u32) = parameters.get()?;
                self.handle(id, &event);
                ().to_variant()
            }
            "EventGroup" => {
                let (events,): (Vec<(i32, String, glib::Variant, u32)>,) = parameters.get()?;
                for (id, event, ..) in events {
                    self.handle(id, &event);
                }
                (empty,).to_variant()
            }
            "AboutToShow" => (false,).to_variant(),
            "AboutToShowGroup" => (empty.clone(), empty).to_variant(),
            // The host draws the menu by itself.
            _ => ().to_variant(),
        })
    }

    fn entry(&self, id: i32) -> Option<Entry> {
        let shown = self.shown.borrow();
        numbered(&shown.menu)
            .find(|(number, _)| *number == id)
            .map(|(_, entry)| entry.clone())
    }

    fn handle(&self, id: i32, event: &str) {
        let action = self.entry(id).and_then(|entry| entry.action);
        if let Some(action) = action.filter(|_| event == "clicked") {
            self.application.activate_action(action, None);
        }
    }

    /// The menu below an entry: all entries are below the root, which has the number 0.
    fn layout(&self, parent: i32) -> Option<(i32, Properties, Vec<glib::Variant>)> {
        let leaf = |(id, entry): (i32, &Entry)| {
            (id, properties(entry), Vec::<glib::Variant>::new()).to_variant()
        };
        if parent != 0 {
            let entry = self.entry(parent)?;
            return Some((parent, properties(&entry), Vec::new()));
        }
        let mut root = Properties::new();
        root.insert("children-display".to_owned(), "submenu".to_variant());
        let shown = self.shown.borrow();
        Some((0, root, numbered(&shown.menu).map(leaf).collect()))
    }
}

type Properties = HashMap<String, glib::Variant>;

/// The entries with their numbers, from 1.
fn numbered(menu: &[Entry]) -> impl Iterator<Item = (i32, &Entry)> {
    (1..).zip(menu)
}

fn properties(entry: &Entry) -> Properties {
    let mut properties = Properties::new();
    if entry.label.is_empty() {
        properties.insert("type".to_owned(), "separator".to_variant());
    } else {
        // A single underscore marks a key.
        let label = entry.label.replace('_', "__");
        properties.insert("label".to_owned(), label.to_variant());
        properties.insert("enabled".to_owned(), entry.action.is_some().to_variant());
    }
    properties.insert("visible".to_owned(), true.to_variant());
    properties
}

const fn status(shown: &Shown) -> &'static str {
    match shown.needs_attention {
        true => "NeedsAttention",
        false => "Active",
    }
}

fn menu_property(property: &str) -> glib::Variant {
    match property {
        "Version" => MENU_VERSION.to_variant(),
        "IconThemePath" => Vec::<String>::new().to_variant(),
        "TextDirection" => "ltr".to_variant(),
        _ => "normal".to_variant(),
    }
}

impl App {
    /// Shows the window, or closes it if it is in front.
    pub(super) fn toggle(self: &Rc<Self>) {
        match self.window.get() {
            Some(window) if window.is_visible() && window.is_active() => window.close(),
            _ => self.present(),
        }
    }
}
