package client

import (
	"encoding/json"
	"time"
)

// Occurrences lists occurrences of a schedule, in the order of their numbers.
type Occurrences struct {
	Next []NextOccurrence `json:"next"` // coming ones, by the rule as it is now
	Last []LastOccurrence `json:"last"` // all that run or wait, and the last few that have ended or did not run
}

// NextOccurrence is a coming occurrence. Its number changes if another one is made before it.
type NextOccurrence struct {
	Number    uint64      `json:"number"`
	Due       time.Time   `json:"due"`       // Scheduled with the jitter
	Scheduled time.Time   `json:"scheduled"` // the instant of the rule
	Local     time.Time   `json:"local"`     // Scheduled with the offset of the rule's zone
	Change    ClockChange `json:"clock_change,omitempty"`
}

// LastOccurrence is an occurrence that has begun, waits or was passed over.
type LastOccurrence struct {
	Number    uint64          `json:"number"`
	Count     uint64          `json:"count,omitempty"` // of consecutive occurrences that passed for one reason; 0: one
	Scheduled time.Time       `json:"scheduled"`       // the instant of the rule or of the call; of the first
	Origin    Origin          `json:"origin"`
	State     OccurrenceState `json:"state"`
	Why       PassReason      `json:"why,omitempty"` // with OccurrencePassed
	BeganAt   time.Time       `json:"began_at,omitzero"`
	Late      time.Duration   `json:"-"` // how long after its due time it began
	Attempts  int             `json:"attempts,omitempty"`
	Error     string          `json:"error,omitempty"` // of the last attempt; empty: it was delivered
	EndedAt   time.Time       `json:"ended_at,omitzero"`
}

// OccurrenceState is the state of an occurrence in the list of a schedule.
type OccurrenceState string

// The states of occurrences.
const (
	OccurrenceWaiting   OccurrenceState = "waiting" // for the end of those that run
	OccurrenceRunning   OccurrenceState = "running" // its task is not finished
	OccurrenceDelivered OccurrenceState = "delivered"
	OccurrenceDead      OccurrenceState = "dead"
	OccurrenceCancelled OccurrenceState = "cancelled"
	OccurrencePassed    OccurrenceState = "passed" // it did not run
)

// Origin is the reason for an occurrence.
type Origin string

// The reasons for occurrences.
const (
	OriginRule     Origin = "rule"
	OriginCall     Origin = "call" // FireSchedule
	OriginBackfill Origin = "backfill"
)

// PassReason is the reason why an occurrence did not run.
type PassReason string

// The reasons why occurrences did not run.
const (
	PassedOverlap   PassReason = "overlap"   // an earlier one was running, or as many were waiting as may
	PassedMissed    PassReason = "missed"    // the service could not begin it in time, and Misfire skips such ones
	PassedCoalesced PassReason = "coalesced" // missed, and a later one stands for it
	PassedByCall    PassReason = "call"      // SkipOccurrence
	PassedReplaced  PassReason = "replaced"  // a later one took its place while it waited
)

// plainOccurrence has the members of a LastOccurrence except late.
type plainOccurrence LastOccurrence

type occurrenceJSON struct {
	*plainOccurrence
	Late span `json:"late,omitempty"`
}

// MarshalJSON writes the occurrence as the service does.
func (o LastOccurrence) MarshalJSON() ([]byte, error) {
	return json.Marshal(occurrenceJSON{(*plainOccurrence)(&o), span(o.Late)})
}

// UnmarshalJSON reads an occurrence as the service writes it.
func (o *LastOccurrence) UnmarshalJSON(data []byte) error {
	v := occurrenceJSON{plainOccurrence: (*plainOccurrence)(o)}
	err := json.Unmarshal(data, &v)
	o.Late = time.Duration(v.Late)
	return err
}
