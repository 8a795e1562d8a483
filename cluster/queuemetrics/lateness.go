package queuemetrics

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfryhq/belfry/internal/histogram"
)

const (
	reviewPeriod = time.Minute    // least time between two choices of the queues with series of their own
	scoreHalf    = 24 * time.Hour // after this time an attempt counts half as much in a score
	// scoreLead is how many times the score of a queue must be that of the queue whose place it takes. So two queues of
	// about the same number of attempts, or with their busy hours at different times of the day, do not take turns.
	scoreLead = 2
	leastLead = 10 // attempts by which the score must be higher at least, so that idle queues do not take turns either
	// maxCandidates bounds the queues without series of their own whose attempts are counted one by one.
	maxCandidates = 1000
)

// Lateness is the histogram of how late the attempts of each queue begin. It is a prometheus.Collector, safe for
// concurrent use.
//
//	queues                          series
//	the first with a policy         their own, in the order of their names
//	the first others with attempts  their own, as long as there is room below the bound
//	all the rest                    one, with the queue label "_other"
//
// The busiest queue of the rest takes the place of the least busy queue without a policy once its score is about
// scoreLead times as high. A score is a number of attempts, and past attempts fade in it. The series of the queue
// that loses its place ends, and "_other" does not take its attempts over, since they would look like new ones.
//
// The queues of a deleted namespace are forgotten at the next scrape, before it is answered.
//
// The memory is bounded, however many names of queues there are: maxCandidates of the rest have scores of their own,
// and half of them at most keep them at a review, so that a queue that becomes busy later finds room.
type Lateness struct {
	bound  int // queues with series of their own
	source Source
	series *prometheus.HistogramVec
	rest   *candidate // stands for all queues beyond maxCandidates

	mu       sync.RWMutex // guards the fields below, and the score of each candidate
	queues   map[key]*candidate
	own      int       // queues with series of their own
	reviewed time.Time // of the last review
}

// candidate is a queue with a score. A queue that gets or loses a series becomes another candidate.
type candidate struct {
	key
	seconds  prometheus.Observer
	own      bool          // the series is of this queue alone
	score    float64       // of the attempts before the last review
	attempts atomic.Uint64 // since the last review
}

// NewLateness returns a Lateness without an attempt. It gives this number of queues series of their own.
func NewLateness(bound int, source Source) *Lateness {
	series := prometheus.NewHistogramVec(histogram.Both(prometheus.HistogramOpts{
		Name: "belfry_queue_start_lateness_seconds",
		Help: "From a task's due time to the start of its attempt on this node, by queue.",
		// An attempt should begin within 20 ms, and within 1.5 s after the loss of a leader.
		Buckets: []float64{.005, .01, .02, .05, .1, .25, .5, 1, 1.5, 5, 30, 300, 3600},
	}), []string{"namespace", "queue"})
	return &Lateness{
		bound: bound, source: source, series: series, rest: &candidate{seconds: series.WithLabelValues("", Other)},
		queues: map[key]*candidate{}, reviewed: time.Now(),
	}
}

// Began counts an attempt that began so long after the due time of its task.
func (l *Lateness) Began(namespace, queue string, late time.Duration) {
	k := key{namespace, queue}
	l.mu.RLock()
	c := l.queues[k]
	l.mu.RUnlock()
	if c == nil {
		c = l.meet(k)
	}
	c.attempts.Add(1)
	c.seconds.Observe(late.Seconds())
}

// meet returns the candidate of a queue that may have none yet.
func (l *Lateness) meet(k key) *candidate {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch c := l.queues[k]; {
	case c != nil:
		return c
	case l.own < l.bound:
		return l.give(k, 0)
	case len(l.queues)-l.own < maxCandidates:
		return l.deny(k, 0)
	default:
		return l.rest
	}
}

// give gives a queue a series of its own.
func (l *Lateness) give(k key, score float64) *candidate {
	c := &candidate{key: k, own: true, score: score, seconds: l.series.WithLabelValues(k.namespace, k.queue)}
	l.queues[k] = c
	l.own++
	return c
}

