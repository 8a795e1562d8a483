package rights

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
)

const every = time.Second

var errGone = errors.New("the key is gone")

// TestRightEnds checks that the loss of a right ends the call's life with the refusal, and what is bound to the right
// after its time.
func TestRightEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gone atomic.Bool
		var judged atomic.Int32
		r := Watch(t.Context(), every, func(context.Context) error {
			judged.Add(1)
			if gone.Load() {
				return errGone
			}
			return nil
		})
		defer r.Stop()
		within, cancel := r.Within(t.Context(), every/2)
		defer cancel()
		time.Sleep(2*every + every/2) // of the bubble's clock
		synctest.Wait()
		if judged.Load() != 2 || r.Refusal() != nil || r.Life().Err() != nil || within.Err() != nil {
			t.Fatalf("judged %d times: %v", judged.Load(), r.Refusal())
		}
		gone.Store(true)
		<-r.Lost().Done()
		synctest.Wait()
		if !errors.Is(r.Refusal(), errGone) || !errors.Is(context.Cause(r.Life()), errGone) {
			t.Errorf("refused with %v", r.Refusal())
		}
		assert.Equal(t, within.Err(), nil, "the rest of the time is cut off")
		time.Sleep(every) // of the bubble's clock
		synctest.Wait()
		if within.Err() == nil || judged.Load() != 3 {
			t.Errorf("judged %d times, %v", judged.Load(), within.Err())
		}
	})
}

// TestRightOutlivesItsCaller checks that the client's leaving ends the life of a call, and loses no right.
func TestRightOutlivesItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		request, leave := context.WithCancel(t.Context())
		r := Watch(request, every, func(context.Context) error { return nil })
		leave()
		if r.Life().Err() == nil || r.Lost().Err() != nil || r.Refusal() != nil {
			t.Errorf("life %v, lost %v", r.Life().Err(), r.Lost().Err())
		}
		r.Stop()
		if r.Refusal() != nil || r.Lost().Err() == nil {
			t.Errorf("stopped: %v", r.Refusal())
		}
	})
}

// TestStopDuringJudgement checks that a verdict which comes after the end of the call changes nothing.
func TestStopDuringJudgement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, answer := make(chan struct{}), make(chan struct{})
		r := Watch(t.Context(), every, func(context.Context) error {
			close(asked)
			<-answer
			return errGone
		})
		<-asked
		r.Stop()
		close(answer)
		synctest.Wait()
		assert.Equal(t, r.Refusal(), nil, "refused with")
	})
}

// TestNoRightToLose checks a call that is not watched.
func TestNoRightToLose(t *testing.T) {
	var r *Right
	ctx, cancel := r.Within(t.Context(), 0)
	defer cancel()
	if r.Refusal() != nil || r.Lost().Err() != nil || ctx.Err() != nil {
		t.Errorf("%v", r.Refusal())
	}
}
