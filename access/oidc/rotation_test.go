package oidc

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/belfryhq/belfry/internal/assert"
)

// A token of a new key makes the node fetch the keys once.
func TestNewKeyIsFetched(t *testing.T) {
	bubble(t, func(t *testing.T, w *world, i *Issuer) {
		passes(t, i, w.signer.sign(t, "", claims(nil)))
		second := newSigner(t, "second")
		w.set(func() { w.keys = append(w.keys, second.public()) })
		for range 3 {
			passes(t, i, second.sign(t, "", claims(nil)))
		}
		if w.fetched != 2 {
			t.Errorf("the keys were fetched %d times, not at the start and for the new key", w.fetched)
		}
		passes(t, i, w.signer.sign(t, "", claims(nil)))
	})
}

// Tokens of unknown keys make the node fetch the keys once in ten seconds, however many they are.
func TestUnknownKeysAreFetchedRarely(t *testing.T) {
	bubble(t, func(t *testing.T, w *world, i *Issuer) {
		for n := range 100 {
			refuses(t, i, newSigner(t, fmt.Sprint("forged", n)).sign(t, "", claims(nil)), errForeign)
		}
		assert.Equal(t, w.fetched, 2, "the keys were fetched N times")
		second := newSigner(t, "second")
		w.set(func() { w.keys = []jose.JSONWebKey{second.public()} })
		token := second.sign(t, "", claims(nil))
		refuses(t, i, token, errForeign)
		time.Sleep(unknownEvery)
		passes(t, i, token)
		refuses(t, i, w.signer.sign(t, "", claims(nil)), errForeign) // the first key was withdrawn
	})
}

// Tokens of a new key that come at once wait for one fetch, also when the first of them goes away.
func TestTokensOfNewKeyShareAFetch(t *testing.T) {
	bubble(t, func(t *testing.T, w *world, i *Issuer) {
		second := newSigner(t, "second")
		slow := make(chan struct{})
		w.set(func() { w.keys, w.slow = append(w.keys, second.public()), slow })
		token := second.sign(t, "", claims(nil))
		gone, leave := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, _, err := i.Caller(gone, token); err != errAway {
				t.Errorf("a call that went away: %v", err)
			}
		})
		synctest.Wait()
		for range 5 {
			wg.Go(func() {
				_, _, err := i.Caller(t.Context(), token)
				assert.Equal(t, err, nil)
			})
		}
		synctest.Wait()
		leave()
		synctest.Wait()
		close(slow)
		wg.Wait()
		assert.Equal(t, w.fetched, 2, "the keys were fetched N times")
	})
}

// While the issuer is slow, 256 tokens of unknown keys wait for two seconds each, and further ones not at all. Tokens
// of known keys do not wait.
func TestWaitsForNewKeyAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T, w *world, i *Issuer) {
		slow, second := make(chan struct{}), newSigner(t, "second")
		answerAll := sync.OnceFunc(func() { close(slow) })
		defer answerAll()
		w.set(func() { w.keys, w.slow = append(w.keys, second.public()), slow })
		token := second.sign(t, "", claims(nil))
		type answer struct {
			err  error
			took time.Duration
		}
		answers := make(chan answer, 300)
		begin := time.Now()
		gone, leave := context.WithCancel(t.Context())
		call := func(ctx context.Context, n int) {
			for range n {
				go func() {
					_, _, err := i.Caller(ctx, token)
					answers <- answer{err, time.Since(begin)}
				}()
			}
			synctest.Wait()
		}
		expect := func(n int, err error, took time.Duration) {
			t.Helper()
			for len(answers) > 0 {
				if a := <-answers; a != (answer{err, took}) {
					t.Fatalf("got %v after %v, want %v after %v", a.err, a.took, err, took)
				}
				n--
			}
			assert.MustEqual(t, n, 0, "answers are missing")
		}
		call(t.Context(), 156)
		call(gone, 100)
		expect(0, nil, 0)
		call(t.Context(), 44)
		expect(44, errBusy, 0)
		passes(t, i, w.signer.sign(t, "", claims(nil)))
		time.Sleep(time.Second)
		leave()
		synctest.Wait()
		expect(100, errAway, time.Second)
		call(t.Context(), 100) // the places of cancelled calls are free again
		expect(0, nil, 0)
		time.Sleep(time.Second)
		synctest.Wait()
		expect(156, errSlow, 2*time.Second)
		answerAll()
		synctest.Wait()
		expect(100, nil, 2*time.Second)
		passes(t, i, token)
		assert.Equal(t, w.fetched, 2, "the keys were fetched N times")
	})
}

