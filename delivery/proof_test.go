package delivery

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

// openTokens shows the claims in its tokens.
type openTokens struct{ fails error }

func (openTokens) Issuer() string { return "https://timers.example" }

func (o openTokens) Sign(_ context.Context, algorithm string, claims []byte) (string, error) {
	return algorithm + string(claims), o.fails
}

func withJWT(claims string) func(*fsmpb.Task) {
	return func(t *fsmpb.Task) {
		t.Namespace, t.Spec.Queue = "shop", "mail"
		t.Spec.Target.Auth = &fsmpb.Auth{Jwt: &fsmpb.Jwt{Audience: "a<b", Algorithm: "RS256", Claims: []byte(claims)}}
	}
}

// Each request has a token of its own, whose last claims are Belfry's, so that no reader of JSON prefers others.
func TestTokensOfRequests(t *testing.T) {
	got := make(chan []string, 1)
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) { got <- r.Header["Authorization"] })
	now := time.Unix(1_800_000_000, 5e8)
	w := newWebhook(t, func(c *Config) { c.Tokens, c.Now = openTokens{}, func() time.Time { return now } })
	set := `"iss":"https://timers.example","sub":"%s","aud":"a\u003cb","iat":1800000000,"exp":1800000300,` +
		`"belfry_namespace":"shop","belfry_queue":"mail"}`
	for own, begin := range map[string]string{
		"": "RS256{", "{}": "RS256{", `{"role":"x","n":{"sub":1}}`: `RS256{"role":"x","n":{"sub":1},`,
	} {
		out := w.Deliver(t.Context(), attemptOf(url, withJWT(own)))
		assert.Equal(t, out.Delivered, true, "%+v", out)
		assert.EqualSlices(t, <-got, []string{"Bearer " + begin + fmt.Sprintf(set, "order-1042-close")})
	}
	batch := []task.Attempt{attemptOf(url, withJWT("")), attemptOf(url, withJWT(""))}
	assert.Equal(t, w.DeliverBatch(t.Context(), batch)[1].Delivered, true)
	assert.EqualSlices(t, <-got, []string{"Bearer RS256{" + fmt.Sprintf(set, batchID(batch))})

	plain := attemptOf(url)
	assert.Equal(t, w.Deliver(t.Context(), plain).Delivered, true)
	assert.EqualSlices(t, <-got, nil)
}

// Without a signature nothing is sent, and the receiver is not blamed.
func TestTokensThatCannotBeSigned(t *testing.T) {
	url := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a request without a token") })
	for want, tokens := range map[string]Tokens{
		"not sent: no key yet": openTokens{errors.New("no key yet")}, "not sent: this node signs no tokens": nil,
	} {
		w := newWebhook(t, func(c *Config) { c.Tokens = tokens })
		out := w.Deliver(t.Context(), attemptOf(url, withJWT("")))
		assert.Equal(t, out, task.Outcome{Refused: true, Error: want})
	}
}

// A receiver that leads elsewhere does not lead the token there, and its answer does not tell the token.
func TestTokensStayWithTheReceiver(t *testing.T) {
	elsewhere := serve(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("got %v", r.Header) })
	url := serve(t, func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Location", elsewhere)
		rw.WriteHeader(http.StatusTemporaryRedirect)
		_, err := fmt.Fprintf(rw, "%s%s", strings.Repeat(" ", maxExcerpt), r.Header.Get("Authorization"))
		assert.NoError(t, err)
	})
	w := newWebhook(t, func(c *Config) { c.Tokens = openTokens{} })
	a := attemptOf(url, withJWT(""))
	a.KeepAnswer = true
	out := w.Deliver(t.Context(), a)
	assert.Equal(t, out.Refused, true)
	assert.Equal(t, strings.TrimSpace(out.Answer), "Bearer ***")
	if strings.Contains(out.Error, "iss") {
		t.Error(out.Error)
	}
}

