-- The statements of Outrider on PostgreSQL.
-- JSON goes in as text: an application may have set a JSON codec of its own on its connection.

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
    CAST(:event_id AS uuid),
    CAST(:tenant_id AS text),
    CAST(:namespace AS text),
    CAST(:event_type AS text),
    CAST(:schema_version AS integer),
    CAST(:entity_type AS text),
    CAST(:entity_id AS text),
    CAST(:entity_version AS bigint),
    CAST(:ordering_key AS text),
    CAST(:partition_key AS text),
    CAST(CAST(:payload AS text) AS json),
    CAST(:payload_bytes AS bytea),
    CAST(:content_type AS text),
    CAST(CAST(:headers AS text) AS json),
    CAST(CAST(:metadata AS text) AS json),
    CAST(:correlation_id AS text),
    CAST(:causation_id AS uuid),
    CAST(:request_id AS text),
    CAST(:idempotency_key AS text),
    CAST(:body_digest AS text),
    CAST(:actor_type AS text),
    CAST(:actor_id AS text),
    CAST(:actor_name AS text),
    CAST(CAST(:actor_metadata AS text) AS json),
    CAST(:source AS text),
    CAST(:action_id AS uuid),
    CAST(:action_name AS text),
    CAST(CAST(:action_params AS text) AS json),
    CAST(:action_started_at AS timestamptz),
    CAST(:action_completed_at AS timestamptz),
    CAST(:data_subject AS text),
    CAST(:keep_seconds AS bigint),
    COALESCE(CAST(:occurred_at AS timestamptz), statement_timestamp()),
    COALESCE(
        CAST(:available_at AS timestamptz),
        statement_timestamp() + CAST(:available_after_us AS bigint) * interval '1 microsecond'
    )
);

-- name: emit_many
-- Write the events of a JSON array, in its order. Payloads are texts in it, bytes are base64.
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
    e.event_id,
    e.tenant_id,
    e.namespace,
    e.event_type,
    e.schema_version,
    e.entity_type,
    e.entity_id,
    e.entity_version,
    e.ordering_key,
    e.partition_key,
    CAST(e.payload AS json),
    decode(e.payload_bytes, 'base64'),
    e.content_type,
    CAST(e.headers AS json),
    CAST(e.metadata AS json),
    e.correlation_id,
    e.causation_id,
    e.request_id,
    e.idempotency_key,
    e.body_digest,
    e.actor_type,
    e.actor_id,
    e.actor_name,
    CAST(e.actor_metadata AS json),
    e.source,
    e.action_id,
    e.action_name,
    CAST(e.action_params AS json),
    e.action_started_at,
    e.action_completed_at,
    e.data_subject,
    e.keep_seconds,
    COALESCE(e.occurred_at, statement_timestamp()),
    COALESCE(
        e.available_at,
        statement_timestamp() + e.available_after_us * interval '1 microsecond'
    )
FROM json_to_recordset(CAST(CAST(:events AS text) AS json)) AS e (
        event_id uuid,
        tenant_id text,
        namespace text,
        event_type text,
        schema_version integer,
        entity_type text,
        entity_id text,
        entity_version bigint,
        ordering_key text,
        partition_key text,
        payload text,
        payload_bytes text,
        content_type text,
        headers text,
        metadata text,
        correlation_id text,
        causation_id uuid,
        request_id text,
        idempotency_key text,
        body_digest text,
        actor_type text,
        actor_id text,
        actor_name text,
        actor_metadata text,
        source text,
        action_id uuid,
        action_name text,
        action_params text,
        action_started_at timestamptz,
        action_completed_at timestamptz,
        data_subject text,
        keep_seconds bigint,
        occurred_at timestamptz,
        available_at timestamptz,
        available_after_us bigint
    );

