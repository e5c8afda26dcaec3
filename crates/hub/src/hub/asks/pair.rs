//! The two that a grant is for.

use culvert_ids::{ClientId, ResourceId};

/// A client and a resource that it is to get a grant for.
pub(crate) type Pair = (ClientId, ResourceId);
