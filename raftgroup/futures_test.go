package raftgroup

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/internal/assert"
)

func TestFutures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFutures()
		answer, broken := make(chan error), errors.New("broken")
		ask := func() raft.Future { return pending{answer} }
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		assert.ErrorIs(t, f.await(ctx, ask), context.DeadlineExceeded, "a caller whose context ended")
		if f.bar(time.Second) {
			t.Error("bar reports that an unanswered call was answered")
		}
		assert.ErrorIs(t, f.await(t.Context(), ask), ErrRefused, "asked when it was barred")
		answer <- broken
		<-f.none
	})
}

// pending is a future that the test answers.
type pending struct{ answer chan error }

func (p pending) Error() error { return <-p.answer }
