package store

import (
	"fmt"

	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// Many tasks have the same manner: content type, retry policy, expiry, labels. It is kept once for all of them, as long
// as there are not too many different ones. Replicas share different manners, so that neither the state hash nor a
// tombstone's size may depend on the sharing.

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

// ForgetExpiry lets the task be begun at any time.
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
