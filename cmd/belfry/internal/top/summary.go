package top

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/belfryhq/belfry/client"
)

// Summary holds the figures of one round. Its JSON is the output of belfry top --json. A figure whose part was never
// read is null.
type Summary struct {
	At        time.Time  `json:"at"`
	ClusterID string     `json:"cluster_id"`
	Waiting   *uint64    `json:"waiting"`    // scheduled and retrying tasks of the namespace
	Ready     *uint64    `json:"ready"`      // due tasks of the namespace without an attempt
	Dead      *uint64    `json:"dead"`       // dead letters of the namespace
	InCluster *uint64    `json:"in_cluster"` // scheduled and retrying tasks of all namespaces
	DueWithin *DueWithin `json:"due_within"` // of all namespaces
	PerSecond *Rates     `json:"per_second"` // over the last ten seconds
	Lateness  *Lateness  `json:"lateness"`   // of the attempts of the last minute
	Nodes     []Node     `json:"nodes"`
	Shards    []Shard    `json:"shards"`
	Queues    []Queue    `json:"queues"`
	MoreQueue bool       `json:"more_queues"` // the namespace has more queues than the answer
	Moving    []string   `json:"moving"`      // operations and moves under way
	Missing   []uint32   `json:"missing_shards"`
	Stale     []Stale    `json:"stale"`
}

// DueWithin counts the tasks that come due within spans of time, overdue ones included.
type DueWithin struct {
	Second uint64 `json:"1s"`
	Minute uint64 `json:"1m"`
	Hour   uint64 `json:"1h"`
}

// Rates are numbers of events a second.
type Rates struct {
	Scheduled float64 `json:"scheduled"`
	Fired     float64 `json:"fired"`
	Delivered float64 `json:"delivered"`
	Failed    float64 `json:"failed"`
	Dead      float64 `json:"dead"`
	Cancelled float64 `json:"cancelled"`
}

// Lateness has upper bounds of the lateness of attempts, in milliseconds. A bound is null if there was no attempt, or
// if the lateness is above OverMs.
type Lateness struct {
	Attempts uint64 `json:"attempts"`
	P50Ms    *int64 `json:"p50_ms"`
	P99Ms    *int64 `json:"p99_ms"`
	MaxMs    *int64 `json:"max_ms"`
	OverMs   int64  `json:"over_ms"` // the largest bound
}

// Node is one member of the cluster.
type Node struct {
	Name          string   `json:"name"`
	State         string   `json:"state"` // up or down, or an order of operators, with the node's troubles
	Up            bool     `json:"up"`
	Leads         []uint32 `json:"leads"` // shards
	Replicas      int      `json:"replicas"`
	Lag           *uint64  `json:"lag"` // log entries that its slowest replica is behind; null: not known
	ClockOffsetMs float64  `json:"clock_offset_ms"`
	DiskFree      uint64   `json:"disk_free"` // bytes; 0: not known
}

// Shard is one shard with its leader.
type Shard struct {
	ID       uint32 `json:"id"`
	Leader   string `json:"leader"` // name of a node; empty: none is known
	Tasks    int64  `json:"tasks"`
	Replicas int    `json:"replicas"`
	Up       int    `json:"replicas_up"`
}

// Queue is one queue of the namespace.
type Queue struct {
	Name            string   `json:"queue"`
	Paused          bool     `json:"paused"`
	Waiting         uint64   `json:"waiting"` // scheduled and retrying tasks
	Ready           uint64   `json:"ready"`   // due tasks without an attempt
	Running         uint64   `json:"running"` // attempts and leases
	Dead            uint64   `json:"dead"`
	OverdueSeconds  float64  `json:"overdue_seconds"`   // of the oldest ready task
	ChangePerSecond *float64 `json:"change_per_second"` // of its unfinished tasks; null: not known yet
}

// Stale is a part that could not be read.
type Stale struct {
	Part  string     `json:"part"`
	Since *time.Time `json:"since"` // of the last answer; null: there was none
	Error string     `json:"error"`
}

// Summarise returns the figures of a state at a time.
func (s *State) Summarise(now time.Time) *Summary {
	sum := &Summary{At: now, MoreQueue: s.more, Nodes: []Node{}, Shards: []Shard{}, Queues: []Queue{}, Moving: []string{},
		Missing: []uint32{}, Stale: []Stale{}}
	if w := s.wheel; w != nil {
		if len(w.Missing) == 0 || w.Waiting > 0 { // else no shard may have been counted
			sum.InCluster = &w.Waiting
			sum.DueWithin = &DueWithin{w.DueWithin.Second, w.DueWithin.Minute, w.DueWithin.Hour}
		}
		sum.Missing = append(sum.Missing, w.Missing...)
	}
	if a := s.activity; a != nil {
		sum.PerSecond, sum.Lateness = rates(a, s.serverNow(now)), lateness(a)
	}
	if c := s.cluster; c != nil {
		sum.ClusterID, sum.Nodes, sum.Shards, sum.Moving = c.ID, nodes(c, now), shards(c), moving(c)
	}
	s.addQueues(sum, now)
	for i, p := range s.parts {
		if p.err == nil {
			continue
		}
		stale := Stale{Part: parts[i].name, Error: reason(p.err)}
		if !p.read.IsZero() {
			stale.Since = &s.parts[i].read
		}
		sum.Stale = append(sum.Stale, stale)
	}
	return sum
}

