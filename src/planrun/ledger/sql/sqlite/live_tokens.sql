SELECT token FROM attempt WHERE stopped = 0 AND token IN (SELECT value FROM json_each(:tokens));
