-- +goose Up

-- Texts are compared byte for byte, whatever the collation of the database.

-- One row for each window of a key under a policy in which it was hit. A row with
-- count 0 is a window that was about to be hit; it means the same as no row.
CREATE TABLE rate_limit_windows (
    policy       text COLLATE "C" NOT NULL,
    key          text COLLATE "C" NOT NULL,
    schedule     text COLLATE "C" NOT NULL, -- like 'fixed 1m': a policy whose schedule changes starts anew
    window_start timestamptz      NOT NULL,
    count        bigint           NOT NULL, -- units attempted
    refused      bigint           NOT NULL, -- of these, units refused; used = count - refused
    expires_at   timestamptz      NOT NULL, -- from then on prune may remove the row
    PRIMARY KEY (policy, key, schedule, window_start)
) WITH (fillfactor = 70); -- room for the next version of a row beside it, so that no index has to change

-- For prune. A hit on a known window changes no column of it.
CREATE INDEX rate_limit_windows_expires_at ON rate_limit_windows (expires_at);

-- The audit log. Over the rows of a window since its last reset the sum of
-- cost * hits is its count, and over the rows that are not allowed its refused.
CREATE TABLE api_calls (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- in the order of commit, never used again
    called_at    timestamptz      NOT NULL, -- time of the request, to the millisecond
    kind         text             NOT NULL, -- 'hit', 'reset', 'quota_set' ("limit" is the new limit), 'quota_unset' or
                                           -- 'unchecked': hits that passed because the store could not decide, in no window
    policy       text COLLATE "C" NOT NULL,
    key          text COLLATE "C" NOT NULL,
    cost         bigint           NOT NULL, -- units of each hit
    hits         bigint           NOT NULL, -- hits the row stands for; more than 1 only for refused and unchecked ones
    allowed      boolean          NOT NULL,
    shadow       boolean          NOT NULL, -- the policy was in shadow: what it refused passed if other policies let it
    count        bigint           NOT NULL, -- of the window, after this row
    refused      bigint           NOT NULL, -- of the window, after this row
    "limit"      bigint,                    -- that decided; NULL: unlimited, or no hit
    window_start timestamptz,               -- NULL for what is no hit
    method       text             NOT NULL,
    path         text             NOT NULL,
    request_id   text             NOT NULL
);

-- Limits that keys have of their own, in place of their policy's.
CREATE TABLE rate_limit_quotas (
    policy     text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    "limit"    bigint,                    -- units per window of the policy; NULL: unlimited
    removed    boolean          NOT NULL, -- taken away, the policy's own limit applies again
    changed_at timestamptz      NOT NULL,
    revision   bigint           NOT NULL, -- of the last change; each is above all before
    PRIMARY KEY (policy, key)
);

-- For servers, to notice what has changed.
CREATE UNIQUE INDEX rate_limit_quotas_revision ON rate_limit_quotas (revision);

-- +goose Down
DROP TABLE rate_limit_quotas;
DROP TABLE api_calls;
DROP TABLE rate_limit_windows;
