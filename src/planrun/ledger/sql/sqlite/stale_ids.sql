SELECT job_id, namespace FROM archived WHERE archived_at_ms <= :before_ms ORDER BY archived_at_ms LIMIT :limit;
