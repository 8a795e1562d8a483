package workload

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/belfryhq/belfry/bench/figure"
	"github.com/belfryhq/belfry/bench/subject"
)

// Workload is one that a subject can be put under.
type Workload struct {
	Name    string        `json:"name"`  // as flags have it: "schedule-64"
	Title   string        `json:"title"` // as tables have it
	Figures []figure.Kind `json:"figures"`

	run func(ctx context.Context, r *run) error
}

// All are the workloads at these sizes, in the order in which they are told.
func All(s Sizes) []Workload {
	return []Workload{
		schedule(s), scheduleMany(s), scheduleBatch(s), steady(s), tails(s),
		lateness(s), latenessWebhook(s), burst(s), burstWebhook(s),
		cancel(s), cancelBatch(s), touch(s),
		memory(s), memorySmall(s), memoryMany(s), idle(s),
		restart(s), failover(s), failoverWebhook(s), handover(s),
		growth(s), growthQueues(s),
	}
}

// startLimit is how long a service may take to start.
const startLimit = 2 * time.Minute

// Measure starts the subject in an empty folder, puts it under the workload and stops it. Progress is told to say.
func (w Workload) Measure(
	ctx context.Context, s subject.Subject, sizes Sizes, dir string, say func(string),
) figure.Measured {
	m := figure.Measured{Workload: w.Name, Subject: s.Name()}
	r := &run{sizes: sizes, values: map[string]float64{}}
	var mu sync.Mutex // guards m.Said: consumers say something too
	r.say = func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		m.Said = append(m.Said, fmt.Sprintf(format, args...))
		say(m.Said[len(m.Said)-1])
	}
	err := w.measure(ctx, s, r, dir)
	var cannot cannotError
	switch {
	case errors.As(err, &cannot):
		m.Cannot = cannot.Error()
	case err != nil:
		m.Failed = err.Error()
	default:
		m.Values, m.Usage = r.values, r.usage
	}
	return m
}

func (w Workload) measure(ctx context.Context, s subject.Subject, r *run, dir string) (err error) {
	starting, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if r.service, err = s.Start(starting, dir); err != nil {
		return fmt.Errorf("starting: %w", err)
	}
	defer func() {
		r.closeCallers()
		if stopped := r.service.Stop(); stopped != nil {
			err = errors.Join(err, fmt.Errorf("stopping: %w", stopped))
		}
	}()
	if err = w.run(ctx, r); err != nil && ctx.Err() != nil {
		err = errors.Join(context.Cause(ctx), err)
	}
	return err
}

// cannotError names what a subject cannot do.
type cannotError string

func (e cannotError) Error() string { return string(e) }

// able asks a service or a caller for what only some can do.
func able[T any](who any, what string) (T, error) {
	can, ok := who.(T)
	if !ok {
		return can, cannotError("cannot " + what)
	}
	return can, nil
}