// reason returns the reason of a failed call without the steps that led there.
func reason(err error) string {
	var refusal *client.Error
	var op *net.OpError
	switch {
	case errors.As(err, &refusal):
		return refusal.Error()
	case errors.As(err, &op):
		text := op.Err.Error()
		text = text[strings.LastIndex(text, ": ")+1:]
		if op.Addr != nil {
			return op.Addr.String() + ": " + strings.TrimSpace(text)
		}
		return strings.TrimSpace(text)
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	}
	return err.Error()
}

// serverNow returns the cluster's time of the last answers, or the local time without a wheel.
func (s *State) serverNow(now time.Time) time.Time {
	if s.wheel != nil {
		return s.wheel.Now.Time
	}
	return now
}

// rateSteps is the number of steps over which rates are counted. The running step is left out.
const rateSteps = 2

func rates(a *client.Activity, now time.Time) *Rates {
	r := new(Rates)
	step := time.Duration(a.StepMs) * time.Millisecond
	if step <= 0 {
		return r
	}
	end := now.Truncate(step)
	begin, seconds := end.Add(-rateSteps*step), (rateSteps * step).Seconds()
	for i := range a.Steps {
		v := &a.Steps[i]
		if v.At.Before(begin) || !v.At.Before(end) {
			continue
		}
		r.Scheduled += float64(v.Scheduled) / seconds
		r.Fired += float64(v.Fired) / seconds
		r.Delivered += float64(v.Delivered) / seconds
		r.Failed += float64(v.Failed) / seconds
		r.Dead += float64(v.Dead) / seconds
		r.Cancelled += float64(v.Cancelled) / seconds
	}
	return r
}

func lateness(a *client.Activity) *Lateness {
	classes := make([]uint64, len(a.LateWithinMs)+1)
	l := new(Lateness)
	for i := range a.Steps {
		for class, n := range a.Steps[i].Late {
			classes[min(class, len(classes)-1)] += n
			l.Attempts += n
		}
	}
	if len(a.LateWithinMs) > 0 {
		l.OverMs = a.LateWithinMs[len(a.LateWithinMs)-1]
	}
	bound := func(rank uint64) *int64 {
		for class, n := range classes[:len(a.LateWithinMs)] {
			if rank <= n {
				return &a.LateWithinMs[class]
			}
			rank -= n
		}
		return nil
	}
	if l.Attempts > 0 {
		l.P50Ms, l.P99Ms, l.MaxMs = bound((l.Attempts+1)/2), bound(l.Attempts-l.Attempts/100), bound(l.Attempts)
	}
	return l
}

// nodes returns the nodes, troubled ones first.
func nodes(c *client.Cluster, now time.Time) []Node {
	lags := lags(c)
	list := []Node{}
	for i := range c.Nodes {
		n := &c.Nodes[i]
		v := Node{Name: cmp.Or(n.Name, n.ID), Up: n.Alive, State: nodeState(n, now), Leads: []uint32{}, Replicas: n.Replicas,
			ClockOffsetMs: n.ClockOffsetMs, DiskFree: n.DiskFree}
		if lag, ok := lags[n.ID]; ok && n.Alive {
			v.Lag = &lag
		}
		for _, s := range c.Shards {
			if s.Leader == n.ID {
				v.Leads = append(v.Leads, s.ID)
			}
		}
		list = append(list, v)
	}
	slices.SortStableFunc(list, func(a, b Node) int {
		return cmp.Or(cmp.Compare(rank(a.State != "up"), rank(b.State != "up")), strings.Compare(a.Name, b.Name))
	})
	return list
}

// rank sorts true before false.
func rank(first bool) int {
	if first {
		return 0
	}
	return 1
}

func nodeState(n *client.Node, now time.Time) string {
	state := "up"
	switch {
	case !n.Alive && n.AwaySince != nil:
		state = "down " + age(now.Sub(n.AwaySince.Time))
	case !n.Alive:
		state = "down"
	case n.Order != "" && n.Order != "work":
		state = n.Order
	}
	if n.DiskLow {
		state += ", disk low"
	}
	if n.MemoryFull {
		state += ", memory full"
	}
	return state
}

// lags returns by how many log entries the slowest replica of each node is behind. A node without a report is missing.
func lags(c *client.Cluster) map[string]uint64 {
	lags := map[string]uint64{}
	for _, s := range c.Shards {
		newest := uint64(0)
		for _, r := range s.Replicas {
			newest = max(newest, r.Applied)
		}
		for _, r := range s.Replicas {
			if r.State != "unknown" {
				lags[r.Node] = max(lags[r.Node], newest-r.Applied)
			}
		}
	}
	return lags
}

