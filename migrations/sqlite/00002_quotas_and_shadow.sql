-- +goose Up

-- Limits that keys have of their own, in place of their policy's.
CREATE TABLE rate_limit_quotas (
    policy     TEXT    NOT NULL,
    key        TEXT    NOT NULL,
    "limit"    INTEGER,          -- units per window of the policy; NULL: unlimited
    removed    INTEGER NOT NULL, -- 1: taken away, the policy's own limit applies again
    changed_at TEXT    NOT NULL, -- UTC, like 2026-01-01T00:00:00.000Z
    revision   INTEGER NOT NULL, -- of the last change; each is above all before
    PRIMARY KEY (policy, key)
) STRICT, WITHOUT ROWID;

-- For servers, to notice what has changed.
CREATE UNIQUE INDEX rate_limit_quotas_revision ON rate_limit_quotas (revision);

-- 1: the policy was in shadow, and what it refused passed if other policies let it.
-- kind has three more values: 'quota_set' ("limit" is the new limit), 'quota_unset', and
-- 'unchecked', hits that passed because the store could not decide: they are in no window.
ALTER TABLE api_calls ADD COLUMN shadow INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE api_calls DROP COLUMN shadow;
DROP TABLE rate_limit_quotas;
