package httpapi

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/internal/assert"
)

// testKey is the secret of receipts of the fake backend's cluster.
var testKey = receiptKey("0123456789abcdef0123456789abcdef")

func FuzzReceipt(f *testing.F) {
	f.Add(string(testKey.append(nil, receipt{namespace: "default", queue: "q", id: "a", fence: 300, occurrence: 7})))
	f.Add(string(testKey.append(nil, receipt{namespace: "n", queue: strings.Repeat("q", 200), id: strings.Repeat("i", 200)})))
	f.Add("?")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := testKey.parse(text)
		if err != nil {
			return
		}
		if back := string(testKey.append(nil, r)); back != text || len(text) > 700 {
			t.Fatalf("%q is another way to write %q", text, back)
		}
	})
}

// TestReceipts checks that a receipt is read as it was written, and that no changed receipt is accepted.
func TestReceipts(t *testing.T) {
	task := &fsmpb.Task{Id: strings.Repeat("i", 200), Fence: 1 << 63, Occurrence: 1<<64 - 1,
		Spec: &fsmpb.Spec{Queue: strings.Repeat("q", 200)}, Namespace: strings.Repeat("n", 200)}
	text := testKey.append(nil, receiptOf(task))
	want := receiptOf(task)
	if r, err := testKey.parse(string(text)); err != nil || r != want {
		t.Fatalf("%+v %v", r, err)
	}
	for i := range text {
		for _, c := range []byte("A_-.=\n\x00é") {
			torn := append([]byte(nil), text...)
			torn[i] = c
			if _, err := testKey.parse(string(torn)); err == nil && torn[i] != text[i] {
				t.Fatalf("byte %d may be %q", i, c)
			}
		}
		if _, err := testKey.parse(string(text[:i])); err == nil {
			t.Fatalf("%d bytes are enough", i)
		}
	}
}

// forgeries returns receipts for the lease of a task by a caller who knows all of the lease but the secret.
func forgeries(t *testing.T, lease receipt) map[string]string {
	t.Helper()
	right := testKey.append(nil, lease)
	raw, err := base64.RawURLEncoding.DecodeString(string(right))
	assert.NoError(t, err)
	clear(raw[1:receiptHead])
	return map[string]string{
		"without a secret":        string(receiptKey(nil).append(nil, lease)),
		"under another secret":    string(receiptKey("another").append(nil, lease)),
		"with an empty tag":       base64.RawURLEncoding.EncodeToString(raw),
		"of another version":      base64.RawURLEncoding.EncodeToString(append([]byte{receiptVersion + 1}, raw[1:]...)),
		"with the tag of another": string(testKey.append(nil, receipt{namespace: "default", queue: "q", id: "b"}))[:20] + string(right)[20:],
	}
}

// TestForgedReceipts checks that no verb settles a lease by a receipt that was made without the cluster's secret, in a
// call with one receipt, in one with many, and in a stream.
func TestForgedReceipts(t *testing.T) {
	h := newHarness(t)
	h.ready("q", "a")
	stream := h.stream(t, h.listen(), "")
	held, err := testKey.parse(h.lease("")[0].Receipt)
	assert.NoError(t, err)
	before, calls := proto.CloneOf(h.fake.tasks["a"]), len(h.fake.seen)
	for how, forged := range forgeries(t, held) {
		for _, verb := range []string{`"ack":[%[1]q]`, `"ack":[{"receipt":%[1]q},%[1]q]`, `"nack":[{"receipt":%[1]q}]`,
			`"nack":[{"receipt":%[1]q,"delay":"1s"},{"receipt":%[1]q}]`, `"extend":[{"receipt":%[1]q,"lease":"1h"}]`,
			`"release":[%[1]q]`, `"release":[%[1]q,{"receipt":%[1]q}]`} {
			body := "{" + fmt.Sprintf(verb, forged) + "}"
			results := h.settle(body)
			stream.say(body)
			for _, one := range append(results, stream.next().Settled...) {
				if one.Status != 404 || one.ID != "" || one.Outcome != "" {
					t.Errorf("%s, %s: %+v", how, verb, one)
				}
			}
		}
	}
	if !proto.Equal(before, h.fake.tasks["a"]) || len(h.fake.seen) != calls {
		t.Errorf("%v became %v by %v", before, h.fake.tasks["a"], h.fake.seen)
	}
	// The receipt itself holds, and its commands are bound to the queue.
	got := h.settle(fmt.Sprintf(`{"extend":[{"receipt":%q,"lease":"1h"}]}`, testKey.append(nil, held)))
	assert.Equal(t, got[0].Status, 200, "the receipt itself: %+v", got)
	got = h.settle(fmt.Sprintf(`{"ack":[%q]}`, testKey.append(nil, held)))
	assert.Equal(t, got[0].Status, 200, "the receipt itself: %+v", got)
	extend, ack := h.fake.seen[calls].GetExtend(), h.fake.seen[calls+1].GetSettle()
	if extend.GetQueue() != "q" || ack.GetQueue() != "q" {
		t.Errorf("%v and %v name another queue", extend, ack)
	}
}

// TestReceiptsOfAStrangeCluster checks that a node that does not know the secret yet neither leases tasks nor judges
// receipts.
func TestReceiptsOfAStrangeCluster(t *testing.T) {
	h := newHarness(t)
	h.ready("q", "a")
	h.fake.receiptKey = nil
	calls := len(h.fake.seen)
	for path, body := range map[string]string{
		"/v1/queues/q/lease": "{}", "/v1/queues/q/settle": `{"ack":["a"]}`, "/v1/queues/q/stream": "",
	} {
		if got := h.call("POST", path, body); got.StatusCode != 503 || !strings.Contains(got.text, "not-ready") {
			t.Errorf("%s: %d %s", path, got.StatusCode, got.text)
		}
	}
	if len(h.fake.seen) != calls {
		t.Errorf("commands %v", h.fake.seen[calls:])
	}
}
