package delivery

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

func secretOf(t testing.TB, encoded string) []byte {
	t.Helper()
	secret, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(encoded, "whsec_"))
	assert.NoError(t, err)
	return secret
}

// secretA and secretB are the published examples of Standard Webhooks.
const (
	secretA = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	secretB = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
)

func TestSignature(t *testing.T) {
	tests := map[string]struct {
		secrets             []string
		id, timestamp, body string
		want                string
	}{
		"example": {[]string{secretA}, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", `{"test": 2432232314}`,
			"v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="},
		"another": {[]string{secretB}, "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk", "1649367553",
			`{"email":"test@example.com","username":"test_user"}`, "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw="},
		"two, the newer first": {[]string{secretB, secretA}, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330",
			`{"test": 2432232314}`, "v1,78nXHjpFP0tVJQW5D0SBwmVyyW87BV/rL6MgfM/Bw44= " +
				"v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="},
		"no body": {[]string{secretA}, "msg_1", "1", "", "v1,fUIsxxTK5tKgKbC2AwzF7wnOr3WsI1RCNgGdkLxy5PY="},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var secrets [][]byte
			for _, s := range test.secrets {
				secrets = append(secrets, secretOf(t, s))
			}
			assert.Equal(t, signature(secrets, test.id, test.timestamp, []byte(test.body)), test.want, "got")
		})
	}
}

// TestSignedRequests checks that the signature matches the sent body, and that a queue without secrets sends none.
func TestSignedRequests(t *testing.T) {
	now := time.Unix(1614265330, 999e6)
	w := newWebhook(t, func(c *Config) { c.Now = func() time.Time { return now } })
	for name, secrets := range map[string][][]byte{
		"unsigned": nil, "one": {secretOf(t, secretA)}, "rotation": {secretOf(t, secretB), secretOf(t, secretA)},
	} {
		t.Run(name, func(t *testing.T) {
			url, lines := capture(t)
			a := attemptOf(url)
			a.Secrets = secrets
			if out := w.Deliver(t.Context(), a); !out.Delivered {
				t.Fatalf("outcome %+v", out)
			}
			want := ""
			if secrets != nil {
				want = signature(secrets, a.Task.WebhookId, "1614265330", a.Task.Spec.Payload)
			}
			assert.Equal(t, fields(t, (<-lines)[1:])["webhook-signature"], want, "webhook-signature")
		})
	}
}

// TestSecretsStayHere checks that no log, outcome or metric contains a secret, in any encoding.
func TestSecretsStayHere(t *testing.T) {
	var seen bytes.Buffer
	reg := prometheus.NewRegistry()
	w := newWebhook(t, func(c *Config) {
		c.Logger = slog.New(slog.NewTextHandler(&seen, &slog.HandlerOptions{Level: slog.LevelDebug}))
		c.Registerer = reg
	})
	secret := []byte("the-very-secret-of-the-queue")
	for _, url := range []string{
		serve(t, answer(500, nil, "it broke")), serve(t, answer(410, nil, "")), serve(t, answer(302, nil, "")),
		receiverThatIsDown(t), receiverThatResets(t), "http://10.0.0.1/", "http://[::1", "",
	} {
		a := attemptOf(url)
		a.Secrets = [][]byte{secret}
		fmt.Fprintf(&seen, "%+v\n%+v\n", w.Deliver(t.Context(), a), w.DeliverBatch(t.Context(), []task.Attempt{a}))
	}
	families, err := reg.Gather()
	assert.NoError(t, err)
	fmt.Fprintln(&seen, families)
	for name, spelling := range map[string]string{
		"plain":    string(secret),
		"base64":   base64.StdEncoding.EncodeToString(secret),
		"hex":      hex.EncodeToString(secret),
		"as bytes": strings.Trim(fmt.Sprintf("%d", secret), "[]"),
		"quoted":   strings.Trim(fmt.Sprintf("%q", secret), `"`),
	} {
		if strings.Contains(seen.String(), spelling) {
			t.Errorf("the secret got out, %s:\n%s", name, &seen)
		}
	}
}
