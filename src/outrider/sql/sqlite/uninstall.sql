-- Remove Outrider and every event from the database. Triggers and indexes go with their tables.
DROP VIEW /* schema */outbox_status;

DROP VIEW /* schema */outbox_members;

DROP VIEW /* schema */outbox_unclaimed;

DROP VIEW /* schema */outbox_matches;

DROP VIEW /* schema */outbox_progress;

DROP TABLE /* schema */outbox_events;

DROP TABLE /* schema */outbox_log;

DROP TABLE /* schema */outbox_subscriptions;

DROP TABLE /* schema */outbox_bookmarks;

DROP TABLE /* schema */outbox_batches;

DROP TABLE /* schema */outbox_deliveries;

DROP TABLE /* schema */outbox_gaps;

DROP TABLE /* schema */outbox_attempts;

DROP TABLE /* schema */outbox_endpoints;

DROP TABLE /* schema */outbox_snapshots;

DROP TABLE /* schema */outbox_inbox;

DROP TABLE /* schema */outbox_seals;

DROP TABLE /* schema */outbox_operations;

DROP TABLE /* schema */outbox_keys;

DROP TABLE /* schema */outbox_relays;

DROP TABLE /* schema */outbox_rollups;

DROP TABLE /* schema */outbox_schema;
