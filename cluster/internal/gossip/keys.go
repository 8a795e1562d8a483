package gossip

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/hashicorp/memberlist"
)

// newKeyring returns the keys as memberlist holds them, nil without keys.
func newKeyring(keys [][]byte) (*memberlist.Keyring, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	ring, err := memberlist.NewKeyring(keys, keys[0])
	if err != nil {
		return nil, fmt.Errorf("gossip key: %w", err)
	}
	return ring, nil
}

// SetKeys replaces the keys. From now on the first one encrypts, and all decrypt. A mesh with keys keeps at least one,
// and a mesh without keys gets none. Calls must not overlap.
func (g *Gossip) SetKeys(keys [][]byte) error {
	if g.keyring == nil || len(keys) == 0 {
		return errors.New("gossip: a running mesh neither begins nor ends to encrypt")
	}
	if err := setKeys(g.keyring, keys); err != nil {
		return fmt.Errorf("gossip key: %w", err)
	}
	return nil
}

// setKeys gives the keyring these keys. It removes a key only from the end: memberlist v0.6.0 shifts the keys behind a
// removed one in the very slice in which another goroutine may still look for the key of a packet.
func setKeys(ring *memberlist.Keyring, keys [][]byte) error {
	for _, key := range keys {
		if err := ring.AddKey(key); err != nil {
			return err
		}
	}
	err := ring.UseKey(keys[0])
	for held := ring.GetKeys(); err == nil && len(held) > len(keys); held = ring.GetKeys() {
		last := held[len(held)-1]
		if !slices.ContainsFunc(keys, func(key []byte) bool { return bytes.Equal(key, last) }) {
			err = ring.RemoveKey(last)
			continue
		}
		if err = ring.UseKey(last); err == nil { // a used key moves to the front
			err = ring.UseKey(keys[0])
		}
	}
	return err
}
