//! The page of gateways in use: path, round trip and rates of each.

use adw::prelude::*;
use culvert_desktop_core::present;
use culvert_desktop_core::status::Gateway;
use culvert_desktop_core::text;
use culvert_desktop_core::words::{Message, Words};
use std::cell::RefCell;

/// The most gateways that are shown. A client uses one or two for each site.
const MAX_GATEWAYS: usize = 100;

/// The page.
pub(super) struct Gateways {
    pub(super) page: gtk::Stack,
    group: adw::PreferencesGroup,
    rows: RefCell<Vec<adw::ActionRow>>,
}

impl Gateways {
    pub(super) fn new(words: &Words) -> Self {
        let empty = adw::StatusPage::builder()
            .icon_name("network-workgroup-symbolic")
            .title(words.get(Message::GatewaysNoneTitle))
            .description(words.get(Message::GatewaysNoneDetail))
            .build();
        let group = adw::PreferencesGroup::new();
        let list = adw::PreferencesPage::new();
        list.add(&group);
        let page = gtk::Stack::new();
        page.add_named(&empty, Some("empty"));
        page.add_named(&list, Some("list"));
        Self {
            page,
            group,
            rows: RefCell::default(),
        }
    }

    /// Shows these gateways, which the service told `age_ms` ago.
    pub(super) fn show(&self, words: &Words, gateways: &[Gateway], age_ms: u64) {
        let gateways = &gateways[..gateways.len().min(MAX_GATEWAYS)];
        let mut rows = self.rows.borrow_mut();
        while rows.len() > gateways.len() {
            if let Some(row) = rows.pop() {
                self.group.remove(&row);
            }
        }
        while rows.len() < gateways.len() {
            let row = adw::ActionRow::builder()
                .use_markup(false)
                .subtitle_lines(3)
                .build();
            row.add_prefix(&gtk::Image::from_icon_name("network-server-symbolic"));
            self.group.add(&row);
            rows.push(row);
        }
        for (row, gateway) in rows.iter().zip(gateways) {
            let [path, rates] = present::gateway(words, gateway, age_ms);
            let subtitle = format!("{path}\n{rates}");
            if row.subtitle().as_deref() != Some(&subtitle) {
                row.set_title(&text::isolate(&gateway.name));
                row.set_subtitle(&subtitle);
            }
        }
        self.page
            .set_visible_child_name(if gateways.is_empty() { "empty" } else { "list" });
    }
}
