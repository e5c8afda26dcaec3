//! Requirements on every implementation of [`Store`].
//!
//! An implementation calls `conformance!(name, factory)`, where the factory is an `async fn` that
//! makes an empty store; each check becomes a test of its own in a module of that name.

pub(crate) mod counts;
pub(crate) mod factors;
pub(crate) mod feed;
pub(crate) mod high_rate;
pub(crate) mod invitations;
pub(crate) mod isolation;
pub(crate) mod large_writes;
pub(crate) mod logs;
pub(crate) mod machines;
pub(crate) mod model;
pub(crate) mod owners;
pub(crate) mod paging;
pub(crate) mod passkeys;
pub(crate) mod pending;
pub(crate) mod people;
pub(crate) mod plain_clients;
pub(crate) mod proofs;
pub(crate) mod providers;
pub(crate) mod recent_use;
pub(crate) mod relays;
pub(crate) mod searching;
pub(crate) mod tokens;
pub(crate) mod totals;
pub(crate) mod world;
pub(crate) mod writing;

use culvert_store::Store;
use std::any::Any;
use std::sync::Arc;

/// An empty store, and what must live as long as it.
pub(crate) struct Fixture {
    pub(crate) store: Arc<dyn Store>,
    _keep: Box<dyn Any + Send + Sync>,
}

impl Fixture {
    pub(crate) fn new(store: Arc<dyn Store>, keep: impl Any + Send + Sync) -> Self {
        let _keep = Box::new(keep);
        Self { store, _keep }
    }
}

