-- +goose Up

-- The schedule of the window, like 'fixed 1m'; '' for what is in no window, and in rows
-- that are older than this column.
ALTER TABLE api_calls ADD COLUMN schedule TEXT NOT NULL DEFAULT '';

-- What the log has of the policy's hits: NULL: all; else like 'refused' or 'all sample 0.1'.
ALTER TABLE api_calls ADD COLUMN coverage TEXT;

-- Who did it, of what is no hit: 'admin ip:192.0.2.1' or 'cli root@host'. kind has two more
-- values: 'policy_set', a policy came into force that is new or has changed ("limit",
-- schedule, shadow and coverage are the policy's, request_id is the revision of the
-- configuration), and 'policy_removed'.
ALTER TABLE api_calls ADD COLUMN actor TEXT;

-- With --tamper-evident: SHA-256 over this row and the hash of the row before it in its
-- chain: a policy's hits are one, and what is no hit, under whatever policy, is one.
ALTER TABLE api_calls ADD COLUMN hash TEXT;

-- Rows that are few among many. Their entries are added at the end.
CREATE INDEX api_calls_refused ON api_calls (id) WHERE allowed = 0;
CREATE INDEX api_calls_other ON api_calls (id) WHERE kind <> 'hit';

-- What follows is derived from api_calls, for rows that do not change any more. A block is
-- the 16384 rows with the same id / 16384; blocks are added some time after their rows.

-- The rows of a policy in a block. Units are those of hits.
CREATE TABLE api_call_blocks (
    block           INTEGER NOT NULL,
    policy          TEXT    NOT NULL,
    calls           INTEGER NOT NULL, -- hits that are left: rows, not what each stands for
    allowed         INTEGER NOT NULL, -- units
    refused         INTEGER NOT NULL, -- units
    partial         INTEGER NOT NULL, -- 1: some rows have a coverage
    pruned          INTEGER NOT NULL, -- 1: some of the rows have been removed since
    first_called_at TEXT    NOT NULL,
    last_called_at  TEXT    NOT NULL,
    PRIMARY KEY (block, policy)
) STRICT, WITHOUT ROWID;

-- The rows of a key under a policy in a block.
CREATE TABLE api_calls_by_key (
    block   INTEGER NOT NULL,
    key     TEXT    NOT NULL,
    policy  TEXT    NOT NULL,
    allowed INTEGER NOT NULL, -- units
    refused INTEGER NOT NULL, -- units
    partial INTEGER NOT NULL, -- 1: some rows have a coverage
    ids     TEXT    NOT NULL, -- like '17,23,40', in order; some may have been removed since
    PRIMARY KEY (block, key, policy)
) STRICT, WITHOUT ROWID;

-- What was removed of a policy's rows because it was old.
CREATE TABLE api_call_prunes (
    policy    TEXT    NOT NULL PRIMARY KEY,
    through   INTEGER NOT NULL, -- id of the last row that was removed
    removed   INTEGER NOT NULL, -- rows
    pruned_at TEXT    NOT NULL,
    hash      TEXT              -- of that row
) STRICT, WITHOUT ROWID;

-- With --tamper-evident: the hash of each chain's last row; '' is the chain of what is no
-- hit. Once a row is here, every program that writes to the database goes on with the chains.
CREATE TABLE api_call_chains (
    policy TEXT NOT NULL PRIMARY KEY,
    hash   TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE api_call_chains;
DROP TABLE api_call_prunes;
DROP TABLE api_calls_by_key;
DROP TABLE api_call_blocks;
DROP INDEX api_calls_other;
DROP INDEX api_calls_refused;
ALTER TABLE api_calls DROP COLUMN hash;
ALTER TABLE api_calls DROP COLUMN actor;
ALTER TABLE api_calls DROP COLUMN coverage;
ALTER TABLE api_calls DROP COLUMN schedule;
