package main

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/subtle"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// storage answers the library's questions about client credentials and keys. The other flows have no part in the tests:
// their methods are those of a nil interface.
type storage struct {
	op.Storage
	secret string

	mu   sync.Mutex
	keys []*key // the last one signs
}

// key is a key of the issuer, public and private.
type key struct {
	id      string
	private *rsa.PrivateKey
}

// public is the published part of a key.
type public struct{ *key }

func (k *key) ID() string                                  { return k.id }
func (k *key) Key() any                                    { return k.private }
func (k *key) SignatureAlgorithm() jose.SignatureAlgorithm { return jose.RS256 }
func (p public) Key() any                                  { return &p.private.PublicKey }
func (p public) Algorithm() jose.SignatureAlgorithm        { return jose.RS256 }
func (p public) Use() string                               { return "sig" }

func (s *storage) rotate() error {
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys = append(s.keys, &key{id: rand.Text(), private: private})
	return nil
}

func (s *storage) withdraw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys = s.keys[len(s.keys)-1:]
}

// Health, SigningKey, SignatureAlgorithms and KeySet are called by the library.
func (s *storage) Health(context.Context) error { return nil }

// SigningKey returns the newest key.
func (s *storage) SigningKey(context.Context) (op.SigningKey, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys[len(s.keys)-1], nil
}

// SignatureAlgorithms returns the algorithm of all keys.
func (s *storage) SignatureAlgorithms(context.Context) ([]jose.SignatureAlgorithm, error) {
	return []jose.SignatureAlgorithm{jose.RS256}, nil
}

// KeySet returns the published keys.
func (s *storage) KeySet(context.Context) ([]op.Key, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var keys []op.Key
	for _, k := range s.keys {
		keys = append(keys, public{k})
	}
	return keys, nil
}

// client is a caller with the secret, under any id. The library calls no other method of a client.
type client struct {
	op.Client
	id string
}

func (c *client) GetID() string                       { return c.id }
func (c *client) AuthMethod() oidc.AuthMethod         { return oidc.AuthMethodBasic }
func (c *client) AccessTokenType() op.AccessTokenType { return op.AccessTokenTypeJWT }
func (c *client) ClockSkew() time.Duration            { return 0 }
func (c *client) GrantTypes() []oidc.GrantType {
	return []oidc.GrantType{oidc.GrantTypeClientCredentials}
}
func (c *client) RestrictAdditionalAccessTokenScopes() func([]string) []string {
	return func(scopes []string) []string { return scopes }
}

// ClientCredentials checks the secret.
func (s *storage) ClientCredentials(_ context.Context, id, secret string) (op.Client, error) {
	if subtle.ConstantTimeCompare([]byte(secret), []byte(s.secret)) != 1 {
		return nil, errors.New("wrong secret")
	}
	return &client{id: id}, nil
}

// ClientCredentialsTokenRequest names the audience of a token.
func (s *storage) ClientCredentialsTokenRequest(_ context.Context, id string, sc []string) (op.TokenRequest, error) {
	return &oidc.JWTTokenRequest{Subject: id, Audience: named(sc, "audience:"), Scopes: sc}, nil
}

// CreateAccessToken names the id and the end of a token.
func (s *storage) CreateAccessToken(_ context.Context, r op.TokenRequest) (id string, expires time.Time, err error) {
	lifetime := time.Hour
	for _, text := range named(r.GetScopes(), "lifetime:") {
		if lifetime, err = time.ParseDuration(text); err != nil {
			return "", time.Time{}, err
		}
	}
	return rand.Text(), time.Now().Add(lifetime), nil
}

// GetPrivateClaimsFromScopes returns the claims of a token besides those of the protocol.
func (s *storage) GetPrivateClaimsFromScopes(_ context.Context, _, _ string, scopes []string) (map[string]any, error) {
	return map[string]any{
		"groups":       named(scopes, "groups:"),
		"namespaces":   named(scopes, "namespace:"),
		"realm_access": map[string]any{"roles": named(scopes, "role:")},
	}, nil
}

// named returns the rest of the scopes that begin with a prefix.
func named(scopes []string, prefix string) []string {
	names := []string{}
	for _, scope := range scopes {
		if name, ok := strings.CutPrefix(scope, prefix); ok {
			names = append(names, name)
		}
	}
	return names
}
