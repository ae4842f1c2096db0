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
    CONSTRAINT outbox_events_position_counts CHECK (position > 0),
    CONSTRAINT outbox_events_one_payload
    CHECK ((payload IS NULL) <> (payload_bytes IS NULL)),
    CONSTRAINT outbox_events_not_its_own_cause CHECK (causation_id <> event_id),
    CONSTRAINT outbox_events_action_whole
    CHECK (
        (action_id IS NULL) = (action_name IS NULL)
        AND (action_id IS NULL) = (action_params IS NULL)
        AND (action_id IS NULL) = (action_started_at IS NULL)
        AND (action_id IS NULL) = (action_completed_at IS NULL)
    )
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

-- A subscription. Patterns are a JSON array of event types in which '*' stands for any run of
-- characters; an addressed subscription has none. `version` is that of the definition,
-- `generation` the newest one given to a replay or a rebuild. A retired subscription claims
-- nothing more and holds nobody back, but keeps its records.
CREATE TABLE /* schema */outbox_subscriptions (
    name text COLLATE "C" NOT NULL,
    patterns json NOT NULL,
    target text COLLATE "C" NOT NULL,
    ordered boolean NOT NULL DEFAULT FALSE,
    settings json NOT NULL DEFAULT '{}',
    version integer NOT NULL DEFAULT 1,
    generation integer NOT NULL DEFAULT 0,
    start_position bigint NOT NULL DEFAULT 0,
    paused_by text COLLATE "C",
    paused_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    retired_at timestamptz,
    CONSTRAINT outbox_subscriptions_pkey PRIMARY KEY (name),
    CONSTRAINT outbox_subscriptions_name_fits CHECK (octet_length(name) BETWEEN 1 AND 255),
    CONSTRAINT outbox_subscriptions_patterns_are_an_array
    CHECK (json_typeof(patterns) = 'array'),
    CONSTRAINT outbox_subscriptions_settings_are_an_object
    CHECK (json_typeof(settings) = 'object'),
    CONSTRAINT outbox_subscriptions_numbers
    CHECK (version > 0 AND generation >= 0 AND start_position >= 0),
    CONSTRAINT outbox_subscriptions_pause_whole
    CHECK ((paused_by IS NULL) = (paused_at IS NULL))
);

-- How far a subscription has claimed, one row per partition. A claim locks the row and rewrites
-- it seldom: the highest last position among the partition's batches of this generation counts
-- as well. An ordered partition has one owner at a time.
CREATE TABLE /* schema */outbox_bookmarks (
    subscription text COLLATE "C" NOT NULL,
    partition_number integer NOT NULL DEFAULT 0,
    generation integer NOT NULL DEFAULT 0,
    position bigint NOT NULL DEFAULT 0,
    owner text COLLATE "C",
    token uuid,
    lease_until timestamptz,
    CONSTRAINT outbox_bookmarks_pkey PRIMARY KEY (subscription, partition_number),
    CONSTRAINT outbox_bookmarks_numbers
    CHECK (partition_number >= 0 AND generation >= 0 AND position >= 0),
    CONSTRAINT outbox_bookmarks_owner_whole
    CHECK (
        (owner IS NULL) = (token IS NULL)
        AND (owner IS NULL) = (lease_until IS NULL)
    )
) WITH (fillfactor = 50);

