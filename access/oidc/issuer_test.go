package oidc

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/internal/assert"
)

const (
	issuerURL = "https://issuer.test/realm"
	audience  = "belfry"
)

const roleText = `
name: email
rules:
  - claim: groups
    values: [schedulers]
    grants: [{role: schedule, namespace: shop}]
`

// world is an issuer in memory. It is the transport of its own clients.
type world struct {
	mu       sync.Mutex
	document map[string]any
	keys     []jose.JSONWebKey // public
	down     bool
	slow     chan struct{} // not nil: answers about keys wait for it
	fetched  int           // of keys

	signer *signer
}

// signer is a key of the issuer.
type signer struct {
	id      string
	alg     jose.SignatureAlgorithm
	private crypto.Signer
}

func newSigner(t testing.TB, id string) *signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	assert.NoError(t, err)
	return &signer{id: id, alg: jose.ES256, private: key}
}

func (s *signer) public() jose.JSONWebKey {
	return jose.JSONWebKey{Key: s.private.Public(), KeyID: s.id, Algorithm: string(s.alg), Use: "sig"}
}

// sign returns a token of a type with claims.
func (s *signer) sign(t testing.TB, kind string, claims any) string {
	t.Helper()
	payload, err := json.Marshal(claims)
	assert.NoError(t, err)
	return sign(t, jose.SigningKey{Algorithm: s.alg, Key: s.private}, s.id, kind, payload)
}

func sign(t testing.TB, key jose.SigningKey, id, kind string, payload []byte) string {
	t.Helper()
	var options jose.SignerOptions
	if id != "" {
		options.WithHeader(jose.HeaderKey("kid"), id)
	}
	if kind != "" {
		options.WithHeader(jose.HeaderType, kind)
	}
	s, err := jose.NewSigner(key, &options)
	assert.NoError(t, err)
	jws, err := s.Sign(payload)
	assert.NoError(t, err)
	token, err := jws.CompactSerialize()
	assert.NoError(t, err)
	return token
}

func newWorld(t testing.TB) *world {
	first := newSigner(t, "first")
	return &world{
		document: map[string]any{"issuer": issuerURL, "jwks_uri": issuerURL + "/keys"},
		keys:     []jose.JSONWebKey{first.public()}, signer: first,
	}
}

func (w *world) RoundTrip(req *http.Request) (*http.Response, error) {
	w.mu.Lock()
	down, slow := w.down, w.slow
	answer := any(w.document)
	if strings.HasSuffix(req.URL.Path, "/keys") {
		w.fetched++
		answer = jose.JSONWebKeySet{Keys: w.keys}
	} else {
		slow = nil
	}
	w.mu.Unlock()
	if down {
		return nil, errors.New("connection refused")
	}
	if slow != nil {
		select {
		case <-slow:
		case <-req.Context().Done():
			return nil, req.Context().Err()
		}
	}
	rec := httptest.NewRecorder()
	rec.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(rec).Encode(answer); err != nil {
		return nil, err
	}
	return rec.Result(), nil
}

func (w *world) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

func loadRoles(t testing.TB, text string) *Roles {
	t.Helper()
	file := filepath.Join(t.TempDir(), "roles.yaml")
	assert.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	roles, err := LoadRoles(file)
	assert.NoError(t, err)
	return roles
}

func newIssuer(t testing.TB, w *world, roles string) *Issuer {
	t.Helper()
	i, err := New(Config{Issuer: issuerURL, Audience: audience, Roles: loadRoles(t, roles), Client: &http.Client{Transport: w}})
	assert.NoError(t, err)
	return i
}

// claims returns the claims of a good token, with changes. A nil value takes a claim away.
func claims(changes map[string]any) map[string]any {
	all := map[string]any{
		"iss": issuerURL, "aud": audience, "sub": "jane", "exp": time.Now().Add(time.Hour).Unix(),
		"email": "jane@example.org", "groups": []string{"schedulers", "people"},
	}
	maps.Copy(all, changes)
	maps.DeleteFunc(all, func(_ string, v any) bool { return v == nil })
	return all
}

// bubble runs a test with a clock of its own, and with an issuer that Run has reached.
func bubble(t *testing.T, test func(t *testing.T, w *world, i *Issuer)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		i := newIssuer(t, w, roleText)
		running(t, i)
		test(t, w, i)
	})
}

