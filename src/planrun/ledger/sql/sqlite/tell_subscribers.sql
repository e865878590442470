-- These messages were confirmed: when they are kept no longer, the subscriber still is not owed one again.
-- Fence: confirmed. A message is called result:<job>:<route>; a job id has 36 characters.
UPDATE subscriber
   SET told = 1
 WHERE (job_id, route) IN (SELECT substr(o.msg_id, 8, 36), substr(o.msg_id, 45) FROM outbox AS o
                            WHERE o.msg_id IN (SELECT value FROM json_each(:msg_ids)) AND o.confirmed = 1);
