-- Fence: an id that is taken is a primary key; a token is never changed into another.
INSERT INTO access_token(token_id, digest, name, scopes, namespaces, created_at_ms, expires_at_ms)
VALUES (:token_id, :digest, :name, :scopes, :namespaces, :wall_ms, :expires_at_ms);
