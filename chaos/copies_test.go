package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/belfryhq/belfry/chaos/stand"
	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/deploy/procstat"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/loop"
	"github.com/belfryhq/belfry/internal/wait"
)

const (
	fillQueue   = "fill"
	fillStreams = 4
	fillLines   = 10000
	fillDelay   = 48 * time.Hour // the tasks do not become due during a round
	fillSeen    = 20000          // most filled tasks that are read after a move
	fillReaders = 16
	copyPoll    = 250 * time.Millisecond
)

// fill schedules n tasks by batch, as fast as the cluster takes them. They are due long after the round, which neither
// records nor judges them: see filled.
func fill(ctx context.Context, on *stand.Stand, n int) error {
	c, err := client.New(client.Config{Addrs: on.URLs(), KeyFile: on.Cluster.KeyFile()})
	if err != nil {
		return err
	}
	due := time.Now().Add(fillDelay)
	chunks := (n + fillLines - 1) / fillLines
	_, err = loop.Closed(ctx, make([]struct{}, fillStreams), chunks, loop.Forever,
		func(ctx context.Context, _ struct{}, i int) error {
			for result := range c.ScheduleMany(ctx, fillTasks(i*fillLines, min(n, (i+1)*fillLines), due)) {
				if result.Err != nil {
					return fmt.Errorf("filling the cluster: %w", result.Err)
				}
			}
			return ctx.Err()
		})
	return err
}

// fillTasks returns the filled tasks with the numbers from first on, below end.
func fillTasks(first, end int, due time.Time) iter.Seq[client.Task] {
	return func(yield func(client.Task) bool) {
		for i := first; i < end; i++ {
			payload := fmt.Appendf(nil, `{"number":%d,"text":"a payload of about a hundred bytes, which is the usual size"}`, i)
			if !yield(client.Task{ID: fillID(i), Queue: fillQueue, FireAt: due, Payload: payload}) {
				return
			}
		}
	}
}

func fillID(i int) string { return fmt.Sprintf("fill-%d", i) }

