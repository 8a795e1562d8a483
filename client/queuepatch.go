package client

import "time"

// QueuePatch is a change to a queue's policy. Zero fields are left as they are; Clear brings defaults back.
type QueuePatch struct {
	Target       *Target // its zero fields are left; headers are merged, and one with an empty value removed
	Retry        *Retry  // its zero fields are left
	MaxInFlight  int
	MaxPerSecond float64
	BatchMax     int
	Paused       *bool
	KeepDone     time.Duration
	KeepDead     time.Duration
	Secrets      []string // swapped whole
	// Clear names fields to set back, dotted where they are inside another: "target", "retry.max_attempts", "signing".
	Clear []string
}

// fields is the merge patch of RFC 7396.
func (p QueuePatch) fields() (map[string]any, error) {
	m := map[string]any{}
	if p.Target != nil {
		m["target"] = p.Target.patch()
	}
	if p.Retry != nil {
		m["retry"] = p.Retry.patch()
	}
	setNumber(m, "max_in_flight", p.MaxInFlight)
	setNumber(m, "max_per_second", p.MaxPerSecond)
	setNumber(m, "batch_max", p.BatchMax)
	if p.Paused != nil {
		m["paused"] = *p.Paused
	}
	setDuration(m, "keep_done", p.KeepDone)
	setDuration(m, "keep_dead", p.KeepDead)
	if p.Secrets != nil {
		m["signing"] = map[string]any{"secrets": p.Secrets}
	}
	return m, clearFields(m, p.Clear)
}
