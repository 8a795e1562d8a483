package store

import (
	"fmt"

	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// The manner of a task is its content type, retry policy, expiry and labels. Many tasks have the same manner, so the
// store keeps each manner once, up to a bound. Replicas share different manners, so neither the state hash nor the
// size of a tombstone may depend on the sharing.

var noExtra = &fsmpb.Extra{} // never written to

func hasManner(e *fsmpb.Extra) bool {
	return e.ContentType != "" || e.Retry != nil || e.ExpiresAfterMs != 0 || len(e.Labels) > 0
}

func mustReadExtra(b []byte) *fsmpb.Extra {
	var extra fsmpb.Extra
	if err := extra.UnmarshalVT(b); err != nil {
		panic(fmt.Sprintf("fsm: a blob of this process cannot be read: %v", err))
	}
	return &extra
}

// extraBytes returns the size of an extra without its target, shared parts included.
func extraBytes(e *fsmpb.Extra) int {
	untargeted := fsmpb.Extra{
		ContentType: e.ContentType, Retry: e.Retry, ExpiresAfterMs: e.ExpiresAfterMs, Labels: e.Labels,
		Traceparent: e.Traceparent,
	}
	return untargeted.SizeVT()
}

// ForgetExpiry removes the task's expiry, so that an attempt may begin at any time.
func (e Edit) ForgetExpiry() {
	c := e.cold()
	extra := e.s.extraOf(&c)
	if extra.ExpiresAfterMs == 0 {
		return
	}
	e.rewriteCold(func(c *cold) {
		before := c.manner
		e.s.setExtra(c, &fsmpb.Extra{
			ContentType: extra.ContentType, Retry: extra.Retry, Labels: extra.Labels, Traceparent: extra.Traceparent,
			Target: extra.Target,
		})
		e.s.manners.release(before)
	})
}
