-- +goose Up

-- One row for each window of a key under a policy in which it was hit.
CREATE TABLE rate_limit_windows (
    policy       TEXT    NOT NULL,
    key          TEXT    NOT NULL,
    schedule     TEXT    NOT NULL, -- like 'fixed 1m': a policy whose schedule changes starts anew
    window_start TEXT    NOT NULL, -- UTC, like 2026-01-01T00:00:00Z
    count        INTEGER NOT NULL, -- units attempted
    refused      INTEGER NOT NULL, -- of these, units refused; used = count - refused
    expires_at   TEXT    NOT NULL, -- UTC; from then on prune may remove the row
    PRIMARY KEY (policy, key, schedule, window_start)
) STRICT, WITHOUT ROWID;

-- For prune. A hit on a known window changes no column of it.
CREATE INDEX rate_limit_windows_expires_at ON rate_limit_windows (expires_at);

-- The audit log. Over the rows of a window since its last reset the sum of
-- cost * hits is its count, and over the rows with allowed = 0 its refused.
CREATE TABLE api_calls (
    id           INTEGER PRIMARY KEY AUTOINCREMENT, -- in the order of commit, never used again
    called_at    TEXT    NOT NULL, -- time of the request, UTC, like 2026-01-01T00:00:00.000Z
    kind         TEXT    NOT NULL, -- 'hit' or 'reset'
    policy       TEXT    NOT NULL,
    key          TEXT    NOT NULL,
    cost         INTEGER NOT NULL, -- units of each hit
    hits         INTEGER NOT NULL, -- hits the row stands for; more than 1 only for refused ones
    allowed      INTEGER NOT NULL, -- 1 or 0
    count        INTEGER NOT NULL, -- of the window, after this row
    refused      INTEGER NOT NULL, -- of the window, after this row
    "limit"      INTEGER,          -- that decided; NULL: unlimited, or a reset
    window_start TEXT,             -- NULL for a reset
    method       TEXT    NOT NULL,
    path         TEXT    NOT NULL,
    request_id   TEXT    NOT NULL
) STRICT;

-- +goose Down
DROP TABLE api_calls;
DROP TABLE rate_limit_windows;
