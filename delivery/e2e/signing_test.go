package e2e_test

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/deploy/receiver"
)

// secret is a queue's signing secret in text form.
type secret string

func newSecret() secret {
	var key [32]byte
	_, _ = rand.Read(key[:]) // never fails
	return secret("whsec_" + base64.StdEncoding.EncodeToString(key[:]))
}

// verifies reports whether one of an arrival's signatures was made with the secret, by Standard Webhooks.
func (s secret) verifies(a receiver.Arrival) bool {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(string(s), "whsec_"))
	if err != nil {
		return false
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(a.Header.Get("Webhook-Id") + "." + a.Header.Get("Webhook-Timestamp") + "."))
	mac.Write(a.Body)
	for _, signature := range strings.Fields(a.Header.Get("Webhook-Signature")) {
		version, text, _ := strings.Cut(signature, ",")
		sum, err := base64.StdEncoding.DecodeString(text)
		if version == "v1" && err == nil && hmac.Equal(sum, mac.Sum(nil)) {
			return true
		}
	}
	return false
}

// rotation adds a new secret to a queue while tasks fire, and then removes the old one. Each arrival is signed by a
// secret that the queue had at that moment, and by both while the queue had both.
func rotation(t *testing.T, s *stage) {
	sink := s.newSink(t)
	queue := s.name("rotation")
	first, second := newSecret(), newSecret()
	sign := func(n node, secrets ...secret) (inEffect time.Time) {
		s.putQueue(t, n, queue, object{"target": targetOf(sink.url, 5*time.Second), "signing": object{"secrets": secrets}})
		return time.Now().Add(inForce)
	}
	sign(s.nodes[0], first)
	f := s.evenly(t, queue, 600, time.Now().Add(1500*time.Millisecond), 10*time.Millisecond)
	s.schedule(t, f, nil)
	awaitTaken(t, sink, 10, 10*time.Second)
	bothFrom := sign(s.nodes[1], second, first)
	until(t, bothFrom.Add(500*time.Millisecond))
	bothUntil := time.Now()
	onlyFrom := sign(s.nodes[2], second)
	awaitTaken(t, sink, len(f.due), 20*time.Second)

	var answer string
	if err := rawGet(t, s.any(), queuePath(queue), &answer); err != nil || strings.Contains(answer, string(second)[6:]) {
		t.Errorf("the answer shows a secret, or is absent: %q, %v", answer, err)
	}
	arrivals := sink.came()
	acc := s.account(t, f, arrivals)
	acc.hold(t, "a rotation", whenever)
	periods := [3]int{}
	var wrong []string
	for _, a := range arrivals {
		old, young := first.verifies(a), second.verifies(a)
		switch {
		case !old && !young:
			wrong = append(wrong, a.TaskID+" is signed by neither secret: "+a.Header.Get("Webhook-Signature"))
		case a.At.Before(bothFrom.Add(-inForce)): // both may be in force before the answer
			periods[0]++
			if !old {
				wrong = append(wrong, a.TaskID+" is not signed by the only secret")
			}
		case a.At.After(bothFrom) && a.At.Before(bothUntil):
			periods[1]++
			if !old || !young {
				wrong = append(wrong, a.TaskID+" is not signed by both secrets")
			}
		case a.At.After(onlyFrom):
			periods[2]++
			if old || !young {
				wrong = append(wrong, a.TaskID+" is signed by a secret that was removed")
			}
		}
	}
	report(t, "a rotation", wrong)
	for i, n := range periods {
		if n == 0 {
			t.Errorf("nothing arrived in period %d", i+1)
		}
	}
}

// rawGet reads an answer as text.
func rawGet(t testing.TB, n node, path string, answer *string) error {
	var raw rawText
	_, err := n.call(t.Context(), http.MethodGet, path, nil, &raw)
	*answer = string(raw)
	return err
}

// rawText is JSON text as received.
type rawText string

// UnmarshalJSON keeps the bytes unchanged.
func (r *rawText) UnmarshalJSON(data []byte) error {
	*r = rawText(data)
	return nil
}

func TestVerifies(t *testing.T) {
	const known secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" // the example of the Standard Webhooks libraries
	arrival := func(signature string) receiver.Arrival {
		return receiver.Arrival{Body: []byte(`{"test": 2432232314}`), Header: http.Header{
			"Webhook-Id": {"msg_p5jXN8AQM9LWM0D4loKWxJek"}, "Webhook-Timestamp": {"1614265330"},
			"Webhook-Signature": {signature},
		}}
	}
	const good = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	tests := map[string]bool{
		good: true, "v1,AAAA " + good: true, "": false, "v1,": false, "v2," + good[3:]: false, "v1,AAAA": false,
	}
	for signature, want := range tests {
		if known.verifies(arrival(signature)) != want {
			t.Errorf("%q: not %v", signature, want)
		}
	}
	if newSecret().verifies(arrival(good)) {
		t.Error("another secret verifies, too")
	}
}