// filled returns an error unless the cluster counts n filled tasks, and the replicas of a node have all of a sample.
func filled(ctx context.Context, on *stand.Stand, n int, node string) error {
	c, err := client.New(client.Config{
		Addrs: on.URLs(node), KeyFile: on.Cluster.KeyFile(), FixedAddrs: true,
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
	return readFilled(ctx, c, n)
}

// readFilled reads a sample of n filled tasks from the replicas of the client's node.
func readFilled(ctx context.Context, c *client.Client, n int) error {
	_, err := loop.Closed(ctx, make([]struct{}, fillReaders), min(n, fillSeen), loop.Forever,
		func(ctx context.Context, _ struct{}, i int) error {
			id := fillID(rand.New(rand.NewPCG(1, uint64(i))).IntN(n))
			if _, err := c.GetStale(ctx, id); err != nil {
				return fmt.Errorf("reading %s: %w", id, err)
			}
			return nil
		})
	return err
}

// copies is the copies under --move-rate that the nodes sent to others while their cluster changed its shape. Copies to
// voters, which have no limit, are not among them.
type copies struct {
	bytes   float64       // of all nodes
	took    time.Duration // from the first byte to the last one
	senders int           // nodes that sent something
	// excess is the largest number of bytes above the rate that one node sent, over any length of time.
	excess float64
}

func (c copies) String() string {
	return fmt.Sprintf("%.1f MiB of limited copies from %d nodes in %v, at most %.0f KiB from one node beyond the rate",
		c.bytes/(1<<20), c.senders, c.took.Round(time.Millisecond), c.excess/(1<<10))
}

// copiesDuring measures the limited copies of replicas that nodes send while do runs, beside a rate in bytes a second.
func copiesDuring(ctx context.Context, on *stand.Stand, rate float64, do func() error) (copies, error) {
	meter := newCopyMeter()
	if err := lookAtCopies(ctx, on, meter); err != nil {
		return copies{}, err
	}
	polling, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for wait.For(polling, copyPoll) {
			_ = lookAtCopies(ctx, on, meter) // the change may stop a node; the last look must succeed
		}
	}()
	err := do()
	stop()
	<-done
	if err := errors.Join(err, lookAtCopies(ctx, on, meter)); err != nil {
		return copies{}, err
	}
	return meter.sum(rate), nil
}

// lookAtCopies adds the bytes that each node in the cluster has sent under the limit so far.
func lookAtCopies(ctx context.Context, on *stand.Stand, meter *copyMeter) error {
	spare := on.Spare()
	var failed error
	for _, node := range on.Cluster.Nodes() {
		if slices.Contains(spare, node.Name) {
			continue
		}
		requested := time.Now()
		bytes, err := node.Metric(ctx, "belfry_copy_sent_bytes_total", procstat.Label{Name: "limited", Value: "true"})
		if failed = errors.Join(failed, err); err == nil {
			meter.add(node.Name, copyLook{requested, time.Now(), bytes})
		}
	}
	return failed
}

// copyMeter holds looks at how many bytes of copies each node has sent.
type copyMeter struct{ looks map[string][]copyLook }

// copyLook is one look at a node's counter. The node read it at some instant between the request and the answer.
type copyLook struct {
	requested, answered time.Time
	bytes               float64 // since the node's start
}

func newCopyMeter() *copyMeter { return &copyMeter{looks: map[string][]copyLook{}} }

func (m *copyMeter) add(node string, look copyLook) { m.looks[node] = append(m.looks[node], look) }

// sum returns the copies between the first look and the last one, beside a rate in bytes a second.
func (m *copyMeter) sum(rate float64) copies {
	var c copies
	var first, last time.Time
	for _, looks := range m.looks {
		sent := looks[len(looks)-1].bytes - looks[0].bytes
		if sent == 0 {
			continue
		}
		c.senders++
		c.bytes += sent
		c.excess = max(c.excess, excess(looks, rate))
		begun, ended := sending(looks)
		if first.IsZero() || begun.Before(first) {
			first = begun
		}
		if ended.After(last) {
			last = ended
		}
	}
	c.took = last.Sub(first)
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
			most = max(most, to.bytes-from.bytes-rate*to.answered.Sub(from.requested).Seconds())
		}
	}
	return most
}

// A node that sends 100 bytes a second for 10 s, with a burst of 300 bytes a second for 2 s among them, and one that
// sends 50 bytes a second for a second.
func TestCopyMeter(t *testing.T) {
	m, began := newCopyMeter(), time.Now()
	bytes := 1000.0 // sent before
	for second := range 21 {
		at := began.Add(time.Duration(second) * time.Second)
		switch {
		case second == 9 || second == 10:
			bytes += 300
		case second > 5 && second <= 15:
			bytes += 100
		}
		m.add("node-1", copyLook{at, at, bytes})
		m.add("node-2", copyLook{at, at, float64(50 * min(max(second-16, 0), 1))})
		m.add("node-3", copyLook{at, at, 7})
	}
	for rate, want := range map[float64]float64{50: 2*250 + 8*50, 100: 2 * 200, 250: 2 * 50, 300: 0} {
		c := m.sum(rate)
		if c.excess != want || c.bytes != 1450 || c.senders != 2 || c.took != 12*time.Second {
			t.Errorf("beside %v bytes a second: %+v, %v", rate, c, c)
		}
	}
}

// A node whose answers take up to two seconds may have read its counter at any instant of them.
func TestSlowLooksProveNoExcess(t *testing.T) {
	at := func(seconds float64) time.Time { return time.Unix(0, int64(seconds*1e9)) }
	looks := []copyLook{{at(0), at(2), 0}, {at(2), at(2.5), 250}, {at(3), at(5), 300}}
	assert.Equal(t, excess(looks, 100), 0, "bytes beyond the rate")
	assert.Equal(t, excess(looks, 80), 250-2.5*80, "bytes beyond the rate")
}
