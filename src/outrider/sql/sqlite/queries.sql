-- The statements of Outrider on SQLite.

-- name: emit
-- Write one event that can conflict with nothing. No row comes back: its id is known.
INSERT INTO /* schema */outbox_events (
    event_id,
    tenant_id,
    namespace,
    event_type,
    schema_version,
    entity_type,
    entity_id,
    entity_version,
    ordering_key,
    partition_key,
    payload,
    payload_bytes,
    content_type,
    headers,
    metadata,
    correlation_id,
    causation_id,
    request_id,
    idempotency_key,
    body_digest,
    actor_type,
    actor_id,
    actor_name,
    actor_metadata,
    source,
    action_id,
    action_name,
    action_params,
    action_started_at,
    action_completed_at,
    data_subject,
    keep_seconds,
    occurred_at,
    available_at
)
VALUES (
    :event_id,
    :tenant_id,
    :namespace,
    :event_type,
    :schema_version,
    :entity_type,
    :entity_id,
    :entity_version,
    :ordering_key,
    :partition_key,
    :payload,
    :payload_bytes,
    :content_type,
    :headers,
    :metadata,
    :correlation_id,
    :causation_id,
    :request_id,
    :idempotency_key,
    :body_digest,
    :actor_type,
    :actor_id,
    :actor_name,
    :actor_metadata,
    :source,
    :action_id,
    :action_name,
    :action_params,
    :action_started_at,
    :action_completed_at,
    :data_subject,
    :keep_seconds,
    COALESCE(
        :occurred_at,
        CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000
    ),
    COALESCE(
        :available_at,
        CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000
        + :available_after_us
    )
);

-- name: emit_guarded
-- Write one event unless it conflicts with one in the log; its id comes back if it was written.
INSERT INTO /* schema */outbox_events (
    event_id,
    tenant_id,
    namespace,
    event_type,
    schema_version,
    entity_type,
    entity_id,
    entity_version,
    ordering_key,
    partition_key,
    payload,
    payload_bytes,
    content_type,
    headers,
    metadata,
    correlation_id,
    causation_id,
    request_id,
    idempotency_key,
    body_digest,
    actor_type,
    actor_id,
    actor_name,
    actor_metadata,
    source,
    action_id,
    action_name,
    action_params,
    action_started_at,
    action_completed_at,
    data_subject,
    keep_seconds,
    occurred_at,
    available_at
)
SELECT
    :event_id,
    :tenant_id,
    :namespace,
    :event_type,
    :schema_version,
    :entity_type,
    :entity_id,
    :entity_version,
    :ordering_key,
    :partition_key,
    :payload,
    :payload_bytes,
    :content_type,
    :headers,
    :metadata,
    :correlation_id,
    :causation_id,
    :request_id,
    :idempotency_key,
    :body_digest,
    :actor_type,
    :actor_id,
    :actor_name,
    :actor_metadata,
    :source,
    :action_id,
    :action_name,
    :action_params,
    :action_started_at,
    :action_completed_at,
    :data_subject,
    :keep_seconds,
    COALESCE(
        :occurred_at,
        CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000
    ),
    COALESCE(
        :available_at,
        CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000
        + :available_after_us
    )
WHERE
    NOT EXISTS (
        SELECT 1 FROM /* schema */outbox_events AS o
        WHERE o.event_id = :event_id
    )
    AND NOT EXISTS (
        SELECT 1 FROM /* schema */outbox_events AS o
        WHERE o.tenant_id = :tenant_id AND o.idempotency_key = :idempotency_key
    )
    AND NOT EXISTS (
        SELECT 1 FROM /* schema */outbox_events AS o
        WHERE
            o.tenant_id = :tenant_id
            AND o.entity_type = :entity_type
            AND o.entity_id = :entity_id
            AND o.entity_version = :entity_version
    )
RETURNING event_id;

-- name: originals
-- For the events of a JSON array, those in the log that they conflict with, and by what: their
-- id, their idempotency key or their version of an entity, each by its unique index.
SELECT
    json_extract(e.value, '$.event_id') AS refused_id,
    'id' AS reason,
    o.event_id,
    o.event_type,
    o.correlation_id,
    o.body_digest
FROM json_each(:events) AS e
INNER JOIN /* schema */outbox_events AS o
    ON
        o.event_id = json_extract(e.value, '$.event_id')
UNION ALL
SELECT
    json_extract(e.value, '$.event_id') AS refused_id,
    'key' AS reason,
    o.event_id,
    o.event_type,
    o.correlation_id,
    o.body_digest
FROM json_each(:events) AS e
INNER JOIN /* schema */outbox_events AS o
    ON
        o.tenant_id = json_extract(e.value, '$.tenant_id')
        AND o.idempotency_key = json_extract(e.value, '$.idempotency_key')
UNION ALL
SELECT
    json_extract(e.value, '$.event_id') AS refused_id,
    'version' AS reason,
    o.event_id,
    o.event_type,
    o.correlation_id,
    o.body_digest
