package fsm

import (
	"cmp"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// keysRemembered is how many of the last keyed calls that changed a task can be repeated.
const keysRemembered = 2

// recall answers a call whose key the task remembers: as it was answered then, or that the key was another call's.
// nil: the call is to be carried out.
func (m *Machine) recall(h handle, c *fsmpb.Command) *fsmpb.Result {
	if h == 0 || c.Key == nil {
		return nil
	}
	for _, k := range m.keysOf(m.tasks.Read(h)).Keys {
		switch {
		case k.Key.GetHash() != c.Key.Hash:
		case k.Key.GetCall() != c.Key.Call:
			return &fsmpb.Result{Code: fsmpb.Code_CODE_KEY_REUSED, Revision: m.revisionOf(h)}
		default:
			return m.repeat(h, k, c)
		}
	}
	return nil
}

// repeat gives the remembered answer again. What a schedule set is taken from the repeated call, which is the same one;
// what the service set, from memory. The other calls say only a part of the task: the rest of it is today's.
func (m *Machine) repeat(h handle, k *fsmpb.RememberedKey, c *fsmpb.Command) *fsmpb.Result {
	result := &fsmpb.Result{Code: k.Code, Revision: k.Revision, Previous: k.Previous, Outcome: k.Outcome, Repeated: true}
	m.answer(result, h, c.Answer)
	if t := result.Task; t != nil {
		if op, ok := c.Op.(*fsmpb.Command_Schedule); ok {
			t.Spec = proto.CloneOf(specOrEmpty(op.Schedule))
			t.Spec.Queue = cmp.Or(t.Spec.Queue, DefaultQueue)
		}
		t.Revision, t.State, t.Attempts = k.Revision, k.State, k.Attempts
		t.FireAtMs, t.CreatedAtMs = k.FireAtMs, k.CreatedAtMs
		t.NextAttemptAtMs, t.Outcome, t.LastError = k.NextAttemptAtMs, 0, k.LastError
		t.Occurrence = cmp.Or(k.Occurrence, k.Revision)
		t.WebhookId = webhookID(m.origin, t.Occurrence)
	}
	return result
}

// remember keeps a key with what its call did; the oldest one over keysRemembered is forgotten.
func (m *Machine) remember(h handle, key *fsmpb.Key, result *fsmpb.Result) {
	if key == nil || h == 0 {
		return
	}
	r := m.tasks.Read(h)
	keys := m.keysOf(r).Keys
	if len(keys) >= keysRemembered {
		keys = keys[len(keys)-keysRemembered+1:]
	}
	c := readCold(m.blobs.Get(r.cold))
	k := &fsmpb.RememberedKey{
		Key:         key,
		Code:        result.Code,
		Revision:    result.Revision,
		Previous:    result.Previous,
		Outcome:     result.Outcome,
		State:       fsmpb.State(r.state),
		FireAtMs:    m.fireAtOf(r),
		CreatedAtMs: c.created,
	}
	if c.occurrence != result.Revision {
		k.Occurrence = c.occurrence
	}
	if r.progress != 0 && result.Outcome == 0 {
		m.rememberProgress(k, r)
	}
	m.setKeys(h, &fsmpb.Remembered{Keys: append(keys[:len(keys):len(keys)], k)})
}

func (s *state) rememberProgress(k *fsmpb.RememberedKey, r *record) {
	p := s.progress.Read(r.progress)
	h := readHistory(s.blob(p.history))
	k.Attempts, k.LastError = p.attempts, h.lastError
	if r.is(fsmpb.State_STATE_RETRYING) {
		k.NextAttemptAtMs = r.Due()
	}
}

func (s *state) setKeys(h handle, keys *fsmpb.Remembered) {
	s.dropKeys(h)
	r := s.tasks.Write(h)
	r.keys = s.blobs.Put(mustMarshal(keys))
	s.sum += s.digestKeys(r, keys)
}

func (s *state) dropKeys(h handle) {
	r := s.tasks.Read(h)
	if r.keys == 0 {
		return
	}
	s.sum -= s.digestKeys(r, s.keysOf(r))
	s.blobs.Free(r.keys)
	s.tasks.Write(h).keys = 0
}

func (s *state) keysOf(r *record) *fsmpb.Remembered {
	var keys fsmpb.Remembered
	if err := proto.Unmarshal(s.blob(r.keys), &keys); err != nil {
		panic(fmt.Sprintf("fsm: remembered keys of this process cannot be read: %v", err))
	}
	return &keys
}
