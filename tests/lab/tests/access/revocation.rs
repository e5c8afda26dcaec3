//! Access that is taken away stops at once.

use crate::common::{Bed, SECOND};
use anyhow::Result;
use std::time::Instant;

/// Runs an administrator's command and checks that it cuts a running download.
fn cuts(bed: &Bed, command: &str) -> Result<()> {
    let download = bed.download()?;
    bed.product.portal.admin(command)?;
    // The change was committed before the command ended.
    let cut = download.cut_after(Instant::now())?;
    assert!(cut <= SECOND, "{command}: bytes came for another {cut:?}");
    Ok(())
}

#[test]
fn a_deleted_policy_cuts_a_running_download_within_a_second() {
    let bed = Bed::new(1).unwrap();
    cuts(&bed, "policy delete staff-web --yes").unwrap();
}

#[test]
fn a_removed_membership_cuts_a_running_download_within_a_second() {
    let bed = Bed::new(1).unwrap();
    cuts(&bed, "group remove-member staff laptop").unwrap();
}

#[test]
fn a_revoked_client_is_cut_off_within_a_second() {
    let bed = Bed::new(1).unwrap();
    cuts(&bed, "client revoke laptop").unwrap();
}
