-- Apply this script with
--     psql --set=ON_ERROR_STOP=1 --dbname=URL --file=THIS_FILE
-- It is one transaction: after an error nothing of it stays.
BEGIN;

-- Whoever has waited for the lock must see what the one before it has done.
SET transaction_isolation = 'read committed';

SELECT pg_advisory_xact_lock(hashtextextended('outrider migrate', 0));
