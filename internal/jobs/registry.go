package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/riverqueue/river"
)

// Args are the arguments of a job: a JSON-encodable struct with a Kind method
// that returns its stable name, for example "issuance.run".
type Args = river.JobArgs

// DefaultTimeout bounds a job unless its handler sets another limit.
const DefaultTimeout = time.Minute

// Job is what a handler gets.
type Job[T Args] struct {
	Args    T
	Attempt int // 1 at the first run; a snooze does not count
}

// Limits are the settings of a handler. The zero value is usual.
type Limits struct {
	Timeout time.Duration // 0: DefaultTimeout; must be below rescueAfter
	// Retry returns the wait before the next run after attempt failed; nil:
	// growing with the fourth power of the attempt, in seconds.
	Retry func(attempt int) time.Duration
}

// Registry collects handlers, queues and periodic jobs before the engine is
// made. Every process registers all of them.
type Registry struct {
	workers  *river.Workers
	queues   map[string]river.QueueConfig
	periodic []*river.PeriodicJob
	turns    []*Turns
}

// NewRegistry returns an empty registry with the queue "default".
func NewRegistry() *Registry {
	r := &Registry{workers: river.NewWorkers(), queues: map[string]river.QueueConfig{}}
	r.Queue(river.QueueDefault, 8)
	return r
}

// Queue adds a queue that runs at most workers jobs at once per process.
func (r *Registry) Queue(name string, workers int) {
	r.queues[name] = river.QueueConfig{MaxWorkers: workers}
}

// QueueByTurns is Queue for work that waits for others: handlers enter the
// pool of so many places, which shares them between users and remotes. The
// queue runs as many jobs more as may wait there.
func (r *Registry) QueueByTurns(name string, places int) *Turns {
	r.Queue(name, places*(1+roomPerPlace))
	return r.Turns(places)
}

// Turns makes a pool that closes when the engine stops.
func (r *Registry) Turns(places int) *Turns {
	t := NewTurns(places)
	r.turns = append(r.turns, t)
	return t
}

// Periodic inserts the job at every interval, once for all processes, and at
// the start of the process that leads.
func (r *Registry) Periodic(id string, interval time.Duration, args Args, options Options) {
	r.periodic = append(r.periodic, river.NewPeriodicJob(river.PeriodicInterval(interval),
		func() (river.JobArgs, *river.InsertOpts) { return args, options.river() },
		&river.PeriodicJobOpts{ID: id, RunOnStart: true}))
}

// Handle registers the handler of a kind of job. It panics when the kind has
// one already: that is a mistake of the program.
func Handle[T Args](r *Registry, limits Limits, work func(context.Context, *Job[T]) error) {
	if limits.Timeout == 0 {
		limits.Timeout = DefaultTimeout
	}
	if limits.Timeout >= rescueAfter {
		panic(fmt.Sprintf("jobs: the time limit of %T must be below %s", *new(T), rescueAfter))
	}
	river.AddWorker(r.workers, &worker[T]{limits: limits, work: work})
}

type worker[T Args] struct {
	river.WorkerDefaults[T]
	limits Limits
	work   func(context.Context, *Job[T]) error
}

// Work implements river.Worker.
func (w *worker[T]) Work(ctx context.Context, job *river.Job[T]) error {
	return w.work(ctx, &Job[T]{Args: job.Args, Attempt: job.Attempt})
}

// Timeout implements river.Worker.
func (w *worker[T]) Timeout(*river.Job[T]) time.Duration { return w.limits.Timeout }

// NextRetry implements river.Worker.
func (w *worker[T]) NextRetry(job *river.Job[T]) time.Time {
	if w.limits.Retry == nil {
		return time.Time{}
	}
	return time.Now().Add(w.limits.Retry(job.Attempt))
}

// Snooze makes the job run again after the wait; it does not count as a
// failure. A handler returns it as its error.
func Snooze(wait time.Duration) error { return river.JobSnooze(wait) }

// GiveUp ends the job without another try. A handler returns it as its error.
func GiveUp(err error) error { return river.JobCancel(err) }
