SELECT token FROM attempt
 WHERE stopped = 0 AND (outcome IS NULL OR ended_at_ms > :silent_since_ms)
   AND token IN (SELECT value FROM json_each(:tokens));
