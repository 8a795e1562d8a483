package store

import (
	"slices"

	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// keysRemembered is the largest number of keyed calls that a task can repeat: the last ones that changed it. A call
// that changed nothing, such as a cancel of a task that has fired, is remembered only if there is room beside these.
const keysRemembered = 2

// Recall returns the task's record of the call with this key, or nil if there is none.
func (t Task) Recall(key *fsmpb.Key) *fsmpb.RememberedKey {
	if t.h == 0 || key == nil {
		return nil
	}
	var kept [keysRemembered]remembered
	for _, k := range t.s.mem.keysOf(kept[:0], t.record()) {
		if k.hash == key.Hash {
			message := &keyMessage{}
			k.fill(&message.remembered, &message.key)
			return &message.remembered
		}
	}
	return nil
}

// Remember keeps a key with the result of its call, whose command had the given number. It runs after the call. The
// call has changed the task if the task's revision is that number, or a later one: a schedule takes numbers for its
// occurrences, too.
func (s *Store) Remember(t Task, key *fsmpb.Key, result *fsmpb.Result, number uint64) {
	if key == nil || t.h == 0 {
		return
	}
	r := t.record()
	c := s.mem.headOf(r)
	if c.first.kept && c.occurrence == s.Number {
		return // the call has made the task, which has the key already
	}
	var kept [keysRemembered + 1]remembered
	unchanged := result.Revision < number
	keys, ok := roomForKey(s.mem.keysOf(kept[:0], r), unchanged)
	if !ok {
		return
	}
	k := remembered{
		hash: key.Hash, call: key.Call, unchanged: unchanged,
		code:     result.Code,
		revision: result.Revision,
		previous: result.Previous,
		outcome:  result.Outcome,
		state:    fsmpb.State(r.state),
		fireAt:   s.mem.fireAtOf(r),
		created:  c.created,
	}
	if c.occurrence != result.Revision {
		k.occurrence = c.occurrence
	}
	if r.is(fsmpb.State_STATE_REPEATING) {
		k.next = int64(result.Number)
	} else if r.progress != 0 && result.Outcome == 0 {
		k.takeProgress(t)
	}
	if s.Moves.watch != nil {
		s.Moves.watch.lift(s, t.h)
		defer s.Moves.watch.land(s, t.h)
	}
	before := s.mem.heldBytes(r)
	s.sum -= s.mem.keysDigest(r)
	Edit{t}.putKeys(append(keys, k))
	s.sum += s.mem.keysDigest(r)
	if grown := s.mem.heldBytes(r) - before; grown != 0 {
		s.mem.queueOf(r).space.grow(r.state, grown) // the task is not lifted
	}
}

// roomForKey makes room for one more key. If there is none, it forgets the oldest key of a call that changed nothing,
// or else the oldest key. It reports false, and forgets no key, if the new call changed nothing and all others did
// change the task.
func roomForKey(keys []remembered, unchanged bool) (_ []remembered, ok bool) {
	if len(keys) < keysRemembered {
		return keys, true
	}
	oldest := slices.IndexFunc(keys, func(k remembered) bool { return k.unchanged })
	if oldest < 0 {
		if unchanged {
			return keys, false
		}
		oldest = 0
	}
	return slices.Delete(keys, oldest, oldest+1), true
}

// takeProgress records the progress of a task that has begun.
func (k *remembered) takeProgress(t Task) {
	k.attempts, k.lastError = t.Attempts(), t.history().lastError
	if t.State() == fsmpb.State_STATE_RETRYING {
		k.next = t.WaitsUntilMs()
	}
}

// putKeys writes keys in place of the task's. A first key in the cold blob stays there if keys begins with it, and is
// removed otherwise.
func (e Edit) putKeys(keys []remembered) {
	s, r := e.s, e.s.mem.tasks.Write(e.h)
	c := s.mem.headOf(r)
	var kept [1]remembered
	switch first := c.appendFirst(kept[:0], s.mem.fireAtOf(r)); {
	case len(first) == 0:
	case len(keys) > 0 && keys[0] == first[0]:
		keys = keys[1:]
	default:
		e.rewriteCold(func(c *cold) { c.first = firstKey{} })
	}
	s.mem.blobs.Free(r.keys)
	s.mem.scratch = s.mem.scratch[:0]
	for i := range keys {
		s.mem.scratch = keys[i].appendTo(s.mem.scratch, &c)
	}
	r.keys = s.mem.blobs.Put(s.mem.scratch)
}

// writeFirstOut moves the first key out of the cold blob. It must run before the task's due time changes.
func (e Edit) writeFirstOut() {
	if !e.head().first.kept {
		return
	}
	var kept [keysRemembered]remembered
	keys := e.s.mem.keysOf(kept[:0], e.record())
	e.rewriteCold(func(c *cold) { c.first = firstKey{} })
	e.putKeys(keys)
}

// dropKeys forgets the task's keys, except a first key in the cold blob. The first key goes with that blob.
func (e Edit) dropKeys() {
	e.s.sum -= e.s.mem.keysDigest(e.record())
	if r := e.s.mem.tasks.Write(e.h); r.keys != 0 {
		e.s.mem.blobs.Free(r.keys)
		r.keys = 0
	}
}
