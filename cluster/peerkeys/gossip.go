package peerkeys

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// GossipKeyBytes is the length of a gossip key, for AES-256.
const GossipKeyBytes = 32

// maxGossipKeys bounds the keys in a file: each packet under an unknown key is tried with all of them.
const maxGossipKeys = 8

// ParseGossip returns the keys of a gossip file: 32 bytes in base64 on each line. The first key encrypts, all decrypt.
// Empty lines and lines that begin with # are skipped.
func ParseGossip(data []byte) ([][]byte, error) {
	var keys [][]byte
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, err := base64.StdEncoding.DecodeString(line)
		if err != nil || len(key) != GossipKeyBytes {
			return nil, fmt.Errorf("line %d does not hold %d bytes in base64", number, GossipKeyBytes)
		}
		if holds(keys, key) {
			return nil, fmt.Errorf("line %d repeats a key", number)
		}
		keys = append(keys, key)
	}
	switch {
	case len(keys) == 0:
		return nil, errors.New("it has no key")
	case len(keys) > maxGossipKeys:
		return nil, fmt.Errorf("it has %d keys; at most %d", len(keys), maxGossipKeys)
	}
	return keys, nil
}

func holds(keys [][]byte, key []byte) bool {
	for _, k := range keys {
		if bytes.Equal(k, key) {
			return true
		}
	}
	return false
}

// FormatGossip returns the content of a gossip file with these keys.
func FormatGossip(keys [][]byte) []byte {
	var text bytes.Buffer
	for _, key := range keys {
		text.WriteString(base64.StdEncoding.EncodeToString(key) + "\n")
	}
	return text.Bytes()
}

func (f Files) parseGossip(contents [][]byte) ([][]byte, error) {
	keys, err := ParseGossip(contents[0])
	if err != nil {
		return nil, fmt.Errorf("gossip key %s: %w", f.Gossip, err)
	}
	return keys, nil
}
