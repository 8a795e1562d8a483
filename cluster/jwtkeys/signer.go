package jwtkeys

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/seal"
	"github.com/belfryhq/belfry/fsm/task"
)

// Source has the keys.
type Source interface {
	// State returns the state of the control group, which never changes.
	State() *clusterpb.ControlState
	// Await waits until the state satisfies a condition.
	Await(ctx context.Context, reached func(*clusterpb.ControlState) bool) error
}

// patience is the longest wait for the first key of a new cluster.
const patience = 2 * time.Second

// AwaitKey waits a moment until the state has a key for an algorithm.
func AwaitKey(ctx context.Context, source Source, algorithm string) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_ = source.Await(ctx, func(s *clusterpb.ControlState) bool { // the caller finds no key then
		return slices.ContainsFunc(s.JwtKeys, func(k *clusterpb.JwtKey) bool { return k.Algorithm == algorithm })
	})
}

// Signer signs tokens with the newest keys of the cluster. Its methods are safe for concurrent use. It signs nothing
// before Use.
type Signer struct {
	issuer string

	mu      sync.Mutex
	source  Source
	secrets *seal.Keys
	clock   func() time.Time
	keys    []*clusterpb.JwtKey               // of the state, as of the last token
	signers map[*clusterpb.JwtKey]jose.Signer // of those that have signed
}

// NewSigner returns a signer. The claim iss of its tokens is the issuer, or the cluster's id if that is empty.
func NewSigner(issuer string) *Signer { return &Signer{issuer: issuer} }

// Use gives the signer its keys, those under which they may be sealed (nil for none), and the clock that decides which
// one signs.
func (s *Signer) Use(source Source, secrets *seal.Keys, clock func() time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.source, s.secrets, s.clock = source, secrets, clock
}

// Issuer returns the claim iss of tokens.
func (s *Signer) Issuer() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.source == nil {
		return s.issuer
	}
	return cmp.Or(s.issuer, s.source.State().GetClusterId())
}

// Sign returns a signed token in its compact form. claims is a JSON object, and an empty algorithm is EdDSA. In a new
// cluster, Sign waits for its first key.
func (s *Signer) Sign(ctx context.Context, algorithm string, claims []byte) (string, error) {
	algorithm = cmp.Or(algorithm, task.EdDSA)
	signer, err := s.signer(algorithm)
	if errors.Is(err, errNoKey) {
		s.mu.Lock()
		source := s.source
		s.mu.Unlock()
		AwaitKey(ctx, source, algorithm)
		signer, err = s.signer(algorithm)
	}
	if err != nil {
		return "", err
	}
	signed, err := signer.Sign(claims)
	if err != nil {
		return "", err
	}
	return signed.CompactSerialize()
}

// signer returns the newest key that signs now.
func (s *Signer) signer(algorithm string) (jose.Signer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.source == nil {
		return nil, errors.New("this node does not know the keys of tokens yet")
	}
	if keys := s.source.State().GetJwtKeys(); !slices.Equal(keys, s.keys) {
		s.keys, s.signers = keys, map[*clusterpb.JwtKey]jose.Signer{} // no key that is gone stays in memory
	}
	now := s.clock().UnixMilli()
	for _, k := range slices.Backward(s.keys) {
		if k.Algorithm == algorithm && k.SignsMs <= now {
			return s.open(k)
		}
	}
	return nil, fmt.Errorf("%w for %s yet", errNoKey, algorithm)
}

var errNoKey = errors.New("the cluster has no key of tokens")

func (s *Signer) open(k *clusterpb.JwtKey) (jose.Signer, error) {
	if signer := s.signers[k]; signer != nil {
		return signer, nil
	}
	data, err := open(s.secrets.Ring(), k)
	if err != nil {
		return nil, fmt.Errorf("the key of tokens %s: %w", k.Id, err)
	}
	private, err := x509.ParsePKCS8PrivateKey(data)
	if err != nil {
		return nil, fmt.Errorf("the key of tokens %s is faulty", k.Id) // the error might quote it
	}
	signer, err := jose.NewSigner(
		jose.SigningKey{Algorithm: jose.SignatureAlgorithm(k.Algorithm), Key: jose.JSONWebKey{Key: private, KeyID: k.Id}},
		new(jose.SignerOptions).WithType("JWT"))
	if err == nil {
		s.signers[k] = signer
	}
	return signer, err
}