// running runs an issuer until the test ends.
func running(t *testing.T, i *Issuer) {
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { i.Run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	synctest.Wait()
}

func passes(t *testing.T, i *Issuer, token string) (*access.Caller, time.Time) {
	t.Helper()
	caller, until, err := i.Caller(t.Context(), token)
	assert.NoError(t, err, "a right token is refused")
	return caller, until
}

func refuses(t *testing.T, i *Issuer, token string, want *access.Refusal) {
	t.Helper()
	caller, _, err := i.Caller(t.Context(), token)
	var refusal *access.Refusal
	if caller != nil || !errors.As(err, &refusal) || *refusal != *want {
		t.Errorf("got %v and %v, want %v", caller, err, want)
	}
}

func TestTokenTellsItsCaller(t *testing.T) {
	bubble(t, func(t *testing.T, w *world, i *Issuer) {
		for _, kind := range []string{"", "JWT", "at+jwt", "application/at+JWT"} {
			caller, until := passes(t, i, w.signer.sign(t, kind, claims(nil)))
			if caller.Kind != access.KindToken || caller.ID != "jane" || caller.Name != "jane@example.org" ||
				caller.Namespace() != "shop" || len(caller.Grants) != 1 || caller.Grants[0].Role != access.Schedule {
				t.Errorf("got %+v", caller)
			}
			if want := time.Now().Add(remembered); !until.Equal(want) {
				t.Errorf("until %v, want %v", until, want)
			}
		}
		several := claims(map[string]any{"aud": []string{"other", audience}, "groups": nil, "email": nil})
		if caller, _ := passes(t, i, w.signer.sign(t, "", several)); len(caller.Grants) != 0 || caller.Name != "jane" {
			t.Errorf("got %+v", caller)
		}
	})
}

func TestRolesCanChange(t *testing.T) {
	bubble(t, func(t *testing.T, w *world, i *Issuer) {
		token := w.signer.sign(t, "", claims(nil))
		i.UseRoles(loadRoles(t, strings.Replace(roleText, "role: schedule", "role: read", 1)))
		if caller, _ := passes(t, i, token); len(caller.Grants) != 1 || caller.Grants[0].Role != access.Read {
			t.Errorf("got %+v", caller)
		}
	})
}

func TestTokensOfOtherMeaningAreRefused(t *testing.T) {
	bubble(t, func(t *testing.T, w *world, i *Issuer) {
		now := time.Now()
		cases := []struct {
			name    string
			changes map[string]any
			want    *access.Refusal
		}{
			{"another issuer", map[string]any{"iss": "https://issuer.test"}, errForeign},
			{"no issuer", map[string]any{"iss": nil}, errForeign},
			{"another audience", map[string]any{"aud": "other"}, errOther},
			{"a part of the audience", map[string]any{"aud": []string{"belfry2", "belf"}}, errOther},
			{"no audience", map[string]any{"aud": nil}, errOther},
			{"no expiry", map[string]any{"exp": nil}, errLate},
			{"expired", map[string]any{"exp": now.Add(-leeway).Unix()}, errLate},
			{"not valid yet", map[string]any{"nbf": now.Add(leeway + time.Second).Unix()}, errEarly},
			{"a textual expiry", map[string]any{"exp": fmt.Sprint(now.Add(time.Hour).Unix())}, errClaims},
			{"an expiry in another spelling", map[string]any{"exp": nil, "EXP": now.Add(time.Hour).Unix()}, errClaims},
			{"an issue in the future", map[string]any{"iat": now.Add(leeway + time.Second).Unix()}, errEarly},
			{"a textual issue", map[string]any{"iat": fmt.Sprint(now.Unix())}, errClaims},
			{"a begin that is no time", map[string]any{"nbf": "soon"}, errForeign},
			{"a begin out of range", map[string]any{"nbf": 1e12}, errClaims},
			{"a begin below zero", map[string]any{"nbf": -1}, errClaims},
			{"no subject", map[string]any{"sub": nil}, errSubject},
			{"a long subject", map[string]any{"sub": strings.Repeat("s", 256)}, errSubject},
			{"a subject of another type", map[string]any{"sub": 7}, errForeign},
		}
		for _, c := range cases {
			t.Log(c.name)
			refuses(t, i, w.signer.sign(t, "", claims(c.changes)), c.want)
		}
		for _, fits := range []map[string]any{
			{"exp": now.Add(-leeway + time.Second).Unix()}, {"nbf": now.Add(leeway).Unix()}, {"sub": strings.Repeat("s", 255)},
			{"nbf": 1e8 + 0.5}, {"iat": now.Add(leeway).Unix()}, {"iat": 1e8},
		} {
			passes(t, i, w.signer.sign(t, "", claims(fits)))
		}
		if _, until := passes(t, i, w.signer.sign(t, "", claims(map[string]any{"exp": now.Unix()}))); until.Sub(now) > leeway {
			t.Errorf("the token is remembered for %v after its end", until.Sub(now))
		}
		for _, kind := range []string{"logout+jwt", "dpop+jwt", "JWE"} {
			refuses(t, i, w.signer.sign(t, kind, claims(nil)), errType)
		}
	})
}

// Only a key of the issuer, with a permitted algorithm, signs a token.
func TestForgedTokensAreRefused(t *testing.T) {
	bubble(t, func(t *testing.T, w *world, i *Issuer) {
		good := w.signer.sign(t, "", claims(nil))
		payload, err := json.Marshal(claims(nil))
		assert.NoError(t, err)
		parts := strings.Split(good, ".")
		other := newSigner(t, "first").sign(t, "", claims(nil))
		refuses(t, i, other, errForeign)
		refuses(t, i, newSigner(t, "").sign(t, "", claims(nil)), errForeign)
		refuses(t, i, parts[0]+"."+strings.Split(other, ".")[1]+"."+parts[2][:len(parts[2])-4]+"AAAA", errForeign)
		elevated := w.signer.sign(t, "", claims(map[string]any{"sub": "root"}))
		refuses(t, i, parts[0]+"."+strings.Split(elevated, ".")[1]+"."+parts[2], errForeign)

		// The public key as the secret of an HMAC, and no signature at all.
		public, err := w.signer.public().MarshalJSON()
		assert.NoError(t, err)
		hmac := jose.SigningKey{Algorithm: jose.HS256, Key: public}
		refuses(t, i, sign(t, hmac, "first", "", payload), errNoToken)
		refuses(t, i, "eyJhbGciOiJub25lIn0."+parts[1]+".", errNoToken)
		refuses(t, i, parts[0]+"."+parts[1]+".", errForeign)

		for _, none := range []string{"", ".", "..", "a.b.c", parts[0] + "." + parts[1], good + "." + parts[2],
			`{"payload":"` + parts[1] + `","protected":"` + parts[0] + `","signature":"` + parts[2] + `"}`,
			good + strings.Repeat("A", access.MaxTokenBytes)} {
			refuses(t, i, none, errNoToken)
		}
		passes(t, i, good)
	})
}

// A claim that is given twice, in any spelling, is refused: parsers differ in the one that they take.
func TestDuplicateClaimsAreRefused(t *testing.T) {
	bubble(t, func(t *testing.T, w *world, i *Issuer) {
		payload, err := json.Marshal(claims(nil))
		assert.NoError(t, err)
		key := jose.SigningKey{Algorithm: w.signer.alg, Key: w.signer.private}
		later := time.Now().Add(time.Hour).Unix()
		for _, more := range []string{
			fmt.Sprintf(`"exp":%d`, later), fmt.Sprintf(`"EXP":%d`, later), fmt.Sprintf(`"\u0065xp":%d`, later),
			fmt.Sprintf(`"Iat":%d`, later-7200), `"iss":"` + issuerURL + `"`, `"Iss":"` + issuerURL + `"`,
			`"i\u017fs":"` + issuerURL + `"`, `"aud":"` + audience + `"`, `"AUD":["` + audience + `"]`, `"sub":"jane"`,
			`"SUB":"root"`, `"groups":["schedulers"]`, `"email":"jane@example.org"`,
		} {
			for _, text := range []string{`{` + more + `,` + string(payload[1:]), string(payload[:len(payload)-1]) + `,` + more + `}`} {
				refuses(t, i, sign(t, key, w.signer.id, "", []byte(text)), errClaims)
			}
		}
		for _, more := range []string{`"Groups":["schedulers"]`, `"exp2":1`, `"realm":{"exp":1,"EXP":2}`} {
			passes(t, i, sign(t, key, w.signer.id, "", []byte(`{`+more+`,`+string(payload[1:]))))
		}
	})
}

// A short RSA key of the issuer verifies no token.
func TestShortKeysAreNotUsed(t *testing.T) {
	bubble(t, func(t *testing.T, w *world, i *Issuer) {
		short, err := rsa.GenerateKey(rand.Reader, 1024)
		assert.NoError(t, err)
		s := &signer{id: "short", alg: jose.RS256, private: short}
		w.set(func() { w.keys = append(w.keys, s.public()) })
		refuses(t, i, s.sign(t, "", claims(nil)), errForeign)
		passes(t, i, w.signer.sign(t, "", claims(nil)))
	})
}

// Every permitted algorithm works, and a key verifies no other algorithm than its own.
func TestAlgorithms(t *testing.T) {
	bubble(t, func(t *testing.T, w *world, i *Issuer) {
		signers := []*signer{}
		rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
		assert.NoError(t, err)
		for _, alg := range []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512} {
			signers = append(signers, &signer{id: string(alg), alg: alg, private: rsaKey})
		}
		for alg, curve := range map[jose.SignatureAlgorithm]elliptic.Curve{jose.ES384: elliptic.P384(), jose.ES512: elliptic.P521()} {
			key, err := ecdsa.GenerateKey(curve, rand.Reader)
			assert.NoError(t, err)
			signers = append(signers, &signer{id: string(alg), alg: alg, private: key})
		}
		_, edKey, err := ed25519.GenerateKey(rand.Reader)
		assert.NoError(t, err)
		signers = append(signers, &signer{id: "ed", alg: jose.EdDSA, private: edKey})
		w.set(func() {
			for _, s := range signers {
				w.keys = append(w.keys, s.public())
			}
		})
		for _, s := range signers {
			passes(t, i, s.sign(t, "", claims(nil)))
		}
		mixed := &signer{id: "RS256", alg: jose.PS256, private: rsaKey}
		refuses(t, i, mixed.sign(t, "", claims(nil)), errForeign)
	})
}
