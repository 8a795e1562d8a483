package top

import (
	"context"
	"iter"
	"time"

	"github.com/belfryhq/belfry/client"
)

// API is the part of a client that is read. *client.Client implements it.
type API interface {
	Cluster(ctx context.Context) (*client.Cluster, error)
	Wheel(ctx context.Context, shard int) (*client.Wheel, error)
	Activity(ctx context.Context, shard int, within time.Duration) (*client.Activity, error)
	Queues(ctx context.Context) iter.Seq2[*client.Queue, error]
}

const (
	span      = time.Minute // of the activity that is read
	maxQueues = 1000        // queues that are read
	numParts  = 4
)

// State holds the last answer of each part. Its zero value has none.
type State struct {
	cluster  *client.Cluster
	wheel    *client.Wheel
	activity *client.Activity
	queues   []client.Queue
	more     bool // there are more than maxQueues queues

	queuesAt, previousAt time.Time         // when the queues and the previous ones were read
	previous             map[string]uint64 // unfinished tasks of each queue at previousAt
	parts                [numParts]partState
}

// partState says how fresh a part is.
type partState struct {
	read time.Time // of the last answer; zero: there was none
	err  error     // of the last read; nil: it succeeded
}

// parts are the calls of a round, in the order in which failures are shown.
var parts = [numParts]struct {
	name string
	read func(context.Context, API) (put func(*State), err error)
}{
	{"cluster", func(ctx context.Context, api API) (func(*State), error) {
		v, err := api.Cluster(ctx)
		return func(s *State) { s.cluster = v }, err
	}},
	{"wheel", func(ctx context.Context, api API) (func(*State), error) {
		v, err := api.Wheel(ctx, 0)
		return func(s *State) { s.wheel = v }, err
	}},
	{"activity", func(ctx context.Context, api API) (func(*State), error) {
		v, err := api.Activity(ctx, 0, span)
		return func(s *State) { s.activity = v }, err
	}},
	{"queues", readQueues},
}

func readQueues(ctx context.Context, api API) (func(*State), error) {
	var queues []client.Queue
	more := false
	for q, err := range api.Queues(ctx) {
		if err != nil {
			return nil, err
		}
		if more = len(queues) == maxQueues; more {
			break
		}
		queues = append(queues, *q)
	}
	return func(s *State) { s.putQueues(queues, more) }, nil
}

func (s *State) putQueues(queues []client.Queue, more bool) {
	s.previous = make(map[string]uint64, len(s.queues))
	for i := range s.queues {
		s.previous[s.queues[i].Name] = s.queues[i].Counts.Unfinished()
	}
	s.previousAt, s.queues, s.more = s.queuesAt, queues, more
}

// answer is the result of reading one part.
type answer struct {
	part int
	at   time.Time
	put  func(*State)
	err  error
}

// take adds an answer. A failure leaves the part's last answer.
func (s *State) take(a answer) {
	p := &s.parts[a.part]
	if p.err = a.err; a.err != nil {
		return
	}
	a.put(s)
	p.read = a.at
	if parts[a.part].name == "queues" {
		s.queuesAt = a.at
	}
}

// readPart reads one part.
func readPart(ctx context.Context, api API, part int) answer {
	put, err := parts[part].read(ctx, api)
	return answer{part, time.Now(), put, err}
}

// Read reads all parts at once. Failures of parts are in the state.
func (s *State) Read(ctx context.Context, api API) {
	answers := make(chan answer)
	for i := range parts {
		go func() { answers <- readPart(ctx, api, i) }()
	}
	for range parts {
		s.take(<-answers)
	}
}

// Err returns the error of a state in which no part has an answer, and nil for other states.
func (s *State) Err() error {
	for i := range s.parts {
		if !s.parts[i].read.IsZero() {
			return nil
		}
	}
	return s.parts[0].err
}
