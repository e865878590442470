SELECT msg_id FROM outbox
 WHERE msg_id >= 'result:' || :job_id || ':publish:' AND msg_id < 'result:' || :job_id || ':publish' || char(59) AND confirmed = 0
 LIMIT 1;
