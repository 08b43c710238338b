-- +goose Up
-- Renewals take turns by user; within a user the longest overdue comes first.
CREATE INDEX certificates_turns ON certificates (user_id, next_renewal_at, id) WHERE next_renewal_at > 0;
