//! The paths of the console, each with the page that answers it.

use super::state::Console;
use super::{
    actor_page, assets, change_log, choices, clients, components, confirm, device, dns, enrolment,
    explain, exports, factors, first, first_steps, flows, gateways, groups, guard, identities,
    invitation_page, invitations, join_groups, live, log_settings, logs, me, new_client,
    new_gateway, new_provider, new_relay, overview, own_access, passkeys, people, policies,
    portals, provider_sign_in, providers, relays, resources, second_step, service_accounts,
    settings, site_relays, sites, theme_choice, tokens, verified_gateways, wireguard,
};
use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodRouter, get, post};
use culvert_portal_service::{ClientAction, GatewayAction, RelayAction};

/// The pages.
pub fn router(console: Console) -> Router {
    // Acts that give access or weaken a proof (docs/sign-in.md): their person was proven lately.
    let proven = |route: MethodRouter<Console>| {
        route.layer(from_fn_with_state(console.clone(), confirm::ask))
    };
    Router::new()
        .route("/confirm", get(confirm::show))
        .route("/confirm/password", post(confirm::by_password))
        .route("/confirm/passkey", post(confirm::by_passkey))
        .route("/confirm/provider", post(confirm::by_provider))
        .route("/confirm/done", get(confirm::done))
        .route("/", get(overview::show))
        .route("/assets/style.css", get(assets::serve))
        .route("/assets/console.js", get(assets::serve))
        .route("/assets/passkey.js", get(assets::serve))
        .route("/assets/forms.js", get(assets::serve))
        .route("/assets/wireguard.js", get(assets::serve))
        .route("/assets/logo.svg", get(assets::serve))
        .route("/assets/inter-latin.woff2", get(assets::serve))
        .route("/assets/inter-latin-ext.woff2", get(assets::serve))
        .route("/favicon.ico", get(assets::favicon))
        .route("/theme", post(theme_choice::choose))
        .route("/live", get(live::follow))
        .route("/set-up", get(first::ask_set_up).post(first::set_up))
        .route("/sign-in", get(first::ask_sign_in).post(first::sign_in))
        .route("/sign-in/with/{id}", get(provider_sign_in::begin))
        .route("/sign-in/callback", get(provider_sign_in::finish))
        .route("/sign-in/code", post(second_step::by_code))
        .route("/sign-in/passkey", post(first::sign_in_by_passkey))
        .route("/sign-in/passkey/second", post(second_step::by_passkey))
        .route("/sign-out", post(me::sign_out))
        .route("/invitation", post(invitation_page::accept))
        .route("/invitation/{link}", get(invitation_page::show))
        .route("/me/link", proven(post(identities::link_own)))
        .route("/me/unlink/{id}", post(identities::unlink_own))
        .route("/device", get(device::show))
        .route("/device/approve", proven(post(device::approve)))
        .route("/device/deny", post(device::deny))
        .route(
            "/settings/providers",
            proven(get(providers::list).post(new_provider::create)),
        )
        .route("/settings/providers/new", get(new_provider::ask))
        .route(
            "/settings/providers/{id}",
            proven(get(providers::show).post(providers::change)),
        )
        .route(
            "/settings/providers/{id}/delete",
            proven(post(providers::delete)),
        )
        .route("/people/{id}/link", proven(post(identities::link)))
        .route("/people/{id}/end-sessions", post(actor_page::end_sessions))
        .route("/identities/{id}/unlink", post(identities::unlink))
        .route("/me", get(me::show))
        .route("/me/access", get(own_access::show))
        .route("/me/password", proven(post(me::change_password)))
        .route("/me/sign-out-everywhere", post(me::sign_out_everywhere))
        .route("/me/sessions/end-others", post(me::end_others))
        .route("/me/sessions/{id}/end", post(me::end_session))
        .route(
            "/me/second-factor",
            proven(get(factors::show).post(factors::begin)),
        )
        .route("/me/second-factor/confirm", post(factors::confirm))
        .route("/me/second-factor/remove", proven(post(factors::remove)))
        .route("/me/recovery-codes", proven(post(factors::new_codes)))
        .route("/me/passkeys", proven(post(passkeys::begin)))
        .route("/me/passkeys/confirm", post(passkeys::confirm))
        .route("/me/passkeys/{handle}", get(passkeys::show))
        .route("/me/passkeys/{handle}/name", post(passkeys::rename))
        .route(
            "/me/passkeys/{handle}/remove",
            proven(post(passkeys::remove)),
        )
        .route("/sites", get(sites::list).post(sites::create))
        .route("/sites/new", get(sites::ask))
        .route("/sites/{id}", get(sites::show))
        .route("/sites/{id}/token", proven(post(sites::make_token)))
        .route("/sites/{id}/name", post(sites::rename))
        .route("/sites/{id}/relays", post(site_relays::choose))
        .route("/sites/{id}/delete", post(sites::delete))
        .route("/gateways", get(gateways::list))
        .route(
            "/gateways/new",
            proven(get(new_gateway::ask).post(new_gateway::create_token)),
        )
        .route("/gateways/{id}", get(gateways::show))
        .route("/gateways/{id}/name", post(gateways::rename))
        .route(
            "/settings/verified-gateways",
            proven(get(verified_gateways::show).post(verified_gateways::change)),
        )
        .route(
            "/gateways/{id}/verify",
            proven(post(|console, id, posted| {
                gateways::judge(console, id, posted, GatewayAction::Verify)
            })),
        )
        .route(
            "/gateways/{id}/unverify",
            post(|console, id, posted| {
                gateways::judge(console, id, posted, GatewayAction::Unverify)
            }),
        )
        .route(
            "/gateways/{id}/drain",
            post(|console, id, posted| gateways::judge(console, id, posted, GatewayAction::Drain)),
        )
        .route("/gateways/{id}/drain-now", post(gateways::drain_now))
        .route(
            "/gateways/{id}/undrain",
            post(|console, id, posted| {
                gateways::judge(console, id, posted, GatewayAction::Undrain)
            }),
        )
        .route(
            "/gateways/{id}/revoke",
            post(|console, id, posted| gateways::judge(console, id, posted, GatewayAction::Revoke)),
        )
        .route("/relays", get(relays::list))
        .route(
            "/relays/new",
            proven(get(new_relay::ask).post(new_relay::create_token)),
        )
        .route("/relays/{id}", get(relays::show))
        .route("/relays/{id}/name", post(relays::rename))
        .route(
            "/relays/{id}/drain",
            post(|console, id, posted| relays::judge(console, id, posted, RelayAction::Drain)),
        )
        .route(
            "/relays/{id}/undrain",
            post(|console, id, posted| relays::judge(console, id, posted, RelayAction::Undrain)),
        )
        .route(
            "/relays/{id}/revoke",
            post(|console, id, posted| relays::judge(console, id, posted, RelayAction::Revoke)),
        )
        .route("/resources", get(resources::list))
        .route(
            "/resources/new",
            get(resources::ask).post(resources::create),
        )
        .route(
            "/resources/{id}",
            get(resources::show).post(resources::change),
        )
        .route("/resources/{id}/delete", post(resources::delete))
        .route("/policies", get(policies::list).post(policies::create))
        .route(
            "/policies/{id}/enable",
            post(|console, id, posted| policies::switch(console, id, posted, false)),
        )
        .route(
            "/policies/{id}/disable",
            post(|console, id, posted| policies::switch(console, id, posted, true)),
        )
        .route("/policies/new", get(policies::ask))
        .route("/policies/{id}", get(policies::show).post(policies::change))
        .route("/policies/{id}/delete", post(policies::delete))
        .route("/components", get(components::show))
        .route("/explain", get(explain::show))
        .route("/choices", get(choices::list))
        .route("/people", get(people::list).post(people::create))
        .route("/people/new", get(people::ask))
        .route(
            "/people/invitations/new",
            proven(get(invitations::ask).post(invitations::invite)),
        )
        .route(
            "/people/{id}/invitation",
            proven(post(invitations::invite_again)),
        )
        .route("/people/{id}/withdraw", post(invitations::withdraw))
        .route("/people/{id}", get(actor_page::show))
        .route(
            "/people/{id}/sign-in",
            proven(post(actor_page::set_sign_in)),
        )
        .route(
            "/people/second-factor",
            proven(post(people::require_factor)),
        )
        .route(
            "/people/{id}/reset-second-factor",
            proven(post(actor_page::reset_factor)),
        )
        .route("/people/{id}/end-sign-in", post(actor_page::end_sign_in))
        .route(
            "/people/{id}/disable",
            post(|console, id, posted| actor_page::switch(console, id, posted, true)),
        )
        .route(
            "/people/{id}/enable",
            post(|console, id, posted| actor_page::switch(console, id, posted, false)),
        )
        .route("/people/{id}/token", proven(post(actor_page::make_token)))
        .route("/people/{id}/name", post(actor_page::rename))
        .route("/people/{id}/groups", post(join_groups::add_to_groups))
        .route("/people/{id}/delete", post(actor_page::delete))
        .route("/tokens/{id}", get(enrolment::show))
        .route("/tokens/{id}/revoke", post(tokens::revoke))
        .route("/service-accounts/new", get(service_accounts::ask))
        .route(
            "/service-accounts",
            get(service_accounts::list).post(service_accounts::create),
        )
        .route("/groups", get(groups::list).post(groups::create))
        .route("/groups/new", get(groups::ask))
        .route(
            "/groups/{id}",
            get(groups::show).post(join_groups::add_members),
        )
        .route("/groups/{id}/remove/{actor}", post(groups::remove_member))
        .route("/groups/{id}/name", post(groups::rename))
        .route("/groups/{id}/delete", post(groups::delete))
        .route("/clients", get(clients::list))
        .route(
            "/clients/new",
            proven(get(new_client::ask).post(new_client::create_token)),
        )
        .route("/clients/{id}", get(clients::show))
        .route("/clients/{id}/name", post(clients::rename))
        .route("/clients/{id}/delete", post(clients::delete))
        .route(
            "/clients/{id}/verify",
            proven(post(|console, id, posted| {
                clients::judge(console, id, posted, ClientAction::Verify)
            })),
        )
        .route(
            "/clients/{id}/unverify",
            post(|console, id, posted| clients::judge(console, id, posted, ClientAction::Unverify)),
        )
        .route(
            "/clients/{id}/revoke",
            post(|console, id, posted| clients::judge(console, id, posted, ClientAction::Revoke)),
        )
        .route(
            "/wireguard/new",
            proven(get(wireguard::ask).post(wireguard::add)),
        )
        .route("/wireguard/{id}", get(wireguard::show))
        .route("/wireguard/{id}/key", proven(post(wireguard::rekey)))
        .route("/clients/selected", proven(post(clients::change_selected)))
        .route("/people/selected", post(people::change_selected))
        .route("/policies/selected", post(policies::change_selected))
        .route("/resources/selected", post(resources::change_selected))
        .route("/groups/selected", post(groups::change_selected))
        .route("/gateways/selected", post(gateways::change_selected))
        .route("/relays/selected", post(relays::change_selected))
        .route("/settings/tokens/selected", post(tokens::change_selected))
        .route("/log/changes", get(change_log::show))
        .route("/log/access", get(logs::access))
        .route("/log/flows", get(flows::show))
        .route("/log/access/export/{format}", get(exports::access))
        .route("/log/changes/export/{format}", get(exports::changes))
        .route("/log/flows/export/{format}", get(exports::flows))
        .route(
            "/settings/retention",
            get(log_settings::show_retention).post(log_settings::change_retention),
        )
        .route(
            "/settings/sinks",
            get(log_settings::show_sinks).post(log_settings::create_sink),
        )
        .route("/settings/sinks/new", get(log_settings::ask_sink))
        .route(
            "/settings/sinks/{name}/pause",
            post(|console, name, posted| log_settings::pause_sink(console, name, posted, true)),
        )
        .route(
            "/settings/sinks/{name}/resume",
            post(|console, name, posted| log_settings::pause_sink(console, name, posted, false)),
        )
        .route(
            "/settings/sinks/{name}/delete",
            post(log_settings::delete_sink),
        )
        .route("/settings/sinks/{name}/test", post(log_settings::test_sink))
        .route("/dns", get(dns::show).post(dns::change))
        .route(
            "/first-steps",
            proven(get(first_steps::show).post(first_steps::take)),
        )
        .route("/settings", get(settings::list))
        .route("/settings/portals", get(portals::list))
        .route(
            "/settings/account",
            get(settings::account).post(settings::change_account),
        )
        .route("/settings/tokens/new", get(tokens::ask))
        .route(
            "/settings/tokens",
            proven(get(tokens::list).post(tokens::create)),
        )
        .layer(from_fn_with_state(console.clone(), guard::around))
        .with_state(console)
}