FROM json_each(:events) AS e
INNER JOIN /* schema */outbox_events AS o
    ON
        o.tenant_id = json_extract(e.value, '$.tenant_id')
        AND o.entity_type = json_extract(e.value, '$.entity_type')
        AND o.entity_id = json_extract(e.value, '$.entity_id')
        AND o.entity_version = json_extract(e.value, '$.entity_version');

-- name: read_forward
-- A page of the log after a position, oldest first, with whatever else the filter says.
SELECT
    position,
    event_id,
    tenant_id,
    namespace,
    event_type,
    schema_version,
    entity_type,
    entity_id,
    entity_version,
    ordering_key,
    partition_key,
    payload,
    payload_bytes,
    content_type,
    headers,
    metadata,
    correlation_id,
    causation_id,
    request_id,
    idempotency_key,
    actor_type,
    actor_id,
    actor_name,
    actor_metadata,
    source,
    action_id,
    action_name,
    action_params,
    action_started_at,
    action_completed_at,
    data_subject,
    keep_seconds,
    occurred_at,
    created_at,
    available_at
FROM /* schema */outbox_events
WHERE
    position > :after
    AND (:event_id IS NULL OR event_id = :event_id)
    AND (:tenant_id IS NULL OR tenant_id = :tenant_id)
    AND (:type_pattern IS NULL OR event_type GLOB :type_pattern)
    AND (:ordering_key IS NULL OR ordering_key = :ordering_key)
    AND (:entity_type IS NULL OR entity_type = :entity_type)
    AND (:entity_id IS NULL OR entity_id = :entity_id)
    AND (:correlation_id IS NULL OR correlation_id = :correlation_id)
    AND (:causation_id IS NULL OR causation_id = :causation_id)
    AND (:idempotency_key IS NULL OR idempotency_key = :idempotency_key)
    AND (:request_id IS NULL OR request_id = :request_id)
    AND (:actor_type IS NULL OR actor_type = :actor_type)
    AND (:actor_id IS NULL OR actor_id = :actor_id)
    AND (:action_id IS NULL OR action_id = :action_id)
    AND (:source IS NULL OR source = :source)
    AND (:namespace IS NULL OR namespace = :namespace)
    AND (:since IS NULL OR created_at >= :since)
    AND (:until IS NULL OR created_at < :until)
ORDER BY position
LIMIT :row_limit;

-- name: read_backward
-- A page of the log before a position, newest first, with whatever else the filter says.
SELECT
    position,
    event_id,
    tenant_id,
    namespace,
    event_type,
    schema_version,
    entity_type,
    entity_id,
    entity_version,
    ordering_key,
    partition_key,
    payload,
    payload_bytes,
    content_type,
    headers,
    metadata,
    correlation_id,
    causation_id,
    request_id,
    idempotency_key,
    actor_type,
    actor_id,
    actor_name,
    actor_metadata,
    source,
    action_id,
    action_name,
    action_params,
    action_started_at,
    action_completed_at,
    data_subject,
    keep_seconds,
    occurred_at,
    created_at,
    available_at
FROM /* schema */outbox_events
WHERE
    position < :before
    AND (:event_id IS NULL OR event_id = :event_id)
    AND (:tenant_id IS NULL OR tenant_id = :tenant_id)
    AND (:type_pattern IS NULL OR event_type GLOB :type_pattern)
    AND (:ordering_key IS NULL OR ordering_key = :ordering_key)
    AND (:entity_type IS NULL OR entity_type = :entity_type)
    AND (:entity_id IS NULL OR entity_id = :entity_id)
    AND (:correlation_id IS NULL OR correlation_id = :correlation_id)
    AND (:causation_id IS NULL OR causation_id = :causation_id)
    AND (:idempotency_key IS NULL OR idempotency_key = :idempotency_key)
    AND (:request_id IS NULL OR request_id = :request_id)
    AND (:actor_type IS NULL OR actor_type = :actor_type)
    AND (:actor_id IS NULL OR actor_id = :actor_id)
    AND (:action_id IS NULL OR action_id = :action_id)
    AND (:source IS NULL OR source = :source)
    AND (:namespace IS NULL OR namespace = :namespace)
    AND (:since IS NULL OR created_at >= :since)
    AND (:until IS NULL OR created_at < :until)
ORDER BY position DESC
LIMIT :row_limit;

-- name: read_event
-- One event by its id.
SELECT
    position,
    event_id,
    tenant_id,
    namespace,
    event_type,
    schema_version,
    entity_type,
    entity_id,
    entity_version,
    ordering_key,
    partition_key,
    payload,
    payload_bytes,
    content_type,
    headers,
    metadata,
    correlation_id,
    causation_id,
    request_id,
    idempotency_key,
    actor_type,
    actor_id,
    actor_name,
    actor_metadata,
    source,
    action_id,
    action_name,
    action_params,
    action_started_at,
    action_completed_at,
    data_subject,
    keep_seconds,
    occurred_at,
    created_at,
    available_at
FROM /* schema */outbox_events
WHERE event_id = :event_id;