-- name: emit_guarded
-- Write one event unless it conflicts with one in the log; its id comes back if it was written.
-- A key that is there already burns no position: that is looked up first, and ON CONFLICT is for
-- the race. An error would abort the caller's transaction.
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
    CAST(:event_id AS uuid),
    CAST(:tenant_id AS text),
    CAST(:namespace AS text),
    CAST(:event_type AS text),
    CAST(:schema_version AS integer),
    CAST(:entity_type AS text),
    CAST(:entity_id AS text),
    CAST(:entity_version AS bigint),
    CAST(:ordering_key AS text),
    CAST(:partition_key AS text),
    CAST(CAST(:payload AS text) AS json),
    CAST(:payload_bytes AS bytea),
    CAST(:content_type AS text),
    CAST(CAST(:headers AS text) AS json),
    CAST(CAST(:metadata AS text) AS json),
    CAST(:correlation_id AS text),
    CAST(:causation_id AS uuid),
    CAST(:request_id AS text),
    CAST(:idempotency_key AS text),
    CAST(:body_digest AS text),
    CAST(:actor_type AS text),
    CAST(:actor_id AS text),
    CAST(:actor_name AS text),
    CAST(CAST(:actor_metadata AS text) AS json),
    CAST(:source AS text),
    CAST(:action_id AS uuid),
    CAST(:action_name AS text),
    CAST(CAST(:action_params AS text) AS json),
    CAST(:action_started_at AS timestamptz),
    CAST(:action_completed_at AS timestamptz),
    CAST(:data_subject AS text),
    CAST(:keep_seconds AS bigint),
    COALESCE(CAST(:occurred_at AS timestamptz), statement_timestamp()),
    COALESCE(
        CAST(:available_at AS timestamptz),
        statement_timestamp() + CAST(:available_after_us AS bigint) * interval '1 microsecond'
    )
WHERE
    NOT EXISTS (
        SELECT 1 FROM /* schema */outbox_events AS o
        WHERE o.event_id = CAST(:event_id AS uuid)
    )
    AND NOT EXISTS (
        SELECT 1 FROM /* schema */outbox_events AS o
        WHERE
            o.tenant_id = CAST(:tenant_id AS text)
            AND o.idempotency_key = CAST(:idempotency_key AS text)
    )
    AND NOT EXISTS (
        SELECT 1 FROM /* schema */outbox_events AS o
        WHERE
            o.tenant_id = CAST(:tenant_id AS text)
            AND o.entity_type = CAST(:entity_type AS text)
            AND o.entity_id = CAST(:entity_id AS text)
            AND o.entity_version = CAST(:entity_version AS bigint)
    )
ON CONFLICT DO NOTHING
RETURNING event_id;

-- name: emit_many_guarded
-- Write the events of a JSON array that conflict with none in the log, in its order, whatever
-- join the planner takes; the ids of those written come back.
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
    e.event_id,
    e.tenant_id,
    e.namespace,
    e.event_type,
    e.schema_version,
    e.entity_type,
    e.entity_id,
    e.entity_version,
    e.ordering_key,
    e.partition_key,
    CAST(e.payload AS json),
    decode(e.payload_bytes, 'base64'),
    e.content_type,
    CAST(e.headers AS json),
    CAST(e.metadata AS json),
    e.correlation_id,
    e.causation_id,
    e.request_id,
    e.idempotency_key,
    e.body_digest,
    e.actor_type,
    e.actor_id,
    e.actor_name,
    CAST(e.actor_metadata AS json),
    e.source,
    e.action_id,
    e.action_name,
    CAST(e.action_params AS json),
    e.action_started_at,
    e.action_completed_at,
    e.data_subject,
    e.keep_seconds,
    COALESCE(e.occurred_at, statement_timestamp()),
    COALESCE(
        e.available_at,
        statement_timestamp() + e.available_after_us * interval '1 microsecond'
    )
FROM
    json_array_elements(CAST(CAST(:events AS text) AS json))
    WITH ORDINALITY AS d (event, ordinal)
