-- Outrider's tables on PostgreSQL 14 and newer.
-- Statements end with ';' and a blank line; bodies of functions hold no blank line.

-- The log. A writer must hold its transaction id before it draws its position, in every form
-- of INSERT, or a reader could take a position in flight for one that was rolled back. CACHE 1,
-- because a cached sequence hands out positions drawn long ago.
CREATE SEQUENCE /* schema */outbox_events_position_seq AS bigint CACHE 1;

CREATE TABLE /* schema */outbox_events (
    position bigint NOT NULL DEFAULT CASE
        WHEN pg_current_xact_id() IS NOT NULL
            THEN nextval('/* schema */outbox_events_position_seq')
    END,
    event_id uuid NOT NULL,
    tenant_id text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    event_type text COLLATE "C" NOT NULL,
    schema_version integer NOT NULL,
    entity_type text COLLATE "C",
    entity_id text COLLATE "C",
    entity_version bigint,
    ordering_key text COLLATE "C",
    partition_key text COLLATE "C",
    payload json,
    payload_bytes bytea,
    content_type text COLLATE "C" NOT NULL,
    headers json,
    metadata json,
    correlation_id text COLLATE "C" NOT NULL,
    causation_id uuid,
    request_id text COLLATE "C",
    idempotency_key text COLLATE "C",
    body_digest text COLLATE "C",
    actor_type text COLLATE "C",
    actor_id text COLLATE "C",
    actor_name text COLLATE "C",
    actor_metadata json,
    source text COLLATE "C",
    action_id uuid,
    action_name text COLLATE "C",
    action_params json,
    action_started_at timestamptz,
    action_completed_at timestamptz,
    data_subject text COLLATE "C",
    keep_seconds bigint,
    occurred_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    created_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    available_at timestamptz,
    CONSTRAINT outbox_events_pkey PRIMARY KEY (position),
    CONSTRAINT outbox_events_event_id_key UNIQUE (event_id),
    CONSTRAINT outbox_events_one_payload
    CHECK ((payload IS NULL) <> (payload_bytes IS NULL)),
    CONSTRAINT outbox_events_not_its_own_cause CHECK (causation_id <> event_id),
    CONSTRAINT outbox_events_action_whole
    CHECK ((action_id IS NULL) = (action_name IS NULL))
);

ALTER SEQUENCE /* schema */outbox_events_position_seq
OWNED BY /* schema */outbox_events.position;

CREATE UNIQUE INDEX outbox_events_idempotency
ON /* schema */outbox_events (tenant_id, idempotency_key)
WHERE idempotency_key IS NOT NULL;

CREATE UNIQUE INDEX outbox_events_entity_version
ON /* schema */outbox_events (tenant_id, entity_type, entity_id, entity_version)
WHERE entity_version IS NOT NULL;

CREATE INDEX outbox_events_entity
ON /* schema */outbox_events (tenant_id, entity_type, entity_id, position)
WHERE entity_id IS NOT NULL;

-- An event without a cause is its own correlation and is found by its id.
CREATE INDEX outbox_events_correlation
ON /* schema */outbox_events (tenant_id, correlation_id, position)
WHERE correlation_id <> event_id::text;

-- One row: which life of the log this is, up to where nothing new can appear, up to where it
-- was pruned. `pruning` is the guarded door: the pruner opens it, deletes and closes it within
-- one transaction, so nobody else ever sees it open.
CREATE TABLE /* schema */outbox_log (
    id smallint NOT NULL DEFAULT 1,
    epoch bigint NOT NULL DEFAULT 1,
    settled bigint NOT NULL DEFAULT 0,
    pruned_to bigint NOT NULL DEFAULT 0,
    pruning boolean NOT NULL DEFAULT FALSE,
    CONSTRAINT outbox_log_pkey PRIMARY KEY (id),
    CONSTRAINT outbox_log_one_row CHECK (id = 1),
    CONSTRAINT outbox_log_pruned_is_settled CHECK (pruned_to <= settled)
);

INSERT INTO /* schema */outbox_log (id) VALUES (1);

CREATE TABLE /* schema */outbox_schema (
    version integer NOT NULL,
    migrated_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    CONSTRAINT outbox_schema_pkey PRIMARY KEY (version)
);

CREATE FUNCTION /* schema */outbox_refuse_change() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
    door_is_open boolean := FALSE;
BEGIN
    IF tg_op = 'DELETE' THEN
        EXECUTE format('SELECT pruning AND $1 <= pruned_to FROM %I.outbox_log', tg_table_schema)
        INTO door_is_open
        USING old.position;
    END IF;
    IF door_is_open THEN
        RETURN old;
    END IF;
    RAISE EXCEPTION 'outbox_events is append-only: % is refused', tg_op
    USING HINT = 'Correct a fact with a new event; remove old events with "outrider prune".',
    ERRCODE = 'restrict_violation';
END
$$;

CREATE TRIGGER outbox_events_no_update
BEFORE UPDATE ON /* schema */outbox_events
FOR EACH STATEMENT EXECUTE FUNCTION /* schema */outbox_refuse_change();

CREATE TRIGGER outbox_events_no_delete
BEFORE DELETE ON /* schema */outbox_events
FOR EACH ROW EXECUTE FUNCTION /* schema */outbox_refuse_change();

CREATE TRIGGER outbox_events_no_truncate
BEFORE TRUNCATE ON /* schema */outbox_events
FOR EACH STATEMENT EXECUTE FUNCTION /* schema */outbox_refuse_change();

-- ALWAYS: also for a session that calls itself a replica.
ALTER TABLE /* schema */outbox_events ENABLE ALWAYS TRIGGER outbox_events_no_update;

ALTER TABLE /* schema */outbox_events ENABLE ALWAYS TRIGGER outbox_events_no_delete;

ALTER TABLE /* schema */outbox_events ENABLE ALWAYS TRIGGER outbox_events_no_truncate;
