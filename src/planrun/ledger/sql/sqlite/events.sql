SELECT 0 AS id, job_id, created_at_ms AS at_ms, 'submitted' AS what, 1 AS attempt, asked_who AS who,
       'request ' || request_id
       || CASE WHEN retry_of IS NULL THEN '' ELSE ', retry of ' || retry_of || iif(asked_why = '', '', ': ' || asked_why) END
         AS detail
  FROM job WHERE job_id = :job_id AND request_id IS NOT NULL
UNION ALL
SELECT id, job_id, at_ms, what, attempt, coalesce(who, '') AS who, coalesce(detail, '') AS detail
  FROM event WHERE job_id = :job_id
 ORDER BY id;
