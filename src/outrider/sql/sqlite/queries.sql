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
