package redis

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/belfryhq/belfry/imports"
)

// BullMQ opens the delayed jobs of BullMQ in these queues. A queue with another prefix than bull is written with it, as
// in jobs:mails.
func BullMQ(ctx context.Context, o Options, queues ...string) (*Source, error) {
	s, err := open(ctx, o, bullMQ{})
	if err != nil {
		return nil, err
	}
	for _, queue := range queues {
		if !strings.Contains(queue, ":") {
			queue = "bull:" + queue
		}
		s.sets = append(s.sets, set{queue + ":delayed", queue})
	}
	return s, nil
}

// bullMQ is the format of BullMQ.
type bullMQ struct{}

// counterBits is the part of a score below the due time: a counter keeps the order of jobs of one millisecond.
const counterBits = 12

var (
	errRepeats = errors.New("the job belongs to a repeating job: make a schedule of that one")
	errFlow    = errors.New("the job is a child of a flow: its parent would wait for it in vain")
)

func (bullMQ) records(s *Source, entries []entry) ([]converted, error) {
	key := func(e entry) string { return e.set.queue + ":" + e.member }
	hashes, err := s.hashes(entries, key, "name", "data", "opts", "atm", "attemptsMade", "rjk", "parentKey", "deid")
	if err != nil {
		return nil, err
	}
	all := make([]converted, len(entries))
	for i, e := range entries {
		r, job := &all[i], hashes[i]
		r.Key, r.Text = key(e), job["data"]
		r.remnant.hash, r.remnant.log = key(e), key(e)+":logs"
		if job["deid"] != "" {
			r.remnant.lock = e.set.queue + ":de:" + job["deid"]
		}
		switch {
		case job["name"] == "" && job["data"] == "":
			r.Err = imports.ErrGone
		case job["rjk"] != "" || strings.HasPrefix(e.member, "repeat:"):
			r.Err = errRepeats
		case job["parentKey"] != "":
			r.Err = errFlow
		default:
			r.Err = r.setBullMQ(e, job)
		}
	}
	return all, nil
}

// setBullMQ sets the task by the hash of a job.
func (r *converted) setBullMQ(e entry, job map[string]string) error {
	score, err := strconv.ParseFloat(e.score, 64)
	if err != nil {
		return err
	}
	t := &r.Task
	if t.FireAt, err = imports.Milliseconds.Time(float64(int64(score) >> counterBits)); err != nil {
		return err
	}
	var options struct{ Attempts int }
	if err := json.Unmarshal([]byte(job["opts"]), &options); err != nil {
		return fmt.Errorf("the options of the job: %w", err)
	}
	made := 0
	for _, field := range []string{"atm", "attemptsMade"} { // of newer versions, and of older ones
		if n, err := strconv.Atoi(job[field]); err == nil {
			made = max(made, n)
		}
	}
	t.Queue = e.set.queue[strings.LastIndexByte(e.set.queue, ':')+1:]
	t.Labels = map[string]string{typeLabel: job["name"]}
	t.Retry = retryOf(max(options.Attempts, 1), made)
	imports.SetPayload(t, []byte(job["data"]))
	return nil
}