CROSS JOIN
    LATERAL json_to_record(d.event)
        AS e (
            event_id uuid,
            tenant_id text,
            namespace text,
            event_type text,
            schema_version integer,
            entity_type text,
            entity_id text,
            entity_version bigint,
            ordering_key text,
            partition_key text,
            payload text,
            payload_bytes text,
            content_type text,
            headers text,
            metadata text,
            correlation_id text,
            causation_id uuid,
            request_id text,
            idempotency_key text,
            body_digest text,
            actor_type text,
            actor_id text,
            actor_name text,
            actor_metadata text,
            source text,
            action_id uuid,
            action_name text,
            action_params text,
            action_started_at timestamptz,
            action_completed_at timestamptz,
            data_subject text,
            keep_seconds bigint,
            occurred_at timestamptz,
            available_at timestamptz,
            available_after_us bigint
        )
WHERE
    NOT EXISTS (
        SELECT 1 FROM /* schema */outbox_events AS o
        WHERE o.event_id = e.event_id
    )
    AND NOT EXISTS (
        SELECT 1 FROM /* schema */outbox_events AS o
        WHERE o.tenant_id = e.tenant_id AND o.idempotency_key = e.idempotency_key
    )
    AND NOT EXISTS (
        SELECT 1 FROM /* schema */outbox_events AS o
        WHERE
            o.tenant_id = e.tenant_id
            AND o.entity_type = e.entity_type
            AND o.entity_id = e.entity_id
            AND o.entity_version = e.entity_version
    )
ORDER BY d.ordinal
ON CONFLICT DO NOTHING
RETURNING event_id;

-- name: originals
-- For the events of a JSON array, those in the log that they conflict with, and by what: their
-- id, their idempotency key or their version of an entity, each by its unique index.
SELECT
    e.event_id AS refused_id,
    'id' AS reason,
    o.event_id,
    o.event_type,
    o.correlation_id,
    o.body_digest
FROM json_to_recordset(CAST(CAST(:events AS text) AS json)) AS e (
        event_id uuid,
        tenant_id text,
        idempotency_key text,
        entity_type text,
        entity_id text,
        entity_version bigint
    )
INNER JOIN /* schema */outbox_events AS o
    ON
        e.event_id = o.event_id
UNION ALL
SELECT
    e.event_id AS refused_id,
    'key' AS reason,
    o.event_id,
    o.event_type,
    o.correlation_id,
    o.body_digest
FROM json_to_recordset(CAST(CAST(:events AS text) AS json)) AS e (
        event_id uuid,
        tenant_id text,
        idempotency_key text,
        entity_type text,
        entity_id text,
        entity_version bigint
    )
INNER JOIN /* schema */outbox_events AS o
    ON
        e.tenant_id = o.tenant_id
        AND e.idempotency_key = o.idempotency_key
UNION ALL
SELECT
    e.event_id AS refused_id,
    'version' AS reason,
    o.event_id,
    o.event_type,
    o.correlation_id,
    o.body_digest
FROM json_to_recordset(CAST(CAST(:events AS text) AS json)) AS e (
        event_id uuid,
        tenant_id text,
        idempotency_key text,
        entity_type text,
        entity_id text,
        entity_version bigint
    )
INNER JOIN /* schema */outbox_events AS o
    ON
        e.tenant_id = o.tenant_id
        AND e.entity_type = o.entity_type
        AND e.entity_id = o.entity_id
        AND e.entity_version = o.entity_version;

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
    CAST(payload AS text) AS payload,
    payload_bytes,
    content_type,
    CAST(headers AS text) AS headers,
    CAST(metadata AS text) AS metadata,
    correlation_id,
    causation_id,
    request_id,
    idempotency_key,
    actor_type,
    actor_id,
    actor_name,
    CAST(actor_metadata AS text) AS actor_metadata,
    source,
    action_id,
    action_name,
    CAST(action_params AS text) AS action_params,
    CAST(extract(EPOCH FROM action_started_at) * 1000000 AS bigint) AS action_started_at,
    CAST(extract(EPOCH FROM action_completed_at) * 1000000 AS bigint) AS action_completed_at,
    data_subject,
    keep_seconds,
    CAST(extract(EPOCH FROM occurred_at) * 1000000 AS bigint) AS occurred_at,
    CAST(extract(EPOCH FROM created_at) * 1000000 AS bigint) AS created_at,
    CAST(extract(EPOCH FROM available_at) * 1000000 AS bigint) AS available_at
