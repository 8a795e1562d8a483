package interop

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/belfryhq/belfry/delivery"
	"github.com/belfryhq/belfry/internal/assert"
)

// event is a CloudEvent as the SDK read it. Data is JSON.
type event struct {
	SpecVersion     string `json:"specversion"`
	ID              string `json:"id"`
	Type            string `json:"type"`
	Source          string `json:"source"`
	Subject         string `json:"subject"`
	Time            string `json:"time"`
	DataContentType string `json:"datacontenttype"`
	Data            string `json:"data"`
	Base64          []byte `json:"data_base64"`
	Attempt         int    `json:"belfryattempt"`
	Fence           string `json:"belfryfence"`
	Traceparent     string `json:"traceparent"`
}

// accepted is the receiver's answer to an accepted request.
type accepted struct {
	VerifiedBy string            `json:"verifiedBy"`
	Batch      bool              `json:"batch"`
	Headers    map[string]string `json:"headers"`
	Events     []event           `json:"events"`
}

// receiver is a running receiver.mjs.
type receiver struct {
	url   string // the tests append the name of a secret
	lines *bufio.Scanner
}

// start runs a receiver with these named secrets. It ends with the test.
func start(t *testing.T, secrets map[string]string) *receiver {
	t.Helper()
	known, err := json.Marshal(secrets)
	assert.NoError(t, err)
	node := exec.CommandContext(t.Context(), "node", "receiver.mjs")
	node.Env = append(os.Environ(), "SECRETS="+string(known))
	node.Stderr = os.Stderr
	stdin, err := node.StdinPipe()
	assert.NoError(t, err)
	stdout, err := node.StdoutPipe()
	assert.NoError(t, err)
	assert.NoError(t, node.Start())
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = node.Wait() // ended by the test's context, if not by its input
	})
	r := &receiver{lines: bufio.NewScanner(stdout)}
	r.lines.Buffer(nil, 16<<20)
	var listening struct{ Port int }
	r.next(t, &listening)
	r.url = fmt.Sprintf("http://127.0.0.1:%d/", listening.Port)
	return r
}

// next reads the receiver's next line.
func (r *receiver) next(t *testing.T, into any) {
	t.Helper()
	if !r.lines.Scan() {
		t.Fatalf("the receiver says nothing more: %v", r.lines.Err())
	}
	if err := json.Unmarshal(r.lines.Bytes(), into); err != nil {
		t.Fatalf("the receiver says %q: %v", r.lines.Bytes(), err)
	}
}

func (r *receiver) accepted(t *testing.T) accepted {
	t.Helper()
	var a accepted
	r.next(t, &a)
	return a
}

func newWebhook(t *testing.T) *delivery.Webhook {
	t.Helper()
	w, err := delivery.New(delivery.Config{
		AllowCIDRs:  []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
		IdleTimeout: time.Second, // well below Node's five
	})
	assert.NoError(t, err)
	t.Cleanup(w.Close)
	return w
}
