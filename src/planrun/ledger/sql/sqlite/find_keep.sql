SELECT result_ttl_ms FROM keep WHERE kind = :kind AND version = :version;
