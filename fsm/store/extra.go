package store

import (
	"fmt"

	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// Most of an extra is what many tasks say alike, their manner: content type, retry policy, expiry, labels. That is kept
// once for all of them, as long as there are not too many different ones. Which are shared differs between replicas, so
// that neither the state hash nor a tombstone's size may depend on it.

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

// saidBytes is how large an extra is but for its target, whatever of it is shared.
func saidBytes(e *fsmpb.Extra) int {
	said := fsmpb.Extra{
		ContentType: e.ContentType, Retry: e.Retry, ExpiresAfterMs: e.ExpiresAfterMs, Labels: e.Labels,
		Traceparent: e.Traceparent,
	}
	return said.SizeVT()
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