-- A claimed range of the log. Position p is bit p - first_position of both bitmaps; bit n is
-- bit n % 8 of byte n / 8, counted from the least significant. `members` are the events that
-- were visible, matched and due at the claim; `done` are those of them that are settled.
-- Both bitmaps stay in the row. No index holds lease_until, done, flushed_at or published_at,
-- so that only the closing update leaves its page.
CREATE TABLE /* schema */outbox_batches (
    batch_id bigint GENERATED ALWAYS AS IDENTITY,
    subscription text COLLATE "C" NOT NULL,
    partition_number integer NOT NULL DEFAULT 0,
    generation integer NOT NULL DEFAULT 0,
    first_position bigint NOT NULL,
    last_position bigint NOT NULL,
    state text COLLATE "C" NOT NULL,
    attempts integer NOT NULL,
    releases integer NOT NULL DEFAULT 0,
    claimed_by text COLLATE "C",
    claimed_at timestamptz,
    lease_until timestamptz,
    token uuid,
    members bytea NOT NULL,
    done bytea NOT NULL,
    fanout_cursor text COLLATE "C",
    flushed_at timestamptz,
    published_at timestamptz,
    CONSTRAINT outbox_batches_pkey PRIMARY KEY (batch_id),
    CONSTRAINT outbox_batches_numbers CHECK (partition_number >= 0 AND generation >= 0),
    CONSTRAINT outbox_batches_span
    CHECK (
        first_position > 0
        AND last_position BETWEEN first_position AND first_position + 8191
    ),
    CONSTRAINT outbox_batches_state CHECK (state IN ('CLAIMED', 'PUBLISHED')),
    CONSTRAINT outbox_batches_attempts CHECK (attempts > 0 AND releases BETWEEN 0 AND attempts),
    CONSTRAINT outbox_batches_claimed_by CHECK ((state = 'CLAIMED') = (claimed_by IS NOT NULL)),
    CONSTRAINT outbox_batches_claimed_at CHECK ((state = 'CLAIMED') = (claimed_at IS NOT NULL)),
    CONSTRAINT outbox_batches_lease CHECK ((state = 'CLAIMED') = (lease_until IS NOT NULL)),
    CONSTRAINT outbox_batches_token CHECK ((state = 'CLAIMED') = (token IS NOT NULL)),
    CONSTRAINT outbox_batches_published
    CHECK ((state = 'PUBLISHED') = (published_at IS NOT NULL)),
    CONSTRAINT outbox_batches_bitmaps_fit
    CHECK (
        octet_length(members) = (last_position - first_position) / 8 + 1
        AND octet_length(done) = octet_length(members)
    ),
    CONSTRAINT outbox_batches_done_are_members
    CHECK (
        done = members
        OR ('x' || encode(done, 'hex'))::varbit & ('x' || encode(members, 'hex'))::varbit
        = ('x' || encode(done, 'hex'))::varbit
    ),
    CONSTRAINT outbox_batches_published_is_done CHECK (state = 'CLAIMED' OR done = members)
) WITH (
    fillfactor = 90,
    toast_tuple_target = 8160,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_analyze_scale_factor = 0.02
);

-- The batch of a position p: first_position BETWEEN p - 8191 AND p, then the member bit.
CREATE INDEX outbox_batches_first
ON /* schema */outbox_batches (subscription, first_position);

-- The bookmark of a partition: the highest last position of its generation.
CREATE INDEX outbox_batches_last
ON /* schema */outbox_batches (subscription, partition_number, generation, last_position);

CREATE INDEX outbox_batches_open
ON /* schema */outbox_batches (subscription, partition_number, first_position)
WHERE state = 'CLAIMED';