-- name: find_key
-- The key of a data subject; NULL once it was erased.
SELECT key
FROM /* schema */outbox_keys
WHERE tenant_id = :tenant_id AND data_subject = :data_subject;

-- name: add_key
-- Give a data subject its key, unless somebody else has just done so.
INSERT INTO /* schema */outbox_keys (tenant_id, data_subject, key)
VALUES (:tenant_id, :data_subject, :key)
ON CONFLICT DO NOTHING;

-- name: instant_after
-- The moment so many microseconds from now, by the database's clock.
SELECT
    CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000
    + :available_after_us;

-- name: server
-- What this database is, and what a commit means on it.
SELECT
    'SQLite ' || sqlite_version() AS product,
    'journal ' || j.journal_mode || ', synchronous ' || s.synchronous AS durability
FROM pragma_journal_mode AS j
CROSS JOIN pragma_synchronous AS s;

-- name: has_schema
-- Whether a database is attached by this name.
SELECT count(*) > 0 AS is_there
FROM pragma_database_list
WHERE name = :schema_name;

-- name: existing_objects
-- Which of a JSON array of names are objects of the schema, or constraints in it.
SELECT
    upper(m.type) AS kind,
    m.name
FROM json_each(:names) AS n
INNER JOIN /* schema */sqlite_master AS m ON n.value = m.name
UNION ALL
SELECT
    'CONSTRAINT' AS kind,
    n.value AS name
FROM json_each(:names) AS n
WHERE
    EXISTS (
        SELECT 1
        FROM /* schema */sqlite_master AS m
        WHERE m.type = 'table' AND m.sql GLOB '*CONSTRAINT ' || n.value || '[^a-z0-9_]*'
    );

-- name: schema_version
-- The newest version that was applied.
SELECT max(version) AS version
FROM /* schema */outbox_schema;

-- name: record_version
-- Record a version, in the transaction that applied it.
INSERT INTO /* schema */outbox_schema (version)
VALUES (:version);

-- name: require_version
-- Fail unless the schema has this version: the guard of scripts that nobody watches. What fails
-- is the path, which the error repeats.
SELECT
    CASE
        WHEN coalesce(max(version), 0) = :version THEN max(version)
        ELSE
            json_extract('{}', 'the schema has another version: ' || coalesce(max(version), 0))
    END AS version
FROM /* schema */outbox_schema;

-- name: check_server
-- What the schema needs from the library and the file; one row per check.
WITH library AS (
    SELECT
        json_extract('[' || replace(sqlite_version(), '.', ',') || ']', '$[0]') * 1000000
        + json_extract('[' || replace(sqlite_version(), '.', ',') || ']', '$[1]') * 1000
        + json_extract('[' || replace(sqlite_version(), '.', ',') || ']', '$[2]') AS number
)

SELECT
    'server_version' AS code,
    l.number >= 3037000 AS fine,
    'SQLite ' || sqlite_version() AS detail
FROM library AS l
UNION ALL
SELECT
    'server_encoding' AS code,
    e.encoding = 'UTF-8' AS fine,
    e.encoding AS detail
FROM pragma_encoding AS e
UNION ALL
SELECT
    'synchronous' AS code,
    s.synchronous > 0 AS fine,
    'synchronous ' || s.synchronous AS detail
FROM pragma_database_list AS d
CROSS JOIN pragma_synchronous AS s ON d.name = s.schema
WHERE d.name = coalesce(nullif(trim('/* schema */', '".'), ''), 'main')
UNION ALL
SELECT
    'wal_reset' AS code,
    j.journal_mode <> 'wal' OR l.number >= 3051003 AS fine,
    'SQLite ' || sqlite_version() || ', journal mode ' || j.journal_mode AS detail
FROM pragma_database_list AS d
CROSS JOIN pragma_journal_mode AS j ON d.name = j.schema
CROSS JOIN library AS l
WHERE d.name = coalesce(nullif(trim('/* schema */', '".'), ''), 'main');

-- name: check_tables
-- What the tables, named in a JSON array, must not have lost; one row per check.
SELECT
    'tables_strict' AS code,
    count(t.name) = 0 AS fine,
    coalesce(group_concat(t.name, ', '), 'all') AS detail
FROM json_each(:names) AS n
INNER JOIN pragma_table_list AS t
    ON
        n.value = t.name
        AND t.schema = coalesce(nullif(trim('/* schema */', '".'), ''), 'main')
        AND t.strict = 0;

-- name: inverted_causes
-- Among so many of the newest positions, the first effects that stand before their cause. A cause
-- that is not in the log was pruned, or is elsewhere.
SELECT
    e.event_id,
    e.position,
    c.event_id AS cause_id,
    c.position AS cause_position
FROM /* schema */outbox_events AS e
INNER JOIN /* schema */outbox_events AS c
    ON e.causation_id = c.event_id AND e.position < c.position
WHERE
    e.position > (
        SELECT max(newest.position) - :recent_positions
        FROM /* schema */outbox_events AS newest
    )
ORDER BY e.position
LIMIT :row_limit;
