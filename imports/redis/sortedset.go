package redis

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/imports"
)

// SortedSet opens sorted sets whose members are payloads, with due times in a unit as their scores.
func SortedSet(ctx context.Context, o Options, unit imports.Unit, keys ...string) (*Source, error) {
	s, err := open(ctx, o, plain{unit})
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		s.sets = append(s.sets, set{key: key})
	}
	return s, nil
}

// plain is the format of SortedSet.
type plain struct{ unit imports.Unit }

func (f plain) records(_ *Source, entries []entry) ([]converted, error) {
	all := make([]converted, len(entries))
	for i, e := range entries {
		r := &all[i]
		r.Text = e.member
		sum := sha256.Sum256([]byte(e.member))
		r.Key = e.set.key + ":" + hex.EncodeToString(sum[:16])
		r.Task, r.Err = dueTask(e, f.unit)
		imports.SetPayload(&r.Task, []byte(e.member))
	}
	return all, nil
}

// dueTask returns a task that is due at the score of an entry.
func dueTask(e entry, unit imports.Unit) (t client.Task, err error) {
	score, err := strconv.ParseFloat(e.score, 64)
	if err == nil {
		t.FireAt, err = unit.Time(score)
	}
	return t, err
}

// typeLabel is the label with the kind of a job, by which consumers choose their handler.
const typeLabel = "type"

// retryOf returns the attempts that a job has left. The queue's policy has the times between them.
func retryOf(most, made int) *client.Retry { return &client.Retry{MaxAttempts: max(most-made, 1)} }