-- The exceptions: an event that failed and waits for its retry, is dead, is scheduled, was
-- addressed to one recipient, or was replayed one by one. Recipient is '' where a subscription
-- has only one. A parked delivery waits for its key, not for its time.
CREATE TABLE /* schema */outbox_deliveries (
    subscription text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    recipient text COLLATE "C" NOT NULL DEFAULT '',
    generation integer NOT NULL DEFAULT 0,
    state text COLLATE "C" NOT NULL DEFAULT 'PENDING',
    attempts integer NOT NULL DEFAULT 0,
    releases integer NOT NULL DEFAULT 0,
    crashes integer NOT NULL DEFAULT 0,
    max_attempts integer,
    idempotency_key text COLLATE "C",
    parked boolean NOT NULL DEFAULT FALSE,
    available_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    claimed_by text COLLATE "C",
    claimed_at timestamptz,
    lease_until timestamptz,
    token uuid,
    published_at timestamptz,
    last_error text,
    reason text COLLATE "C",
    result json,
    target json,
    ordering_key text COLLATE "C",
    CONSTRAINT outbox_deliveries_pkey
    PRIMARY KEY (subscription, position, recipient, generation),
    CONSTRAINT outbox_deliveries_numbers CHECK (position > 0 AND generation >= 0),
    CONSTRAINT outbox_deliveries_keys_fit
    CHECK (
        octet_length(subscription) <= 255
        AND octet_length(recipient) <= 255
        AND octet_length(idempotency_key) <= 255
        AND octet_length(ordering_key) <= 255
    ),
    CONSTRAINT outbox_deliveries_state
    CHECK (state IN ('PENDING', 'CLAIMED', 'PUBLISHED', 'DEAD')),
    CONSTRAINT outbox_deliveries_attempts
    CHECK (
        attempts >= 0
        AND releases BETWEEN 0 AND attempts
        AND crashes BETWEEN 0 AND attempts
    ),
    CONSTRAINT outbox_deliveries_claim_is_an_attempt
    CHECK (attempts > 0 OR state NOT IN ('CLAIMED', 'PUBLISHED')),
    CONSTRAINT outbox_deliveries_max_attempts CHECK (max_attempts BETWEEN 1 AND 2147483647),
    CONSTRAINT outbox_deliveries_parked CHECK (NOT parked OR state = 'PENDING'),
    CONSTRAINT outbox_deliveries_claimed_by
    CHECK ((state = 'CLAIMED') = (claimed_by IS NOT NULL)),
    CONSTRAINT outbox_deliveries_claimed_at
    CHECK ((state = 'CLAIMED') = (claimed_at IS NOT NULL)),
    CONSTRAINT outbox_deliveries_lease CHECK ((state = 'CLAIMED') = (lease_until IS NOT NULL)),
    CONSTRAINT outbox_deliveries_token CHECK ((state = 'CLAIMED') = (token IS NOT NULL)),
    CONSTRAINT outbox_deliveries_published
    CHECK ((state = 'PUBLISHED') = (published_at IS NOT NULL)),
    CONSTRAINT outbox_deliveries_dead_has_a_reason
    CHECK (state <> 'DEAD' OR COALESCE(reason, '') <> '')
) WITH (
    fillfactor = 90,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_analyze_scale_factor = 0.02
);

CREATE INDEX outbox_deliveries_due
ON /* schema */outbox_deliveries (subscription, available_at, position)
WHERE state = 'PENDING' AND NOT parked;

CREATE INDEX outbox_deliveries_open
ON /* schema */outbox_deliveries (subscription, position)
WHERE state = 'CLAIMED';

-- What blocks a key: whatever of it is not finished, lowest position first.
CREATE INDEX outbox_deliveries_key
ON /* schema */outbox_deliveries (subscription, ordering_key, position)
WHERE state IN ('PENDING', 'CLAIMED') AND ordering_key IS NOT NULL;

CREATE INDEX outbox_deliveries_dead
ON /* schema */outbox_deliveries (subscription, ordering_key, position)
WHERE state = 'DEAD';

-- A range of positions that were not visible when the bookmark passed them: in flight, or
-- rolled back. The horizon is the id of a transaction that began after the gap was noted.
CREATE TABLE /* schema */outbox_gaps (
    subscription text COLLATE "C" NOT NULL,
    partition_number integer NOT NULL DEFAULT 0,
    first_position bigint NOT NULL,
    last_position bigint NOT NULL,
    noted_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    horizon xid8,
    next_look_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    CONSTRAINT outbox_gaps_pkey PRIMARY KEY (subscription, partition_number, first_position),
    CONSTRAINT outbox_gaps_numbers CHECK (partition_number >= 0),
    CONSTRAINT outbox_gaps_span CHECK (first_position > 0 AND last_position >= first_position)
) WITH (fillfactor = 70);

-- What happened in an attempt that failed or is tracked on its own. A first try that succeeded
-- needs no row.
CREATE TABLE /* schema */outbox_attempts (
    subscription text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    recipient text COLLATE "C" NOT NULL DEFAULT '',
    generation integer NOT NULL DEFAULT 0,
    attempt integer NOT NULL,
    outcome text COLLATE "C" NOT NULL,
    error text,
    relay text COLLATE "C",
    started_at timestamptz NOT NULL,
    duration_us bigint,
    CONSTRAINT outbox_attempts_pkey
    PRIMARY KEY (subscription, position, recipient, generation, attempt),
    CONSTRAINT outbox_attempts_numbers
    CHECK (position > 0 AND generation >= 0 AND attempt > 0),
    CONSTRAINT outbox_attempts_outcome CHECK (outcome IN ('published', 'failed', 'unknown')),
    CONSTRAINT outbox_attempts_duration CHECK (duration_us >= 0)
);

