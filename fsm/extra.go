package fsm

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

// setExtra writes an extra into a task's cold part, and counts its use of the manner.
func (s *state) setExtra(c *cold, e *fsmpb.Extra) {
	c.manner, c.extra = 0, nil
	own := &fsmpb.Extra{Traceparent: e.Traceparent, Target: e.Target}
	if hasManner(e) {
		manner := mustMarshal(&fsmpb.Extra{
			ContentType: e.ContentType, Retry: e.Retry, ExpiresAfterMs: e.ExpiresAfterMs, Labels: e.Labels,
		})
		c.manner = s.manners.acquire(string(manner), func() *fsmpb.Extra { return mustReadExtra(manner) })
		if c.manner == 0 {
			own = e
		}
	}
	if hasManner(own) || own.Traceparent != "" || own.Target != nil {
		c.extra = mustMarshal(own)
	}
}

// extraOf returns all of a task's extra, which is to be read only.
func (s *state) extraOf(c *cold) *fsmpb.Extra {
	var manner *fsmpb.Extra
	if c.manner != 0 {
		manner = s.manners.entries[c.manner].value
	}
	switch {
	case len(c.extra) == 0 && manner == nil:
		return noExtra
	case len(c.extra) == 0:
		return manner
	}
	extra := mustReadExtra(c.extra)
	if manner != nil {
		extra.ContentType, extra.Retry = manner.ContentType, manner.Retry
		extra.ExpiresAfterMs, extra.Labels = manner.ExpiresAfterMs, manner.Labels
	}
	return extra
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

// forgetExpiry lets a task be begun at any time.
func (s *state) forgetExpiry(h handle) {
	c := readCold(s.blobs.Get(s.tasks.Read(h).cold))
	extra := s.extraOf(&c)
	if extra.ExpiresAfterMs == 0 {
		return
	}
	s.rewriteCold(h, func(c *cold) {
		before := c.manner
		s.setExtra(c, &fsmpb.Extra{
			ContentType: extra.ContentType, Retry: extra.Retry, Labels: extra.Labels, Traceparent: extra.Traceparent,
			Target: extra.Target,
		})
		s.manners.release(before)
	})
}
