package client

import (
	"net/http"
	"strconv"

	"github.com/belfryhq/belfry/internal/contract"
)

// The limits of a chunk of a batch: large enough that a chunk's own cost is small per line, and small enough that a
// repeat of a chunk is cheap too.
const (
	maxChunkLines = 1000
	maxChunkBytes = 1 << 20
	ndjsonType    = "application/x-ndjson"
)

// longestLine is the largest number of bytes in a line, without its end. The service ends a batch at a longer line, and
// other callers' lines may follow it. So the client refuses such a line itself, with the service's error.
const longestLine = 512 << 10

// checkLine returns an error if a line of n bytes, without its end, is too long.
func checkLine(n int) error {
	if n <= longestLine {
		return nil
	}
	return &Error{
		Status: http.StatusRequestEntityTooLarge, Type: contract.ProblemPrefix + contract.TooLarge,
		Title: "The body or its payload is over the limit.", Detail: "the line is too long",
		Limit: strconv.Itoa(longestLine) + " bytes",
	}
}

// chunk is a part of a batch whose operations are sent together.
type chunk struct {
	c     *conn
	lines []line
	data  []byte        // of all lines, in order
	ends  []int         // where each line ends in data
	held  bool          // a lane may still hold lines of the chunk
	done  chan struct{} // capacity 1: filled when all lines have their last answer
}

func (c *conn) newChunk() *chunk {
	if k, ok := c.chunks.Get().(*chunk); ok {
		return k
	}
	return &chunk{c: c, done: make(chan struct{}, 1)}
}

// free ends the use of a chunk. A chunk whose lines a lane may hold, or that is very large, is not reused.
func (k *chunk) free() {
	if k.held || cap(k.data) > 2*maxChunkBytes {
		return
	}
	clear(k.lines)
	k.lines, k.data, k.ends = k.lines[:0], k.data[:0], k.ends[:0]
	k.c.chunks.Put(k)
}

func (k *chunk) full() bool { return len(k.lines) >= maxChunkLines || len(k.data) >= maxChunkBytes }

// addTask adds a schedule with a new key.
func (k *chunk) addTask(task *Task) {
	if task.ID == "" {
		task.ID = newID()
	}
	task.Payload = oneLine(task.Payload)
	data, err := appendTask(k.c.appendHead(k.data, "schedule", task.ID, &options{}), task)
	k.add("schedule", task.ID, data, err)
}

func (k *chunk) addOp(op *Op) {
	if op.id == "" && op.verb == "schedule" && op.opts.key == "" {
		op.id = newID()
	}
	data := append(k.c.appendHead(k.data, op.verb, op.id, &op.opts), op.fields...)
	k.add(op.verb, op.id, data, op.err)
}

// add adds a line, whose data lacks only its end. err is the error of encoding the line.
func (k *chunk) add(verb, id string, data []byte, err error) {
	k.lines = append(k.lines, line{verb: verb, id: id})
	if err == nil {
		err = checkLine(len(data) + len("}") - len(k.data))
	}
	if err == nil {
		k.data = append(data, "}\n"...)
	} else {
		k.lines[len(k.lines)-1].settle(Result{ID: id}, &unsendableError{err})
	}
	k.ends = append(k.ends, len(k.data))
}

// sendable returns the lines that could be encoded. No line is added afterwards.
func (k *chunk) sendable() []*line {
	todo := make([]*line, 0, len(k.lines))
	begin := 0
	for i := range k.lines {
		l := &k.lines[i]
		l.data, begin = k.data[begin:k.ends[i]], k.ends[i]
		if l.result.Err == nil {
			todo = append(todo, l)
		}
	}
	return todo
}