CREATE INDEX outbox_attempts_started ON /* schema */outbox_attempts (started_at);

-- The recipients of a webhook subscription. During a rotation both secrets sign.
CREATE TABLE /* schema */outbox_endpoints (
    subscription text COLLATE "C" NOT NULL,
    recipient text COLLATE "C" NOT NULL,
    tenant_id text COLLATE "C" NOT NULL DEFAULT '',
    url text NOT NULL,
    patterns json NOT NULL DEFAULT '["*"]',
    settings json NOT NULL DEFAULT '{}',
    secret text NOT NULL,
    previous_secret text,
    previous_secret_until timestamptz,
    created_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    succeeded_at timestamptz,
    failing_since timestamptz,
    disabled_at timestamptz,
    disabled_reason text COLLATE "C",
    CONSTRAINT outbox_endpoints_pkey PRIMARY KEY (subscription, recipient),
    CONSTRAINT outbox_endpoints_keys_fit
    CHECK (
        octet_length(recipient) BETWEEN 1 AND 255
        AND octet_length(tenant_id) <= 255
    ),
    CONSTRAINT outbox_endpoints_patterns_are_an_array CHECK (json_typeof(patterns) = 'array'),
    CONSTRAINT outbox_endpoints_settings_are_an_object
    CHECK (json_typeof(settings) = 'object'),
    CONSTRAINT outbox_endpoints_rotation_whole
    CHECK ((previous_secret IS NULL) = (previous_secret_until IS NULL)),
    CONSTRAINT outbox_endpoints_disabled_whole
    CHECK ((disabled_at IS NULL) = (disabled_reason IS NULL))
) WITH (fillfactor = 70);

CREATE INDEX outbox_endpoints_tenant
ON /* schema */outbox_endpoints (subscription, tenant_id)
WHERE disabled_at IS NULL;

-- The state of a projection or an entity up to a position, as JSON or, when it is encrypted, as
-- bytes. A projection as a whole has '' for its entity.
CREATE TABLE /* schema */outbox_snapshots (
    name text COLLATE "C" NOT NULL,
    tenant_id text COLLATE "C" NOT NULL DEFAULT '',
    entity_type text COLLATE "C" NOT NULL DEFAULT '',
    entity_id text COLLATE "C" NOT NULL DEFAULT '',
    position bigint NOT NULL,
    entity_version bigint,
    schema_version integer NOT NULL DEFAULT 1,
    payload json,
    payload_bytes bytea,
    data_subject text COLLATE "C",
    created_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    CONSTRAINT outbox_snapshots_pkey
    PRIMARY KEY (name, tenant_id, entity_type, entity_id, position),
    CONSTRAINT outbox_snapshots_keys_fit
    CHECK (
        octet_length(name) BETWEEN 1 AND 255
        AND octet_length(tenant_id) <= 255
        AND octet_length(entity_type) <= 255
        AND octet_length(entity_id) <= 255
    ),
    CONSTRAINT outbox_snapshots_numbers CHECK (position >= 0 AND schema_version > 0),
    CONSTRAINT outbox_snapshots_one_payload
    CHECK ((payload IS NULL) <> (payload_bytes IS NULL))
);

-- What a consumer has already handled, with the result to give again.
CREATE TABLE /* schema */outbox_inbox (
    consumer text COLLATE "C" NOT NULL,
    message_id text COLLATE "C" NOT NULL,
    accepted_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    result json,
    CONSTRAINT outbox_inbox_pkey PRIMARY KEY (consumer, message_id),
    CONSTRAINT outbox_inbox_keys_fit
    CHECK (
        octet_length(consumer) BETWEEN 1 AND 255
        AND octet_length(message_id) BETWEEN 1 AND 255
    )
);

