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
        CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000
    ),
    created_at INTEGER NOT NULL DEFAULT (
        CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000
    ),
    available_at INTEGER,
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

-- A subscription. Patterns are a JSON array of event types in which '*' stands for any run of
-- characters; an addressed subscription has none. `version` is that of the definition,
-- `generation` the newest one given to a replay or a rebuild. A retired subscription claims
-- nothing more and holds nobody back, but keeps its records.
CREATE TABLE /* schema */outbox_subscriptions (
    name TEXT NOT NULL,
    patterns TEXT NOT NULL,
    target TEXT NOT NULL,
    ordered INTEGER NOT NULL DEFAULT 0,
    settings TEXT NOT NULL DEFAULT '{}',
    version INTEGER NOT NULL DEFAULT 1,
    generation INTEGER NOT NULL DEFAULT 0,
    start_position INTEGER NOT NULL DEFAULT 0,
    paused_by TEXT,
    paused_at INTEGER,
    created_at INTEGER NOT NULL DEFAULT (
        CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000
    ),
    retired_at INTEGER,
    CONSTRAINT outbox_subscriptions_pkey PRIMARY KEY (name),
    CONSTRAINT outbox_subscriptions_name_fits CHECK (length(CAST(name AS BLOB)) BETWEEN 1 AND 255),
    CONSTRAINT outbox_subscriptions_patterns_are_an_array
    CHECK (json_valid(patterns) AND json_type(patterns) = 'array'),
    CONSTRAINT outbox_subscriptions_settings_are_an_object
    CHECK (json_valid(settings) AND json_type(settings) = 'object'),
    CONSTRAINT outbox_subscriptions_numbers
    CHECK (version > 0 AND generation >= 0 AND start_position >= 0),
    CONSTRAINT outbox_subscriptions_pause_whole
    CHECK ((paused_by IS NULL) = (paused_at IS NULL)),
    CONSTRAINT outbox_subscriptions_ordered_is_boolean CHECK (ordered IN (0, 1))
) STRICT;

-- How far a subscription has claimed, one row per partition. A claim locks the row and rewrites
-- it seldom: the highest last position among the partition's batches of this generation counts
-- as well. An ordered partition has one owner at a time.
CREATE TABLE /* schema */outbox_bookmarks (
    subscription TEXT NOT NULL,
    partition_number INTEGER NOT NULL DEFAULT 0,
    generation INTEGER NOT NULL DEFAULT 0,
    position INTEGER NOT NULL DEFAULT 0,
    owner TEXT,
    token TEXT,
    lease_until INTEGER,
    CONSTRAINT outbox_bookmarks_pkey PRIMARY KEY (subscription, partition_number),
    CONSTRAINT outbox_bookmarks_numbers
    CHECK (partition_number >= 0 AND generation >= 0 AND position >= 0),
    CONSTRAINT outbox_bookmarks_owner_whole
    CHECK (
        (owner IS NULL) = (token IS NULL)
        AND (owner IS NULL) = (lease_until IS NULL)
    )
) STRICT;

-- A claimed range of the log. Position p is bit p - first_position of both bitmaps; bit n is
-- bit n % 8 of byte n / 8, counted from the least significant. `members` are the events that
-- were visible, matched and due at the claim; `done` are those of them that are settled. That
-- `done` lies within `members` and only grows is up to the writer: SQLite has no bit strings.
CREATE TABLE /* schema */outbox_batches (
    batch_id INTEGER PRIMARY KEY AUTOINCREMENT,
    subscription TEXT NOT NULL,
    partition_number INTEGER NOT NULL DEFAULT 0,
    generation INTEGER NOT NULL DEFAULT 0,
    first_position INTEGER NOT NULL,
    last_position INTEGER NOT NULL,
    state TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    releases INTEGER NOT NULL DEFAULT 0,
    claimed_by TEXT,
    claimed_at INTEGER,
    lease_until INTEGER,
    token TEXT,
    members BLOB NOT NULL,
    done BLOB NOT NULL,
    fanout_cursor TEXT,
    flushed_at INTEGER,
    published_at INTEGER,
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
        length(members) = (last_position - first_position) / 8 + 1
        AND length(done) = length(members)
    ),
    CONSTRAINT outbox_batches_published_is_done CHECK (state = 'CLAIMED' OR done = members)
) STRICT;

