package app

import "context"

// SweepUsers does what the area of administrators does every 10 minutes.
func (a *App) SweepUsers(ctx context.Context) error { return a.areas.administration.Sweep(ctx) }