CREATE INDEX outbox_inbox_accepted ON /* schema */outbox_inbox (accepted_at);

-- A chain of digests over the settled prefix of the log: each covers the range after the one
-- before it, and that one's digest.
CREATE TABLE /* schema */outbox_seals (
    seal_number bigint NOT NULL,
    epoch bigint NOT NULL,
    first_position bigint NOT NULL,
    last_position bigint NOT NULL,
    event_count bigint NOT NULL,
    digest bytea NOT NULL,
    previous_digest bytea,
    sealed_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    CONSTRAINT outbox_seals_pkey PRIMARY KEY (seal_number),
    CONSTRAINT outbox_seals_first_key UNIQUE (first_position),
    CONSTRAINT outbox_seals_previous_key UNIQUE (previous_digest),
    CONSTRAINT outbox_seals_span
    CHECK (
        seal_number > 0
        AND first_position > 0
        AND last_position >= first_position
        AND event_count BETWEEN 0 AND last_position - first_position + 1
    ),
    CONSTRAINT outbox_seals_digests
    CHECK (octet_length(digest) = 32 AND octet_length(previous_digest) = 32),
    CONSTRAINT outbox_seals_chain CHECK ((seal_number = 1) = (previous_digest IS NULL))
);

-- What an operator did or is doing: the audit, and the progress of an action on many deliveries.
CREATE TABLE /* schema */outbox_operations (
    operation_id uuid NOT NULL,
    action text COLLATE "C" NOT NULL,
    subscription text COLLATE "C",
    generation integer,
    selection json,
    arguments json NOT NULL DEFAULT '{}',
    dry_run boolean NOT NULL DEFAULT FALSE,
    idempotency_key text COLLATE "C",
    requested_by text COLLATE "C" NOT NULL,
    requested_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    state text COLLATE "C" NOT NULL DEFAULT 'WAITING',
    progress_cursor text COLLATE "C",
    total bigint,
    processed bigint NOT NULL DEFAULT 0,
    failed bigint NOT NULL DEFAULT 0,
    owner text COLLATE "C",
    token uuid,
    lease_until timestamptz,
    started_at timestamptz,
    finished_at timestamptz,
    error text,
    CONSTRAINT outbox_operations_pkey PRIMARY KEY (operation_id),
    CONSTRAINT outbox_operations_keys_fit
    CHECK (
        octet_length(requested_by) BETWEEN 1 AND 255
        AND octet_length(idempotency_key) BETWEEN 1 AND 255
    ),
    CONSTRAINT outbox_operations_state
    CHECK (state IN ('WAITING', 'RUNNING', 'DONE', 'FAILED', 'CANCELLED')),
    CONSTRAINT outbox_operations_finished
    CHECK ((state IN ('WAITING', 'RUNNING')) = (finished_at IS NULL)),
    CONSTRAINT outbox_operations_counts
    CHECK (total >= 0 AND processed >= 0 AND failed BETWEEN 0 AND processed),
    CONSTRAINT outbox_operations_owner_whole
    CHECK (
        (owner IS NULL) = (token IS NULL)
        AND (owner IS NULL) = (lease_until IS NULL)
    )
) WITH (fillfactor = 70);

CREATE UNIQUE INDEX outbox_operations_idempotency
ON /* schema */outbox_operations (idempotency_key)
WHERE idempotency_key IS NOT NULL;

CREATE INDEX outbox_operations_requested ON /* schema */outbox_operations (requested_at);

-- The key under which the personal data of a subject is encrypted. Erased means gone for good.
CREATE TABLE /* schema */outbox_keys (
    tenant_id text COLLATE "C" NOT NULL,
    data_subject text COLLATE "C" NOT NULL,
    key bytea,
    created_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    erased_at timestamptz,
    CONSTRAINT outbox_keys_pkey PRIMARY KEY (tenant_id, data_subject),
    CONSTRAINT outbox_keys_keys_fit
    CHECK (octet_length(tenant_id) <= 255 AND octet_length(data_subject) BETWEEN 1 AND 255),
    CONSTRAINT outbox_keys_erased CHECK ((key IS NULL) = (erased_at IS NOT NULL))
);

