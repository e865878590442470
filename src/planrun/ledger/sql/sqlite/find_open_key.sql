SELECT job_id, state, content_hash, ended_at_ms
  FROM job
 WHERE namespace = :namespace AND kind = :kind AND version = :version AND key = :key AND key_open = 1;