// A key that the issuer has withdrawn is forgotten within refreshEvery, also without tokens of unknown keys.
func TestWithdrawnKeyIsForgotten(t *testing.T) {
	bubble(t, func(t *testing.T, w *world, i *Issuer) {
		second := newSigner(t, "second")
		w.set(func() { w.keys = []jose.JSONWebKey{second.public()} })
		token := w.signer.sign(t, "", claims(nil))
		passes(t, i, token)
		time.Sleep(refreshEvery)
		synctest.Wait()
		refuses(t, i, token, errForeign)
	})
}

// A node starts without its issuer, and finds it later. While the issuer is away later, the keys stay.
func TestIssuerIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.down = true
		var log strings.Builder
		i := newIssuer(t, w, roleText)
		i.cfg.Logger = loggerTo(&log)
		running(t, i)
		token := w.signer.sign(t, "", claims(map[string]any{"exp": time.Now().Add(24 * time.Hour).Unix()}))
		refuses(t, i, token, errAway)
		faulty(t, i, "connection refused")
		time.Sleep(time.Hour)
		refuses(t, i, token, errAway)
		if at := i.LastAnswer(); !at.IsZero() {
			t.Errorf("the keys were read at %v", at)
		}
		w.set(func() { w.down = false })
		time.Sleep(lastRetry)
		synctest.Wait()
		passes(t, i, token)
		faulty(t, i, "")
		reached := i.LastAnswer()
		if since := time.Since(reached); since < 0 || since > lastRetry {
			t.Errorf("the keys were read %v ago", since)
		}

		w.set(func() { w.down = true })
		time.Sleep(2 * refreshEvery)
		passes(t, i, token)
		faulty(t, i, "connection refused")
		if at := i.LastAnswer(); !at.Equal(reached) {
			t.Errorf("the keys were read at %v, after %v, while the issuer was away", at, reached)
		}
		refuses(t, i, newSigner(t, "second").sign(t, "", claims(nil)), errAway) // it may be a new key
		refuses(t, i, newSigner(t, "third").sign(t, "", claims(nil)), errAway)
		refuses(t, i, newSigner(t, "first").sign(t, "", claims(nil)), errForeign)
		if n := strings.Count(log.String(), "connection refused"); n < 100 || n > 300 {
			t.Errorf("%d failures are logged in an hour of retries every 30 s", n)
		}
		if !strings.Contains(log.String(), "was reached") || strings.Contains(log.String(), token[:40]) {
			t.Error("the log lacks the success, or has the token")
		}
	})
}

// faulty checks that the fault of an issuer has a text, or that there is none.
func faulty(t *testing.T, i *Issuer, text string) {
	t.Helper()
	if err := i.Fault(); (err != nil) != (text != "") || err != nil && !strings.Contains(err.Error(), text) {
		t.Errorf("fault %v, want %q", err, text)
	}
}

// The fault of an issuer names keys that are too old although no attempt has failed, and a failed attempt to read the
// key of a token.
func TestFaultOfIssuer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		i := newIssuer(t, w, roleText)
		faulty(t, i, "")
		assert.NoError(t, i.connect(t.Context()))
		time.Sleep(staleAfter)
		faulty(t, i, "")
		time.Sleep(time.Second)
		faulty(t, i, "its keys were read 20m1s ago")
		w.set(func() { w.down = true })
		refuses(t, i, newSigner(t, "second").sign(t, "", claims(nil)), errAway)
		faulty(t, i, "connection refused")
		assert.Error(t, i.connect(t.Context()), "an issuer that is down was reached")
		w.set(func() { w.down = false })
		assert.NoError(t, i.connect(t.Context()))
		faulty(t, i, "")
	})
}

