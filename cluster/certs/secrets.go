package certs

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/belfryhq/belfry/cluster/peerkeys"
)

// secrets are the content of cluster.pem.
type secrets struct {
	authorities ring[*authority]
	gossip      ring[[]byte]
}

func newSecrets(newAuthority func() (*authority, error)) (*secrets, error) {
	a, err := newAuthority()
	if err != nil {
		return nil, err
	}
	key, err := newGossipKey()
	if err != nil {
		return nil, err
	}
	s := new(secrets)
	s.authorities.used, s.gossip.used = a, key
	return s, nil
}

func newGossipKey() ([]byte, error) {
	key := make([]byte, peerkeys.GossipKeyBytes)
	_, err := rand.Read(key)
	return key, err
}

// caPEM returns the certificates of the authorities that nodes trust.
func (s *secrets) caPEM() []byte {
	var text []byte
	for _, a := range s.authorities.all() {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: certType, Bytes: a.cert.Raw})...)
	}
	return text
}

func (s *secrets) gossipFile() []byte { return peerkeys.FormatGossip(s.gossip.all()) }

// gossipType is the type of the PEM block of a gossip key.
const gossipType = "BELFRY GOSSIP KEY"

// roleHeader is the header of a certificate or gossip key that says which one of a ring it is.
const roleHeader = "Role"

// The roles.
const (
	roleUsed   = "used"
	roleNext   = "next"
	roleFormer = "former"
)

// roles returns the roles of the values of a ring, in the order of all.
func (r *ring[T]) roles() []string {
	return []string{roleUsed, map[Step]string{Install: roleNext, Use: roleFormer}[r.step]}
}

// put adds a value that was read, by its role.
func (r *ring[T]) put(role string, value T) error {
	switch role {
	case roleUsed:
		r.used = value
	case roleNext:
		r.other, r.step = &value, Install
	case roleFormer:
		r.other, r.step = &value, Use
	default:
		return fmt.Errorf("role %q", role)
	}
	return nil
}

func (s *secrets) encode() ([]byte, error) {
	var out bytes.Buffer
	for i, a := range s.authorities.all() {
		headers := map[string]string{roleHeader: s.authorities.roles()[i]}
		if err := pem.Encode(&out, &pem.Block{Type: certType, Headers: headers, Bytes: a.cert.Raw}); err != nil {
			return nil, err
		}
		key, err := encodeKey(a.key)
		if err != nil {
			return nil, err
		}
		out.Write(key)
	}
	for i, key := range s.gossip.all() {
		headers := map[string]string{roleHeader: s.gossip.roles()[i]}
		if err := pem.Encode(&out, &pem.Block{Type: gossipType, Headers: headers, Bytes: key}); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}

func decodeSecrets(data []byte) (*secrets, error) {
	s := new(secrets)
	for {
		var block *pem.Block
		block, data = pem.Decode(data)
		if block == nil {
			break
		}
		var err error
		switch block.Type {
		case certType:
			data, err = s.decodeAuthority(block, data)
		case gossipType:
			err = s.gossip.put(block.Headers[roleHeader], block.Bytes)
		default:
			err = errors.New("unknown block")
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", block.Type, err)
		}
	}
	if len(bytes.TrimSpace(data)) > 0 || s.authorities.used == nil || len(s.gossip.used) != peerkeys.GossipKeyBytes {
		return nil, errors.New("it is not complete")
	}
	return s, nil
}

// decodeAuthority reads a certificate, and its key from the next block. It returns the rest of the data.
func (s *secrets) decodeAuthority(block *pem.Block, data []byte) ([]byte, error) {
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, err
	}
	second, rest := pem.Decode(data)
	if second == nil || second.Type != keyType {
		return nil, errors.New("no private key follows")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(second.Bytes)
	if err != nil {
		return nil, err
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || !key.PublicKey.Equal(cert.PublicKey) {
		return nil, errors.New("the private key that follows is not its own")
	}
	return rest, s.authorities.put(block.Headers[roleHeader], &authority{cert: cert, key: key})
}