FROM /* schema */outbox_events
WHERE
    position > CAST(:after AS bigint)
    AND (CAST(:event_id AS uuid) IS NULL OR event_id = CAST(:event_id AS uuid))
    AND (CAST(:tenant_id AS text) IS NULL OR tenant_id = CAST(:tenant_id AS text))
    AND (CAST(:type_pattern AS text) IS NULL OR event_type ~ CAST(:type_pattern AS text))
    AND (CAST(:ordering_key AS text) IS NULL OR ordering_key = CAST(:ordering_key AS text))
    AND (CAST(:entity_type AS text) IS NULL OR entity_type = CAST(:entity_type AS text))
    AND (CAST(:entity_id AS text) IS NULL OR entity_id = CAST(:entity_id AS text))
    AND (CAST(:correlation_id AS text) IS NULL OR correlation_id = CAST(:correlation_id AS text))
    AND (CAST(:causation_id AS uuid) IS NULL OR causation_id = CAST(:causation_id AS uuid))
    AND (CAST(:idempotency_key AS text) IS NULL OR idempotency_key = CAST(:idempotency_key AS text))
    AND (CAST(:request_id AS text) IS NULL OR request_id = CAST(:request_id AS text))
    AND (CAST(:actor_type AS text) IS NULL OR actor_type = CAST(:actor_type AS text))
    AND (CAST(:actor_id AS text) IS NULL OR actor_id = CAST(:actor_id AS text))
    AND (CAST(:action_id AS uuid) IS NULL OR action_id = CAST(:action_id AS uuid))
    AND (CAST(:source AS text) IS NULL OR source = CAST(:source AS text))
    AND (CAST(:namespace AS text) IS NULL OR namespace = CAST(:namespace AS text))
    AND (CAST(:since AS timestamptz) IS NULL OR created_at >= CAST(:since AS timestamptz))
    AND (CAST(:until AS timestamptz) IS NULL OR created_at < CAST(:until AS timestamptz))
ORDER BY position
LIMIT CAST(:row_limit AS bigint);

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
    CAST(payload AS text) AS payload,
    payload_bytes,
    content_type,
    CAST(headers AS text) AS headers,
    CAST(metadata AS text) AS metadata,
    correlation_id,
    causation_id,
    request_id,
    idempotency_key,
    actor_type,
    actor_id,
    actor_name,
    CAST(actor_metadata AS text) AS actor_metadata,
    source,
    action_id,
    action_name,
    CAST(action_params AS text) AS action_params,
    CAST(extract(EPOCH FROM action_started_at) * 1000000 AS bigint) AS action_started_at,
    CAST(extract(EPOCH FROM action_completed_at) * 1000000 AS bigint) AS action_completed_at,
    data_subject,
    keep_seconds,
    CAST(extract(EPOCH FROM occurred_at) * 1000000 AS bigint) AS occurred_at,
    CAST(extract(EPOCH FROM created_at) * 1000000 AS bigint) AS created_at,
    CAST(extract(EPOCH FROM available_at) * 1000000 AS bigint) AS available_at
