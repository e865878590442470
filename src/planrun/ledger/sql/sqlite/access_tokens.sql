SELECT * FROM access_token ORDER BY created_at_ms, token_id;
