-- Owe the answer to a route.
-- Fence: the primary key; asking twice owes once.
INSERT INTO subscriber(job_id, route) VALUES (:job_id, :route) ON CONFLICT DO NOTHING;
