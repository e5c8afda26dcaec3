//! The patience of tests with the product.

use std::time::Duration;

/// Something on this machine that should happen at once may take this long when others compile.
pub(super) const SOON: Duration = Duration::from_secs(20);