CREATE TABLE /* schema */outbox_relays (
    relay text COLLATE "C" NOT NULL,
    host text NOT NULL,
    process_id bigint NOT NULL,
    version text NOT NULL,
    details json NOT NULL DEFAULT '{}',
    draining boolean NOT NULL DEFAULT FALSE,
    started_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    heartbeat_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    CONSTRAINT outbox_relays_pkey PRIMARY KEY (relay),
    CONSTRAINT outbox_relays_name_fits CHECK (octet_length(relay) BETWEEN 1 AND 255)
) WITH (fillfactor = 50);

-- Counters per minute for charts. Subscription is '' for what concerns the log.
CREATE TABLE /* schema */outbox_rollups (
    minute_at timestamptz NOT NULL,
    subscription text COLLATE "C" NOT NULL DEFAULT '',
    metric text COLLATE "C" NOT NULL,
    total bigint NOT NULL,
    CONSTRAINT outbox_rollups_pkey PRIMARY KEY (minute_at, subscription, metric),
    CONSTRAINT outbox_rollups_keys_fit
    CHECK (octet_length(subscription) <= 255 AND octet_length(metric) BETWEEN 1 AND 255)
) WITH (fillfactor = 70);

CREATE TABLE /* schema */outbox_schema (
    version integer NOT NULL,
    migrated_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    CONSTRAINT outbox_schema_pkey PRIMARY KEY (version)
);

-- How far each subscription has claimed; of several partitions, the slowest counts.
CREATE VIEW /* schema */outbox_progress AS
SELECT
    k.subscription,
    max(k.generation) AS generation,
    min(
        greatest(
            k.position,
            coalesce((
                SELECT max(b.last_position)
                FROM /* schema */outbox_batches AS b
                WHERE
                    b.subscription = k.subscription
                    AND b.partition_number = k.partition_number
                    AND b.generation = k.generation
            ), 0)
        )
    ) AS position
FROM /* schema */outbox_bookmarks AS k
GROUP BY k.subscription;

-- Which events are meant for which subscriptions. In a pattern only '*' has a meaning.
CREATE VIEW /* schema */outbox_matches AS
SELECT
    e.position,
    e.event_id,
    e.tenant_id,
    e.event_type,
    e.available_at,
    s.name AS subscription
