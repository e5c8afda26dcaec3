-- Whoever creates or shows a resource is told of others in its site with the same address.
CREATE INDEX resource_target ON resource (account, site_id, target);
