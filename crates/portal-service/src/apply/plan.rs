//! Plans the changes that turn the present configuration into the wanted one.

use super::form::Form;
use super::index::Index;
use crate::groups::taken_over;
use crate::sites::ANY_RELAY;
use crate::{dns_rules, names, ranges, show, warnings};
use culvert_base::{UnixTime, quoted};
use culvert_ids::{
    ActorId, GroupId, MembershipId, PolicyId, RANDOM_LEN, RelayId, ResourceId, SiteId,
};
use culvert_policy::Prefix;
use culvert_portal_base::{Birth, Fault};
use culvert_store::{self as store, Entity, EntityId, Kind, Mutation, Snapshot, Stamp};
use culvert_wire::api::{ApplyChange, Desired, DesiredActor, FieldChange, Operation};
use culvert_wire::model::Target;
use std::collections::{BTreeMap, BTreeSet};

/// Mutations, and their descriptions for people.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) mutations: Vec<Mutation>,
    pub(super) changes: Vec<ApplyChange>,
    pub(super) warnings: Vec<String>,
    /// Actors that are there and are changed or deleted.
    pub(super) touched_actors: BTreeSet<ActorId>,
    /// Touched actors that are disabled or deleted.
    pub(super) shut_out_actors: BTreeSet<ActorId>,
}

/// The configuration as it is now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now<'a> {
    pub(super) snapshot: &'a Snapshot,
    /// Memberships that identity providers have made and take away again.
    pub(super) by_providers: &'a BTreeSet<MembershipId>,
    /// The portal has a database of countries.
    pub(super) knows_countries: bool,
}

/// The making of a [`Plan`].
struct Planner<'a, B> {
    plan: Plan,
    snapshot: &'a Snapshot,
    by_providers: &'a BTreeSet<MembershipId>,
    /// The networks inside the tunnel.
    tunnel: Vec<Prefix>,
    knows_countries: bool,
    prune: bool,
    birth: B,
    sites: Index<SiteId>,
    actors: Index<ActorId>,
    groups: Index<GroupId>,
    resources: Index<ResourceId>,
    policies: Index<PolicyId>,
}

impl Plan {
    /// The kinds of which the plan deletes every row, in words. Such a configuration is more often truncated, or the wrong
    /// one, than meant.
    pub(super) fn emptied(&self, snapshot: &Snapshot) -> Vec<String> {
        let actors = snapshot.actors.iter();
        let pruned_actors = actors.filter(|row| !row.is_administrator());
        let kinds = [
            ("site", "sites", snapshot.sites.len()),
            ("actor", "users and service accounts", pruned_actors.count()),
            ("group", "groups", snapshot.groups.len()),
            ("resource", "resources", snapshot.resources.len()),
            ("policy", "policies", snapshot.policies.len()),
        ];
        let deleted = |kind: &str| {
            let deletions = self
                .changes
                .iter()
                .filter(|change| change.operation == Operation::Delete);
            deletions.filter(|change| change.entity == kind).count()
        };
        let emptied = kinds
            .into_iter()
            .filter(|(kind, _, count)| *count > 0 && deleted(kind) >= *count);
        let words = emptied.map(|(kind, several, count)| match count {
            1 => format!("the only {kind}"),
            count => format!("all {count} {several}"),
        });
        words.collect()
    }