FROM /* schema */outbox_events
WHERE
    position < CAST(:before AS bigint)
    AND (CAST(:event_id AS uuid) IS NULL OR event_id = CAST(:event_id AS uuid))
    AND (CAST(:tenant_id AS text) IS NULL OR tenant_id = CAST(:tenant_id AS text))
    AND (CAST(:type_pattern AS text) IS NULL OR event_type ~ CAST(:type_pattern AS text))
    AND (CAST(:ordering_key AS text) IS NULL OR ordering_key = CAST(:ordering_key AS text))
    AND (CAST(:entity_type AS text) IS NULL OR entity_type = CAST(:entity_type AS text))
    AND (CAST(:entity_id AS text) IS NULL OR entity_id = CAST(:entity_id AS text))
    AND (CAST(:correlation_id AS text) IS NULL OR correlation_id = CAST(:correlation_id AS text))
    AND (CAST(:causation_id AS uuid) IS NULL OR causation_id = CAST(:causation_id AS uuid))
    AND (CAST(:idempotency_key AS text) IS NULL OR idempotency_key = CAST(:idempotency_key AS text))
    AND (CAST(:request_id AS text) IS NULL OR request_id = CAST(:request_id AS text))
    AND (CAST(:actor_type AS text) IS NULL OR actor_type = CAST(:actor_type AS text))
    AND (CAST(:actor_id AS text) IS NULL OR actor_id = CAST(:actor_id AS text))
    AND (CAST(:action_id AS uuid) IS NULL OR action_id = CAST(:action_id AS uuid))
    AND (CAST(:source AS text) IS NULL OR source = CAST(:source AS text))
    AND (CAST(:namespace AS text) IS NULL OR namespace = CAST(:namespace AS text))
    AND (CAST(:since AS timestamptz) IS NULL OR created_at >= CAST(:since AS timestamptz))
    AND (CAST(:until AS timestamptz) IS NULL OR created_at < CAST(:until AS timestamptz))
ORDER BY position DESC
LIMIT CAST(:row_limit AS bigint);

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
    CAST(payload AS text) AS payload,
    payload_bytes,
    content_type,
    CAST(headers AS text) AS headers,
    CAST(metadata AS text) AS metadata,
    correlation_id,
    causation_id,
    request_id,
    idempotency_key,
    actor_type,
    actor_id,
    actor_name,
    CAST(actor_metadata AS text) AS actor_metadata,
    source,
    action_id,
    action_name,
    CAST(action_params AS text) AS action_params,
    CAST(extract(EPOCH FROM action_started_at) * 1000000 AS bigint) AS action_started_at,
    CAST(extract(EPOCH FROM action_completed_at) * 1000000 AS bigint) AS action_completed_at,
    data_subject,
    keep_seconds,
    CAST(extract(EPOCH FROM occurred_at) * 1000000 AS bigint) AS occurred_at,
    CAST(extract(EPOCH FROM created_at) * 1000000 AS bigint) AS created_at,
    CAST(extract(EPOCH FROM available_at) * 1000000 AS bigint) AS available_at
FROM /* schema */outbox_events
WHERE event_id = CAST(:event_id AS uuid);

-- name: lock_key
-- Serialise the writers of one ordering key until they commit, before they draw positions.
SELECT pg_advisory_xact_lock(hashtextextended(CAST(:lock_name AS text), 0));

-- name: find_key
-- The key of a data subject; NULL once it was erased.
SELECT key
FROM /* schema */outbox_keys
WHERE tenant_id = CAST(:tenant_id AS text) AND data_subject = CAST(:data_subject AS text);

-- name: add_key
-- Give a data subject its key, unless somebody else has just done so.
INSERT INTO /* schema */outbox_keys (tenant_id, data_subject, key)
VALUES (CAST(:tenant_id AS text), CAST(:data_subject AS text), CAST(:key AS bytea))
ON CONFLICT DO NOTHING;

-- name: instant_after
-- The moment so many microseconds from now, by the database's clock.
SELECT statement_timestamp() + CAST(:available_after_us AS bigint) * interval '1 microsecond';

