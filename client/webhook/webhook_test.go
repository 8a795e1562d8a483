package webhook

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
)

// The constants are the published examples of Standard Webhooks.
const (
	secretA = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	secretB = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
	idA     = "msg_p5jXN8AQM9LWM0D4loKWxJek"
	stampA  = "1614265330"
	bodyA   = `{"test": 2432232314}`
	signedA = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	signedB = "v1,78nXHjpFP0tVJQW5D0SBwmVyyW87BV/rL6MgfM/Bw44="
)

var atA = time.Unix(1614265330, 0)

func verifier(t testing.TB, change func(*Config)) *Verifier {
	t.Helper()
	cfg := Config{Secrets: []string{secretA}, Now: func() time.Time { return atA }}
	if change != nil {
		change(&cfg)
	}
	v, err := New(cfg)
	assert.NoError(t, err)
	return v
}

// delivered returns the header of an attempt.
func delivered(id, stamp, signature string, fence uint64) http.Header {
	h := http.Header{}
	for name, value := range map[string]string{
		"webhook-id": id, "webhook-timestamp": stamp, "webhook-signature": signature, "ce-id": id, "ce-subject": "order-1042-close",
		"ce-source": "/v1/queues/orders", "ce-time": "2021-02-25T15:02:09.007Z", "belfry-attempt": "2",
		"belfry-fence": strconv.FormatUint(fence, 10), "content-type": "application/json",
	} {
		h.Set(name, value)
	}
	return h
}

func TestVerify(t *testing.T) {
	d, err := verifier(t, nil).Verify(t.Context(), delivered(idA, stampA, signedA, 1<<64-1), []byte(bodyA))
	assert.NoError(t, err)
	want := Event{ID: idA, Task: "order-1042-close", Source: "/v1/queues/orders", Attempt: 2, Fence: 1<<64 - 1,
		Due: time.Date(2021, 2, 25, 15, 2, 9, 7e6, time.UTC)}
	if d.ID != idA || !d.SentAt.Equal(atA) || d.Batch || string(d.Body) != bodyA || len(d.Events) != 1 || d.Events[0] != want {
		t.Errorf("%+v", d)
	}
}

func TestSignatures(t *testing.T) {
	for name, c := range map[string]struct {
		secrets              []string
		id, stamp, signature string
		body                 string
		right                bool
	}{
		"example":                     {[]string{secretA}, idA, stampA, signedA, bodyA, true},
		"another":                     {[]string{secretB}, "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk", "1649367553", "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=", `{"email":"test@example.com","username":"test_user"}`, true},
		"no body":                     {[]string{secretA}, "msg_1", "1", "v1,fUIsxxTK5tKgKbC2AwzF7wnOr3WsI1RCNgGdkLxy5PY=", "", true},
		"two secrets, signed by one":  {[]string{secretB, secretA}, idA, stampA, signedA, bodyA, true},
		"one secret, signed by two":   {[]string{secretA}, idA, stampA, signedB + " " + signedA, bodyA, true},
		"the other one of two":        {[]string{secretB}, idA, stampA, signedB + " " + signedA, bodyA, true},
		"among those not known":       {[]string{secretA}, idA, stampA, "v2,AAAA v1a,x v1,!! v1 , " + signedA, bodyA, true},
		"another secret":              {[]string{secretB}, idA, stampA, signedA, bodyA, false},
		"another body":                {[]string{secretA}, idA, stampA, signedA, bodyA + " ", false},
		"another id":                  {[]string{secretA}, idA + "x", stampA, signedA, bodyA, false},
		"another time":                {[]string{secretA}, idA, "1614265331", signedA, bodyA, false},
		"none":                        {[]string{secretA}, idA, stampA, "", bodyA, false},
		"cut short":                   {[]string{secretA}, idA, stampA, signedA[:len(signedA)-4], bodyA, false},
		"of another scheme":           {[]string{secretA}, idA, stampA, strings.Replace(signedA, "v1", "v1a", 1), bodyA, false},
		"an empty one":                {[]string{secretA}, idA, stampA, "v1,", bodyA, false},
		"with a comma in its place":   {[]string{secretA}, idA, stampA, strings.Replace(signedA, ",", " ", 1), bodyA, false},
		"of the id and the time only": {[]string{secretA}, idA, stampA, signOf(secretA, idA, stampA, ""), bodyA, false},
	} {
		seconds, err := strconv.ParseInt(c.stamp, 10, 64)
		assert.NoError(t, err)
		v := verifier(t, func(cfg *Config) {
			cfg.Secrets, cfg.Now = c.secrets, func() time.Time { return time.Unix(seconds, 0) }
		})
		_, err = v.Verify(t.Context(), delivered(c.id, c.stamp, c.signature, 1), []byte(c.body))
		if c.right && err != nil || !c.right && !errors.Is(err, ErrSignature) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func signOf(secret, id, stamp, body string) string {
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		panic(err)
	}
	signature, err := Sign(secret, id, time.Unix(seconds, 0), []byte(body))
	if err != nil {
		panic(err)
	}
	return signature
}

// TestNoBitCanBeChanged checks that no bit of the id, the timestamp, the body or the signature can be changed.
func TestNoBitCanBeChanged(t *testing.T) {
	v := verifier(t, func(c *Config) { c.Tolerance = 1 << 62 })
	for i, part := range []string{idA, stampA, bodyA, signedA} {
		for bit := range 8 * len(part) {
			parts, raw := []string{idA, stampA, bodyA, signedA}, []byte(part)
			raw[bit/8] ^= 1 << (bit % 8)
			if i == 3 && raw[bit/8] != ' ' && sameSignature(string(raw), signedA) {
				continue // base64 has two spellings of it
			}
			parts[i] = string(raw)
			_, err := v.Verify(t.Context(), delivered(parts[0], parts[1], parts[3], 1), []byte(parts[2]))
			assert.Error(t, err, "took %q", parts)
		}
	}
}

func sameSignature(a, b string) bool {
	left, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(a, "v1,"))
	right, err2 := base64.StdEncoding.DecodeString(strings.TrimPrefix(b, "v1,"))
	return err == nil && err2 == nil && string(left) == string(right)
}

