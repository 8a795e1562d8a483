package chaos_test

import (
	"encoding/json"
	"net/http"
)

// putQueue keeps the target of a queue. Every group keeps its order.
func (f *fake) putQueue(name string, body []byte) reply {
	var in struct {
		Target fakeTarget `json:"target"`
	}
	if json.Unmarshal(body, &in) != nil {
		return reply{status: http.StatusBadRequest}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.targets[name] = in.Target
	return reply{status: http.StatusOK, body: map[string]string{"name": name}}
}

// hasTurn reports whether a due task may be attempted: no other task of its group has begun or is due earlier. The
// caller holds f.mu.
func (f *fake) hasTurn(t *fakeTask) bool {
	if t.Group == "" || f.bug == crowdsGroups || t.begun() {
		return true
	}
	for _, other := range f.tasks {
		if other == t || other.Group != t.Group || other.finished() {
			continue
		}
		if other.begun() || other.FireAt.Before(t.FireAt) && f.bug != mixesGroups {
			return false
		}
	}
	return true
}

// passTurns looks again at the tasks that wait for their groups. The caller holds f.mu.
func (f *fake) passTurns() {
	for _, t := range f.held {
		armed := t.armed
		f.after(0, func() { f.fire(t, armed) })
	}
	f.held = nil
}