FROM /* schema */outbox_events AS e
CROSS JOIN /* schema */outbox_subscriptions AS s
WHERE
    s.name <> 'log'
    AND s.retired_at IS NULL
    AND e.event_type NOT LIKE 'outrider.%'
    AND EXISTS (
        SELECT 1
        FROM json_array_elements_text(s.patterns) AS p (pattern)
        WHERE
            e.event_type LIKE replace(
                replace(replace(replace(p.pattern, '\', '\\'), '%', '\%'), '_', '\_'),
                '*',
                '%'
            )
    );

-- What a subscription has yet to claim: above its bookmark, and in the gaps below it.
CREATE VIEW /* schema */outbox_unclaimed AS
SELECT
    m.position,
    m.event_id,
    m.tenant_id,
    m.event_type,
    m.available_at,
    m.subscription,
    p.generation
FROM /* schema */outbox_progress AS p
INNER JOIN /* schema */outbox_matches AS m
    ON p.subscription = m.subscription AND p.position < m.position
UNION ALL
SELECT
    m.position,
    m.event_id,
    m.tenant_id,
    m.event_type,
    m.available_at,
    m.subscription,
    p.generation
FROM /* schema */outbox_progress AS p
INNER JOIN /* schema */outbox_matches AS m
    ON p.subscription = m.subscription AND p.position >= m.position
WHERE
    (m.subscription, m.position) IN (
        SELECT
            g.subscription,
            e.position
        FROM /* schema */outbox_gaps AS g
        INNER JOIN /* schema */outbox_events AS e
            ON e.position BETWEEN g.first_position AND g.last_position
    );

-- Which events are members of which batches. A batch is found by its first position: + 0 keeps
-- the planner from looking by the last one, which half of all batches satisfy, and the difference
-- repeats the condition in a form that tells it how few batches that leaves.
CREATE VIEW /* schema */outbox_members AS
SELECT
    e.position,
    e.event_id,
    e.tenant_id,
    e.event_type,
    e.available_at,
    b.subscription,
    b.batch_id,
    b.generation,
    b.state,
    b.attempts,
    b.claimed_at,
    b.claimed_by,
    b.published_at
FROM /* schema */outbox_events AS e
INNER JOIN /* schema */outbox_batches AS b
    ON
        b.first_position BETWEEN e.position - 8191 AND e.position
        AND e.position <= b.last_position + 0
        AND e.position - b.first_position BETWEEN 0 AND 8191
WHERE
    b.subscription IN (
        SELECT s.name
        FROM /* schema */outbox_subscriptions AS s
        WHERE s.name <> 'log'
    )
    AND e.event_type NOT LIKE 'outrider.%'
    -- A bit outside of the bitmap is an error, and AND promises no order.
    AND CASE
        WHEN e.position BETWEEN b.first_position AND b.last_position
            THEN get_bit(b.members, e.position - b.first_position) = 1
        ELSE FALSE
    END;

-- The state of each event for each subscription and recipient, in its newest generation: what
-- its own delivery says, else the batch that it is a member of, else PENDING if it is yet to be
-- claimed. An event without a row here does not concern the subscription. What is unclaimed
-- belongs to the bookmark's generation, so it is looked for only behind a newer one.
CREATE VIEW /* schema */outbox_status AS
SELECT
    e.position,
    e.event_id,
    nullif(e.tenant_id, '') AS tenant_id,
    e.event_type,
    d.subscription,
    d.recipient,
    d.generation,
    d.state,
    d.attempts,
    d.available_at,
    d.claimed_at,
    d.claimed_by,
    d.published_at,
    d.last_error
FROM /* schema */outbox_events AS e
INNER JOIN /* schema */outbox_deliveries AS d ON e.position = d.position
WHERE
    d.subscription IN (
        SELECT s.name
        FROM /* schema */outbox_subscriptions AS s
        WHERE s.name <> 'log'
    )
    AND e.event_type NOT LIKE 'outrider.%'
    AND d.generation = (
        SELECT max(newest.generation)
        FROM /* schema */outbox_deliveries AS newest
        WHERE
            newest.subscription = d.subscription
            AND newest.position = d.position
            AND newest.recipient = d.recipient
    )
    AND (
        d.recipient <> ''
        OR NOT EXISTS (
            SELECT 1
            FROM /* schema */outbox_members AS newer
            WHERE
                newer.subscription = d.subscription
                AND newer.position = d.position
                AND newer.generation > d.generation
        )
        AND NOT EXISTS (
            SELECT 1
            FROM /* schema */outbox_unclaimed AS newer
            WHERE
                newer.subscription = d.subscription
                AND newer.position = d.position
                AND newer.generation > d.generation
        )
    )
UNION ALL
SELECT
    m.position,
    m.event_id,
    nullif(m.tenant_id, '') AS tenant_id,
    m.event_type,
    m.subscription,
    '' AS recipient,
    m.generation,
    m.state,
    m.attempts,
    m.available_at,
    m.claimed_at,
    m.claimed_by,
    m.published_at,
    NULL AS last_error
FROM /* schema */outbox_members AS m
WHERE
    NOT EXISTS (
        SELECT 1
        FROM /* schema */outbox_members AS newer
        WHERE
            newer.subscription = m.subscription
            AND newer.position = m.position
            AND (
                newer.generation > m.generation
                OR newer.generation = m.generation AND newer.batch_id > m.batch_id
            )
    )
    AND m.generation > coalesce((
        SELECT max(d.generation)
        FROM /* schema */outbox_deliveries AS d
        WHERE d.subscription = m.subscription AND d.position = m.position
    ), -1)
    AND (
        m.generation >= coalesce((
            SELECT max(k.generation)
            FROM /* schema */outbox_bookmarks AS k
            WHERE k.subscription = m.subscription
        ), 0)
        OR NOT EXISTS (
            SELECT 1
            FROM /* schema */outbox_unclaimed AS newer
            WHERE
                newer.subscription = m.subscription
                AND newer.position = m.position
                AND newer.generation > m.generation
        )
    )
UNION ALL
SELECT
    u.position,
    u.event_id,
    nullif(u.tenant_id, '') AS tenant_id,
    u.event_type,
    u.subscription,
    '' AS recipient,
    u.generation,
    'PENDING' AS state,
    0 AS attempts,
    u.available_at,
    NULL AS claimed_at,
    NULL AS claimed_by,
    NULL AS published_at,
    NULL AS last_error
FROM /* schema */outbox_unclaimed AS u
WHERE
    u.generation > coalesce((
        SELECT max(d.generation)
        FROM /* schema */outbox_deliveries AS d
        WHERE d.subscription = u.subscription AND d.position = u.position
    ), -1)
    AND u.generation > coalesce((
        SELECT max(m.generation)
        FROM /* schema */outbox_members AS m
        WHERE m.subscription = u.subscription AND m.position = u.position
    ), -1);

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
    USING HINT = 'Correct a fact with a new event, caused by the one that was wrong.',
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

-- The lifecycle, held for whoever writes. The triggers run AFTER the row is written and do
-- nothing but refuse, so an update that is in order pays for the comparison only: a BEFORE
-- trigger would lock the row first.
--     PENDING --claim--> CLAIMED --> PUBLISHED | DEAD
--        ^-----retry-----'
CREATE FUNCTION /* schema */outbox_refuse_transition() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% refuses the change: from % with % attempts to % with % attempts',
    tg_table_name, old.state, old.attempts, new.state, new.attempts
    USING HINT = 'States follow the lifecycle, attempts only rise, a claim has a new token, '
    'done bits are only added; what has been published or is dead stays so.',
    ERRCODE = 'restrict_violation';
END
$$;

CREATE TRIGGER outbox_deliveries_lifecycle
AFTER UPDATE ON /* schema */outbox_deliveries
FOR EACH ROW
WHEN (
    old.state = 'PUBLISHED'
    OR old.state = 'DEAD' AND new.state <> 'DEAD'
    OR old.state = 'PENDING' AND new.state IN ('PUBLISHED', 'DEAD')
    OR old.state = 'PENDING' AND new.state = 'CLAIMED' AND new.attempts <> old.attempts + 1
    OR new.attempts < old.attempts
    OR new.attempts > old.attempts AND new.token IS NOT DISTINCT FROM old.token
    OR new.position <> old.position
    OR new.generation <> old.generation
    OR new.subscription <> old.subscription
    OR new.recipient <> old.recipient
)
EXECUTE FUNCTION /* schema */outbox_refuse_transition();

CREATE TRIGGER outbox_batches_lifecycle
AFTER UPDATE ON /* schema */outbox_batches
FOR EACH ROW
WHEN (
    old.state = 'PUBLISHED'
    OR new.attempts < old.attempts
    OR new.attempts > old.attempts AND new.token IS NOT DISTINCT FROM old.token
    OR new.members <> old.members AND new.state <> 'PUBLISHED'
    OR new.first_position <> old.first_position
    OR new.last_position <> old.last_position
    OR new.generation <> old.generation
    OR new.partition_number <> old.partition_number
    OR new.subscription <> old.subscription
)
EXECUTE FUNCTION /* schema */outbox_refuse_transition();

-- Bits are only ever added to `done`, and only those of members.
CREATE TRIGGER outbox_batches_bits
AFTER UPDATE OF members, done ON /* schema */outbox_batches
FOR EACH ROW
WHEN (
    new.done <> old.done
    AND ('x' || encode(old.done, 'hex'))::varbit & ('x' || encode(new.done, 'hex'))::varbit
    <> ('x' || encode(old.done, 'hex'))::varbit
    OR new.members <> old.members
    AND ('x' || encode(old.members, 'hex'))::varbit & ('x' || encode(new.members, 'hex'))::varbit
    <> ('x' || encode(new.members, 'hex'))::varbit
)
EXECUTE FUNCTION /* schema */outbox_refuse_transition();
