package app

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strings"
	"time"
)

const (
	// softMemory is what the runtime tries to stay below by collecting more
	// often, unless GOMEMLIMIT says otherwise: the figure for a server with the
	// default bounds under attack.
	softMemory = 104 << 20
	// restMemory is what a server at rest needs. Above it, what a burst has left
	// is collected and given back to the system.
	restMemory = 40 << 20
	trimEvery  = 15 * time.Second
	trimRarest = 5 * time.Minute
)

// limitMemory sets the soft limit. Each connection above the default number has
// its share of it.
func limitMemory(environ []string, connections int) {
	if slices.ContainsFunc(environ, func(variable string) bool { return strings.HasPrefix(variable, "GOMEMLIMIT=") }) {
		return
	}
	debug.SetMemoryLimit(softMemory + int64(max(0, connections-defaultConnections))*(24<<10))
}

// trimMemory gives back what a burst has left behind, until ctx is done: the
// runtime alone keeps it for minutes.
func trimMemory(ctx context.Context) {
	for pause := trimEvery; ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = trimEvery
		if heldMemory() <= restMemory {
			continue
		}
		debug.FreeOSMemory()
		if heldMemory() > restMemory { // in use: collecting again soon only costs time
			pause = min(4*pause, trimRarest)
		}
	}
}

// heldMemory is what the runtime has from the system, in bytes.
func heldMemory() uint64 {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64() - samples[1].Value.Uint64()
}