func TestTimestamps(t *testing.T) {
	for off, right := range map[time.Duration]bool{
		0: true, 5 * time.Minute: true, -5 * time.Minute: true, 5*time.Minute + 1: false, -5*time.Minute - 1: false, 100 * 365 * 24 * time.Hour: false,
	} {
		v := verifier(t, func(c *Config) { c.Now = func() time.Time { return atA.Add(off) } })
		_, err := v.Verify(t.Context(), delivered(idA, stampA, signedA, 1), []byte(bodyA))
		if right && err != nil || !right && !errors.Is(err, ErrTimestamp) {
			t.Errorf("%v off: %v", off, err)
		}
	}
}

func TestMalformed(t *testing.T) {
	v := verifier(t, nil)
	for name, change := range map[string]func(http.Header){
		"no id":                func(h http.Header) { h.Del("webhook-id") },
		"no time":              func(h http.Header) { h.Del("webhook-timestamp") },
		"a time with a sign":   func(h http.Header) { h.Set("webhook-timestamp", "+"+stampA) },
		"a time before 1970":   func(h http.Header) { h.Set("webhook-timestamp", "-1") },
		"a time that is none":  func(h http.Header) { h.Set("webhook-timestamp", "now") },
		"no fence":             func(h http.Header) { h.Del("belfry-fence") },
		"a fence that is none": func(h http.Header) { h.Set("belfry-fence", "-1") },
		"no attempt":           func(h http.Header) { h.Del("belfry-attempt") },
		"no task":              func(h http.Header) { h.Del("ce-subject") },
		"no due time":          func(h http.Header) { h.Del("ce-time") },
		"a broken task":        func(h http.Header) { h.Set("ce-subject", "%zz") },
		"a batch that is none": func(h http.Header) { h.Set("content-type", batchType) },
	} {
		h := delivered(idA, stampA, signedA, 1)
		change(h)
		if d, err := v.Verify(t.Context(), h, []byte(bodyA)); !errors.Is(err, ErrMalformed) || d != nil {
			t.Errorf("%s: %v, %v", name, d, err)
		}
	}
}

// TestDotsCannotBeMoved checks that a dot in the id is refused: dots separate the parts of the signed text, so the
// parts could be moved.
func TestDotsCannotBeMoved(t *testing.T) {
	signature := signOf(secretA, "msg_1", "1", "1614265330.forged")
	v := verifier(t, nil)
	_, err := v.Verify(t.Context(), delivered("msg_1.1", stampA, signature, 1), []byte("forged"))
	assert.ErrorIs(t, err, ErrMalformed)
}