-- name: server
-- What this database is, and what a commit means on it.
SELECT
    'PostgreSQL ' || current_setting('server_version') AS product,
    'fsync ' || current_setting('fsync')
    || ', synchronous_commit ' || current_setting('synchronous_commit') AS durability;

-- name: lock_schema
-- Let one migration at a time run in this database; the lock goes with the transaction.
SELECT pg_advisory_xact_lock(hashtextextended('outrider migrate', 0));

-- name: has_schema
-- Whether the schema is there. CREATE SCHEMA IF NOT EXISTS asks for the right to create it first.
SELECT to_regnamespace(CAST(:schema_name AS text)) IS NOT NULL AS is_there;

-- name: existing_objects
-- Which of a JSON array of names are objects of the schema, or constraints in it. An index that
-- was left half-built does not count.
WITH place AS (
    SELECT
        coalesce(
            (
                SELECT c.relnamespace
                FROM pg_class AS c
                WHERE c.oid = to_regclass('/* schema */outbox_schema')
            ),
            CASE
                WHEN nullif('/* schema */', '') IS NULL
                    THEN CAST(to_regnamespace(quote_ident(current_schema())) AS oid)
                ELSE CAST(to_regnamespace(rtrim('/* schema */', '.')) AS oid)
            END
        ) AS namespace
),

named AS (
    SELECT n.name
    FROM json_array_elements_text(CAST(CAST(:names AS text) AS json)) AS n (name)
)

SELECT
    CASE c.relkind
        WHEN 'S' THEN 'SEQUENCE'
        WHEN 'i' THEN 'INDEX'
        WHEN 'v' THEN 'VIEW'
        ELSE 'TABLE'
    END AS kind,
    CAST(c.relname AS text) AS name
FROM place AS p
INNER JOIN pg_class AS c ON p.namespace = c.relnamespace
INNER JOIN named AS n ON c.relname = n.name
LEFT JOIN pg_index AS i ON c.oid = i.indexrelid
WHERE coalesce(i.indisvalid, TRUE)
UNION ALL
SELECT
    'TRIGGER' AS kind,
    CAST(t.tgname AS text) AS name
FROM place AS p
INNER JOIN pg_class AS c ON p.namespace = c.relnamespace
INNER JOIN pg_trigger AS t ON c.oid = t.tgrelid
INNER JOIN named AS n ON t.tgname = n.name
UNION ALL
SELECT
    'FUNCTION' AS kind,
    CAST(f.proname AS text) AS name
FROM place AS p
INNER JOIN pg_proc AS f ON p.namespace = f.pronamespace
INNER JOIN named AS n ON f.proname = n.name
UNION ALL
SELECT
    'CONSTRAINT' AS kind,
    CAST(k.conname AS text) AS name
FROM place AS p
INNER JOIN pg_constraint AS k ON p.namespace = k.connamespace
INNER JOIN named AS n ON k.conname = n.name
WHERE k.contype <> 't';

-- name: schema_version
-- The newest version that was applied.
SELECT max(version) AS version
FROM /* schema */outbox_schema;

-- name: record_version
-- Record a version, in the transaction that applied it.
INSERT INTO /* schema */outbox_schema (version)
VALUES (CAST(:version AS integer));

-- name: require_version
-- Fail unless the schema has this version: the guard of scripts that nobody watches.
SELECT
    CASE
        WHEN coalesce(max(version), 0) = CAST(:version AS integer) THEN max(version)
        ELSE CAST('the schema has another version: ' || coalesce(max(version), 0) AS integer)
    END AS version
FROM /* schema */outbox_schema;

-- name: check_server
-- What the schema needs from the server; one row per check.
SELECT
    'server_version' AS code,
    CAST(current_setting('server_version_num') AS integer) >= 140000 AS fine,
    'PostgreSQL ' || current_setting('server_version') AS detail
