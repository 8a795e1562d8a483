package raftgroup

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

func TestFutures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFutures()
		answer, broken := make(chan error), errors.New("broken")
		ask := func() raft.Future { return pending{answer} }
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := f.await(ctx, ask); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a caller whose context ended: %v", err)
		}
		if f.bar(time.Second) {
			t.Error("bar reports that an unanswered call was answered")
		}
		if err := f.await(t.Context(), ask); !errors.Is(err, ErrRefused) {
			t.Errorf("asked when it was barred: %v", err)
		}
		answer <- broken
		<-f.none
	})
}

// pending is a future that the test answers.
type pending struct{ answer chan error }

func (p pending) Error() error { return <-p.answer }