func TestStaleSenderIsRefused(t *testing.T) {
	v := verifier(t, nil)
	for i, c := range []struct {
		fence uint64
		stale bool
	}{{5, false}, {5, false}, {7, false}, {6, true}, {5, true}, {7, false}, {8, false}} {
		_, err := v.Verify(t.Context(), delivered(idA, stampA, signedA, c.fence), []byte(bodyA))
		if stale := errors.Is(err, ErrStale); stale != c.stale || err != nil && !stale {
			t.Errorf("%d: fence %d: %v", i, c.fence, err)
		}
	}
	_, err := v.Verify(t.Context(), delivered(idA, stampA, "v1,AAAA", 99), []byte(bodyA))
	assert.ErrorIs(t, err, ErrSignature)
	if _, err := v.Verify(t.Context(), delivered(idA, stampA, signedA, 9), []byte(bodyA)); err != nil {
		t.Errorf("a forged request has raised the fence: %v", err)
	}
}

// TestMemoryFencesModel compares MemoryFences with a map and a list: both keep the highest fence of each of the last
// seen tasks.
func TestMemoryFencesModel(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 0))
		capacity := 1 + rng.IntN(4)
		f := NewMemoryFences(capacity)
		known, order := map[string]uint64{}, []string{}
		for range 50 {
			task, fence := string(rune('a'+rng.IntN(6))), 1+rng.Uint64N(5)
			want := fence >= known[task]
			got, err := f.Raise(t.Context(), task, fence)
			if got != want || err != nil {
				t.Fatalf("%s under %d: %v, %v; known %v", task, fence, got, err, known)
			}
			known[task] = max(known[task], fence)
			kept := order[:0]
			for _, other := range order {
				if other != task {
					kept = append(kept, other)
				}
			}
			if order = append(kept, task); len(order) > capacity {
				delete(known, order[0])
				order = order[1:]
			}
			if len(f.byTask) != len(known) || f.order.Len() != len(known) {
				t.Fatalf("remembers %d, not %d", len(f.byTask), len(known))
			}
		}
	}
}

type brokenFences struct{}

func (brokenFences) Raise(context.Context, string, uint64) (bool, error) {
	return false, errors.New("dial tcp 10.0.0.7: refused")
}

func TestHandler(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*Config)
		request func(*http.Request)
		status  int
	}{
		"right":          {nil, nil, 200},
		"unsigned":       {nil, func(r *http.Request) { r.Header.Del("webhook-signature") }, 401},
		"late":           {func(c *Config) { c.Now = time.Now }, nil, 401},
		"malformed":      {nil, func(r *http.Request) { r.Header.Del("webhook-id") }, 400},
		"stale":          {nil, func(r *http.Request) { r.Header.Set("belfry-fence", "1") }, 409},
		"too large":      {func(c *Config) { c.MaxBody = 3 }, nil, 413},
		"broken off":     {nil, func(r *http.Request) { r.Body = io.NopCloser(io.MultiReader(strings.NewReader("{"), broken{})) }, 400},
		"fences unknown": {func(c *Config) { c.Fences = brokenFences{} }, nil, 503},
	} {
		t.Run(name, func(t *testing.T) {
			v := verifier(t, c.change)
			if c.change == nil {
				_, err := v.Verify(t.Context(), delivered(idA, stampA, signedA, 5), []byte(bodyA))
				assert.NoError(t, err)
			}
			called := false
			h := v.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				called = true
				body, err := io.ReadAll(r.Body)
				if d := FromContext(r.Context()); err != nil || string(body) != bodyA || d == nil || d.ID != idA {
					t.Errorf("%s, %v, %+v", body, err, d)
				}
			}))
			r := httptest.NewRequest("POST", "/", strings.NewReader(bodyA))
			r.Header = delivered(idA, stampA, signedA, 5)
			if c.request != nil {
				c.request(r)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != c.status || called != (c.status == 200) || strings.Contains(w.Body.String(), "10.0.0.7") {
				t.Errorf("answered %d %q, called: %v", w.Code, w.Body, called)
			}
		})
	}
	if d := FromContext(t.Context()); d != nil {
		t.Errorf("a context without one has %+v", d)
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestConfigIsChecked(t *testing.T) {
	for name, cfg := range map[string]Config{
		"no secret": {}, "without prefix": {Secrets: []string{"MfKQ9r8GKYqrTwjU"}}, "not base64": {Secrets: []string{"whsec_MfKQ9r8GKYqrTwjU!"}},
		"empty": {Secrets: []string{"whsec_"}}, "tolerance": {Secrets: []string{secretA}, Tolerance: -1}, "body": {Secrets: []string{secretA}, MaxBody: -1},
	} {
		if _, err := New(cfg); err == nil || strings.Contains(err.Error(), "MfKQ9r8") {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := Sign("x", "id", atA, nil)
	assert.Error(t, err, "signed with an invalid secret")
}