/// The tests of one implementation.
#[macro_export]
macro_rules! conformance {
    ($name:ident, $factory:path) => {
        mod $name {
            use super::conformance as suite;
            $crate::conformance! { @checks $factory;
                writing::a_row_is_read_as_it_was_written
                writing::a_write_does_all_or_nothing
                writing::an_update_of_another_version_conflicts
                writing::an_update_that_changes_nothing_is_not_recorded
                writing::names_are_unique_whatever_their_case
                writing::names_are_unique_where_a_capital_has_more_characters
                writing::names_that_are_no_names_are_refused
                writing::an_actor_is_in_a_group_once
                writing::what_a_row_refers_to_must_exist
                writing::what_is_in_use_is_not_deleted
                writing::a_cascade_takes_all_that_refers_along
                writing::what_the_store_alone_writes_can_not_be_updated
                writing::settings_that_can_not_work_are_refused
                writing::more_mutations_than_the_bound_are_refused
                writing::an_id_names_one_row
                writing::bootstrap_makes_an_account_and_ends_with_an_admin
                logs::a_report_of_flows_is_in_the_log_once
                logs::what_comes_late_has_its_place_by_its_time
                logs::the_flow_log_is_filtered_and_paged
                logs::a_log_is_read_on_from_where_one_was
                logs::logs_are_pruned_but_for_the_last_change
                logs::what_happened_is_counted_by_the_minute
                totals::the_newest_entries_are_summed_by_cause_resource_and_person
                logs::a_sink_has_its_places_and_a_secret_until_it_is_forgotten
                recent_use::the_recent_use_of_a_thing_is_counted_with_the_causes_of_denials
                recent_use::the_recent_use_of_a_thing_counts_a_bounded_number_of_entries
                recent_use::members_of_groups_are_counted
                counts::rows_are_counted_by_what_they_refer_to_and_by_their_software
                searching::the_access_log_is_searched_by_names_ids_and_reasons
                searching::the_flow_log_is_searched_by_addresses_ports_and_applications
                searching::the_change_log_is_searched_by_what_was_before_and_after
                searching::a_search_goes_on_by_its_cursor_beyond_what_one_page_looks_at
                feed::changes_are_numbered_without_gaps_and_say_who_did_what
                feed::concurrent_writes_leave_no_gap
                feed::the_change_log_is_filtered_and_paged
                feed::no_digest_is_in_the_change_log
                feed::whoever_watches_wakes_after_a_commit
                feed::a_snapshot_says_up_to_which_change
                paging::pages_neither_repeat_nor_lose_rows_under_inserts
                paging::filters_narrow_a_list
                paging::policies_of_the_groups_of_an_actor_are_listed
                paging::a_list_is_read_in_the_order_that_people_chose_with_the_number_of_all
                paging::rows_are_found_by_each_text_that_people_know_them_by
                paging::states_of_machines_narrow_a_list
                paging::parts_of_a_kind_have_lists_of_their_own
                paging::names_of_all_kinds_are_found_at_once
                paging::a_filter_that_does_not_go_with_the_kind_is_refused
                isolation::ghsa_6v5r_no_method_reads_or_changes_another_account
                isolation::an_unknown_account_is_an_error_everywhere
                tokens::a_token_stands_for_its_holder
                tokens::every_cause_denies_with_one_text
                tokens::ts_2025_007_a_one_time_token_used_by_many_at_once_is_used_once
                tokens::a_failed_mutation_leaves_the_one_time_token_unused
                tokens::last_use_is_no_change
                people::a_password_is_found_under_its_name_until_it_ends
                invitations::a_link_is_of_one_person_and_sets_one_password
                invitations::a_link_ends_with_what_it_was_made_for
                invitations::a_link_that_is_used_ends_the_sessions_of_its_person_alone
                invitations::of_many_who_use_one_link_at_once_one_sets_the_password
                invitations::an_owner_is_invited_by_owners_alone
                invitations::a_link_without_a_role_lowers_no_token
                factors::a_second_factor_stays_with_the_password_and_goes_with_it
                factors::a_step_is_used_once_and_never_goes_back
                factors::a_recovery_code_is_used_once_by_any_number_of_callers
                factors::a_factor_is_of_one_person_in_one_account
                passkeys::a_passkey_is_of_one_person_and_goes_with_the_password
                passkeys::recovery_codes_go_with_the_last_factor
                passkeys::a_passkey_that_has_not_counted_on_is_denied
                passkeys::passkeys_are_bounded
                passkeys::the_parts_of_a_passkey_are_bounded
                people::a_session_ends_unused_and_with_the_password
                people::a_write_by_a_token_that_no_longer_stands_changes_nothing
                people::a_person_s_token_may_do_no_more_than_the_person
                people::who_no_longer_signs_in_keeps_no_token_for_the_api_and_all_others
                people::a_write_needs_the_role_that_it_was_permitted_by
                people::owners_are_found_with_all_ways_by_which_they_are
                people::a_password_without_a_role_leaves_the_role_and_begins_no_sign_in
                owners::the_last_password_of_an_owner_stays_whatever_the_write
                owners::the_last_token_of_an_owner_stays_whatever_the_write
                owners::of_two_owners_who_remove_each_other_one_stays
                owners::sessions_and_tokens_of_an_owner_are_ended_and_made_by_owners_and_themselves
                owners::the_sessions_of_the_moment_end_but_for_one
                owners::of_two_sessions_that_begin_at_once_each_makes_room
                owners::who_is_unlinked_keeps_what_people_made
                owners::a_write_is_refused_after_a_row_that_it_expects_has_changed
                owners::of_many_first_starts_at_once_one_makes_the_account
                proofs::a_session_begins_by_the_password_of_now_alone
                proofs::a_session_begins_by_the_factors_of_now_alone
                proofs::a_session_begins_by_an_identity_while_its_provider_lets_people_in
                proofs::a_session_that_has_ended_makes_no_other
                proofs::a_session_keeps_when_its_person_was_last_proven
                providers::a_provider_s_secret_lies_apart_until_it_goes
                providers::what_is_an_owner_s_is_changed_by_owners_alone_whatever_came_before_the_write
                providers::an_issuer_stays_what_it_is
                providers::a_subject_is_one_person_at_one_provider
                providers::identities_go_with_their_actor_and_their_provider
                machines::a_machine_gets_addresses_and_keeps_them
                machines::a_deceptive_name_is_replaced_at_enrolment_and_refused_elsewhere
                machines::a_new_key_is_recorded_and_ends_verification
                machines::a_new_key_of_a_gateway_is_recorded_with_its_token_and_ends_verification
                machines::ghsa_69x3_a_revoked_machine_is_not_let_in_under_any_name
                machines::a_token_revoked_since_it_was_accepted_enrols_nothing
                machines::a_token_of_another_kind_enrols_nothing
                machines::a_key_of_another_machine_is_refused
                machines::machines_of_one_name_get_numbers
                machines::a_machine_that_comes_again_as_it_was_writes_nothing
                machines::a_machine_s_name_of_the_form_of_an_id_gets_a_number
                machines::an_address_rests_for_a_day
                machines::an_address_of_a_deleted_gateway_rests_as_well
                machines::a_full_range_refuses_and_says_which
                machines::a_machine_outside_of_new_ranges_moves
                machines::a_one_time_token_belongs_to_the_machine_that_used_it
                machines::one_machine_that_enrols_many_times_at_once_is_one_client
                plain_clients::a_plain_device_has_a_key_addresses_and_a_gateway_of_its_own
                plain_clients::a_key_that_exists_or_cannot_be_one_is_refused
                plain_clients::another_key_is_recorded_and_ends_verification
                plain_clients::a_device_is_no_machine_that_enrols_and_moves_into_new_ranges
                plain_clients::plain_devices_are_bounded
                plain_clients::a_gateway_stays_while_any_device_has_its_key
                plain_clients::a_device_has_one_gateway_at_least_and_eight_at_most
                relays::a_relay_that_comes_again_is_the_same_and_writes_nothing
                relays::a_one_time_token_of_a_relay_belongs_to_the_relay_that_used_it
                relays::a_revoked_relay_stays_away_and_no_other_token_enrols_one
                relays::relays_are_listed_by_their_state_and_counted_by_their_software
                relays::a_relay_that_a_site_names_is_not_deleted
                relays::the_rule_about_paths_and_the_relays_of_a_site_are_kept
                high_rate::what_was_last_seen_is_no_change
                high_rate::grants_live_until_they_end_or_expire
                high_rate::the_access_log_is_filtered_and_paged
                high_rate::the_access_log_is_pruned_by_age_and_number
                high_rate::secrets_are_made_once
                high_rate::batches_are_bounded
                pending::what_waits_is_there_until_it_is_taken_or_its_time_is_over
                pending::of_two_who_take_at_once_one_gets_it
                pending::of_those_who_change_what_they_saw_one_does
                pending::of_those_who_come_at_once_one_is_first
                pending::whoever_has_the_most_makes_room_and_loses_the_oldest
                pending::a_site_that_takes_all_leaves_one_for_everybody_else
                pending::one_with_a_full_share_is_told_how_long_to_wait
                pending::bounds_hold_for_those_who_come_at_once
                pending::pending_things_are_of_one_account_and_bounded
                pending::tries_are_counted_by_whoever_lets_them_pass
                model::random_mutations_do_what_the_model_does
                model::many_mutations_do_what_each_by_itself_does
                large_writes::a_write_of_several_batches_creates_changes_and_deletes_all_its_rows
            }
        }
    };
    (@checks $factory:path; $($module:ident::$check:ident)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $check() {
            suite::$module::$check(async || $factory().await).await;
        }
    )*};
}
