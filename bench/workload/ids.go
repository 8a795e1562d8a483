package workload

import (
	"crypto/rand"
	"strconv"
	"strings"
	"time"

	"github.com/belfryhq/belfry/bench/subject"
)

// ids are the ids of a set of tasks. An id has 24 bytes: a random word of the set, a dash, and the number of the task.
type ids string

const idDigits = 11

func newIDs() ids { return ids(strings.ToLower(rand.Text()[:12]) + "-") }

func (p ids) id(i int) string {
	digits := strconv.Itoa(i)
	return string(p) + "00000000000"[:idDigits-len(digits)] + digits
}

// index is the inverse of id. It returns false for an id of another set.
func (p ids) index(id string) (int, bool) {
	digits, ok := strings.CutPrefix(id, string(p))
	if !ok || len(digits) != idDigits {
		return 0, false
	}
	i, err := strconv.Atoi(digits)
	return i, err == nil
}

// newPayload returns a JSON string of size bytes, at least two, that does not compress.
func newPayload(size int) []byte {
	random := strings.Builder{}
	for random.Len() < size {
		random.WriteString(rand.Text())
	}
	return []byte(`"` + random.String()[:max(0, size-2)] + `"`)
}

// farOff returns tasks that are due after the end of the workload: in a day, one millisecond apart.
func farOff(p ids, payload []byte) func(i int) subject.Task {
	first := time.Now().Truncate(time.Millisecond).Add(24 * time.Hour)
	return func(i int) subject.Task {
		return subject.Task{ID: p.id(i), Due: first.Add(time.Duration(i) * time.Millisecond), Payload: payload}
	}
}
