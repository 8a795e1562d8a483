package imports

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"iter"
	"strings"

	"github.com/belfryhq/belfry/client"
)

// Source is another scheduler, or a file, whose tasks are imported.
type Source interface {
	// Records yields the records in an order that repeats share. Records that an earlier move has claimed come first. A
	// record that cannot be converted has an Err, and an error of the source ends the sequence. Callers keep no record
	// for longer than the next call of a method of the source.
	Records(ctx context.Context) iter.Seq2[Record, error]
}

// Mover is a Source whose records can leave it while its workers take others.
type Mover interface {
	Source
	// Claim hides records from the source's workers, and reports for each whether the source still had it unchanged.
	// Records that were not there stay as they are.
	Claim(ctx context.Context, records []Record) (had []bool, err error)
	// Finish deletes claimed records.
	Finish(ctx context.Context, records []Record) error
	// GiveBack returns claimed records to the source's workers.
	GiveBack(ctx context.Context, records []Record) error
}

// Record is a task, or a schedule, of a Source.
type Record struct {
	Key      string           // names the record in its source: "line 7", "bull:emails:42"
	Task     client.Task      // with an ID and FireAt
	Schedule *client.Schedule // takes the place of Task; nil: the record is a task
	Err      error            // why the record cannot be converted; ErrGone: the source has it no longer
	Text     string           // the record in the words of its source, for people
	Claimed  bool             // an earlier move has claimed the record
	Origin   any              // belongs to the source
}

// ErrGone is the Err of a record that the source has no longer: a worker took it while it was read.
var ErrGone = errors.New("the source has it no longer")

// id returns the id of the record's task or schedule; empty: it has none.
func (r *Record) id() string {
	if r.Schedule != nil {
		return r.Schedule.ID
	}
	return r.Task.ID
}

const maxID = 200 // bytes, as in the API

// StableID returns the id for the record with a key, the same at each import: the prefix and the key, or the prefix and
// a hash of the key if an id cannot have its characters or its length.
func StableID(prefix, key string) string {
	if id := prefix + key; isID(id) {
		return id
	}
	sum := sha256.Sum256([]byte(key))
	return prefix + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:20]))
}

// isID reports whether the API takes a text as an id.
func isID(text string) bool {
	alphanumeric := func(c rune) bool { return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }
	for i, c := range text {
		if !alphanumeric(c) && (i == 0 || !strings.ContainsRune("._:~-", c)) {
			return false
		}
	}
	return text != "" && len(text) <= maxID
}
