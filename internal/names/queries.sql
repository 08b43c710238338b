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
SELECT * FROM name_claims WHERE issuance_id = $1;

-- name: countClaims :one
SELECT COUNT(*) FROM name_claims WHERE user_id = $1 AND state = @state;

-- name: readKey :one
SELECT key_sealed FROM name_keys WHERE id = $1;

-- name: insertKey :exec
INSERT INTO name_keys (id, key_sealed, created_at) VALUES ($1, $2, $3) ON CONFLICT (id) DO NOTHING;

-- name: claimByID :one
SELECT * FROM name_claims WHERE id = $1;

-- name: claimsOf :many
SELECT * FROM name_claims WHERE user_id = @user_id ORDER BY name LIMIT CAST(@max AS BIGINT) OFFSET CAST(@skip AS BIGINT);

-- name: countClaimsOf :one
SELECT COUNT(*) FROM name_claims WHERE user_id = $1;

-- name: claimsDue :many
SELECT * FROM name_claims WHERE next_check_at > 0 AND next_check_at <= @now ORDER BY next_check_at, id LIMIT CAST(@max AS BIGINT);

-- name: grantsOf :many
SELECT * FROM name_grants WHERE claim_id = $1 ORDER BY id;

-- name: dropGrants :exec
DELETE FROM name_grants WHERE claim_id = $1;

-- name: claimsOfTheGone :many
SELECT * FROM name_claims WHERE user_id IS NULL AND freed_at <= @now LIMIT CAST(@max AS BIGINT);

-- name: stalePending :many
SELECT * FROM name_claims WHERE state = 'PENDING' AND created_at < @before ORDER BY id LIMIT CAST(@max AS BIGINT);

-- name: insertGrant :one
INSERT INTO name_grants (claim_id, user_id, pattern, expires_at, ended_at, stops_at, warned_at, created_at)
VALUES (@claim_id, @user_id, @pattern, @expires_at, 0, @expires_at, 0, @now) RETURNING *;

-- name: grantByID :one
SELECT * FROM name_grants WHERE id = @id AND claim_id = @claim_id;

-- name: endGrant :exec
UPDATE name_grants SET ended_at = @ended_at, stops_at = @stops_at, warned_at = @warned_at WHERE id = @id;

-- name: deleteGrant :exec
DELETE FROM name_grants WHERE id = $1;

-- name: grantsStopping :many
SELECT sqlc.embed(g), c.name, c.domain, c.user_id AS holder FROM name_grants g JOIN name_claims c ON c.id = g.claim_id
WHERE g.stops_at > 0 AND g.stops_at <= @before AND (g.stops_at <= @now OR g.warned_at = 0) ORDER BY g.stops_at, g.id LIMIT CAST(@max AS BIGINT);

-- name: allClaims :many
SELECT * FROM name_claims WHERE id > 0 ORDER BY id DESC LIMIT CAST(@max AS BIGINT) OFFSET CAST(@skip AS BIGINT);

-- name: countAllClaims :one
SELECT COUNT(*) FROM name_claims WHERE id > 0;

-- name: claimsInState :many
SELECT * FROM name_claims WHERE state = @state ORDER BY id DESC LIMIT CAST(@max AS BIGINT) OFFSET CAST(@skip AS BIGINT);

-- name: countClaimsInState :one
SELECT COUNT(*) FROM name_claims WHERE state = $1;

-- name: claimsOfDomain :many
SELECT * FROM name_claims WHERE domain = @domain ORDER BY name, id LIMIT CAST(@max AS BIGINT) OFFSET CAST(@skip AS BIGINT);

-- name: countClaimsOfDomain :one
SELECT COUNT(*) FROM name_claims WHERE domain = $1;

-- name: stepDone :one
SELECT done_at FROM name_steps WHERE step = $1;

-- name: takeStep :execrows
INSERT INTO name_steps (step, done_at) VALUES ($1, $2) ON CONFLICT (step) DO NOTHING;