func shards(c *client.Cluster) []Shard {
	list := []Shard{}
	for i := range c.Shards {
		s := &c.Shards[i]
		v := Shard{ID: s.ID, Tasks: s.Tasks, Replicas: len(s.Replicas)}
		if n := c.Node(s.Leader); n != nil {
			v.Leader = cmp.Or(n.Name, n.ID)
		}
		for _, r := range s.Replicas {
			if n := c.Node(r.Node); n != nil && n.Alive && r.Voter {
				v.Up++
			}
		}
		list = append(list, v)
	}
	return list
}

// moving describes the operations and moves under way.
func moving(c *client.Cluster) []string {
	list := []string{}
	for i := range c.Operations {
		op := &c.Operations[i]
		if op.State != client.OperationRunning {
			continue
		}
		text := fmt.Sprintf("%s %s  %.0f %%", op.Kind, cmp.Or(op.NodeName, op.Node, op.Namespace), op.Percent)
		if len(op.Waits) > 0 {
			text += "  waits: " + op.Waits[0]
		}
		list = append(list, text)
	}
	for _, m := range c.SlotMoves {
		list = append(list, withReason(fmt.Sprintf("%d slots from shard %d to %d  %s, %d tasks copied", m.Slots, m.From, m.To,
			cmp.Or(m.Step, m.State), m.TasksCopied), m.Waits))
	}
	for i := range c.Shards {
		if s := &c.Shards[i]; s.Step != "" || len(s.Target) > 0 {
			list = append(list, withReason(fmt.Sprintf("replica of shard %d  %s", s.ID, s.Step), s.Waits))
		}
	}
	if c.Waits != "" { // the reason why the cluster has not the shape that it should have
		list = append(list, "waits: "+c.Waits)
	}
	return list
}

func withReason(text, reason string) string {
	if reason != "" {
		text += "  waits: " + reason
	}
	return text
}

func (s *State) addQueues(sum *Summary, now time.Time) {
	if s.queuesAt.IsZero() {
		return
	}
	var waiting, ready, dead uint64
	for i := range s.queues {
		q := &s.queues[i]
		c := q.Counts
		if c == nil {
			c = new(client.QueueCounts)
		}
		waiting, ready, dead = waiting+c.Scheduled+c.Retrying, ready+c.Ready, dead+c.Dead
		v := Queue{Name: q.Name, Paused: q.Paused, Waiting: c.Scheduled + c.Retrying, Ready: c.Ready,
			Running: c.Firing + c.Leased, Dead: c.Dead}
		if c.OldestOverdue != nil {
			v.OverdueSeconds = max(0, s.serverNow(now).Sub(*c.OldestOverdue).Seconds())
		}
		if before, ok := s.previous[q.Name]; ok && s.queuesAt.After(s.previousAt) {
			rate := (float64(c.Unfinished()) - float64(before)) / s.queuesAt.Sub(s.previousAt).Seconds()
			v.ChangePerSecond = &rate
		}
		sum.Queues = append(sum.Queues, v)
	}
	sum.Waiting, sum.Ready, sum.Dead = &waiting, &ready, &dead
}

// overdueTrouble is the age of a ready task, in seconds, from which on its queue counts as in trouble.
const overdueTrouble = 1

// trouble orders queues: first by overdue tasks, then by dead letters.
func (q *Queue) trouble() int {
	switch {
	case q.OverdueSeconds >= overdueTrouble:
		return 0
	case q.Dead > 0:
		return 1
	}
	return 2
}

// orders are the orders of queues that the key s changes between.
var orders = [...]struct {
	name    string
	compare func(a, b *Queue) int
}{
	{"trouble", func(a, b *Queue) int {
		return cmp.Or(cmp.Compare(a.trouble(), b.trouble()), cmp.Compare(b.Ready+b.Dead, a.Ready+a.Dead),
			cmp.Compare(b.Waiting, a.Waiting))
	}},
	{"waiting", func(a, b *Queue) int { return cmp.Compare(b.Waiting, a.Waiting) }},
	{"ready", func(a, b *Queue) int { return cmp.Compare(b.Ready, a.Ready) }},
	{"dead", func(a, b *Queue) int { return cmp.Compare(b.Dead, a.Dead) }},
	{"change", func(a, b *Queue) int { return cmp.Compare(b.change(), a.change()) }},
	{"name", func(*Queue, *Queue) int { return 0 }},
}

// change returns the size of the queue's change a second, and 0 if it is not known.
func (q *Queue) change() float64 {
	if q.ChangePerSecond == nil {
		return 0
	}
	return max(*q.ChangePerSecond, -*q.ChangePerSecond)
}

// Sort orders the queues. Equal ones stay in the order of their names.
func (s *Summary) Sort(order int) {
	slices.SortFunc(s.Queues, func(a, b Queue) int {
		return cmp.Or(orders[order].compare(&a, &b), strings.Compare(a.Name, b.Name))
	})
}
