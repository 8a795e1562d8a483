package listen

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/deploy/receiver"
	"github.com/belfryhq/belfry/internal/assert"
)

func arrival(attempt int) receiver.Arrival {
	at := time.Date(2026, 11, 21, 10, 0, 0, 251.5e6, time.UTC)
	return receiver.Arrival{
		At: at, Due: at.Add(-1500 * time.Microsecond), TaskID: "order-1", WebhookID: "w1", Attempt: attempt, Fence: 7,
		Header: http.Header{"Webhook-Id": {"w1"}, "Belfry-Attempt": {"1"}}, Body: []byte(`{"n": 1}`),
	}
}

func alone(attempt int) []receiver.Arrival { return []receiver.Arrival{arrival(attempt)} }

func TestText(t *testing.T) {
	want := `10:00:00.251  order-1  attempt 1  1.5 ms late  answered 200
    belfry-attempt: 1
    webhook-id: w1
    {"n": 1}

`
	if got := text(arrival(1), 200, ""); got != want {
		t.Errorf("got\n%s", got)
	}
}

func TestTextOfStrangers(t *testing.T) {
	a := arrival(1)
	a.Due = a.At.Add(2 * time.Millisecond)
	a.TaskID = "x\x1b[2J"
	a.Body = bytes.Repeat([]byte("é"), maxShown)
	got := text(a, 200, "")
	for _, want := range []string{`"x\x1b[2J"`, "2.0 ms EARLY", "… (2000 bytes)"} {
		assert.Contains(t, got, want)
	}
	a.Due = time.Time{}
	if got := text(a, 200, ""); !strings.Contains(got, "no due time") {
		t.Errorf("got\n%s", got)
	}
}

func TestJSON(t *testing.T) {
	var out bytes.Buffer
	p := &printer{cfg: Config{JSON: true, Out: &out}}
	p.say("not for machines")
	p.show([]receiver.Arrival{arrival(2)}, []int{500}, []string{"good"})
	var got map[string]any
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	if got["lateness_ms"] != 1.5 || got["status"] != 500.0 || got["signature"] != "good" || got["batch"] != nil || got["body"] != `{"n": 1}` || got["attempt"] != 2.0 {
		t.Errorf("%v", got)
	}
}

func TestFirstAttemptsFail(t *testing.T) {
	p := &printer{cfg: Config{Fail: 2, Status: 204, Out: io.Discard}}
	for attempt, want := range map[int]int{1: 500, 2: 500, 3: 204} {
		assert.Equal(t, p.take(t.Context(), alone(attempt))[0], want, "attempt %d", attempt)
	}
	p.cfg.Fail = 0
	assert.Equal(t, p.take(t.Context(), alone(0))[0], 204, "without --fail")
}

func TestBatchText(t *testing.T) {
	a := arrival(1)
	a.Header = http.Header{"Webhook-Id": {"batch_1"}, "Webhook-Signature": {"v1,x"}}
	a.Index, a.Of = 0, 2
	first := `10:00:00.251  order-1  attempt 1  1.5 ms late  not answered
    signature: good
    1 of 2 in batch_1
    webhook-id: batch_1
    webhook-signature: v1,x
    {"n": 1}

`
	if got := text(a, receiver.Hang, "good"); got != first {
		t.Errorf("got\n%s", got)
	}
	a.Index = 1
	second := `10:00:00.251  order-1  attempt 1  1.5 ms late  connection reset
    2 of 2 in batch_1
    {"n": 1}

`
	if got := text(a, receiver.Reset, ""); got != second {
		t.Errorf("got\n%s", got)
	}
}

func TestHowItFails(t *testing.T) {
	tests := map[string]struct {
		cfg  Config
		want [3]int // of the attempts 1, 2, 3
	}{
		"hangs always":  {Config{Hang: true}, [3]int{receiver.Hang, receiver.Hang, receiver.Hang}},
		"resets always": {Config{Reset: true}, [3]int{receiver.Reset, receiver.Reset, receiver.Reset}},
		"hangs twice":   {Config{Hang: true, Fail: 2}, [3]int{receiver.Hang, receiver.Hang, 200}},
		"resets once":   {Config{Reset: true, Fail: 1}, [3]int{receiver.Reset, 200, 200}},
	}
	for name, test := range tests {
		test.cfg.Status, test.cfg.Out = 200, io.Discard
		p := &printer{cfg: test.cfg}
		for i, want := range test.want {
			if got := p.take(t.Context(), alone(i+1))[0]; got != want {
				t.Errorf("%s: attempt %d: %d, want %d", name, i+1, got, want)
			}
		}
	}
}

