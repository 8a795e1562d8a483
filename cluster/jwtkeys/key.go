package jwtkeys

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	_ "crypto/sha256" // of thumbprints
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/seal"
	"github.com/belfryhq/belfry/fsm/task"
)

// Overlaps of a rotation other than 0.
const (
	LeastOverlap = 3 * task.TokenLife
	MostOverlap  = 30 * 24 * time.Hour
)

// rsaBits is the length of an RSA key. NIST SP 800-57 holds it good through 2030.
const rsaBits = 2048

// New draws a key pair for an algorithm.
func New(algorithm string) (*clusterpb.JwtKey, error) {
	private, err := draw(algorithm)
	if err != nil {
		return nil, err
	}
	k := &clusterpb.JwtKey{Algorithm: algorithm}
	if k.Private, err = x509.MarshalPKCS8PrivateKey(private); err != nil {
		return nil, err
	}
	if k.Public, err = x509.MarshalPKIXPublicKey(private.Public()); err != nil {
		return nil, err
	}
	thumb, err := (&jose.JSONWebKey{Key: private.Public()}).Thumbprint(crypto.SHA256)
	k.Id = base64.RawURLEncoding.EncodeToString(thumb)
	return k, err
}

func draw(algorithm string) (crypto.Signer, error) {
	switch algorithm {
	case task.EdDSA:
		_, private, err := ed25519.GenerateKey(rand.Reader)
		return private, err
	case task.RS256:
		return rsa.GenerateKey(rand.Reader, rsaBits)
	}
	return nil, fmt.Errorf("no keys are known for the algorithm %q", algorithm)
}

// IsCurrent reports whether a key is stored as the ring seals: under its first key, or in the clear without one.
func IsCurrent(ring *seal.Ring, k *clusterpb.JwtKey) bool {
	return k.GetSealed().GetKey() == ring.First()
}

// Seal returns a key with its private part sealed under the first key of the ring, which may be nil for none. It does
// not write to k.
func Seal(ring *seal.Ring, k *clusterpb.JwtKey) (*clusterpb.JwtKey, error) {
	if IsCurrent(ring, k) {
		return k, nil
	}
	private, err := open(ring, k)
	if err != nil {
		return nil, err
	}
	k = Published(k)
	if ring == nil {
		k.Private = private
	} else {
		k.Sealed = ring.SealText(private, bindingOf(k))
	}
	return k, nil
}

// Published returns a key without its private part.
func Published(k *clusterpb.JwtKey) *clusterpb.JwtKey {
	return &clusterpb.JwtKey{
		Id: k.Id, Algorithm: k.Algorithm, Public: k.Public, MadeMs: k.MadeMs, SignsMs: k.SignsMs, EndsMs: k.EndsMs,
	}
}

// open returns the private part of a key as PKCS 8.
func open(ring *seal.Ring, k *clusterpb.JwtKey) ([]byte, error) {
	if k.Sealed == nil {
		return k.Private, nil
	}
	return ring.OpenText(k.Sealed, bindingOf(k))
}

func bindingOf(k *clusterpb.JwtKey) []byte { return []byte("private key of tokens\n" + k.Id) }

// KeySet returns the public keys as a JSON Web Key Set (RFC 7517).
func KeySet(keys []*clusterpb.JwtKey) ([]byte, error) {
	set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{}}
	for _, k := range keys {
		public, err := x509.ParsePKIXPublicKey(k.Public)
		if err != nil {
			return nil, fmt.Errorf("the key of tokens %s: %w", k.Id, err)
		}
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: public, KeyID: k.Id, Algorithm: k.Algorithm, Use: "sig"})
	}
	return json.Marshal(set)
}
