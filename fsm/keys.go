package fsm

import (
	"cmp"
	"slices"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// keysRemembered is how many of the last keyed calls that changed a task can be repeated. Calls that found nothing to
// change, such as a cancel of a task that has fired, are remembered where there is room beside them.
const keysRemembered = 2

// Remembers tells whether the task of a call remembers the call's key: then it brings nothing that must be kept.
func (m *Machine) Remembers(c *fsmpb.Command) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := m.find(c.Namespace, c.Id)
	if h == 0 || c.Key == nil {
		return false
	}
	var kept [keysRemembered]remembered
	keys := m.keysOf(kept[:0], m.tasks.Read(h))
	return slices.ContainsFunc(keys, func(k remembered) bool { return k.hash == c.Key.Hash })
}

// recall answers a call whose key the task remembers: as it was answered then, or that the key was another call's.
// nil: the call is to be carried out.
func (m *Machine) recall(h handle, c *fsmpb.Command) *fsmpb.Result {
	if h == 0 || c.Key == nil {
		return nil
	}
	var kept [keysRemembered]remembered
	for _, k := range m.keysOf(kept[:0], m.tasks.Read(h)) {
		switch {
		case k.hash != c.Key.Hash:
		case k.call != c.Key.Call:
			return &fsmpb.Result{Code: fsmpb.Code_CODE_KEY_REUSED, Revision: m.revisionOf(h)}
		default:
			return m.repeat(h, &k, c)
		}
	}
	return nil
}

// repeat gives the remembered answer again. What a schedule set is taken from the repeated call, which is the same one;
// what the service set, from memory. The other calls say only a part of the task: the rest of it is today's.
func (m *Machine) repeat(h handle, k *remembered, c *fsmpb.Command) *fsmpb.Result {
	result := &fsmpb.Result{Code: k.code, Revision: k.revision, Previous: k.previous, Outcome: k.outcome, Repeated: true}
	m.answer(result, h, c.Answer)
	if t := result.Task; t != nil {
		if op, ok := c.Op.(*fsmpb.Command_Schedule); ok {
			t.Spec = copyOf(specOrEmpty(op.Schedule))
			t.Spec.Queue = cmp.Or(t.Spec.Queue, task.DefaultQueue)
		}
		t.Revision, t.State, t.Attempts = k.revision, k.state, k.attempts
		t.FireAtMs, t.CreatedAtMs = k.fireAt, k.created
		t.NextAttemptAtMs, t.Outcome, t.LastError = k.next, 0, k.lastError
		t.Occurrence = cmp.Or(k.occurrence, k.revision)
		t.WebhookId = webhookID(m.origin, t.Occurrence)
	}
	return result
}

// remember keeps a key with what its call did.
func (m *Machine) remember(h handle, key *fsmpb.Key, result *fsmpb.Result) {
	if key == nil || h == 0 {
		return
	}
	r := m.tasks.Read(h)
	c := m.headOf(r)
	if c.first.kept && c.occurrence == m.number {
		return // the call has made the task, which has its key already
	}
	var kept [keysRemembered + 1]remembered
	unchanged := result.Revision != m.number
	keys, ok := roomForKey(m.keysOf(kept[:0], r), unchanged)
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
		fireAt:   m.fireAtOf(r),
		created:  c.created,
	}
	if c.occurrence != result.Revision {
		k.occurrence = c.occurrence
	}
	if r.progress != 0 && result.Outcome == 0 {
		m.rememberProgress(&k, r)
	}
	m.setKeys(h, append(keys, k))
}

// roomForKey forgets the oldest key, if there is no room for one more. Those of calls that changed nothing go first,
// and another of those pushes out no call that did.
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

func (s *state) rememberProgress(k *remembered, r *record) {
	p := s.progress.Read(r.progress)
	h := readHistory(s.blob(p.history))
	k.attempts, k.lastError = p.attempts, h.lastError
	if r.is(fsmpb.State_STATE_RETRYING) {
		k.next = r.Due()
	}
}

// setKeys replaces what a task remembers.
func (s *state) setKeys(h handle, keys []remembered) {
	s.subtractKeys(h)
	s.putKeys(h, keys)
	s.addKeys(h)
}

// putKeys writes what a task remembers in place of what is written. A first key that is in the cold blob stays there,
// or goes.
func (s *state) putKeys(h handle, keys []remembered) {
	r := s.tasks.Write(h)
	c := s.headOf(r)
	var kept [1]remembered
	switch first := c.appendFirst(kept[:0], s.fireAtOf(r)); {
	case len(first) == 0:
	case len(keys) > 0 && keys[0] == first[0]:
		keys = keys[1:]
	default:
		s.rewriteCold(h, func(c *cold) { c.first = firstKey{} })
	}
	s.blobs.Free(r.keys)
	s.scratch = s.scratch[:0]
	for i := range keys {
		s.scratch = keys[i].appendTo(s.scratch, &c)
	}
	r.keys = s.blobs.Put(s.scratch)
}

// writeFirstOut takes the first key out of the cold blob. It is to be called before the task's instant changes.
func (s *state) writeFirstOut(h handle) {
	r := s.tasks.Read(h)
	if !s.headOf(r).first.kept {
		return
	}
	var kept [keysRemembered]remembered
	keys := s.keysOf(kept[:0], r)
	s.rewriteCold(h, func(c *cold) { c.first = firstKey{} })
	s.putKeys(h, keys)
}

// dropKeys forgets what a task remembers, but for a first key in its cold blob, which goes with that.
func (s *state) dropKeys(h handle) {
	s.subtractKeys(h)
	if r := s.tasks.Write(h); r.keys != 0 {
		s.blobs.Free(r.keys)
		r.keys = 0
	}
}

// addKeys adds what a task remembers to the state hash.
func (s *state) addKeys(h handle) { s.sum += s.keysDigest(h) }

// subtractKeys takes it out.
func (s *state) subtractKeys(h handle) { s.sum -= s.keysDigest(h) }

// keysDigest is 0 if a task remembers nothing.
func (s *state) keysDigest(h handle) uint64 {
	r := s.tasks.Read(h)
	var kept [keysRemembered]remembered
	keys := s.keysOf(kept[:0], r)
	if len(keys) == 0 {
		return 0
	}
	return s.digestKeys(r, keys)
}

// keysOf appends what a task remembers to keys.
func (s *state) keysOf(keys []remembered, r *record) []remembered {
	c := s.headOf(r)
	return readKeys(c.appendFirst(keys, s.fireAtOf(r)), s.blobs.Get(r.keys), &c)
}

// headOf is all that keys need of a task's cold blob.
func (s *state) headOf(r *record) coldHead {
	h, _ := readHead(s.blobs.Get(r.cold))
	return h
}
