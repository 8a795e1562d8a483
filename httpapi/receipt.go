package httpapi

import (
	"encoding/base64"
	"encoding/binary"
	"errors"

	"github.com/cespare/xxhash/v2"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// receipt names one lease: whoever holds it may end or extend that lease, as long as it lasts. It is no secret and
// gives no right that the queue's consumers do not have; the checksum is there for torn and mixed-up ones.
type receipt struct {
	namespace, queue, id string
	fence, occurrence    uint64
}

// A receipt is base64url of: the version (one byte), four bytes of a checksum over the rest, fence and occurrence as
// varints, then namespace and queue with their lengths (a byte each), and the id. The default namespace is left out.
const (
	receiptVersion = 1
	receiptHead    = 1 + 4
)

var errReceipt = errors.New("is not a receipt as a lease gives them")

func receiptOf(t *fsmpb.Task) receipt {
	r := receipt{namespace: t.Namespace, queue: orElse(t.Spec.GetQueue(), task.DefaultQueue), id: t.Id,
		fence: t.Fence, occurrence: t.Occurrence}
	if r.namespace == "" {
		r.namespace = task.DefaultNamespace
	}
	return r
}

func (r receipt) append(b []byte) []byte {
	var room [256]byte
	raw := append(room[:0], receiptVersion, 0, 0, 0, 0)
	raw = binary.AppendUvarint(raw, r.fence)
	raw = binary.AppendUvarint(raw, r.occurrence)
	namespace := r.namespace
	if namespace == task.DefaultNamespace {
		namespace = ""
	}
	raw = append(append(raw, byte(len(namespace))), namespace...)
	raw = append(append(raw, byte(len(r.queue))), r.queue...)
	raw = append(raw, r.id...)
	binary.BigEndian.PutUint32(raw[1:], uint32(xxhash.Sum64(raw[receiptHead:])))
	return base64.RawURLEncoding.AppendEncode(b, raw)
}

// parseReceipt reads what append wrote, and nothing else.
func parseReceipt(text string) (receipt, error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) < receiptHead || raw[0] != receiptVersion ||
		binary.BigEndian.Uint32(raw[1:]) != uint32(xxhash.Sum64(raw[receiptHead:])) {
		return receipt{}, errReceipt
	}
	f := &receiptFields{rest: raw[receiptHead:], ok: true}
	r := receipt{fence: f.number(), occurrence: f.number(), namespace: f.text(), queue: f.text(), id: string(f.rest)}
	if r.namespace == "" {
		r.namespace = task.DefaultNamespace
	}
	for _, name := range []string{r.namespace, r.queue, r.id} {
		f.ok = f.ok && task.CheckName("receipt", name) == nil
	}
	if !f.ok || string(r.append(nil)) != text { // one lease, one spelling
		return receipt{}, errReceipt
	}
	return r, nil
}

// receiptFields takes fields off the front of a receipt until one is torn.
type receiptFields struct {
	rest []byte
	ok   bool
}

func (f *receiptFields) number() uint64 {
	n, size := binary.Uvarint(f.rest)
	if size <= 0 {
		f.ok, f.rest = false, nil
		return 0
	}
	f.rest = f.rest[size:]
	return n
}

func (f *receiptFields) text() string {
	if len(f.rest) == 0 || len(f.rest)-1 < int(f.rest[0]) {
		f.ok, f.rest = false, nil
		return ""
	}
	n := 1 + int(f.rest[0])
	text := string(f.rest[1:n])
	f.rest = f.rest[n:]
	return text
}
