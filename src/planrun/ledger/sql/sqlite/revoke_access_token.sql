-- Fence: revoked once and for ever; a second call changes nothing.
UPDATE access_token SET revoked_at_ms = :wall_ms
 WHERE token_id = :token_id AND revoked_at_ms IS NULL
RETURNING token_id;
