-- A public name goes to a job that finished.
-- Fence: asked for later than the job that has it; the newest keeps it for ever.
INSERT INTO public_name(namespace, name, job_id, seq) VALUES (:namespace, :name, :job_id, :seq)
ON CONFLICT(namespace, name) DO UPDATE SET job_id = excluded.job_id, seq = excluded.seq WHERE seq <= excluded.seq
RETURNING job_id;
