package workload

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/internal/wait"
)

const (
	forgeEvery = time.Second
	guesses    = 16 // receipts with a guessed tag in each call

	closedEvery = 10 // turns between two schedules by a closed calendar
	closedName  = "closed"
)

// ForgerQueue returns the queue of the forger beside a load whose ids have a prefix.
func ForgerQueue(prefix string) string { return prefix + "forger" }

// sight is a receipt of a consumer of the load, with the queue of its lease.
type sight struct{ queue, receipt string }

// Forge plays a consumer of another queue that tries to settle the leases of the load's consumers, once a second until
// ctx ends. Its receipts are a true one, the true one with the forger's queue in it, and guessed ones. None may pass:
// each answer is recorded as a trial, and a lease that ends all the same shows in the record of the load. Now and then
// Forge makes a schedule that never fires.
func (l *Load) Forge(ctx context.Context) {
	rng := rand.New(rand.NewPCG(l.cfg.Seed, forgers))
	for n := 0; wait.For(ctx, forgeEvery); n++ {
		if seen := l.seen.Load(); seen != nil {
			l.forge(ctx, rng, *seen)
		}
		if n%closedEvery == 0 {
			l.tryClosed(ctx, l.anyNode(rng))
		}
	}
}

// forge tries one receipt in the forger's queue, and in the queue of its lease if the forger's key does not allow that.
func (l *Load) forge(ctx context.Context, rng *rand.Rand, seen sight) {
	node, own := l.anyNode(rng), ForgerQueue(l.cfg.Prefix)
	settle := settlements[rng.IntN(len(settlements))]
	l.tryForged(ctx, node, own, settle(forgeries(rng, seen, own)))
	if l.cfg.ForgerKey != "" {
		l.tryForged(ctx, node, seen.queue, settle([]string{seen.receipt}))
	}
}

// settlements are the ways to settle leases.
var settlements = []func(receipts []string) client.Settlement{
	func(receipts []string) client.Settlement { return client.Settlement{Ack: receipts} },
	func(receipts []string) client.Settlement { return client.Settlement{Release: receipts} },
	func(receipts []string) (s client.Settlement) {
		for _, r := range receipts {
			s.Nack = append(s.Nack, client.Nack{Receipt: r})
		}
		return s
	},
	func(receipts []string) (s client.Settlement) {
		for _, r := range receipts {
			s.Extend = append(s.Extend, client.Extend{Receipt: r, Lease: time.Minute})
		}
		return s
	},
}

func (l *Load) tryForged(ctx context.Context, node int, queue string, s client.Settlement) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	start := l.cfg.Recorder.Now()
	for _, got := range l.forger.clients[node].Settle(ctx, queue, s) {
		var refusal *client.Error
		if got.Status == 0 && errors.As(got.Err, &refusal) {
			got.Status = refusal.Status
		}
		t := history.Trial{
			Ask: history.AskForged, Entry: history.NoEntry, Node: l.cfg.Nodes[node].Name, Status: got.Status, Start: start,
		}
		if got.Err != nil {
			t.Text = shorten(got.Err.Error())
		}
		l.cfg.Recorder.Try(t)
	}
}

// tryClosed makes a calendar that is closed on each day, and a schedule by it, and records whether the schedule has
// ended. The receiver would count an occurrence as a stranger.
func (l *Load) tryClosed(ctx context.Context, node int) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	t := history.Trial{
		Ask: history.AskNever, Entry: history.NoEntry, Node: l.cfg.Nodes[node].Name, Start: l.cfg.Recorder.Now(),
	}
	c, calendar := l.caller.clients[node], client.Calendar{Name: closedName}
	for day := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC); day.Year() == 2000; day = day.AddDate(0, 0, 1) {
		calendar.Closed = append(calendar.Closed, day.Format("--01-02"))
	}
	if _, err := c.PutCalendar(ctx, calendar); err != nil {
		return // a node is down, or a key is revoked
	}
	s, err := c.PutSchedule(ctx, client.Schedule{
		ID: closedName, Repeat: client.Repeat{Every: time.Minute, Calendar: closedName},
		Task: client.Task{Target: &client.Target{URL: l.cfg.Target}},
	})
	if err != nil {
		return
	}
	if t.Status = http.StatusOK; !s.Ended || !s.NextAt.IsZero() {
		t.Text = s.NextAt.Format(time.RFC3339)
	}
	l.cfg.Recorder.Try(t)
}

// The place of the tag in a receipt, before its encoding. The names of the namespace and the queue follow, each behind
// its length.
const tagFrom, tagTo = 1, 17

// forgeries returns the receipts to try in place of a true one.
func forgeries(rng *rand.Rand, seen sight, own string) []string {
	all := []string{seen.receipt}
	raw, err := base64.RawURLEncoding.DecodeString(seen.receipt)
	if err != nil || len(raw) < tagTo {
		return all // another service's receipt, about whose form nothing is known
	}
	named := func(queue string) []byte { return append([]byte{byte(len(queue))}, queue...) }
	renamed := bytes.Replace(raw, named(seen.queue), named(own), 1)
	all = append(all, base64.RawURLEncoding.EncodeToString(renamed))
	for range guesses {
		for i := tagFrom; i < tagTo; i++ {
			renamed[i] = byte(rng.Uint32())
		}
		all = append(all, base64.RawURLEncoding.EncodeToString(renamed))
	}
	return all
}