    /// The way from `now` to `desired`. `birth` gives the time and the random bytes of a new
    /// id.
    pub(super) fn make<B>(
        now: Now<'_>,
        desired: &Desired,
        prune: bool,
        birth: B,
    ) -> Result<Self, Fault>
    where
        B: FnMut() -> Birth,
    {
        let Now {
            snapshot,
            by_providers,
            knows_countries,
        } = now;
        let mut planner = Planner {
            plan: Self::default(),
            snapshot,
            by_providers,
            tunnel: ranges::tunnel(&snapshot.account.settings.ranges),
            knows_countries,
            prune,
            birth,
            sites: index("site", &snapshot.sites, |row| &row.name),
            actors: index("actor", &snapshot.actors, |row| &row.name),
            groups: index("group", &snapshot.groups, |row| &row.name),
            resources: index("resource", &snapshot.resources, |row| &row.name),
            policies: index("policy", &snapshot.policies, |row| &row.name),
        };
        planner.dns(desired)?;
        planner.sites(desired)?;
        planner.actors(desired)?;
        planner.groups(desired)?;
        planner.members(desired)?;
        planner.resources(desired)?;
        planner.policies(desired)?;
        if prune {
            planner.prune();
        }
        Ok(planner.plan)
    }
}

fn index<T: Kind>(kind: &'static str, rows: &[T], name: impl Fn(&T) -> &str) -> Index<T::Id> {
    Index::new(kind, rows.iter().map(|row| (name(row), row.id())))
}

/// In an order that people can follow.
fn by_name<T>(rows: &[T], name: impl Fn(&T) -> &str) -> Vec<&T> {
    let mut rows: Vec<&T> = rows.iter().collect();
    rows.sort_by(|a, b| name(a).cmp(name(b)));
    rows
}

/// The row of that id; snapshots are in the order of ids.
fn row<T: Kind>(rows: &[T], id: T::Id) -> Option<&T>
where
    T::Id: Ord,
{
    let at = rows.binary_search_by_key(&id, Kind::id).ok()?;
    rows.get(at)
}

fn name_of<T: Kind>(rows: &[T], id: T::Id, name: impl Fn(&T) -> &str) -> String
where
    T::Id: Ord + std::fmt::Display,
{
    row(rows, id).map_or_else(|| id.to_string(), |row| name(row).to_owned())
}