// deny makes a queue without a series of its own known.
func (l *Lateness) deny(k key, score float64) *candidate {
	c := &candidate{key: k, score: score, seconds: l.rest.seconds}
	l.queues[k] = c
	return c
}

// take takes the series of a queue away.
func (l *Lateness) take(c *candidate) {
	l.series.DeleteLabelValues(c.namespace, c.queue)
	l.own--
	l.deny(c.key, c.score)
}

// Describe sends the description of the histogram.
func (l *Lateness) Describe(out chan<- *prometheus.Desc) { l.series.Describe(out) }

// Collect sends the series. It first chooses the queues with series of their own anew, once in a reviewPeriod.
func (l *Lateness) Collect(out chan<- prometheus.Metric) {
	l.forgetDeleted()
	l.review(time.Now())
	l.series.Collect(out)
}

// forgetDeleted forgets the queues of deleted namespaces, their series among them.
func (l *Lateness) forgetDeleted() {
	deleted := l.deleted()
	if len(deleted) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range deleted {
		if c := l.queues[k]; c != nil && c.own {
			l.take(c)
		}
		delete(l.queues, k)
	}
}

// deleted returns the queues of deleted namespaces. It holds up no attempt.
func (l *Lateness) deleted() (queues []key) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	known := map[string]bool{}
	for k := range l.queues {
		there, ok := known[k.namespace]
		if !ok {
			there = l.source.Exists(k.namespace)
			known[k.namespace] = there
		}
		if !there {
			queues = append(queues, k)
		}
	}
	return queues
}

// named returns the queues with a policy that have series of their own at all nodes.
func (l *Lateness) named() map[key]bool {
	policies := l.source.Policies()
	named := make(map[key]bool)
	for _, p := range policies[:min(len(policies), l.bound)] {
		named[key{p.Namespace, p.Queue}] = true
	}
	return named
}

func (l *Lateness) review(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	past := now.Sub(l.reviewed)
	if past < reviewPeriod {
		return
	}
	l.reviewed = now
	named := l.named()
	for k := range named {
		if l.queues[k] == nil {
			l.deny(k, 0)
		}
	}
	fade := math.Exp2(-past.Hours() / scoreHalf.Hours())
	var losers, rivals []*candidate // with and without series; queues with a policy lose none
	for k, c := range l.queues {
		c.score = c.score*fade + float64(c.attempts.Swap(0))
		switch {
		case !c.own:
			rivals = append(rivals, c)
		case !named[k]:
			losers = append(losers, c)
		}
	}
	slices.SortFunc(losers, func(a, b *candidate) int { return byScore(b, a) })
	slices.SortFunc(rivals, func(a, b *candidate) int {
		return cmp.Or(cmp.Compare(number(named[b.key]), number(named[a.key])), byScore(a, b))
	})
	l.exchange(losers, rivals, named)
	l.forget(rivals)
}

// exchange gives series to the rivals, in their order: first the free series, then the series of the losers.
func (l *Lateness) exchange(losers, rivals []*candidate, named map[key]bool) {
	for _, rival := range rivals {
		if l.own == l.bound {
			if len(losers) == 0 || !named[rival.key] && rival.score < scoreLead*losers[0].score+leastLead {
				return
			}
			l.take(losers[0])
			losers = losers[1:]
		}
		l.give(rival.key, rival.score)
	}
}

// forget keeps the first rivals, and the queues without their series since this review.
func (l *Lateness) forget(rivals []*candidate) {
	for _, c := range rivals[min(len(rivals), maxCandidates/2):] {
		if l.queues[c.key] == c {
			delete(l.queues, c.key)
		}
	}
}

// byScore orders the busiest queue first, and queues of one score by their names.
func byScore(a, b *candidate) int {
	return cmp.Or(cmp.Compare(b.score, a.score), strings.Compare(a.namespace, b.namespace),
		strings.Compare(a.queue, b.queue))
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}
