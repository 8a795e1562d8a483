package workload

import (
	"crypto/rand"
	"strconv"
	"strings"
	"time"

	"github.com/belfryhq/belfry/bench/subject"
)

// ids are those of a set of tasks, of 24 bytes each: a random word, a dash, and which of them it is.
type ids string

const idDigits = 11

func newIDs() ids { return ids(strings.ToLower(rand.Text()[:12]) + "-") }

func (p ids) id(i int) string {
	digits := strconv.Itoa(i)
	return string(p) + "00000000000"[:idDigits-len(digits)] + digits
}

// index is the opposite of id; false for what is none of these.
func (p ids) index(id string) (int, bool) {
	digits, ok := strings.CutPrefix(id, string(p))
	if !ok || len(digits) != idDigits {
		return 0, false
	}
	i, err := strconv.Atoi(digits)
	return i, err == nil
}

// newPayload is a JSON string of this many bytes, two at least, that does not shrink when it is compressed.
func newPayload(size int) []byte {
	random := strings.Builder{}
	for random.Len() < size {
		random.WriteString(rand.Text())
	}
	return []byte(`"` + random.String()[:max(0, size-2)] + `"`)
}

// farOff makes tasks that no workload lives to see: due a day from now, a millisecond after each other.
func farOff(p ids, payload []byte) func(i int) subject.Task {
	first := time.Now().Truncate(time.Millisecond).Add(24 * time.Hour)
	return func(i int) subject.Task {
		return subject.Task{ID: p.id(i), Due: first.Add(time.Duration(i) * time.Millisecond), Payload: payload}
	}
}
