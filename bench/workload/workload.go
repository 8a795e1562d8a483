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

// Workload is a load to put on a subject.
type Workload struct {
	Name    string        `json:"name"`  // as flags name it, such as "schedule"
	Title   string        `json:"title"` // as tables show it
	Figures []figure.Kind `json:"figures"`

	run func(ctx context.Context, r *run) error
}

// All returns the workloads with these sizes, in the order of the report.
func All(s Sizes) []Workload {
	return []Workload{
		schedule(s), scheduleMany(s), scheduleBatch(s), steady(s), tails(s), neighbours(s),
		lateness(s), latenessWebhook(s), badPathWebhook(s), burst(s), burstWebhook(s),
		cancel(s), cancelBatch(s), touch(s),
		memory(s), memorySmall(s), memoryMany(s), repeating(s), idle(s),
		restart(s), failover(s), failoverWebhook(s), handover(s),
		growth(s), growthQueues(s),
	}
}

// startLimit is the longest time for a service to start.
const startLimit = 2 * time.Minute

// Measure starts the subject in an empty folder, runs the workload and stops the subject. It reports progress to say.
func (w Workload) Measure(
	ctx context.Context, s subject.Subject, sizes Sizes, dir string, say func(string),
) figure.Measured {
	m := figure.Measured{Workload: w.Name, Subject: s.Name()}
	r := &run{sizes: sizes, values: map[string]float64{}}
	var mu sync.Mutex // guards m.Said: consumers call say too
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

// cannotError names an ability that a subject lacks.
type cannotError string

func (e cannotError) Error() string { return string(e) }

// able asserts that a service or a caller has an optional ability.
func able[T any](who any, what string) (T, error) {
	can, ok := who.(T)
	if !ok {
		return can, cannotError("cannot " + what)
	}
	return can, nil
}
