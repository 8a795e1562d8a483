package oidc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"
)

// algorithms are those of tokens and keys: the asymmetric ones of RFC 7518 and RFC 8037. With "none" and HS256 a caller
// could sign a token.
var algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

// The fetches of keys have these bounds.
const (
	fetchTimeout  = 10 * time.Second
	unknownEvery  = 10 * time.Second // between two fetches for tokens with an unknown key
	maxKeySetKeys = 1000
)

// keySet holds the public keys of the issuer. It implements the KeySet of go-oidc.
type keySet struct {
	url    string
	client *http.Client
	log    *slog.Logger
	now    func() time.Time

	flight singleflight.Group // one fetch at a time
	paced  *rate.Limiter      // fetches for unknown keys

	mu   sync.RWMutex
	keys []jose.JSONWebKey
	read time.Time // instant of keys
	err  error     // of the last fetch
}

var errSignature = errors.New("no key of the issuer verifies the signature")

// VerifySignature returns the payload of a token that one of the keys has signed.
func (s *keySet) VerifySignature(_ context.Context, token string) ([]byte, error) {
	jws, err := jose.ParseSignedCompact(token, algorithms)
	if err != nil {
		return nil, err
	}
	header := jws.Signatures[0].Header
	for _, key := range s.known() {
		if !fits(&key, &header) {
			continue
		}
		if payload, err := jws.Verify(&key); err == nil {
			return payload, nil
		}
	}
	return nil, errSignature
}

// fits reports whether a key may have signed a token with a header.
func fits(key *jose.JSONWebKey, header *jose.Header) bool {
	return (header.KeyID == "" || header.KeyID == key.KeyID) && (key.Algorithm == "" || key.Algorithm == header.Algorithm)
}

func (s *keySet) known() []jose.JSONWebKey {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.keys
}

func (s *keySet) has(id string) bool {
	return slices.ContainsFunc(s.known(), func(k jose.JSONWebKey) bool { return k.KeyID == id })
}

// learn fetches the keys if none has an id and the last fetch for an unknown key was long enough ago. It returns an
// error if the key stays unknown because the last fetch failed.
func (s *keySet) learn(ctx context.Context, id string) error {
	if id == "" || s.has(id) {
		return nil
	}
	done := s.flight.DoChan("", func() (any, error) {
		if !s.paced.AllowN(s.now(), 1) {
			return nil, nil
		}
		err := s.fetch(context.WithoutCancel(ctx)) // other callers wait for it, too
		if err != nil {
			s.log.Warn("the keys of the issuer of tokens cannot be had", "err", err)
		}
		return nil, err
	})
	select {
	case <-done:
	case <-ctx.Done():
		return ctx.Err()
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.err
}

// fetch replaces the keys by the issuer's present ones. After a failed fetch the keys stay as they are.
func (s *keySet) fetch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	keys, err := s.get(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err = err; err == nil {
		s.keys, s.read = keys, s.now()
	}
	return err
}

func (s *keySet) get(ctx context.Context) (keys []jose.JSONWebKey, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("get %s: status %d", s.url, resp.StatusCode)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", s.url, err)
	}
	if keys, err = parseKeys(body); err != nil {
		return nil, fmt.Errorf("get %s: %w", s.url, err)
	}
	return keys, nil
}

// parseKeys returns the public keys for signatures in a JSON Web Key Set. It skips keys of other kinds and unknown
// algorithms (RFC 7517, section 5).
func parseKeys(body []byte) ([]jose.JSONWebKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(body, &set); err != nil {
		return nil, err
	}
	if n := len(set.Keys); n > maxKeySetKeys {
		return nil, fmt.Errorf("the set has %d keys (limit %d)", n, maxKeySetKeys)
	}
	var keys []jose.JSONWebKey
	for _, raw := range set.Keys {
		var key jose.JSONWebKey
		if err := json.Unmarshal(raw, &key); err == nil && signs(&key) {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("the set has no public key for signatures")
	}
	return keys, nil
}

// signs reports whether a key may verify tokens.
func signs(key *jose.JSONWebKey) bool {
	return key.Valid() && key.IsPublic() && (key.Use == "" || key.Use == "sig") &&
		(key.Algorithm == "" || slices.Contains(algorithms, jose.SignatureAlgorithm(key.Algorithm)))
}
