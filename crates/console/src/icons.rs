//! Icons: paths on a grid of 24 by 24, drawn with a stroke in the colour of the text beside them.

/// An icon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Icon(&'static str);

impl Icon {
    pub(crate) const OVERVIEW: Self = Self("M4 4h7v7H4zM14 4h6v4h-6zM14 11h6v9h-6zM4 14h7v6H4z");
    pub(crate) const SITES: Self =
        Self("M5 20V6l8-3v17M13 9l6 3v8M3 20h18M9 8v.01M9 12v.01M9 16v.01M16 16v.01");
    pub(crate) const GATEWAYS: Self =
        Self("M4 20v-8a8 8 0 0 1 16 0v8M9 20v-7.5a3 3 0 0 1 6 0V20M2 20h20");
    pub(crate) const RELAYS: Self = Self("M3 8h13M12 4l4 4l-4 4M21 16H8M12 12l-4 4l4 4");
    pub(crate) const CLIENTS: Self = Self("M5 5h14v10H5zM2 19h20");
    pub(crate) const DNS: Self = Self(
        "M12 3a9 9 0 1 0 0 18a9 9 0 0 0 0-18M3 12h18M12 3c3.5 3 3.5 15 0 18M12 3c-3.5 3-3.5 15 0 18",
    );
    pub(crate) const RESOURCES: Self = Self("M4 4h16v6H4zM4 14h16v6H4zM8 7v.01M8 17v.01");
    pub(crate) const POLICIES: Self =
        Self("M12 3l8 3v6c0 5-3.5 8-8 9c-4.5-1-8-4-8-9V6zM8.5 12l2.5 2.5l4.5-5");
    pub(crate) const PEOPLE: Self = Self(
        "M9 11a4 4 0 1 0 0-8a4 4 0 0 0 0 8M2 21c0-4 3-6 7-6s7 2 7 6M17 4a4 4 0 0 1 0 7M18.5 15.5c2.2.8 3.5 2.700 3.5 5.5",
    );
    pub(crate) const GROUPS: Self = Self(
        "M12 8a3 3 0 1 0 0-6a3 3 0 0 0 0 6M5 21a3 3 0 1 0 0-6a3 3 0 0 0 0 6M19 21a3 3 0 1 0 0-6a3 3 0 0 0 0 6M12 8v4l-5 3.5M12 12l5 3.5",
    );
    pub(crate) const SERVICE_ACCOUNTS: Self =
        Self("M7 7h10v10H7zM10 3v4M14 3v4M10 17v4M14 17v4M3 10h4M3 14h4M17 10h4M17 14h4");
    pub(crate) const EXPLAIN: Self = Self(
        "M12 3a9 9 0 1 0 0 18a9 9 0 0 0 0-18M9.5 9.5a2.5 2.5 0 1 1 3.6 2.300c-.7.4-1.1.9-1.100 1.700M12 16.800v.01",
    );
    pub(crate) const ACTIVITY: Self = Self("M3 12h4l3-8l4 16l3-8h4");
    pub(crate) const SETTINGS: Self =
        Self("M4 6h10M18 6h2M4 12h4M12 12h8M4 18h10M18 18h2M16 4v4M10 10v4M16 16v4");
    pub(crate) const PERSON: Self =
        Self("M12 12a4.5 4.5 0 1 0 0-9a4.5 4.5 0 0 0 0 9M4 21c0-4 3.5-6 8-6s8 2 8 6");

    pub(crate) const AUTO: Self =
        Self("M12 3a9 9 0 1 0 0 18zM12 3a9 9 0 0 1 0 18M12 7.5h3.5M12 12h5M12 16.5h3.5");
    pub(crate) const LIGHT: Self = Self(
        "M12 8a4 4 0 1 0 0 8a4 4 0 0 0 0-8M12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.5 1.5M17.5 17.5L19 19M5 19l1.5-1.5M17.5 6.5L19 5",
    );
    pub(crate) const DARK: Self = Self("M20 14.5A8.5 8.5 0 1 1 9.5 4A7 7 0 0 0 20 14.5z");
    pub(crate) const MENU: Self = Self("M4 6h16M4 12h16M4 18h16");
    pub(crate) const MORE: Self = Self("M5 12h.01M12 12h.01M19 12h.01");
    pub(crate) const CREATE: Self = Self("M12 5v14M5 12h14");

    /// The data of the path.
    pub(crate) const fn path(self) -> &'static str {
        self.0
    }
}
