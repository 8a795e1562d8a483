package listen

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/deploy/receiver"
)

func arrival(attempt int) receiver.Arrival {
	at := time.Date(2026, 11, 21, 10, 0, 0, 251.5e6, time.UTC)
	return receiver.Arrival{
		At: at, Due: at.Add(-1500 * time.Microsecond), TaskID: "order-1", WebhookID: "w1", Attempt: attempt, Fence: 7,
		Header: http.Header{"Webhook-Id": {"w1"}, "Belfry-Attempt": {"1"}}, Body: []byte(`{"n": 1}`),
	}
}

func TestText(t *testing.T) {
	want := `10:00:00.251  order-1  attempt 1  1.5 ms late  answered 200
    belfry-attempt: 1
    webhook-id: w1
    {"n": 1}

`
	if got := text(arrival(1), 200); got != want {
		t.Errorf("got\n%s", got)
	}
}

func TestTextOfStrangers(t *testing.T) {
	a := arrival(1)
	a.Due = a.At.Add(2 * time.Millisecond)
	a.TaskID = "x\x1b[2J"
	a.Body = bytes.Repeat([]byte("é"), maxShown)
	got := text(a, 200)
	for _, want := range []string{`"x\x1b[2J"`, "2.0 ms EARLY", "… (2000 bytes)"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	a.Due = time.Time{}
	if got := text(a, 200); !strings.Contains(got, "no due time") {
		t.Errorf("got\n%s", got)
	}
}

func TestJSON(t *testing.T) {
	var out bytes.Buffer
	p := &printer{cfg: Config{JSON: true, Out: &out}}
	p.say("not for machines")
	p.show(arrival(2), 500)
	var got map[string]any
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	if got["lateness_ms"] != 1.5 || got["status"] != 500.0 || got["body"] != `{"n": 1}` || got["attempt"] != 2.0 {
		t.Errorf("%v", got)
	}
}

func TestFirstAttemptsFail(t *testing.T) {
	p := &printer{cfg: Config{Fail: 2, Status: 204, Out: io.Discard}}
	for attempt, want := range map[int]int{1: 500, 2: 500, 3: 204} {
		if got := p.take(t.Context(), arrival(attempt)); got != want {
			t.Errorf("attempt %d: %d, want %d", attempt, got, want)
		}
	}
	p.cfg.Fail = 0
	if got := p.take(t.Context(), arrival(0)); got != 204 {
		t.Errorf("without --fail: %d", got)
	}
}

func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &printer{cfg: Config{Delay: time.Minute, Out: io.Discard}}
		start := time.Now()
		p.take(t.Context(), arrival(1))
		if took := time.Since(start); took != time.Minute {
			t.Errorf("answered after %v", took)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		p.take(ctx, arrival(1))
		if took := time.Since(start); took != time.Minute {
			t.Errorf("the end did not cut the delay: %v", took)
		}
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
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, r) }()
	url := strings.TrimSpace(strings.TrimPrefix(string(line[:n]), "listening on "))
	resp, err := http.Post(url, "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("answered %d", resp.StatusCode)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestRunRefuses(t *testing.T) {
	for _, cfg := range []Config{{Fail: -1}, {Delay: -1}, {Status: 99}, {Addr: "nowhere"}} {
		if err := Run(t.Context(), cfg); err == nil {
			t.Errorf("took %+v", cfg)
		}
	}
}
