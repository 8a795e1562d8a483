package siege

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/deploy/procstat"
	"github.com/belfryhq/belfry/internal/wait"
)

const (
	fillQueue   = "fill"
	fillStreams = 4
	fillDelay   = 48 * time.Hour // the tasks do not become due during a round
	fillSeen    = 20000          // most filled tasks that are read after a move
	fillReaders = 16
	copyPoll    = 250 * time.Millisecond
)

// Fill schedules n tasks by batch, as fast as the cluster takes them. They are due long after the round, which neither
// records nor judges them: see Filled.
func (r *Round) Fill(ctx context.Context, n int) error {
	c, err := client.New(client.Config{Addrs: r.siege.stand.URLs(), KeyFile: r.siege.stand.Cluster.KeyFile()})
	if err != nil {
		return err
	}
	due := time.Now().Add(fillDelay)
	failed := make([]error, fillStreams)
	var streams sync.WaitGroup
	for s := range fillStreams {
		streams.Go(func() { failed[s] = fill(ctx, c, fillTasks(s, n, due)) })
	}
	streams.Wait()
	return errors.Join(failed...)
}

func fill(ctx context.Context, c *client.Client, tasks iter.Seq[client.Task]) error {
	for result := range c.ScheduleMany(ctx, tasks) {
		if result.Err != nil {
			return fmt.Errorf("filling the cluster: %w", result.Err)
		}
	}
	return ctx.Err()
}

// fillTasks returns each fillStreams-th of n tasks.
func fillTasks(first, n int, due time.Time) iter.Seq[client.Task] {
	return func(yield func(client.Task) bool) {
		for i := first; i < n; i += fillStreams {
			payload := fmt.Appendf(nil, `{"number":%d,"text":"a payload of about a hundred bytes, which is the usual size"}`, i)
			if !yield(client.Task{ID: fillID(i), Queue: fillQueue, FireAt: due, Payload: payload}) {
				return
			}
		}
	}
}

func fillID(i int) string { return fmt.Sprintf("fill-%d", i) }

// Filled returns an error unless the cluster counts n filled tasks, and the replicas of a node have all of a sample.
func (r *Round) Filled(ctx context.Context, n int, node string) error {
	c, err := client.New(client.Config{
		Addrs: r.siege.stand.URLs(node), KeyFile: r.siege.stand.Cluster.KeyFile(), FixedAddrs: true,
	})
	if err != nil {
		return err
	}
	queue, err := c.Queue(ctx, fillQueue)
	if err != nil {
		return err
	}
	if queue.Counts == nil || queue.Counts.Scheduled != uint64(n) {
		return fmt.Errorf("of %d tasks the cluster has %+v", n, queue.Counts)
	}
	return r.readFilled(ctx, c, n)
}

// readFilled reads a sample of n filled tasks from the replicas of the client's node.
func (r *Round) readFilled(ctx context.Context, c *client.Client, n int) error {
	failed := make([]error, fillReaders)
	var readers sync.WaitGroup
	for i := range fillReaders {
		rng := rand.New(rand.NewPCG(r.seed, uint64(i)))
		readers.Go(func() {
			for range min(n, fillSeen) / fillReaders {
				id := fillID(rng.IntN(n))
				if _, err := c.GetStale(ctx, id); err != nil {
					failed[i] = fmt.Errorf("reading %s: %w", id, err)
					return
				}
			}
		})
	}
	readers.Wait()
	return errors.Join(failed...)
}

// Copies is the copies under --move-rate that the nodes sent to others while their cluster changed its shape. Copies to
// voters, which have no limit, are not among them.
type Copies struct {
	Bytes   float64       // of all nodes
	Took    time.Duration // from the first byte to the last one
	Senders int           // nodes that sent something
	// Excess is the most bytes that one node sent within any time beyond those that the rate allows for that time.
	Excess float64
}

func (c Copies) String() string {
	return fmt.Sprintf("%.1f MiB of limited copies from %d nodes in %v, at most %.0f KiB from one node beyond the rate",
		c.Bytes/(1<<20), c.Senders, c.Took.Round(time.Millisecond), c.Excess/(1<<10))
}

// CopiesDuring measures the limited copies of replicas that nodes send while do runs, beside a rate in bytes a second.
func (r *Round) CopiesDuring(ctx context.Context, rate float64, do func() error) (Copies, error) {
	meter := newCopyMeter()
	if err := r.lookAtCopies(ctx, meter); err != nil {
		return Copies{}, err
	}
	polling, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for wait.For(polling, copyPoll) {
			_ = r.lookAtCopies(ctx, meter) // the change may stop a node; the last look must succeed
		}
	}()
	err := do()
	stop()
	<-done
	if err := errors.Join(err, r.lookAtCopies(ctx, meter)); err != nil {
		return Copies{}, err
	}
	return meter.sum(rate), nil
}

// lookAtCopies adds the bytes that each node in the cluster has sent under the limit so far.
func (r *Round) lookAtCopies(ctx context.Context, meter *copyMeter) error {
	spare := r.siege.stand.Spare()
	var failed error
	for _, node := range r.siege.stand.Cluster.Nodes() {
		if slices.Contains(spare, node.Name) {
			continue
		}
		asked := time.Now()
		bytes, err := node.Metric(ctx, "belfry_copy_sent_bytes_total", procstat.Label{Name: "limited", Value: "true"})
		if failed = errors.Join(failed, err); err == nil {
			meter.add(node.Name, copyLook{asked, time.Now(), bytes})
		}
	}
	return failed
}

// copyMeter holds looks at how many bytes of copies each node has sent.
type copyMeter struct{ looks map[string][]copyLook }

// copyLook is one look at a node's counter. The node read it at some instant between the request and the answer.
type copyLook struct {
	asked, answered time.Time
	bytes           float64 // since the node's start
}

func newCopyMeter() *copyMeter { return &copyMeter{looks: map[string][]copyLook{}} }

func (m *copyMeter) add(node string, look copyLook) { m.looks[node] = append(m.looks[node], look) }

// sum returns the copies between the first look and the last one, beside a rate in bytes a second.
func (m *copyMeter) sum(rate float64) Copies {
	var c Copies
	var first, last time.Time
	for _, looks := range m.looks {
		sent := looks[len(looks)-1].bytes - looks[0].bytes
		if sent == 0 {
			continue
		}
		c.Senders++
		c.Bytes += sent
		c.Excess = max(c.Excess, excess(looks, rate))
		begun, ended := sending(looks)
		if first.IsZero() || begun.Before(first) {
			first = begun
		}
		if ended.After(last) {
			last = ended
		}
	}
	c.Took = last.Sub(first)
	return c
}

// sending returns the last look before the first byte and the first look after the last one.
func sending(looks []copyLook) (begun, ended time.Time) {
	for i := 1; i < len(looks); i++ {
		if looks[i].bytes == looks[i-1].bytes {
			continue
		}
		if begun.IsZero() {
			begun = looks[i-1].answered
		}
		ended = looks[i].answered
	}
	return begun, ended
}

// excess returns the most bytes between two looks that the rate does not account for, even if the first value is as old
// and the second one as new as it can be.
func excess(looks []copyLook, rate float64) (most float64) {
	for i, from := range looks {
		for _, to := range looks[i+1:] {
			most = max(most, to.bytes-from.bytes-rate*to.answered.Sub(from.asked).Seconds())
		}
	}
	return most
}
