package client

import (
	"context"
	"errors"
	"sync"
	"time"
)

// keeper extends the leases of a consumer's tasks while their handlers are at work.
type keeper struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// keep begins to look after the leases.
func (k *consumer) keep() *keeper {
	ctx, cancel := context.WithCancel(context.Background())
	p := &keeper{cancel: cancel}
	p.done.Go(func() {
		for wait(ctx, k.o.Lease/6) == nil {
			k.extendLeases(time.Now())
		}
	})
	return p
}

// stop ends it.
func (p *keeper) stop() {
	p.cancel()
	p.done.Wait()
}

// extendLeases extends those that are half over. One that has run out was lost: the service does not say so by itself.
func (k *consumer) extendLeases(now time.Time) {
	k.mu.Lock()
	var due []*job
	for _, j := range k.jobs {
		switch left := j.ends.Sub(now); {
		case left <= 0:
			j.cancel(ErrLeaseLost)
		case left <= k.o.Lease/2 && !j.extending:
			j.extending = true
			due = append(due, j)
		}
	}
	k.mu.Unlock()
	for _, j := range due {
		k.settler.put(extendLine(Extend{j.task.Receipt, k.o.Lease}), func(l *line) { k.extended(j, now, l.result.Err) })
	}
}

// extended takes the answer to an extension that was asked for at an instant. If it is not known, it is tried again.
func (k *consumer) extended(j *job, asked time.Time, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	j.extending = false
	switch {
	case err == nil:
		j.ends = asked.Add(k.o.Lease)
	case errors.Is(err, ErrConflict) || errors.Is(err, ErrNotFound):
		j.cancel(ErrLeaseLost)
	}
}
