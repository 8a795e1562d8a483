package wait_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/internal/wait"
)

func TestFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		if !wait.For(ctx, time.Hour) || time.Since(began) != time.Hour {
			t.Errorf("a wait of an hour ends after %v, or fails", time.Since(began))
		}
		if !wait.For(ctx, 0) || !wait.For(ctx, -time.Second) {
			t.Error("a wait of nothing fails")
		}
		time.AfterFunc(time.Minute, cancel)
		began = time.Now()
		if wait.For(ctx, time.Hour) || time.Since(began) != time.Minute {
			t.Errorf("a wait whose context ends after a minute ends after %v, or succeeds", time.Since(began))
		}
		if wait.For(ctx, 0) || wait.For(ctx, time.Hour) || time.Since(began) != time.Minute {
			t.Error("a wait succeeds, or takes a while, after its context has ended")
		}
	})
}
