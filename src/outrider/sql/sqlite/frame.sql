-- Apply this script with
--     sqlite3 -bail PATH < THIS_FILE
-- It is one transaction: after an error nothing of it stays. Without -bail, sqlite3 would go on.
BEGIN;
