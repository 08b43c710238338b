-- The claims that decide in a registrable domain, and what one user has there besides.
-- name: claimsIn :many
SELECT * FROM name_claims WHERE domain = @domain AND (state = 'HELD' OR state = 'CLASH' AND user_id = @user_id)
ORDER BY name LIMIT CAST(@max AS BIGINT);

-- name: heldClaim :one
SELECT * FROM name_claims WHERE name = $1 AND state = 'HELD';

-- name: claimOf :one
SELECT * FROM name_claims WHERE user_id = $1 AND name = $2;

-- name: grantsTo :many
SELECT g.* FROM name_grants g JOIN name_claims c ON c.id = g.claim_id
WHERE g.user_id = @user_id AND c.domain = @domain AND (g.expires_at = 0 OR g.expires_at > @now) AND (g.stops_at = 0 OR g.stops_at > @now)
ORDER BY g.id LIMIT CAST(@max AS BIGINT);

-- name: insertClaim :exec
INSERT INTO name_claims (user_id, name, domain, state, proof, issuance_id, taken_from, held_at, lost_at, checked_at, next_check_at,
    absent_since, lapsed_at, freed_at, created_at)
VALUES (@user_id, @name, @domain, @state, @proof, @issuance_id, 0, @held_at, 0, 0, @next_check_at, 0, 0, 0, @now);

-- name: saveClaim :exec
UPDATE name_claims SET user_id = @user_id, state = @state, proof = @proof, issuance_id = @issuance_id, taken_from = @taken_from,
    held_at = @held_at, lost_at = @lost_at, checked_at = @checked_at, next_check_at = @next_check_at, absent_since = @absent_since,
    lapsed_at = @lapsed_at, freed_at = @freed_at
WHERE id = @id;

-- name: deleteClaim :execrows
DELETE FROM name_claims WHERE id = $1;

-- name: claimsOfIssuance :many
SELECT * FROM name_claims WHERE issuance_id = $1 ORDER BY id;

-- name: countClaims :one
SELECT COUNT(*) FROM name_claims WHERE user_id = $1 AND state = @state;

-- name: readKey :one
SELECT key_sealed FROM name_keys WHERE id = $1;

-- name: insertKey :exec
INSERT INTO name_keys (id, key_sealed, created_at) VALUES ($1, $2, $3) ON CONFLICT (id) DO NOTHING;