// namedCertificates has certificates by namespace and name.
type namedCertificates map[certificateName]*tls.Certificate

func (n namedCertificates) Certificate(namespace, name string) (*tls.Certificate, error) {
	if c := n[certificateName{namespace, name}]; c != nil {
		return c, nil
	}
	return nil, errors.New("no certificate " + name)
}

// selfSigned returns a certificate of a client.
func selfSigned(t *testing.T, name string) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	assert.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	assert.NoError(t, err)
	leaf, err := x509.ParseCertificate(der)
	assert.NoError(t, err)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// askingReceiver starts a receiver that lets in these certificates alone, and tells whose request it gets.
func askingReceiver(t *testing.T, known ...*tls.Certificate) (server *httptest.Server, names chan string) {
	t.Helper()
	names = make(chan string, 1)
	server = httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		names <- r.TLS.PeerCertificates[0].Subject.CommonName
	}))
	server.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: x509.NewCertPool()}
	for _, c := range known {
		server.TLS.ClientCAs.AddCert(c.Leaf)
	}
	server.Config.ErrorLog = quiet()
	server.StartTLS()
	t.Cleanup(server.Close)
	return server, names
}

// Each request shows the certificate of its target, on connections of its own, and the newest one.
func TestClientCertificates(t *testing.T) {
	one, other, renewed, stranger := selfSigned(t, "one"), selfSigned(t, "other"), selfSigned(t, "renewed"), selfSigned(t, "stranger")
	server, names := askingReceiver(t, one, other, renewed)
	held := namedCertificates{{"default", "a"}: one, {"shop", "a"}: other, {"default", "b"}: stranger}
	w := newWebhook(t, func(c *Config) {
		c.Certificates, c.RootCAs = held, x509.NewCertPool()
		c.RootCAs.AddCert(server.Certificate())
	})
	deliver := func(namespace, name string) task.Outcome {
		return w.Deliver(t.Context(), attemptOf(server.URL, func(task *fsmpb.Task) {
			task.Namespace = namespace
			if name != "" {
				task.Spec.Target.Auth = &fsmpb.Auth{ClientCertificate: name}
			}
		}))
	}
	shows := func(namespace, want string) {
		t.Helper()
		out := deliver(namespace, "a")
		assert.Equal(t, out.Delivered, true, "%+v", out)
		assert.Equal(t, <-names, want)
	}
	for range 2 {
		shows("", "one")
		shows("shop", "other")
	}
	held[certificateName{"default", "a"}] = renewed
	shows("default", "renewed")
	assert.Equal(t, deliver("", "c"), task.Outcome{Refused: true, Error: "not sent: no certificate c"})
	for _, name := range []string{"", "b"} { // none, and one that the receiver does not know
		out := deliver("", name)
		if out.Delivered || out.Permanent || out.Error == "" {
			t.Errorf("%q: %+v", name, out)
		}
	}
}

// However many names there are, the number of transports is bounded.
func TestTransportsAreBounded(t *testing.T) {
	one, held := selfSigned(t, "one"), namedCertificates{}
	w := newWebhook(t, func(c *Config) { c.Certificates = held })
	for i := range 3 * maxProven {
		name := certificateName{"default", fmt.Sprint(i)}
		held[name] = one
		a := attemptOf("https://x", func(t *fsmpb.Task) { t.Spec.Target.Auth = &fsmpb.Auth{ClientCertificate: name.name} })
		_, err := w.transports.of(a.Task)
		assert.NoError(t, err)
		if n := len(w.transports.proven); n > maxProven {
			t.Fatalf("%d transports", n)
		}
	}
	_, err := newWebhook(t).transports.of(attemptOf("https://x", func(t *fsmpb.Task) {
		t.Spec.Target.Auth = &fsmpb.Auth{ClientCertificate: "a"}
	}).Task)
	assert.Equal(t, err.Error(), "not sent: this node has no client certificates, and so not a")
}
