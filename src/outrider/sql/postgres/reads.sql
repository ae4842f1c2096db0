-- Indexes for those who read the log as an audit trail: `outrider migrate --with reads`. They are
-- no part of the schema, because each of them costs every emit.

-- The newest events of a type, for one tenant.
CREATE INDEX IF NOT EXISTS outbox_events_type
ON /* schema */outbox_events (tenant_id, event_type, position);

-- What an event has caused.
CREATE INDEX IF NOT EXISTS outbox_events_causation
ON /* schema */outbox_events (tenant_id, causation_id)
WHERE causation_id IS NOT NULL;

-- What somebody, or a kind of actor, has done.
CREATE INDEX IF NOT EXISTS outbox_events_actor
ON /* schema */outbox_events (tenant_id, actor_type, actor_id, position)
WHERE actor_type IS NOT NULL;

-- All events of one business action.
CREATE INDEX IF NOT EXISTS outbox_events_action
ON /* schema */outbox_events (action_id)
WHERE action_id IS NOT NULL;
