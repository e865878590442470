-- Kind by kind in the order of their ends: no index has the ends of all jobs.
SELECT state, count(*) AS jobs
  FROM (SELECT j.state
          FROM (SELECT DISTINCT kind, version FROM counted) AS k CROSS JOIN job AS j INDEXED BY job_kept
         WHERE j.kind = k.kind AND j.version = k.version AND j.ended_at_ms >= :since_ms AND j.result_gone_at_ms IS NULL
         UNION ALL
        SELECT state FROM job INDEXED BY job_archivable
         WHERE ended_at_ms >= :since_ms AND result_gone_at_ms IS NOT NULL)
 GROUP BY state;
