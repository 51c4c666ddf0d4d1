-- +goose Up

-- The columns and tables are those of SQLite, and described there (migrations/sqlite/00003).
ALTER TABLE api_calls
    ADD COLUMN schedule text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN coverage text,
    ADD COLUMN actor    text,
    ADD COLUMN hash     text;

CREATE INDEX api_calls_refused ON api_calls (id) WHERE NOT allowed;
CREATE INDEX api_calls_other ON api_calls (id) WHERE kind <> 'hit';

CREATE TABLE api_call_blocks (
    block           bigint           NOT NULL,
    policy          text COLLATE "C" NOT NULL,
    calls           bigint           NOT NULL,
    allowed         bigint           NOT NULL,
    refused         bigint           NOT NULL,
    partial         boolean          NOT NULL,
    pruned          boolean          NOT NULL,
    first_called_at timestamptz      NOT NULL,
    last_called_at  timestamptz      NOT NULL,
    PRIMARY KEY (block, policy)
);

CREATE TABLE api_calls_by_key (
    block   bigint           NOT NULL,
    key     text COLLATE "C" NOT NULL,
    policy  text COLLATE "C" NOT NULL,
    allowed bigint           NOT NULL,
    refused bigint           NOT NULL,
    partial boolean          NOT NULL,
    ids     text             NOT NULL,
    PRIMARY KEY (block, key, policy)
);

CREATE TABLE api_call_prunes (
    policy    text COLLATE "C" NOT NULL PRIMARY KEY,
    through   bigint           NOT NULL,
    removed   bigint           NOT NULL,
    pruned_at timestamptz      NOT NULL,
    hash      text
);

CREATE TABLE api_call_chains (
    policy text COLLATE "C" NOT NULL PRIMARY KEY,
    hash   text             NOT NULL
);

-- +goose Down
DROP TABLE api_call_chains;
DROP TABLE api_call_prunes;
DROP TABLE api_calls_by_key;
DROP TABLE api_call_blocks;
DROP INDEX api_calls_other;
DROP INDEX api_calls_refused;
ALTER TABLE api_calls DROP COLUMN hash, DROP COLUMN actor, DROP COLUMN coverage, DROP COLUMN schedule;
