-- Outrider's tables on SQLite 3.37 and newer. Times are microseconds since 1970 in UTC, ids are
-- lower-case text, booleans are 0 and 1.
-- Statements end with ';' and a blank line; bodies of triggers hold no blank line.

-- The log. AUTOINCREMENT, because a plain rowid is handed out again after a delete.
CREATE TABLE /* schema */outbox_events (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    event_id TEXT NOT NULL,
    tenant_id TEXT NOT NULL,
    namespace TEXT NOT NULL,
    event_type TEXT NOT NULL,
    schema_version INTEGER NOT NULL,
    entity_type TEXT,
    entity_id TEXT,
    entity_version INTEGER,
    ordering_key TEXT,
    partition_key TEXT,
    payload TEXT,
    payload_bytes BLOB,
    content_type TEXT NOT NULL,
    headers TEXT,
    metadata TEXT,
    correlation_id TEXT NOT NULL,
    causation_id TEXT,
    request_id TEXT,
    idempotency_key TEXT,
    body_digest TEXT,
    actor_type TEXT,
    actor_id TEXT,
    actor_name TEXT,
    actor_metadata TEXT,
    source TEXT,
    action_id TEXT,
    action_name TEXT,
    action_params TEXT,
    action_started_at INTEGER,
    action_completed_at INTEGER,
    data_subject TEXT,
    keep_seconds INTEGER,
    occurred_at INTEGER NOT NULL DEFAULT (
        CAST(ROUND((JULIANDAY('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000
    ),
    created_at INTEGER NOT NULL DEFAULT (
        CAST(ROUND((JULIANDAY('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000
    ),
    available_at INTEGER,
    CONSTRAINT outbox_events_event_id_key UNIQUE (event_id),
    CONSTRAINT outbox_events_one_payload
    CHECK ((payload IS NULL) <> (payload_bytes IS NULL)),
    CONSTRAINT outbox_events_not_its_own_cause CHECK (causation_id <> event_id),
    CONSTRAINT outbox_events_action_whole
    CHECK ((action_id IS NULL) = (action_name IS NULL))
) STRICT;

CREATE UNIQUE INDEX /* schema */outbox_events_idempotency
ON outbox_events (tenant_id, idempotency_key)
WHERE idempotency_key IS NOT NULL;

CREATE UNIQUE INDEX /* schema */outbox_events_entity_version
ON outbox_events (tenant_id, entity_type, entity_id, entity_version)
WHERE entity_version IS NOT NULL;

CREATE INDEX /* schema */outbox_events_entity
ON outbox_events (tenant_id, entity_type, entity_id, position)
WHERE entity_id IS NOT NULL;

-- An event without a cause is its own correlation and is found by its id.
CREATE INDEX /* schema */outbox_events_correlation
ON outbox_events (tenant_id, correlation_id, position)
WHERE correlation_id <> event_id;

-- One row: which life of the log this is, up to where nothing new can appear, up to where it
-- was pruned. `pruning` is the guarded door: the pruner opens it, deletes and closes it within
-- one transaction, so nobody else ever sees it open.
CREATE TABLE /* schema */outbox_log (
    id INTEGER PRIMARY KEY DEFAULT 1,
    epoch INTEGER NOT NULL DEFAULT 1,
    settled INTEGER NOT NULL DEFAULT 0,
    pruned_to INTEGER NOT NULL DEFAULT 0,
    pruning INTEGER NOT NULL DEFAULT 0,
    CONSTRAINT outbox_log_one_row CHECK (id = 1),
    CONSTRAINT outbox_log_pruning_is_boolean CHECK (pruning IN (0, 1)),
    CONSTRAINT outbox_log_pruned_is_settled CHECK (pruned_to <= settled)
) STRICT;

INSERT INTO /* schema */outbox_log (id) VALUES (1);

CREATE TABLE /* schema */outbox_schema (
    version INTEGER PRIMARY KEY,
    migrated_at INTEGER NOT NULL DEFAULT (
        CAST(ROUND((JULIANDAY('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000
    )
) STRICT;

CREATE TRIGGER /* schema */outbox_events_no_update
BEFORE UPDATE ON outbox_events
BEGIN
    SELECT RAISE(ABORT, 'outbox_events is append-only: UPDATE is refused');
END;

CREATE TRIGGER /* schema */outbox_events_no_delete
BEFORE DELETE ON outbox_events
WHEN NOT EXISTS (
    SELECT 1 FROM outbox_log WHERE pruning = 1 AND pruned_to >= OLD.position
)
BEGIN
    SELECT RAISE(ABORT, 'outbox_events is append-only: DELETE is refused');
END;

-- INSERT OR REPLACE deletes without firing the trigger above.
CREATE TRIGGER /* schema */outbox_events_no_replace
BEFORE INSERT ON outbox_events
WHEN EXISTS (
    SELECT 1 FROM outbox_events
    WHERE event_id = NEW.event_id OR position = NEW.position
)
OR NEW.idempotency_key IS NOT NULL AND EXISTS (
    SELECT 1 FROM outbox_events
    WHERE tenant_id = NEW.tenant_id AND idempotency_key = NEW.idempotency_key
)
OR NEW.entity_version IS NOT NULL AND EXISTS (
    SELECT 1 FROM outbox_events
    WHERE
        tenant_id = NEW.tenant_id
        AND entity_type = NEW.entity_type
        AND entity_id = NEW.entity_id
        AND entity_version = NEW.entity_version
)
BEGIN
    SELECT RAISE(ABORT, 'outbox_events is append-only: the event exists');
END;
