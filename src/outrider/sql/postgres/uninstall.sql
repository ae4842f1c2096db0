-- Remove Outrider and every event from the database. What of yours depends on it makes this fail.
DROP VIEW
/* schema */outbox_status,
/* schema */outbox_members,
/* schema */outbox_unclaimed,
/* schema */outbox_matches,
/* schema */outbox_progress;

DROP TABLE
/* schema */outbox_events,
/* schema */outbox_log,
/* schema */outbox_subscriptions,
/* schema */outbox_bookmarks,
/* schema */outbox_batches,
/* schema */outbox_deliveries,
/* schema */outbox_gaps,
/* schema */outbox_attempts,
/* schema */outbox_endpoints,
/* schema */outbox_snapshots,
/* schema */outbox_inbox,
/* schema */outbox_seals,
/* schema */outbox_operations,
/* schema */outbox_keys,
/* schema */outbox_relays,
/* schema */outbox_rollups,
/* schema */outbox_schema;

DROP FUNCTION
/* schema */outbox_refuse_change(),
/* schema */outbox_refuse_transition();
