-- Owe the answer to a route.
-- Fence: the primary key; asking twice owes once.
INSERT INTO subscriber(job_id, route, seq) VALUES (:job_id, :route, :seq) ON CONFLICT DO NOTHING;