UNION ALL
SELECT
    'server_encoding' AS code,
    current_setting('server_encoding') = 'UTF8' AS fine,
    current_setting('server_encoding') AS detail
UNION ALL
SELECT
    'client_encoding' AS code,
    current_setting('client_encoding') = 'UTF8' AS fine,
    current_setting('client_encoding') AS detail
UNION ALL
SELECT
    'primary' AS code,
    NOT pg_is_in_recovery() AS fine,
    CASE WHEN pg_is_in_recovery() THEN 'standby' ELSE 'primary' END AS detail;

-- name: check_tables
-- What the tables, named in a JSON array, must not have lost; one row per check.
SELECT
    'position_default' AS code,
    coalesce(
        btrim(regexp_replace(pg_get_expr(d.adbin, d.adrelid), '\s+', ' ', 'g'))
        ~ (
            '^CASE WHEN \(pg_current_xact_id\(\) IS NOT NULL\)'
            ' THEN nextval\(''("?\w+"?\.)?outbox_events_position_seq''::regclass\)'
            ' ELSE NULL::bigint END$'
        ),
        FALSE
    ) AS fine,
    coalesce(
        btrim(regexp_replace(pg_get_expr(d.adbin, d.adrelid), '\s+', ' ', 'g')), 'none'
    ) AS detail
FROM pg_attribute AS a
LEFT JOIN pg_attrdef AS d ON a.attrelid = d.adrelid AND a.attnum = d.adnum
WHERE
    a.attrelid = to_regclass('/* schema */outbox_events')
    AND a.attname = 'position'
UNION ALL
SELECT
    'position_sequence' AS code,
    s.seqcache = 1 AND s.seqincrement > 0 AND NOT s.seqcycle AS fine,
    'CACHE ' || s.seqcache || ', INCREMENT ' || s.seqincrement
    || CASE WHEN s.seqcycle THEN ', CYCLE' ELSE '' END AS detail
FROM pg_sequence AS s
WHERE s.seqrelid = to_regclass('/* schema */outbox_events_position_seq')
UNION ALL
SELECT
    'triggers_enabled' AS code,
    count(*) = 0 AS fine,
    coalesce(string_agg(t.tgname, ', ' ORDER BY t.tgname), 'all') AS detail
FROM json_array_elements_text(CAST(CAST(:names AS text) AS json)) AS n (name)
INNER JOIN pg_trigger AS t ON to_regclass('/* schema */' || n.name) = t.tgrelid
WHERE
    t.tgname LIKE 'outbox\_%'
    AND (
        t.tgenabled NOT IN ('O', 'A')
        OR t.tgname LIKE 'outbox\_events\_no\_%' AND t.tgenabled <> 'A'
    )
UNION ALL
SELECT
    'tables_durable' AS code,
    count(*) = 0 AS fine,
    coalesce(string_agg(n.name, ', ' ORDER BY n.name), 'all') AS detail
FROM json_array_elements_text(CAST(CAST(:names AS text) AS json)) AS n (name)
INNER JOIN pg_class AS c ON to_regclass('/* schema */' || n.name) = c.oid
WHERE c.relpersistence <> 'p'
UNION ALL
SELECT
    'rows_visible' AS code,
    count(*) = 0 AS fine,
    current_user || coalesce(': ' || string_agg(n.name, ', ' ORDER BY n.name), '') AS detail
FROM json_array_elements_text(CAST(CAST(:names AS text) AS json)) AS n (name)
WHERE row_security_active(to_regclass('/* schema */' || n.name))
UNION ALL
SELECT
    'log_privileges' AS code,
    NOT has_table_privilege('/* schema */outbox_events', 'UPDATE, DELETE, TRUNCATE') AS fine,
    CAST(current_user AS text) AS detail;

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
        SELECT max(newest.position) - CAST(:recent_positions AS bigint)
        FROM /* schema */outbox_events AS newest
    )
ORDER BY e.position
LIMIT CAST(:row_limit AS bigint);
