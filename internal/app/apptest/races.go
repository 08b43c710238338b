package apptest

// Webhook makes one that nobody answers.
func (c *Caller) Webhook() int64 {
	c.P.T.Helper()
	var made struct{ ID int64 }
	c.Do("POST", "/apiv1/me/service_webhooks", map[string]any{"url": "http://127.0.0.1:1/", "secret": HookSecret}, 201).Data(c.P.T, &made)
	return made.ID
}