// TestBatches checks that each event has its own status, and that a request is answered as a whole or not at all.
func TestBatches(t *testing.T) {
	batch := append(alone(1), arrival(2))
	for how, test := range map[string]struct {
		cfg  Config
		want []int
	}{
		"fails":  {Config{Fail: 1}, []int{500, 200}},
		"hangs":  {Config{Fail: 1, Hang: true}, []int{receiver.Hang, receiver.Hang}},
		"resets": {Config{Fail: 1, Reset: true}, []int{receiver.Reset, receiver.Reset}},
	} {
		test.cfg.Status, test.cfg.Out = 200, io.Discard
		p := &printer{cfg: test.cfg}
		assert.EqualSlices(t, p.take(t.Context(), batch), test.want, "%s", how)
	}
}

func TestSignatures(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	const secrets = "# of the queue mail\n\nwhsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD\nwhsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n"
	assert.NoError(t, os.WriteFile(file, []byte(secrets), 0o600))
	known, err := readSecrets(file)
	assert.NoError(t, err)
	a := arrival(1)
	a.At, a.Request = time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`)
	a.Header = http.Header{"Webhook-Id": {"msg_p5jXN8AQM9LWM0D4loKWxJek"}, "Webhook-Timestamp": {"1614265330"},
		"Webhook-Signature": {"v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="}}
	p := &printer{cfg: Config{Status: 200, Fail: 1}, secrets: known}
	if status, signature := p.judge(a); status != 500 || signature != "good" {
		t.Errorf("%d, %q", status, signature)
	}
	a.Request = nil
	if status, signature := p.judge(a); status != 401 || signature != receiver.ErrForged.Error() {
		t.Errorf("%d, %q", status, signature)
	}
}

func TestSecretFiles(t *testing.T) {
	for name, content := range map[string]string{"empty": "# none\n", "bad": "\nwhsec_%%secret"} {
		file := filepath.Join(t.TempDir(), name)
		assert.NoError(t, os.WriteFile(file, []byte(content), 0o600))
		err := Run(t.Context(), Config{Addr: "127.0.0.1:0", SecretFile: file, Out: io.Discard})
		if err == nil || strings.Contains(err.Error(), "%%secret") || name == "bad" && !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := Run(t.Context(), Config{SecretFile: filepath.Join(t.TempDir(), "none")}); err == nil {
		t.Error("took a file that is not there")
	}
}

func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &printer{cfg: Config{Delay: time.Minute, Out: io.Discard}}
		start := time.Now()
		p.take(t.Context(), append(alone(1), arrival(1)))
		assert.Equal(t, time.Since(start), time.Minute, "answered after")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		p.take(ctx, alone(1))
		assert.Equal(t, time.Since(start), time.Minute, "the end did not cut the delay")
	})
}

func TestRunListensUntilTheEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, Config{Addr: "127.0.0.1:0", Out: w}) }()
	line := make([]byte, 200)
	n, err := r.Read(line)
	assert.NoError(t, err)
	go func() { _, _ = io.Copy(io.Discard, r) }()
	url := strings.TrimSpace(strings.TrimPrefix(string(line[:n]), "listening on "))
	resp, err := http.Post(url, "application/json", strings.NewReader("{}"))
	assert.NoError(t, err)
	_ = resp.Body.Close()
	assert.Equal(t, resp.StatusCode, http.StatusOK, "answered")
	cancel()
	assert.Equal(t, <-ended, nil)
}

func TestRunRefuses(t *testing.T) {
	for _, cfg := range []Config{{Fail: -1}, {Delay: -1}, {Status: 99}, {Addr: "nowhere"}, {Hang: true, Reset: true}} {
		assert.Error(t, Run(t.Context(), cfg), "took %+v", cfg)
	}
}
