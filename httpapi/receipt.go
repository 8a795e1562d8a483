package httpapi

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/labstack/echo/v4"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// receipt names one lease. Its holder may end or extend that lease while it lasts. Receipts are signed under the secret
// of the cluster: only the consumer that got the lease can name it, and any node can read the receipt.
type receipt struct {
	namespace, queue, id string
	fence, occurrence    uint64
}

// A receipt is base64url of the version (one byte), a tag over the rest, fence and occurrence as varints, namespace and
// queue with their lengths (one byte each), and the id. The default namespace is left out.
//
// The tag is the first 16 bytes of an HMAC-SHA256.
const (
	receiptVersion = 1
	receiptHead    = 1 + 16
)

var errReceipt = errors.New("is not a receipt as a lease gives them")

// receiptKey is the secret of the cluster under which receipts are signed.
type receiptKey []byte

// receiptKey returns the secret of receipts. A node that has just started may not know it yet.
func (s *consumerService) receiptKey() (receiptKey, error) {
	key := s.backend.ReceiptKey()
	if len(key) == 0 {
		return nil, &problem{
			kind: notReady, detail: "this node does not know the state of its cluster yet", committed: "no", retryAfter: 1,
		}
	}
	return key, nil
}

func receiptOf(t *fsmpb.Task) receipt {
	r := receipt{namespace: t.Namespace, queue: orElse(t.Spec.GetQueue(), task.DefaultQueue), id: t.Id,
		fence: t.Fence, occurrence: t.Occurrence}
	if r.namespace == "" {
		r.namespace = task.DefaultNamespace
	}
	return r
}

// append appends the receipt's text.
func (k receiptKey) append(b []byte, r receipt) []byte {
	var room [256]byte
	raw := room[:receiptHead]
	raw[0] = receiptVersion
	raw = binary.AppendUvarint(raw, r.fence)
	raw = binary.AppendUvarint(raw, r.occurrence)
	namespace := r.namespace
	if namespace == task.DefaultNamespace {
		namespace = ""
	}
	raw = append(append(raw, byte(len(namespace))), namespace...)
	raw = append(append(raw, byte(len(r.queue))), r.queue...)
	raw = append(raw, r.id...)
	k.tag(raw[1:receiptHead], raw[receiptHead:])
	return base64.RawURLEncoding.AppendEncode(b, raw)
}

// tag fills a receipt's tag over the rest of the receipt.
func (k receiptKey) tag(tag, rest []byte) {
	var room [sha256.Size]byte
	mac := hmac.New(sha256.New, k)
	mac.Write(rest)
	copy(tag, mac.Sum(room[:0]))
}

// parse reads a receipt. It accepts only the output of append with the same secret.
func (k receiptKey) parse(text string) (receipt, error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) < receiptHead {
		return receipt{}, errReceipt
	}
	f := &receiptFields{rest: raw[receiptHead:], ok: true}
	r := receipt{fence: f.number(), occurrence: f.number(), namespace: f.text(), queue: f.text(), id: string(f.rest)}
	if r.namespace == "" {
		r.namespace = task.DefaultNamespace
	}
	for _, name := range []string{r.namespace, r.queue} {
		f.ok = f.ok && task.CheckName("receipt", name) == nil
	}
	f.ok = f.ok && task.CheckTaskID("receipt", r.id) == nil
	// Each lease has one spelling. The comparison takes the same time for every wrong tag.
	if !f.ok || !hmac.Equal(k.append(nil, r), []byte(text)) {
		return receipt{}, errReceipt
	}
	return r, nil
}

// receiptFields reads fields from the front of a receipt, until one is torn.
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

// lane is the queue that a call's receipts must be of.
type lane struct {
	key              receiptKey
	namespace, queue string
}

func (s *consumerService) laneOf(c echo.Context) (lane, error) {
	key, err := s.receiptKey()
	return lane{key, callOf(c).namespace, c.Param("queue")}, err
}

// read reads a receipt. It returns the receipt of another queue too, with an error. A receipt of another namespace is
// as invalid as one that no lease gave.
func (l lane) read(text string) (receipt, error) {
	r, err := l.key.parse(text)
	switch {
	case err != nil:
		return r, noSuchLease(err.Error())
	case r.namespace != l.namespace:
		return receipt{}, noSuchLease(errReceipt.Error())
	case r.queue != l.queue:
		return r, noSuchLease(fmt.Sprintf("is of queue %q", r.queue))
	}
	return r, nil
}

// noSuchLease returns the problem for a receipt that never named a lease of the queue.
func noSuchLease(detail string) *problem {
	return &problem{kind: leaseNotFound, field: "receipt", detail: detail}
}

// settle returns the command that settles the receipt's lease.
func (r receipt) settle(verdict *fsmpb.Settle) *fsmpb.Command {
	verdict.Fence, verdict.Occurrence, verdict.Queue, verdict.Consumer = r.fence, r.occurrence, r.queue, true
	return &fsmpb.Command{Namespace: r.namespace, Id: r.id, Op: &fsmpb.Command_Settle{Settle: verdict}}
}

func (r receipt) extend(leaseMs int64) *fsmpb.Command {
	e := &fsmpb.Extend{Fence: r.fence, Occurrence: r.occurrence, Queue: r.queue, LeaseMs: leaseMs}
	return &fsmpb.Command{Namespace: r.namespace, Id: r.id, Op: &fsmpb.Command_Extend{Extend: e}}
}