impl<B> Planner<'_, B>
where
    B: FnMut() -> Birth,
{
    /// The account's rules about names, where the file has any.
    fn dns(&mut self, desired: &Desired) -> Result<(), Fault> {
        let Some(wanted) = &desired.dns else {
            return Ok(());
        };
        let before = &self.snapshot.account;
        let mut account = before.clone();
        account.settings.dns = dns_rules::checked("dns.", wanted)?;
        dns_rules::outside_of_the_tunnel("dns.", &account.settings)?;
        let form = Form::dns(&account.name, &account.settings.dns);
        let form_before = Form::dns(&before.name, &before.settings.dns);
        let stamp = before.stamp;
        self.put(account, Some(stamp), Some(form_before), &form);
        Ok(())
    }

    fn sites(&mut self, desired: &Desired) -> Result<(), Fault> {
        for (at, wanted) in desired.sites.iter().enumerate() {
            let field = format!("sites[{at}].name");
            let known = self.sites.find(&wanted.name);
            let before = known.and_then(|id| row(&self.snapshot.sites, id));
            let name_before = before.map(|row| &*row.name);
            let name = names::name_after(name_before, &field, &wanted.name)?;
            let id = self.id_or_new(known, SiteId::new)?;
            self.sites.want(&field, &name, id)?;
            let form_before = before.map(|row| self.site_form(row));
            let relays = match &wanted.relays {
                Some(written) => self.relays_of_site(at, written)?,
                None => before.and_then(|row| row.relays.clone()),
            };
            let stamp = before.map(|row| row.stamp);
            let row = store::Site {
                id,
                name,
                relays,
                stamp: Stamp::default(),
            };
            let form = self.site_form(&row);
            self.put(row, stamp, form_before, &form);
        }
        Ok(())
    }

    fn actors(&mut self, desired: &Desired) -> Result<(), Fault> {
        for (at, wanted) in desired.actors.iter().enumerate() {
            self.actor(at, wanted)?;
        }
        // An administrator is never deleted because a file does not name them.
        for row in &self.snapshot.actors {
            if row.is_administrator() {
                self.actors.spare(&row.name);
            }
        }
        Ok(())
    }

    fn actor(&mut self, at: usize, wanted: &DesiredActor) -> Result<(), Fault> {
        let field = format!("actors[{at}].name");
        let known = self.actors.find(&wanted.name);
        let before = known.and_then(|id| row(&self.snapshot.actors, id));
        let name_before = before.map(|row| &*row.name);
        let name = names::name_after(name_before, &field, &wanted.name)?;
        let id = self.id_or_new(known, ActorId::new)?;
        self.actors.want(&field, &name, id)?;
        let kind = show::actor_kind(wanted.kind);
        if before.is_some_and(|row| row.kind != kind) {
            return Err(Fault::invalid(
                format!("actors[{at}].kind"),
                format_args!(
                    "{} is there and of another kind, which does not change",
                    quoted(&name)
                ),
            ));
        }
        let form_before = before.map(|row| Form::actor(&row.name, row.kind, row.disabled));
        let form = Form::actor(&name, kind, wanted.disabled);
        let disabled = wanted.disabled;
        if let (Some(row), Some(form_before)) = (before, &form_before) {
            if *form_before != form {
                self.plan.touched_actors.insert(id);
            }
            if disabled && !row.disabled {
                self.plan.shut_out_actors.insert(id);
            }
        }
        let stamp = before.map(|row| row.stamp);
        let sign_in = before.and_then(|row| row.sign_in);
        let next = store::Actor {
            id,
            kind,
            name,
            disabled,
            sign_in,
            stamp: Stamp::default(),
        };
        self.put(next, stamp, form_before, &form);
        Ok(())
    }

    fn groups(&mut self, desired: &Desired) -> Result<(), Fault> {
        for (at, wanted) in desired.groups.iter().enumerate() {
            let field = format!("groups[{at}].name");
            let known = self.groups.find(&wanted.name);
            let before = known.and_then(|id| row(&self.snapshot.groups, id));
            let name_before = before.map(|row| &*row.name);
            let name = names::name_after(name_before, &field, &wanted.name)?;
            let id = self.id_or_new(known, GroupId::new)?;
            self.groups.want(&field, &name, id)?;
            let form_before = before.map(|row| Form::group(&row.name));
            let form = Form::group(&name);
            let stamp = before.map(|row| row.stamp);
            self.put(
                store::Group {
                    id,
                    name,
                    stamp: Stamp::default(),
                },
                stamp,
                form_before,
                &form,
            );
        }
        Ok(())
    }

    /// Members of the groups that say who theirs are.
    fn members(&mut self, desired: &Desired) -> Result<(), Fault> {
        let mut there: BTreeMap<GroupId, BTreeMap<ActorId, &store::Membership>> = BTreeMap::new();
        for row in &self.snapshot.memberships {
            there.entry(row.group).or_default().insert(row.actor, row);
        }
        for (at, wanted) in desired.groups.iter().enumerate() {
            let Some(members) = &wanted.members else {
                continue;
            };
            let field = format!("groups[{at}].name");
            let group = self.groups.refer(&field, &wanted.name, self.prune)?;
            let mut gone = there.remove(&group).unwrap_or_default();
            let mut seen = BTreeSet::new();
            for (place, member) in members.iter().enumerate() {
                let field = format!("groups[{at}].members[{place}]");
                let actor = self.actors.refer(&field, member, self.prune)?;
                if !seen.insert(actor) {
                    let detail = format!("{} is named twice", quoted(member));
                    return Err(Fault::invalid(field, detail));
                }
                match gone.remove(&actor) {
                    None => self.add_member(group, actor, &wanted.name, member)?,
                    Some(row) if self.by_providers.contains(&row.id) => {
                        self.take_over(row, &wanted.name, member)?;
                    }
                    Some(_) => {}
                }
            }
            for (actor, row) in gone {
                let member = name_of(&self.snapshot.actors, actor, |row| &row.name);
                self.remove_member(row, &wanted.name, &member);
            }
        }
        Ok(())
    }

    /// A member that a file names stays when the provider no longer says so.
    fn take_over(
        &mut self,
        there: &store::Membership,
        group_name: &str,
        actor_name: &str,
    ) -> Result<(), Fault> {
        let new = store::Membership {
            id: self.id_or_new(None, MembershipId::new)?,
            stamp: Stamp::default(),
            ..there.clone()
        };
        let mutations = taken_over(there, new);
        self.plan.mutations.extend(mutations);
        self.tell::<store::Membership>(
            Operation::Update,
            format!("{group_name}/{actor_name}"),
            vec![FieldChange {
                field: "made_by".to_owned(),
                before: Some("identity provider".into()),
                after: Some("file".into()),
            }],
        );
        Ok(())
    }

    fn add_member(
        &mut self,
        group: GroupId,
        actor: ActorId,
        group_name: &str,
        actor_name: &str,
    ) -> Result<(), Fault> {
        let id = self.id_or_new(None, MembershipId::new)?;
        let row = store::Membership {
            id,
            group,
            actor,
            stamp: Stamp::default(),
        };
        self.plan.mutations.push(Mutation::Create(row.into()));
        self.tell::<store::Membership>(
            Operation::Create,
            format!("{group_name}/{actor_name}"),
            Vec::new(),
        );
        Ok(())
    }

    fn remove_member(&mut self, row: &store::Membership, group_name: &str, actor_name: &str) {
        let id = EntityId::from(row.id);
        self.remove(id, row.stamp, false);
        self.tell::<store::Membership>(
            Operation::Delete,
            format!("{group_name}/{actor_name}"),
            Vec::new(),
        );
    }

    fn resources(&mut self, desired: &Desired) -> Result<(), Fault> {
        let mut planned = Vec::new();
        for (at, wanted) in desired.resources.iter().enumerate() {
            let place = format!("resources[{at}].");
            let field = format!("{place}name");
            let known = self.resources.find(&wanted.name);
            let before = known.and_then(|id| row(&self.snapshot.resources, id));
            let name_before = before.map(|row| &*row.name);
            let name = names::resource_name(name_before, &place, &wanted.name)?;
            let id = self.id_or_new(known, ResourceId::new)?;
            self.resources.want(&field, &name, id)?;
            let site = self
                .sites
                .refer(&format!("{place}site"), &wanted.site, self.prune)?;
            let target = Target {
                kind: wanted.kind,
                address: wanted.address.clone(),
            };
            let target_before = before.map(|row| &row.target);
            let target = names::target(target_before, &place, &target, &self.tunnel)?;
            let filters_before = before.map(|row| &*row.filters);
            let filters = names::filters(filters_before, &place, &wanted.filters)?;
            let applications = names::applications(&place, &wanted.applications)?;
            let within = names::within(&place, target.kind, wanted.within.as_deref())?;
            let inbound_before = before.map(|row| &*row.inbound);
            let inbound = names::inbound(inbound_before, &place, target.kind, &wanted.inbound)?;
            let form_before = before.map(|row| self.resource_form(row));
            let site_name = match row(&self.snapshot.sites, site) {
                Some(site) => &site.name,
                None => &wanted.site,
            };
            let stamp = before.map(|row| row.stamp);
            let next = store::Resource {
                id,
                site,
                name,
                target,
                filters,
                inbound,
                applications,
                within,
                stamp: Stamp::default(),
            };
            let form = Form::resource(&next, site_name);
            planned.push(next.clone());
            self.put(next, stamp, form_before, &form);
        }
        let wanted: BTreeSet<ResourceId> = planned.iter().map(|row| row.id).collect();
        let stays = |row: &&store::Resource| !self.prune && !wanted.contains(&row.id);
        let staying = self.snapshot.resources.iter().filter(stays);
        let warnings = warnings::of_planned(&planned, staying, &self.tunnel);
        self.plan.warnings.extend(warnings);
        Ok(())
    }

    fn policies(&mut self, desired: &Desired) -> Result<(), Fault> {
        for (at, wanted) in desired.policies.iter().enumerate() {
            let place = format!("policies[{at}].");
            let field = format!("{place}name");
            let known = self.policies.find(&wanted.name);
            let before = known.and_then(|id| row(&self.snapshot.policies, id));
            let name_before = before.map(|row| &*row.name);
            let name = names::name_after(name_before, &field, &wanted.name)?;
            let id = self.id_or_new(known, PolicyId::new)?;
            self.policies.want(&field, &name, id)?;
            let group = self
                .groups
                .refer(&format!("{place}group"), &wanted.group, self.prune)?;
            let field = format!("{place}resource");
            let resource = self.resources.refer(&field, &wanted.resource, self.prune)?;
            let conditions_before = before.map(|row| &*row.conditions);
            let conditions = names::conditions(conditions_before, &place, &wanted.conditions)?;
            for warning in warnings::of_conditions(&conditions, self.knows_countries) {
                let name = quoted(&name);
                self.plan.warnings.push(format!("policy {name}: {warning}"));
            }
            let form_before = before.map(|row| self.policy_form(row));
            let group_name = match row(&self.snapshot.groups, group) {
                Some(group) => &group.name,
                None => &wanted.group,
            };
            let resource_name = match row(&self.snapshot.resources, resource) {
                Some(resource) => &resource.name,
                None => &wanted.resource,
            };
            let disabled = wanted.disabled;
            let form = Form::policy(&name, group_name, resource_name, disabled, &conditions);
            let stamp = before.map(|row| row.stamp);
            let next = store::Policy {
                id,
                name,
                group,
                resource,
                disabled,
                conditions,
                stamp: Stamp::default(),
            };
            self.put(next, stamp, form_before, &form);
        }
        Ok(())
    }

    /// Deletes what nobody wants, users before what they use.
    fn prune(&mut self) {
        for row in by_name(&self.snapshot.policies, |row| &row.name) {
            if !self.policies.is_wanted(&row.name) {
                let form = self.policy_form(row);
                self.drop_row::<store::Policy>(row.id.into(), row.stamp, &row.name, &form);
            }
        }
        for row in by_name(&self.snapshot.resources, |row| &row.name) {
            if !self.resources.is_wanted(&row.name) {
                let form = self.resource_form(row);
                self.drop_row::<store::Resource>(row.id.into(), row.stamp, &row.name, &form);
            }
        }
        for row in by_name(&self.snapshot.groups, |row| &row.name) {
            if !self.groups.is_wanted(&row.name) {
                let of_group = |member: &&store::Membership| member.group == row.id;
                let members = self.snapshot.memberships.iter().filter(of_group).count();
                let form = Form::group(&row.name).with("members", members);
                self.drop_row::<store::Group>(row.id.into(), row.stamp, &row.name, &form);
            }
        }
        for row in by_name(&self.snapshot.actors, |row| &row.name) {
            if !self.actors.is_wanted(&row.name) {
                self.plan.touched_actors.insert(row.id);
                self.plan.shut_out_actors.insert(row.id);
                let of_actor = |token: &&store::Token| token.scope.actor() == Some(row.id);
                let tokens = self.snapshot.tokens.iter().filter(of_actor).count();
                let clients = self.snapshot.clients.iter();
                let clients = clients.filter(|client| client.actor == row.id).count();
                let form = Form::actor(&row.name, row.kind, row.disabled)
                    .with("tokens", tokens)
                    .with("clients", clients);
                self.drop_row::<store::Actor>(row.id.into(), row.stamp, &row.name, &form);
            }
        }
        for row in by_name(&self.snapshot.sites, |row| &row.name) {
            if !self.sites.is_wanted(&row.name) {
                let of_site = |token: &&store::Token| token.scope.site() == Some(row.id);
                let tokens = self.snapshot.tokens.iter().filter(of_site).count();
                let gateways = self.snapshot.gateways.iter();
                let gateways = gateways.filter(|gateway| gateway.site == row.id).count();
                let form = self
                    .site_form(row)
                    .with("tokens", tokens)
                    .with("gateways", gateways);
                self.drop_row::<store::Site>(row.id.into(), row.stamp, &row.name, &form);
            }
        }
    }

    fn site_form(&self, row: &store::Site) -> Form {
        let named = |relays: &Vec<RelayId>| {
            let relays = relays.iter();
            let named = relays.map(|id| name_of(&self.snapshot.relays, *id, |row| &row.name));
            named.collect::<Vec<String>>()
        };
        Form::site(&row.name, row.relays.as_ref().map(named).as_deref())
    }

    /// The relays of a site by their names; none where it may use all.
    fn relays_of_site(&self, at: usize, written: &[String]) -> Result<Option<Vec<RelayId>>, Fault> {
        if written == [ANY_RELAY] {
            return Ok(None);
        }
        let live = self.snapshot.relays.iter();
        let live = live.filter(|row| row.revoked.is_none());
        let relays = Index::new("relay", live.map(|row| (&*row.name, row.id)));
        let ids = written.iter().enumerate().map(|(place, name)| {
            let field = format!("sites[{at}].relays[{place}]");
            relays.find(name).ok_or_else(|| {
                let detail = format!(
                    "there is no relay named {}: relays come by enrolling; mend the name, or write `{ANY_RELAY}` alone",
                    quoted(name)
                );
                Fault::invalid(field, detail)
            })
        });
        ids.collect::<Result<Vec<_>, _>>().map(Some)
    }

    fn resource_form(&self, row: &store::Resource) -> Form {
        let site = name_of(&self.snapshot.sites, row.site, |row| &row.name);
        Form::resource(row, &site)
    }

    fn policy_form(&self, row: &store::Policy) -> Form {
        let group = name_of(&self.snapshot.groups, row.group, |row| &row.name);
        let resource = name_of(&self.snapshot.resources, row.resource, |row| &row.name);
        Form::policy(&row.name, &group, &resource, row.disabled, &row.conditions)
    }

    fn id_or_new<I>(
        &mut self,
        known: Option<I>,
        new: impl Fn(UnixTime, [u8; RANDOM_LEN]) -> I,
    ) -> Result<I, Fault> {
        let Some(known) = known else {
            let (at, random) = (self.birth)()?;
            return Ok(new(at, random));
        };
        Ok(known)
    }

    /// Makes or changes a row, unless it is there as it is wanted. `stamp` is that of the row that
    /// is there, `before` its form.
    fn put<T: Kind>(&mut self, row: T, stamp: Option<Stamp>, before: Option<Form>, after: &Form) {
        let name = after.name();
        let entity: Entity = row.into();
        let (operation, fields, mutation) = match (stamp, before) {
            (Some(stamp), Some(before)) => {
                if before == *after {
                    return;
                }
                let update = Mutation::Update {
                    entity,
                    expected_version: Some(stamp.version),
                };
                (Operation::Update, before.changes_to(after), update)
            }
            _ => (Operation::Create, after.as_new(), Mutation::Create(entity)),
        };
        self.plan.mutations.push(mutation);
        self.tell::<T>(operation, name, fields);
    }

    fn drop_row<T: Kind>(&mut self, id: EntityId, stamp: Stamp, name: &str, form: &Form) {
        self.remove(id, stamp, true);
        self.tell::<T>(Operation::Delete, name.to_owned(), form.as_gone());
    }

    fn remove(&mut self, id: EntityId, stamp: Stamp, cascade: bool) {
        self.plan.mutations.push(Mutation::Delete {
            id,
            expected_version: Some(stamp.version),
            cascade,
        });
    }

    fn tell<T: Kind>(&mut self, operation: Operation, name: String, fields: Vec<FieldChange>) {
        self.plan.changes.push(ApplyChange {
            operation,
            entity: T::KIND.as_str().to_owned(),
            name,
            fields,
        });
    }
}
