package quota

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Shards are the shards of a cluster, as a Registrar reaches them.
type Shards interface {
	// Queues returns the names of a namespace's queues over all shards.
	Queues(ctx context.Context, namespace string) ([]string, error)
}

// Registrar admits new queues at the owner of a namespace, so that the namespace has no more than its MaxQueues. Its
// methods are safe for concurrent use.
type Registrar struct {
	shards Shards

	mu         sync.Mutex
	namespaces map[string]*register
}

// register is the names of one namespace's queues.
type register struct {
	turn     chan struct{}        // capacity 1: held by one Admit
	listed   time.Time            // instant of the last list
	names    map[string]struct{}  // of the last list
	admitted map[string]time.Time // names that the list may not have yet
	last     time.Time
}

const (
	// listAgain is the age at which a list is too old to refuse a queue.
	listAgain = time.Second
	// appears is how long an admitted queue may take to appear in a list. It is longer than any call but a batch that
	// waits for its rate.
	appears = 15 * time.Second
)

// NewRegistrar returns a Registrar that knows no queue.
func NewRegistrar(shards Shards) *Registrar {
	return &Registrar{shards: shards, namespaces: map[string]*register{}}
}

// Admit returns nil if a namespace has the queue or may have one more. Errors are *Exceeded, those of Queues and the
// context's.
func (r *Registrar) Admit(ctx context.Context, namespace, queue string, limit uint64) error {
	g := r.register(namespace)
	select {
	case g.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-g.turn }()
	now := time.Now()
	if now.Sub(g.listed) >= listAgain && !g.has(queue) {
		if err := r.list(ctx, g, namespace, now); err != nil {
			return err
		}
	}
	if !g.has(queue) {
		if used := uint64(len(g.names) + len(g.admitted)); limit > 0 && used >= limit {
			return &Exceeded{Quota: MaxQueues, Subject: Subject{Namespace: namespace}, Limit: float64(limit),
				Used: float64(used)}
		}
		g.admitted[queue] = now
	}
	return nil
}

func (g *register) has(queue string) bool {
	_, listed := g.names[queue]
	_, admitted := g.admitted[queue]
	return listed || admitted
}

// list takes the names from the shards. An admitted queue counts until it is listed, or for the time of appears.
func (r *Registrar) list(ctx context.Context, g *register, namespace string, now time.Time) error {
	names, err := r.shards.Queues(ctx, namespace)
	if err != nil {
		return err
	}
	g.listed, g.names = now, make(map[string]struct{}, len(names))
	for _, name := range names {
		g.names[name] = struct{}{}
		delete(g.admitted, name)
	}
	for name, at := range g.admitted {
		if now.Sub(at) > appears {
			delete(g.admitted, name)
		}
	}
	return nil
}

func (r *Registrar) register(namespace string) *register {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	g := r.namespaces[namespace]
	if g == nil {
		for name, other := range r.namespaces {
			if now.Sub(other.last) > idle {
				delete(r.namespaces, name)
			}
		}
		g = &register{turn: make(chan struct{}, 1), admitted: map[string]time.Time{}}
		r.namespaces[namespace] = g
	}
	g.last = now
	return g
}

// Admitter admits the queues of namespaces. *Registrar implements it.
type Admitter interface {
	Admit(ctx context.Context, namespace, queue string, limit uint64) error
}

// Roster is a node's memory of the queues that it need not ask a Registrar about. Its methods are safe for concurrent
// use.
type Roster struct {
	registrar Admitter

	mu    sync.RWMutex
	known map[queueName]answer
}

// answer is the last answer about a queue.
type answer struct {
	at      time.Time
	limit   uint64
	refused error // *Exceeded, or nil
}

// holds reports whether the answer still counts. A refusal counts for a short time and under one limit.
func (a answer) holds(now time.Time, limit uint64) bool {
	if a.refused != nil {
		return a.limit == limit && now.Sub(a.at) < listAgain
	}
	return !a.at.IsZero() && now.Sub(a.at) < remembered
}

type queueName struct{ namespace, queue string }

const (
	// remembered is how long a node goes by a Registrar's answer.
	remembered = 30 * time.Second
	// maxRoster is the number of remembered queues from which on all are forgotten.
	maxRoster = 100_000
)

// NewRoster returns a Roster that asks the Registrars of the namespaces.
func NewRoster(registrar Admitter) *Roster {
	return &Roster{registrar: registrar, known: map[queueName]answer{}}
}

// Admit returns nil if a namespace has the queue or may have one more. Errors are those of Registrar.Admit. Only new
// names cost a call. A queue that was admitted once stays so while the Registrar cannot tell.
func (r *Roster) Admit(ctx context.Context, namespace, queue string, limit uint64) error {
	if limit == 0 {
		return nil
	}
	name, now := queueName{namespace, queue}, time.Now()
	r.mu.RLock()
	last := r.known[name]
	r.mu.RUnlock()
	if last.holds(now, limit) {
		return last.refused
	}
	err := r.registrar.Admit(ctx, namespace, queue, limit)
	full := new(Exceeded)
	if err != nil && !errors.As(err, &full) {
		if !last.at.IsZero() && last.refused == nil {
			return nil
		}
		return err
	}
	r.remember(name, answer{now, limit, err})
	return err
}

func (r *Roster) remember(name queueName, a answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.known) >= maxRoster {
		clear(r.known)
	}
	r.known[name] = a
}

// Forget drops what is known of a queue, before its policy is put: the queue may be gone since.
func (r *Roster) Forget(namespace, queue string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.known, queueName{namespace, queue})
}
