package oidc

import (
	"context"
	"crypto/rsa"
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

	maxWaiting  = 256             // tokens that wait for a fetch
	waitForKeys = 2 * time.Second // of one token for a fetch
)

// keySet holds the public keys of the issuer. It implements the KeySet of go-oidc.
type keySet struct {
	url    string
	client *http.Client
	log    *slog.Logger
	now    func() time.Time

	paced *rate.Limiter // fetches for unknown keys

	mu       sync.RWMutex
	keys     []jose.JSONWebKey
	read     time.Time     // instant of keys
	err      error         // of the last fetch
	fetching chan struct{} // closed at the end of the fetch for unknown keys that is under way; nil: none is
	waiting  int           // callers that wait for this fetch, at most maxWaiting
}

var errSignature = errors.New("no key of the issuer verifies the signature")

// The errors of learn beside those of a fetch and of a context.
var (
	errCrowd = errors.New("too many tokens wait for new keys of the issuer")
	errStill = errors.New("the issuer has not answered yet")
)

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

// learn fetches the keys if none has an id and the last fetch for an unknown key was long enough ago. It waits for a
// fetch that is under way. Its error says why the key stays unknown: errCrowd, errStill, the error of the context, or
// that of the last fetch.
func (s *keySet) learn(ctx context.Context, id string) error {
	if id == "" || s.has(id) {
		return nil
	}
	fetched, err := s.join(ctx)
	if fetched == nil {
		return err
	}
	defer s.leave()
	patience := time.NewTimer(waitForKeys)
	defer patience.Stop()
	select {
	case <-fetched:
		s.mu.RLock()
		defer s.mu.RUnlock()
		return s.err
	case <-patience.C:
		return errStill
	case <-ctx.Done():
		return ctx.Err()
	}
}

// join takes a place to wait for the fetch that is under way, or for a new one, and returns a channel that is closed at
// its end. The caller must leave. Without a place the channel is nil, and the error is errCrowd. If no fetch may begin
// yet the channel is nil, too, and the error is that of the last fetch.
func (s *keySet) join(ctx context.Context) (fetched <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fetching == nil {
		if !s.paced.AllowN(s.now(), 1) {
			return nil, s.err
		}
		s.fetching = make(chan struct{})
		go s.fetchUnknown(context.WithoutCancel(ctx)) // other callers wait for it, too
	}
	if s.waiting >= maxWaiting {
		return nil, errCrowd
	}
	s.waiting++
	return s.fetching, nil
}

func (s *keySet) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting--
}

func (s *keySet) fetchUnknown(ctx context.Context) {
	if err := s.fetch(ctx); err != nil {
		s.log.Warn("the keys of the issuer of tokens cannot be had", "err", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.fetching)
	s.fetching = nil
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

// minRSABits is the shortest modulus of an RSA key (RFC 7518, section 3.3).
const minRSABits = 2048

// signs reports whether a key may verify tokens.
func signs(key *jose.JSONWebKey) bool {
	if k, ok := key.Key.(*rsa.PublicKey); ok && k.N.BitLen() < minRSABits {
		return false
	}
	return key.Valid() && key.IsPublic() && (key.Use == "" || key.Use == "sig") &&
		(key.Algorithm == "" || slices.Contains(algorithms, jose.SignatureAlgorithm(key.Algorithm)))
}
