package chaos_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// makeReady puts a task among the ready ones, from which consumers lease. The caller holds f.mu.
func (f *fake) makeReady(t *fakeTask) {
	f.count++
	t.State, t.Revision, t.fence = "ready", f.count, 0
	f.ready = append(f.ready, t)
}

func (f *fake) unready(t *fakeTask) {
	f.ready = slices.DeleteFunc(f.ready, func(other *fakeTask) bool { return other == t })
}

// fakeLeased is a task in the answer to a lease call.
type fakeLeased struct {
	fakeTask
	Receipt     string    `json:"receipt"`
	Attempt     int       `json:"attempt"`
	Fence       uint64    `json:"fence"`
	LeaseEndsAt time.Time `json:"lease_ends_at"`
}

// lease waits for ready tasks of a queue and leases them.
func (f *fake) lease(ctx context.Context, queue string, body []byte) reply {
	var in struct {
		Max         int
		Wait, Lease string
	}
	if json.Unmarshal(body, &in) != nil {
		return reply{status: http.StatusBadRequest}
	}
	wait, _ := time.ParseDuration(in.Wait) // empty: no wait
	length, _ := time.ParseDuration(in.Lease)
	if f.bug == leasesLong {
		length *= 2
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for {
		if given := f.give(queue, in.Max, length); len(given) > 0 {
			return reply{status: http.StatusOK, body: map[string]any{"tasks": given}}
		}
		select {
		case <-ctx.Done():
			return reply{status: http.StatusOK, body: map[string]any{"tasks": []fakeLeased{}}}
		case <-poll.C:
		}
	}
}

func (f *fake) give(queue string, most int, length time.Duration) []fakeLeased {
	f.mu.Lock()
	defer f.mu.Unlock()
	var given []fakeLeased
	var left []*fakeTask
	for _, t := range f.ready {
		if t.Queue != queue || len(given) >= most {
			left = append(left, t)
			continue
		}
		given = append(given, f.grant(t, length))
		if f.bug == leasesTwice && f.count%5 == 0 {
			left = append(left, t)
		}
	}
	f.ready = left
	return given
}

func (f *fake) grant(t *fakeTask, length time.Duration) fakeLeased {
	f.count++
	t.Attempts++
	t.State, t.Revision, t.fence = "firing", f.count, f.count
	ends := time.Now().Add(length).Truncate(time.Millisecond).Add(time.Millisecond)
	f.endLater(t, t.fence, ends)
	return fakeLeased{*t, fmt.Sprintf("%s/%d", t.ID, t.fence), t.Attempts, t.fence, ends}
}

// endLater makes the task ready again at the given end of its lease, if the lease with this fence is still the current
// one.
func (f *fake) endLater(t *fakeTask, fence uint64, ends time.Time) {
	t.armed++
	t.leaseEnds = ends
	armed := t.armed
	if f.bug == forgetsLeases {
		return
	}
	f.after(time.Until(ends), func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if t.armed != armed || t.State != "firing" || t.fence != fence {
			return
		}
		f.count++
		if f.endAttempt(t, false, time.Hour); t.State == "retrying" { // no call ever sees the state retrying
			t.armed++
			f.makeReady(t)
		}
	})
}

// settleLeases settles the receipts of a request, in the order of its lists.
func (f *fake) settleLeases(body []byte) reply {
	var in struct {
		Ack     []string
		Nack    []struct{ Receipt, Delay string }
		Extend  []struct{ Receipt, Lease string }
		Release []string
	}
	if json.Unmarshal(body, &in) != nil {
		return reply{status: http.StatusBadRequest}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var results []map[string]any
	add := func(receipt string, settle func() int) {
		result := map[string]any{"receipt": receipt}
		if f.isReplaced(receipt) {
			f.count++
			result["status"], result["outcome"] = http.StatusOK, "replaced"
		} else {
			result["status"] = settle()
		}
		results = append(results, result)
	}
	for _, receipt := range in.Ack {
		add(receipt, func() int { return f.ack(receipt) })
	}
	for _, n := range in.Nack {
		add(n.Receipt, func() int {
			return f.settleOne(n.Receipt, func(t *fakeTask) { f.endAttempt(t, false, durationOr(n.Delay, 10*time.Millisecond)) })
		})
	}
	for _, e := range in.Extend {
		status := f.settleOne(e.Receipt, func(t *fakeTask) {
			t.Revision = f.count
			f.endLater(t, t.fence, time.Now().Add(durationOr(e.Lease, 0)+time.Millisecond))
		})
		results = append(results, map[string]any{"receipt": e.Receipt, "status": status})
	}
	for _, receipt := range in.Release {
		add(receipt, func() int { return f.settleOne(receipt, f.release) })
	}
	return reply{status: http.StatusOK, body: map[string]any{"results": results}}
}

func (f *fake) release(t *fakeTask) {
	t.Attempts--
	if t.Outcome != "" {
		f.endAttempt(t, false, 0)
		return
	}
	f.makeReady(t)
}

func durationOr(text string, other time.Duration) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		return other
	}
	return d
}

// leaseOf returns the task and the fence of a receipt.
func (f *fake) leaseOf(receipt string) (*fakeTask, uint64) {
	id, text, _ := strings.Cut(receipt, "/")
	fence, _ := strconv.ParseUint(text, 10, 64) // the fake wrote the receipt, so it parses
	return f.tasks[id], fence
}

// isReplaced reports whether the task was scheduled anew since the receipt's lease began.
func (f *fake) isReplaced(receipt string) bool {
	t, fence := f.leaseOf(receipt)
	return t != nil && fence < t.occurrence
}

func (f *fake) settleOne(receipt string, settle func(t *fakeTask)) int {
	f.count++
	t, fence := f.leaseOf(receipt)
	live := t != nil && t.State == "firing" && t.fence == fence && time.Now().Before(t.leaseEnds)
	if f.bug == acceptsEnded && t != nil && !live {
		return http.StatusOK
	}
	if !live {
		return http.StatusConflict
	}
	settle(t)
	return http.StatusOK
}

func (f *fake) ack(receipt string) int {
	t, fence := f.leaseOf(receipt)
	switch {
	case f.bug == refusesAcks && f.count%4 == 0:
		f.count++
		return http.StatusConflict
	case t != nil && fence == t.acked:
		return http.StatusOK
	}
	return f.settleOne(receipt, func(t *fakeTask) {
		if f.bug == forgetsAcks && f.count%5 == 0 {
			return
		}
		t.acked = fence
		f.endAttempt(t, true, 0)
	})
}
