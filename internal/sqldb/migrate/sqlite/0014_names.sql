-- +goose Up
-- Whose a name is. A user's row is first PENDING (the record is awaited), then HELD; CLASH: the user had certificates there before claims were kept.
CREATE TABLE name_claims (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id       INTEGER REFERENCES users (id) ON DELETE SET NULL, -- null: of a user who is gone
    name          TEXT   NOT NULL, -- normalised, without a wildcard; it holds for all names below
    domain        TEXT   NOT NULL, -- the registrable domain of the name, or the name itself
    state         TEXT   NOT NULL, -- PENDING, HELD, CLASH
    proof         TEXT   NOT NULL, -- issue, txt, admin, upgrade; '': none yet
    issuance_id   INTEGER REFERENCES issuances (id) ON DELETE CASCADE, -- held for this attempt until it ends; null: for good
    taken_from    INTEGER NOT NULL, -- the user who held it before, 0: none
    held_at       INTEGER NOT NULL, -- Unix ms as all times here, 0: not
    lost_at       INTEGER NOT NULL, -- when another user or an administrator took it away, 0: not
    checked_at    INTEGER NOT NULL, -- the record's last look-up that told something
    next_check_at INTEGER NOT NULL, -- 0: none
    absent_since  INTEGER NOT NULL, -- the record was proved absent, 0: not
    lapsed_at     INTEGER NOT NULL, -- it was for so long that renewals stop, 0: not
    freed_at      INTEGER NOT NULL, -- of a user who is gone: free from then on, 0: not yet known
    created_at    INTEGER NOT NULL
);
CREATE UNIQUE INDEX name_claims_held ON name_claims (name) WHERE state = 'HELD';
CREATE UNIQUE INDEX name_claims_user ON name_claims (user_id, name);
CREATE INDEX name_claims_domain ON name_claims (domain, name);
CREATE INDEX name_claims_issuance ON name_claims (issuance_id);
CREATE INDEX name_claims_check ON name_claims (next_check_at, id) WHERE next_check_at > 0;
CREATE INDEX name_claims_gone ON name_claims (id) WHERE user_id IS NULL;
CREATE INDEX name_claims_pending ON name_claims (created_at, id) WHERE state = 'PENDING';

-- Who else may order below a claim.
CREATE TABLE name_grants (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    claim_id   INTEGER NOT NULL REFERENCES name_claims (id) ON DELETE CASCADE,
    user_id    INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE, -- who may
    pattern    TEXT   NOT NULL, -- a name, or *.name for one label below it
    expires_at INTEGER NOT NULL, -- 0: never
    ended_at   INTEGER NOT NULL, -- when the holder ended it, 0: not; renewals go on for a week
    stops_at   INTEGER NOT NULL, -- the end of everything, 0: none planned
    warned_at  INTEGER NOT NULL,
    created_at INTEGER NOT NULL
);
CREATE INDEX name_grants_claim ON name_grants (claim_id, id);
CREATE INDEX name_grants_user ON name_grants (user_id, id);
CREATE INDEX name_grants_stop ON name_grants (stops_at, id) WHERE stops_at > 0;

-- From this the tokens of records are made.
CREATE TABLE name_keys (
    id         INTEGER PRIMARY KEY,
    key_sealed BLOB   NOT NULL,
    created_at INTEGER NOT NULL
);

-- Steps that are taken once in the life of a database.
CREATE TABLE name_steps (
    step    TEXT   NOT NULL PRIMARY KEY,
    done_at INTEGER NOT NULL
);

-- The answers below a domain are withdrawn when a name there changes hands.
ALTER TABLE http01_challenges ADD COLUMN domain TEXT NOT NULL DEFAULT '';
CREATE INDEX http01_challenges_domain ON http01_challenges (domain);

-- Why a certificate does not renew by itself although it should, '': it does.
ALTER TABLE certificates ADD COLUMN renewal_blocked TEXT NOT NULL DEFAULT '';