-- The batch of a position p: first_position BETWEEN p - 8191 AND p, then the member bit.
CREATE INDEX /* schema */outbox_batches_first
ON outbox_batches (subscription, first_position);

-- The bookmark of a partition: the highest last position of its generation.
CREATE INDEX /* schema */outbox_batches_last
ON outbox_batches (subscription, partition_number, generation, last_position);

CREATE INDEX /* schema */outbox_batches_open
ON outbox_batches (subscription, partition_number, first_position)
WHERE state = 'CLAIMED';

-- The exceptions: an event that failed and waits for its retry, is dead, is scheduled, was
-- addressed to one recipient, or was replayed one by one. Recipient is '' where a subscription
-- has only one. A parked delivery waits for its key, not for its time.
CREATE TABLE /* schema */outbox_deliveries (
    subscription TEXT NOT NULL,
    position INTEGER NOT NULL,
    recipient TEXT NOT NULL DEFAULT '',
    generation INTEGER NOT NULL DEFAULT 0,
    state TEXT NOT NULL DEFAULT 'PENDING',
    attempts INTEGER NOT NULL DEFAULT 0,
    releases INTEGER NOT NULL DEFAULT 0,
    crashes INTEGER NOT NULL DEFAULT 0,
    max_attempts INTEGER,
    idempotency_key TEXT,
    parked INTEGER NOT NULL DEFAULT 0,
    available_at INTEGER NOT NULL DEFAULT (
        CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000
    ),
    claimed_by TEXT,
    claimed_at INTEGER,
    lease_until INTEGER,
    token TEXT,
    published_at INTEGER,
    last_error TEXT,
    reason TEXT,
    result TEXT,
    target TEXT,
    ordering_key TEXT,
    CONSTRAINT outbox_deliveries_pkey
    PRIMARY KEY (subscription, position, recipient, generation),
    CONSTRAINT outbox_deliveries_numbers CHECK (position > 0 AND generation >= 0),
    CONSTRAINT outbox_deliveries_keys_fit
    CHECK (
        length(CAST(subscription AS BLOB)) <= 255
        AND length(CAST(recipient AS BLOB)) <= 255
        AND length(CAST(idempotency_key AS BLOB)) <= 255
        AND length(CAST(ordering_key AS BLOB)) <= 255
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
    CONSTRAINT outbox_deliveries_parked CHECK (parked = 0 OR state = 'PENDING'),
    CONSTRAINT outbox_deliveries_claimed_by
    CHECK ((state = 'CLAIMED') = (claimed_by IS NOT NULL)),
    CONSTRAINT outbox_deliveries_claimed_at
    CHECK ((state = 'CLAIMED') = (claimed_at IS NOT NULL)),
    CONSTRAINT outbox_deliveries_lease CHECK ((state = 'CLAIMED') = (lease_until IS NOT NULL)),
    CONSTRAINT outbox_deliveries_token CHECK ((state = 'CLAIMED') = (token IS NOT NULL)),
    CONSTRAINT outbox_deliveries_published
    CHECK ((state = 'PUBLISHED') = (published_at IS NOT NULL)),
    CONSTRAINT outbox_deliveries_dead_has_a_reason
    CHECK (state <> 'DEAD' OR COALESCE(reason, '') <> ''),
    CONSTRAINT outbox_deliveries_parked_is_boolean CHECK (parked IN (0, 1)),
    CONSTRAINT outbox_deliveries_result_is_json
    CHECK (result IS NULL OR json_valid(result)),
    CONSTRAINT outbox_deliveries_target_is_json
    CHECK (target IS NULL OR json_valid(target))
) STRICT;

CREATE INDEX /* schema */outbox_deliveries_due
ON outbox_deliveries (subscription, available_at, position)
WHERE state = 'PENDING' AND parked = 0;

CREATE INDEX /* schema */outbox_deliveries_open
ON outbox_deliveries (subscription, position)
WHERE state = 'CLAIMED';

-- What blocks a key: whatever of it is not finished, lowest position first.
CREATE INDEX /* schema */outbox_deliveries_key
ON outbox_deliveries (subscription, ordering_key, position)
WHERE state IN ('PENDING', 'CLAIMED') AND ordering_key IS NOT NULL;

CREATE INDEX /* schema */outbox_deliveries_dead
ON outbox_deliveries (subscription, ordering_key, position)
WHERE state = 'DEAD';

-- A range of positions that were not visible when the bookmark passed them: in flight, or
-- rolled back. SQLite has one writer at a time, so a gap is dead at once and needs no horizon.
CREATE TABLE /* schema */outbox_gaps (
    subscription TEXT NOT NULL,
    partition_number INTEGER NOT NULL DEFAULT 0,
    first_position INTEGER NOT NULL,
    last_position INTEGER NOT NULL,
    noted_at INTEGER NOT NULL DEFAULT (
        CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000
    ),
    horizon INTEGER,
    next_look_at INTEGER NOT NULL DEFAULT (
        CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000
    ),
    CONSTRAINT outbox_gaps_pkey PRIMARY KEY (subscription, partition_number, first_position),
    CONSTRAINT outbox_gaps_numbers CHECK (partition_number >= 0),
    CONSTRAINT outbox_gaps_span CHECK (first_position > 0 AND last_position >= first_position)
) STRICT;

-- What happened in an attempt that failed or is tracked on its own. A first try that succeeded
-- needs no row.
CREATE TABLE /* schema */outbox_attempts (
    subscription TEXT NOT NULL,
    position INTEGER NOT NULL,
    recipient TEXT NOT NULL DEFAULT '',
    generation INTEGER NOT NULL DEFAULT 0,
    attempt INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    error TEXT,
    relay TEXT,
    started_at INTEGER NOT NULL,
    duration_us INTEGER,
    CONSTRAINT outbox_attempts_pkey
    PRIMARY KEY (subscription, position, recipient, generation, attempt),
    CONSTRAINT outbox_attempts_numbers
    CHECK (position > 0 AND generation >= 0 AND attempt > 0),
    CONSTRAINT outbox_attempts_outcome CHECK (outcome IN ('published', 'failed', 'unknown')),
    CONSTRAINT outbox_attempts_duration CHECK (duration_us >= 0)
) STRICT;

CREATE INDEX /* schema */outbox_attempts_started ON outbox_attempts (started_at);

-- The recipients of a webhook subscription. During a rotation both secrets sign.
CREATE TABLE /* schema */outbox_endpoints (
    subscription TEXT NOT NULL,
    recipient TEXT NOT NULL,
    tenant_id TEXT NOT NULL DEFAULT '',
    url TEXT NOT NULL,
    patterns TEXT NOT NULL DEFAULT '["*"]',
    settings TEXT NOT NULL DEFAULT '{}',
    secret TEXT NOT NULL,
    previous_secret TEXT,
    previous_secret_until INTEGER,
    created_at INTEGER NOT NULL DEFAULT (
        CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000
    ),
    succeeded_at INTEGER,
    failing_since INTEGER,
    disabled_at INTEGER,
    disabled_reason TEXT,
    CONSTRAINT outbox_endpoints_pkey PRIMARY KEY (subscription, recipient),
    CONSTRAINT outbox_endpoints_keys_fit
    CHECK (
        length(CAST(recipient AS BLOB)) BETWEEN 1 AND 255
        AND length(CAST(tenant_id AS BLOB)) <= 255
    ),
    CONSTRAINT outbox_endpoints_patterns_are_an_array
    CHECK (json_valid(patterns) AND json_type(patterns) = 'array'),
    CONSTRAINT outbox_endpoints_settings_are_an_object
    CHECK (json_valid(settings) AND json_type(settings) = 'object'),
    CONSTRAINT outbox_endpoints_rotation_whole
    CHECK ((previous_secret IS NULL) = (previous_secret_until IS NULL)),
    CONSTRAINT outbox_endpoints_disabled_whole
    CHECK ((disabled_at IS NULL) = (disabled_reason IS NULL))
) STRICT;

CREATE INDEX /* schema */outbox_endpoints_tenant
ON outbox_endpoints (subscription, tenant_id)
WHERE disabled_at IS NULL;

-- The state of a projection or an entity up to a position, as JSON or, when it is encrypted, as
-- bytes. A projection as a whole has '' for its entity.
CREATE TABLE /* schema */outbox_snapshots (
    name TEXT NOT NULL,
    tenant_id TEXT NOT NULL DEFAULT '',
    entity_type TEXT NOT NULL DEFAULT '',
    entity_id TEXT NOT NULL DEFAULT '',
    position INTEGER NOT NULL,
    entity_version INTEGER,
    schema_version INTEGER NOT NULL DEFAULT 1,
    payload TEXT,
    payload_bytes BLOB,
    data_subject TEXT,
    created_at INTEGER NOT NULL DEFAULT (
        CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000
    ),
    CONSTRAINT outbox_snapshots_pkey
    PRIMARY KEY (name, tenant_id, entity_type, entity_id, position),
    CONSTRAINT outbox_snapshots_keys_fit
    CHECK (
        length(CAST(name AS BLOB)) BETWEEN 1 AND 255
        AND length(CAST(tenant_id AS BLOB)) <= 255
        AND length(CAST(entity_type AS BLOB)) <= 255
        AND length(CAST(entity_id AS BLOB)) <= 255
    ),
    CONSTRAINT outbox_snapshots_numbers CHECK (position >= 0 AND schema_version > 0),
    CONSTRAINT outbox_snapshots_one_payload
    CHECK ((payload IS NULL) <> (payload_bytes IS NULL)),
    CONSTRAINT outbox_snapshots_payload_is_json
    CHECK (payload IS NULL OR json_valid(payload))
) STRICT;

-- What a consumer has already handled, with the result to give again.
CREATE TABLE /* schema */outbox_inbox (
    consumer TEXT NOT NULL,
    message_id TEXT NOT NULL,
    accepted_at INTEGER NOT NULL DEFAULT (
        CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000
    ),
    result TEXT,
    CONSTRAINT outbox_inbox_pkey PRIMARY KEY (consumer, message_id),
    CONSTRAINT outbox_inbox_keys_fit
    CHECK (
        length(CAST(consumer AS BLOB)) BETWEEN 1 AND 255
        AND length(CAST(message_id AS BLOB)) BETWEEN 1 AND 255
    ),
    CONSTRAINT outbox_inbox_result_is_json
    CHECK (result IS NULL OR json_valid(result))
) STRICT;

CREATE INDEX /* schema */outbox_inbox_accepted ON outbox_inbox (accepted_at);

-- A chain of digests over the settled prefix of the log: each covers the range after the one
-- before it, and that one's digest.
CREATE TABLE /* schema */outbox_seals (
    seal_number INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    first_position INTEGER NOT NULL,
    last_position INTEGER NOT NULL,
    event_count INTEGER NOT NULL,
    digest BLOB NOT NULL,
    previous_digest BLOB,
    sealed_at INTEGER NOT NULL DEFAULT (
        CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000
    ),
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
    CHECK (length(digest) = 32 AND length(previous_digest) = 32),
    CONSTRAINT outbox_seals_chain CHECK ((seal_number = 1) = (previous_digest IS NULL))
) STRICT;

-- What an operator did or is doing: the audit, and the progress of an action on many deliveries.
CREATE TABLE /* schema */outbox_operations (
    operation_id TEXT NOT NULL,
    action TEXT NOT NULL,
    subscription TEXT,
    generation INTEGER,
    selection TEXT,
    arguments TEXT NOT NULL DEFAULT '{}',
    dry_run INTEGER NOT NULL DEFAULT 0,
    idempotency_key TEXT,
    requested_by TEXT NOT NULL,
    requested_at INTEGER NOT NULL DEFAULT (
        CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000
    ),
    state TEXT NOT NULL DEFAULT 'WAITING',
    progress_cursor TEXT,
    total INTEGER,
    processed INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0,
    owner TEXT,
    token TEXT,
    lease_until INTEGER,
    started_at INTEGER,
    finished_at INTEGER,
    error TEXT,
    CONSTRAINT outbox_operations_pkey PRIMARY KEY (operation_id),
    CONSTRAINT outbox_operations_keys_fit
    CHECK (
        length(CAST(requested_by AS BLOB)) BETWEEN 1 AND 255
        AND length(CAST(idempotency_key AS BLOB)) BETWEEN 1 AND 255
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
    ),
    CONSTRAINT outbox_operations_dry_run_is_boolean CHECK (dry_run IN (0, 1)),
    CONSTRAINT outbox_operations_selection_is_json
    CHECK (selection IS NULL OR json_valid(selection)),
    CONSTRAINT outbox_operations_arguments_is_json
    CHECK (arguments IS NULL OR json_valid(arguments))
) STRICT;

CREATE UNIQUE INDEX /* schema */outbox_operations_idempotency
ON outbox_operations (idempotency_key)
WHERE idempotency_key IS NOT NULL;

CREATE INDEX /* schema */outbox_operations_requested ON outbox_operations (requested_at);

-- The key under which the personal data of a subject is encrypted. Erased means gone for good.
CREATE TABLE /* schema */outbox_keys (
    tenant_id TEXT NOT NULL,
    data_subject TEXT NOT NULL,
    key BLOB,
    created_at INTEGER NOT NULL DEFAULT (
        CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000
    ),
    erased_at INTEGER,
    CONSTRAINT outbox_keys_pkey PRIMARY KEY (tenant_id, data_subject),
    CONSTRAINT outbox_keys_keys_fit
    CHECK (
        length(CAST(tenant_id AS BLOB)) <= 255
        AND length(CAST(data_subject AS BLOB)) BETWEEN 1 AND 255
    ),
    CONSTRAINT outbox_keys_erased CHECK ((key IS NULL) = (erased_at IS NOT NULL))
) STRICT;

CREATE TABLE /* schema */outbox_relays (
    relay TEXT NOT NULL,
    host TEXT NOT NULL,
    process_id INTEGER NOT NULL,
    version TEXT NOT NULL,
    details TEXT NOT NULL DEFAULT '{}',
    draining INTEGER NOT NULL DEFAULT 0,
    started_at INTEGER NOT NULL DEFAULT (
        CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000
    ),
    heartbeat_at INTEGER NOT NULL DEFAULT (
        CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000
    ),
    CONSTRAINT outbox_relays_pkey PRIMARY KEY (relay),
    CONSTRAINT outbox_relays_name_fits CHECK (length(CAST(relay AS BLOB)) BETWEEN 1 AND 255),
    CONSTRAINT outbox_relays_draining_is_boolean CHECK (draining IN (0, 1)),
    CONSTRAINT outbox_relays_details_is_json
    CHECK (details IS NULL OR json_valid(details))
) STRICT;

-- Counters per minute for charts. Subscription is '' for what concerns the log.
CREATE TABLE /* schema */outbox_rollups (
    minute_at INTEGER NOT NULL,
    subscription TEXT NOT NULL DEFAULT '',
    metric TEXT NOT NULL,
    total INTEGER NOT NULL,
    CONSTRAINT outbox_rollups_pkey PRIMARY KEY (minute_at, subscription, metric),
    CONSTRAINT outbox_rollups_keys_fit
    CHECK (
        length(CAST(subscription AS BLOB)) <= 255
        AND length(CAST(metric AS BLOB)) BETWEEN 1 AND 255
    )
) STRICT;

CREATE TABLE /* schema */outbox_schema (
    version INTEGER PRIMARY KEY,
    migrated_at INTEGER NOT NULL DEFAULT (
        CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000
    )
) STRICT;

-- How far each subscription has claimed; of several partitions, the slowest counts.
CREATE VIEW /* schema */outbox_progress AS
SELECT
    k.subscription,
    max(k.generation) AS generation,
    min(
        max(
            k.position,
            coalesce((
                SELECT max(b.last_position)
                FROM outbox_batches AS b
                WHERE
                    b.subscription = k.subscription
                    AND b.partition_number = k.partition_number
                    AND b.generation = k.generation
            ), 0)
        )
    ) AS position
FROM outbox_bookmarks AS k
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
FROM outbox_events AS e
CROSS JOIN outbox_subscriptions AS s
WHERE
    s.name <> 'log'
    AND s.retired_at IS NULL
    AND e.event_type NOT GLOB 'outrider.*'
    AND EXISTS (
        SELECT 1
        FROM json_each(s.patterns) AS p
        WHERE e.event_type GLOB replace(replace(p.value, '[', '[[]'), '?', '[?]')
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
FROM outbox_progress AS p
INNER JOIN outbox_matches AS m
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
FROM outbox_progress AS p
INNER JOIN outbox_matches AS m
    ON p.subscription = m.subscription AND p.position >= m.position
WHERE
    (m.subscription, m.position) IN (
        SELECT
            g.subscription,
            e.position
        FROM outbox_gaps AS g
        INNER JOIN outbox_events AS e
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
FROM outbox_events AS e
INNER JOIN outbox_batches AS b
    ON
        b.first_position BETWEEN e.position - 8191 AND e.position
        AND e.position <= b.last_position + 0
        AND e.position - b.first_position BETWEEN 0 AND 8191
WHERE
    b.subscription IN (
        SELECT s.name
        FROM outbox_subscriptions AS s
        WHERE s.name <> 'log'
    )
    AND e.event_type NOT GLOB 'outrider.*'
    -- The hexadecimal digit that holds the bit, then the bit.
    AND (
        instr(
            '0123456789ABCDEF',
            substr(
                hex(substr(b.members, (e.position - b.first_position) / 8 + 1, 1)),
                2 - (e.position - b.first_position) / 4 % 2,
                1
            )
        ) - 1
    ) >> ((e.position - b.first_position) % 4) & 1 = 1;

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
FROM outbox_events AS e
INNER JOIN outbox_deliveries AS d ON e.position = d.position
WHERE
    d.subscription IN (
        SELECT s.name
        FROM outbox_subscriptions AS s
        WHERE s.name <> 'log'
    )
    AND e.event_type NOT GLOB 'outrider.*'
    AND d.generation = (
        SELECT max(newest.generation)
        FROM outbox_deliveries AS newest
        WHERE
            newest.subscription = d.subscription
            AND newest.position = d.position
            AND newest.recipient = d.recipient
    )
    AND (
        d.recipient <> ''
        OR NOT EXISTS (
            SELECT 1
            FROM outbox_members AS newer
            WHERE
                newer.subscription = d.subscription
                AND newer.position = d.position
                AND newer.generation > d.generation
        )
        AND NOT EXISTS (
            SELECT 1
            FROM outbox_unclaimed AS newer
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
FROM outbox_members AS m
WHERE
    NOT EXISTS (
        SELECT 1
        FROM outbox_members AS newer
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
        FROM outbox_deliveries AS d
        WHERE d.subscription = m.subscription AND d.position = m.position
    ), -1)
    AND (
        m.generation >= coalesce((
            SELECT max(k.generation)
            FROM outbox_bookmarks AS k
            WHERE k.subscription = m.subscription
        ), 0)
        OR NOT EXISTS (
            SELECT 1
            FROM outbox_unclaimed AS newer
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
FROM outbox_unclaimed AS u
WHERE
    u.generation > coalesce((
        SELECT max(d.generation)
        FROM outbox_deliveries AS d
        WHERE d.subscription = u.subscription AND d.position = u.position
    ), -1)
    AND u.generation > coalesce((
        SELECT max(m.generation)
        FROM outbox_members AS m
        WHERE m.subscription = u.subscription AND m.position = u.position
    ), -1);

CREATE TRIGGER /* schema */outbox_events_no_update
BEFORE UPDATE ON outbox_events
BEGIN
    SELECT RAISE(ABORT, 'outbox_events is append-only: UPDATE is refused');
END;

CREATE TRIGGER /* schema */outbox_events_no_delete
BEFORE DELETE ON outbox_events
WHEN
    NOT EXISTS (
        SELECT 1
        FROM outbox_log AS l
        WHERE l.pruning = 1 AND l.pruned_to >= old.position
    )
BEGIN
    SELECT RAISE(ABORT, 'outbox_events is append-only: DELETE is refused');
END;

-- INSERT OR REPLACE deletes without firing the trigger above.
CREATE TRIGGER /* schema */outbox_events_no_replace
BEFORE INSERT ON outbox_events
WHEN
    EXISTS (
        SELECT 1
        FROM outbox_events AS e
        WHERE e.event_id = new.event_id OR e.position = new.position
    )
    OR new.idempotency_key IS NOT NULL AND EXISTS (
        SELECT 1
        FROM outbox_events AS e
        WHERE e.tenant_id = new.tenant_id AND e.idempotency_key = new.idempotency_key
    )
    OR new.entity_version IS NOT NULL AND EXISTS (
        SELECT 1
        FROM outbox_events AS e
        WHERE
            e.tenant_id = new.tenant_id
            AND e.entity_type = new.entity_type
            AND e.entity_id = new.entity_id
            AND e.entity_version = new.entity_version
    )
BEGIN
    SELECT RAISE(ABORT, 'outbox_events is append-only: the event exists');
END;

-- The lifecycle, held for whoever writes.
--     PENDING --claim--> CLAIMED --> PUBLISHED | DEAD
--        ^-----retry-----'
-- States follow it, attempts only rise, a claim has a new token; what has been published or is
-- dead stays so.
CREATE TRIGGER /* schema */outbox_deliveries_lifecycle
BEFORE UPDATE ON outbox_deliveries
WHEN
    old.state = 'PUBLISHED'
    OR old.state = 'DEAD' AND new.state <> 'DEAD'
    OR old.state = 'PENDING' AND new.state IN ('PUBLISHED', 'DEAD')
    OR old.state = 'PENDING' AND new.state = 'CLAIMED' AND new.attempts <> old.attempts + 1
    OR new.attempts < old.attempts
    OR new.attempts > old.attempts AND new.token IS old.token
    OR new.position <> old.position
    OR new.generation <> old.generation
    OR new.subscription <> old.subscription
    OR new.recipient <> old.recipient
BEGIN
    SELECT RAISE(ABORT, 'outbox_deliveries refuses the change: it breaks the lifecycle');
END;

CREATE TRIGGER /* schema */outbox_batches_lifecycle
BEFORE UPDATE ON outbox_batches
WHEN
    old.state = 'PUBLISHED'
    OR new.attempts < old.attempts
    OR new.attempts > old.attempts AND new.token IS old.token
    OR new.members <> old.members AND new.state <> 'PUBLISHED'
    OR new.first_position <> old.first_position
    OR new.last_position <> old.last_position
    OR new.generation <> old.generation
    OR new.partition_number <> old.partition_number
    OR new.subscription <> old.subscription
BEGIN
    SELECT RAISE(ABORT, 'outbox_batches refuses the change: it breaks the lifecycle');
END;
