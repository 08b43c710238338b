-- +goose Up
-- The private key of an attempt that only devices can open; null: private_key has it, or nobody does.
ALTER TABLE issuances ADD COLUMN device_key BYTEA;