// An issuer that answers with nonsense is the same as one that is away.
func TestAnswersOfIssuerAreChecked(t *testing.T) {
	cases := map[string]func(w *world){
		"issuer URL":                   func(w *world) { w.document["issuer"] = "https://other.test" },
		"jwks_uri, is no absolute URL": func(w *world) { w.document["jwks_uri"] = "keys" },
		"jwks_uri, http://issuer.test is neither https nor on loopback": func(w *world) {
			w.document["jwks_uri"] = "http://issuer.test/keys"
		},
		"no public key for signatures": func(w *world) {
			encrypts := w.signer.public()
			encrypts.Use = "enc"
			secret := jose.JSONWebKey{Key: []byte(strings.Repeat("s", 32)), KeyID: "first"}
			private := jose.JSONWebKey{Key: w.signer.private, KeyID: "first"}
			w.keys = []jose.JSONWebKey{encrypts, secret, private}
		},
		"has 1001 keys": func(w *world) {
			for range maxKeySetKeys {
				w.keys = append(w.keys, w.keys[0])
			}
		},
		"request body too large": func(w *world) { w.document["padding"] = strings.Repeat("p", maxAnswerBytes) },
	}
	for want, change := range cases {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			change(w)
			i := newIssuer(t, w, roleText)
			if err := i.connect(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v", want, err)
			}
			refuses(t, i, w.signer.sign(t, "", claims(nil)), errAway)
		})
	}
}

// Keys of unknown kinds do not spoil the others.
func TestUnknownKindsOfKeysAreSkipped(t *testing.T) {
	good, err := json.Marshal(newSigner(t, "first").public())
	assert.NoError(t, err)
	set := fmt.Sprintf(`{"keys": [{"kty": "AKP", "alg": "ML-DSA-44"}, {"kty": "OKP", "crv": "Ed448", "x": "AA"}, 7, %s,
		{"kty": "EC", "crv": "secp256k1", "alg": "ES256K", "x": "AA", "y": "AA"}]}`, good)
	if keys, err := parseKeys([]byte(set)); err != nil || len(keys) != 1 || keys[0].KeyID != "first" {
		t.Errorf("got %v, %v", keys, err)
	}
	for _, bad := range []string{"", "[]", "{}", `{"keys": []}`, "<html>"} {
		_, err := parseKeys([]byte(bad))
		assert.Error(t, err, "%q is a set of keys", bad)
	}
}

func TestSettingsOfIssuer(t *testing.T) {
	roles := loadRoles(t, roleText)
	for _, url := range []string{"https://issuer.test", "https://issuer.test/a/b/", "http://127.0.0.1:9000",
		"http://localhost", "http://[::1]:9000/realm"} {
		_, err := New(Config{Issuer: url, Audience: audience, Roles: roles})
		assert.Equal(t, err, nil, "%s", url)
	}
	for _, bad := range []Config{
		{Audience: audience, Roles: roles},
		{Issuer: "http://issuer.test", Audience: audience, Roles: roles},
		{Issuer: "issuer.test", Audience: audience, Roles: roles},
		{Issuer: "ftp://issuer.test", Audience: audience, Roles: roles},
		{Issuer: "https://user:password@issuer.test", Audience: audience, Roles: roles},
		{Issuer: "https://issuer.test?realm=a", Audience: audience, Roles: roles},
		{Issuer: "https://issuer.test#a", Audience: audience, Roles: roles},
		{Issuer: "http://localhost.example.org", Audience: audience, Roles: roles},
		{Issuer: "https://issuer.test", Roles: roles},
		{Issuer: "https://issuer.test", Audience: audience},
	} {
		if _, err := New(bad); err == nil || strings.Contains(err.Error(), "password") {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// A redirect leads to no address that the settings would refuse.
func TestRedirectsOfIssuerAreChecked(t *testing.T) {
	target := ""
	transport := roundTrip(func(req *http.Request) (*http.Response, error) {
		header := http.Header{"Location": {target}}
		return &http.Response{StatusCode: http.StatusFound, Header: header, Body: http.NoBody, Request: req}, nil
	})
	for url, want := range map[string]string{
		"http://issuer.test/":  "neither https nor on loopback",
		"https://issuer.test/": "more than five times",
	} {
		target = url
		i, err := New(Config{Issuer: issuerURL, Audience: audience, Roles: loadRoles(t, roleText),
			Client: &http.Client{Transport: transport}})
		assert.NoError(t, err)
		if err := i.connect(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", url, err)
		}
	}
}
