-- Fence: touches only when it was last used, which decides nothing.
UPDATE access_token SET seen_at_ms = :wall_ms WHERE token_id = :token_id;
