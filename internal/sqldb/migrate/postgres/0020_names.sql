-- +goose Up
-- Names of users who are gone: first those of which it is not known yet since when.
DROP INDEX name_claims_gone;
CREATE INDEX name_claims_gone ON name_claims (freed_at, id) WHERE user_id IS NULL;
-- For administrators.
CREATE INDEX name_claims_state ON name_claims (state, id);
