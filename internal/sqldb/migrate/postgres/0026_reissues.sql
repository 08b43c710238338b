-- +goose Up
-- Certificates whose key a device lacks and the server cannot open.
CREATE TABLE certificate_reissues (
    cert_id BIGINT PRIMARY KEY REFERENCES certificates (id) ON DELETE CASCADE,
    due_at  BIGINT NOT NULL, -- Unix ms: when a new key is made, or looked whether one is needed
    last_at BIGINT NOT NULL  -- Unix ms, 0: never
);
CREATE INDEX certificate_reissues_due ON certificate_reissues (due_at);
-- Devices that wait already.
INSERT INTO certificate_reissues (cert_id, due_at, last_at)
SELECT DISTINCT c.id, CAST(1 AS BIGINT), CAST(0 AS BIGINT)
FROM certificates c JOIN certificate_materials m ON m.cert_id = c.id JOIN certificate_assignments a ON a.cert_id = c.id
    LEFT JOIN certificate_wraps w ON w.device_id = a.device_id AND w.cert_id = a.cert_id AND w.key_version = m.key_version
WHERE c.policy = 'DEVICE_REQUIRED' AND m.key_ciphertext IS NOT NULL AND m.data_key IS NULL AND w.cert_id IS NULL;
