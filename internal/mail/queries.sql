-- name: insertMail :one
INSERT INTO mails (user_id, kind, recipient, body_sealed, status, attempts, error, created_at, expires_at, updated_at)
VALUES (sqlc.arg(user_id), sqlc.arg(kind), sqlc.arg(recipient), sqlc.arg(body_sealed), 'QUEUED', 0, '', sqlc.arg(now), sqlc.arg(expires_at), sqlc.arg(now))
RETURNING id;

-- name: setBody :exec
UPDATE mails SET body_sealed = $1 WHERE id = $2;

-- name: queuedMail :one
SELECT id, user_id, kind, recipient, body_sealed, attempts, created_at, expires_at FROM mails WHERE id = $1 AND status = 'QUEUED';

-- name: finishMail :execrows
UPDATE mails SET status = sqlc.arg(status), attempts = attempts + 1, error = sqlc.arg(error), body_sealed = sqlc.arg(no_body), updated_at = sqlc.arg(now)
WHERE id = sqlc.arg(id) AND status = 'QUEUED';

-- name: postponeMail :execrows
UPDATE mails SET attempts = attempts + 1, error = sqlc.arg(error), updated_at = sqlc.arg(now) WHERE id = sqlc.arg(id) AND status = 'QUEUED';

-- name: deleteOldMails :execrows
DELETE FROM mails WHERE status = $1 AND updated_at <= $2;
