-- Access tokens of the HTTP API: who may ask for what. Of a token's text only a digest is kept.

CREATE TABLE access_token(
  token_id TEXT PRIMARY KEY, digest TEXT NOT NULL, name TEXT NOT NULL,
  scopes TEXT NOT NULL CHECK(json_valid(scopes)), namespaces TEXT NOT NULL CHECK(json_valid(namespaces)),
  created_at_ms INTEGER NOT NULL, expires_at_ms INTEGER, seen_at_ms INTEGER, revoked_at_ms INTEGER) STRICT;
