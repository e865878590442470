SELECT j.kind, j.version, j.ended_at_ms, k.result_ttl_ms
  FROM job AS j INDEXED BY job_kept LEFT JOIN keep AS k ON k.kind = j.kind AND k.version = j.version
 WHERE j.ended_at_ms IS NOT NULL AND j.result_gone_at_ms IS NULL AND (j.kind, j.version) > (:kind, :version)
 ORDER BY j.kind, j.version, j.ended_at_ms
 LIMIT 1;
