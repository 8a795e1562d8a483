package httpapi

import (
	"fmt"
	"math/bits"
	"unsafe"

	"github.com/belfryhq/belfry/fsm/task"
)

// field is a member that a body or a batch line can have.
type field uint8

const (
	fieldOp field = iota
	fieldID
	fieldKey
	fieldIfMatch
	fieldIfNoneMatch
	fieldQueue
	fieldFireAt
	fieldDelay
	fieldJitter
	fieldPayload
	fieldPayloadBase64
	fieldContentType
	fieldTarget
	fieldRetry
	fieldExpiresAfter
	fieldLabels
	fieldNoLaterThan
	fieldOrSchedule
	fieldUnknown
)

// fieldSet has a bit for each field.
type fieldSet uint32

func (s fieldSet) has(f field) bool { return s&(1<<f) != 0 }

// first is the first field of a set that is not empty.
func (s fieldSet) first() field { return field(bits.TrailingZeros32(uint32(s))) }

const (
	fieldsOfSpec = fieldSet(1<<fieldQueue | 1<<fieldPayload | 1<<fieldPayloadBase64 | 1<<fieldContentType |
		1<<fieldTarget | 1<<fieldRetry | 1<<fieldExpiresAfter | 1<<fieldLabels)
	fieldsOfTask  = fieldsOfSpec | 1<<fieldFireAt | 1<<fieldDelay | 1<<fieldJitter
	fieldsOfPut   = fieldsOfTask | 1<<fieldID
	fieldsOfTouch = fieldSet(1<<fieldDelay | 1<<fieldNoLaterThan | 1<<fieldOrSchedule)
	fieldsOfPatch = fieldSet(1<<fieldFireAt | 1<<fieldDelay | 1<<fieldPayload | 1<<fieldPayloadBase64 |
		1<<fieldContentType | 1<<fieldTarget | 1<<fieldRetry | 1<<fieldLabels)
	fieldsOfHead = fieldSet(1<<fieldOp | 1<<fieldID | 1<<fieldKey | 1<<fieldIfMatch | 1<<fieldIfNoneMatch)
	fieldsOfLine = fieldsOfHead | fieldsOfPut | fieldsOfTouch
)

func (f field) String() string {
	switch f {
	case fieldOp:
		return "op"
	case fieldID:
		return "id"
	case fieldKey:
		return "key"
	case fieldIfMatch:
		return "if_match"
	case fieldIfNoneMatch:
		return "if_none_match"
	case fieldQueue:
		return "queue"
	case fieldFireAt:
		return "fire_at"
	case fieldDelay:
		return "delay"
	case fieldJitter:
		return "jitter"
	case fieldPayload:
		return "payload"
	case fieldPayloadBase64:
		return "payload_base64"
	case fieldContentType:
		return "content_type"
	case fieldTarget:
		return "target"
	case fieldRetry:
		return "retry"
	case fieldExpiresAfter:
		return "expires_after"
	case fieldLabels:
		return "labels"
	case fieldNoLaterThan:
		return "no_later_than"
	case fieldOrSchedule:
		return "or_schedule"
	}
	return "unknown"
}

func fieldOf(name []byte) field {
	switch string(name) {
	case "op":
		return fieldOp
	case "id":
		return fieldID
	case "key":
		return fieldKey
	case "if_match":
		return fieldIfMatch
	case "if_none_match":
		return fieldIfNoneMatch
	case "queue":
		return fieldQueue
	case "fire_at":
		return fieldFireAt
	case "delay":
		return fieldDelay
	case "jitter":
		return fieldJitter
	case "payload":
		return fieldPayload
	case "payload_base64":
		return fieldPayloadBase64
	case "content_type":
		return fieldContentType
	case "target":
		return fieldTarget
	case "retry":
		return fieldRetry
	case "expires_after":
		return fieldExpiresAfter
	case "labels":
		return fieldLabels
	case "no_later_than":
		return fieldNoLaterThan
	case "or_schedule":
		return fieldOrSchedule
	}
	return fieldUnknown
}

// setByService tells whether an answer has this field and a request may not.
func setByService(name []byte) bool {
	switch string(name) {
	case "state", "attempts", "next_attempt_at", "last_error", "revision", "shard", "created_at", "webhook_id",
		"outcome", "previous", "history", "lease_ends_at", "receipt", "attempt", "fence":
		return true
	}
	return false
}

// admit finds the field that name means, and refuses what the call does not take or has had already.
func (s *fieldSet) admit(name []byte, allowed fieldSet) (field, error) {
	f := fieldOf(name)
	switch {
	case f == fieldUnknown && setByService(name):
		return f, &task.FieldError{Field: string(name), Detail: "is set by the service and cannot be sent"}
	case f == fieldUnknown:
		return f, &task.FieldError{Field: string(name), Detail: "is not a field that is known"}
	case !allowed.has(f) && allowed&^fieldsOfHead == fieldsOfPatch && fieldsOfPut.has(f):
		return f, &task.FieldError{Field: f.String(), Detail: "cannot be patched; PUT the task anew"}
	case !allowed.has(f):
		return f, notOfCall(f)
	case s.has(f):
		return f, twice(f.String())
	}
	*s |= 1 << f
	return f, nil
}

func notOfCall(f field) error {
	if f == fieldID {
		return &task.FieldError{Field: "id", Detail: "is not sent here: it stands in the path, or POST /v1/tasks makes one"}
	}
	return &task.FieldError{Field: f.String(), Detail: "is not a field of this call"}
}

func twice(name string) error { return &task.FieldError{Field: name, Detail: "is given twice"} }

// The next few read a member's value of one type, and name the field if it is of another.

// text reads a string, which mostly is a part of the scanned text itself: nobody writes into that any more.
func (s *scanner) text(name string) (string, error) {
	if s.peek() != '"' {
		return "", s.wrongType(name, "a string")
	}
	b, err := s.str()
	return unsafe.String(unsafe.SliceData(b), len(b)), err
}

func (s *scanner) members(name string, member func(name []byte) error) error {
	if s.peek() != '{' {
		return s.wrongType(name, "an object")
	}
	return s.object(member)
}

// wrongType refuses a value for its type, or, where there is no value at all, for its syntax.
func (s *scanner) wrongType(name, want string) error {
	if _, err := s.value(); err != nil {
		return err
	}
	return &task.FieldError{Field: name, Detail: fmt.Sprintf("must be %s", want)}
}

func (s *scanner) null() bool {
	if s.peek() != 'n' {
		return false
	}
	begin := s.pos
	if s.skipWord("null") != nil {
		s.pos = begin
		return false
	}
	return true
}
