package httpapi

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

const keyHeader = "Idempotency-Key"

func checkKey(name, key string) error {
	if key == "" || len(key) > task.MaxKeyBytes {
		return &task.FieldError{Field: name, Detail: fmt.Sprintf("is %d bytes long", len(key)),
			Limit: fmt.Sprintf("1 to %d bytes", task.MaxKeyBytes)}
	}
	return nil
}

func keyHash(key string) uint64 { return xxhash.Sum64String(key) }

// generatedID returns the id of a task that POST creates in a namespace, empty for the default one: derived from the
// key, so that a repeat finds the same task, or else random. Both have 128 bits, so that two never collide. A key makes
// another id in each namespace.
func generatedID(namespace, key string, keyed bool) string {
	var raw [16]byte
	if keyed {
		if namespace != "" {
			key = namespace + "\x00" + key
		}
		sum := sha256.Sum256([]byte(key))
		copy(raw[:], sum[:])
	} else {
		_, _ = rand.Read(raw[:]) // never fails: crypto/rand ends the process instead
	}
	const alphabet = "abcdefghijklmnopqrstuvwxyz234567"
	return "t-" + base32.NewEncoding(alphabet).WithPadding(base32.NoPadding).EncodeToString(raw[:])
}

// callHash returns a hash of a call's meaning: of the encoding of its command, without the values that may differ
// between the call and its repeat. jitterMs is the jitter that the caller asked for.
//
// The numbers of the fields are part of the data format: keys outlive the process.
func callHash(c *fsmpb.Command, jitterMs int64) uint64 {
	defer setAside(c.Op)()
	meaning := encoded(&fsmpb.Command{Id: c.Id, Condition: c.Condition, Op: c.Op})
	if jitterMs > 0 {
		meaning = binary.LittleEndian.AppendUint64(meaning, uint64(jitterMs))
	}
	return xxhash.Sum64(meaning)
}

// meaningHash returns the hash of a call about a task or a schedule whose command depends on more than the call.
func meaningHash(c *fsmpb.Command, meaning []byte) uint64 {
	return xxhash.Sum64(append(encoded(&fsmpb.Command{Id: c.Id, Condition: c.Condition}), meaning...))
}

// encoded returns the encoding of a message, the same for equal messages.
func encoded(m interface{ MarshalVT() ([]byte, error) }) []byte {
	data, err := m.MarshalVT()
	if err != nil {
		panic(fmt.Sprintf("httpapi: a %T cannot be encoded: %v", m, err))
	}
	return data
}

// setAside clears the values of an operation that may differ between a call and its repeat: the time of receipt, the
// trace, and the instant that a delay leads to. It returns a function that puts them back.
func setAside(operation any) (restore func()) {
	switch op := operation.(type) {
	case *fsmpb.Command_Schedule:
		return setScheduleAside(op.Schedule)
	case *fsmpb.Command_Touch:
		received, restoreInner := op.Touch.ReceivedAtMs, setScheduleAside(op.Touch.OrSchedule)
		op.Touch.ReceivedAtMs = 0
		return func() { op.Touch.ReceivedAtMs = received; restoreInner() }
	case *fsmpb.Command_Patch:
		if at := op.Patch.FireAtMs; op.Patch.DelayMs != nil {
			op.Patch.FireAtMs = nil
			return func() { op.Patch.FireAtMs = at }
		}
	case *fsmpb.Command_SetSeries:
		received := op.SetSeries.ReceivedAtMs
		op.SetSeries.ReceivedAtMs = 0
		return func() { op.SetSeries.ReceivedAtMs = received }
	}
	return func() {}
}

func setScheduleAside(s *fsmpb.Schedule) (restore func()) {
	if s == nil {
		return func() {}
	}
	at, received, trace := s.FireAtMs, s.ReceivedAtMs, s.Spec.Traceparent
	if s.DelayMs != nil {
		s.FireAtMs = 0
	}
	s.ReceivedAtMs, s.Spec.Traceparent = 0, ""
	return func() { s.FireAtMs, s.ReceivedAtMs, s.Spec.Traceparent = at, received, trace }
}
