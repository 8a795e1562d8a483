package lossyfs

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"go.etcd.io/bbolt"
)

// TestBoltKeepsWhatItAcknowledged runs bbolt, which maps its file, grows it, and syncs pages before the page that
// points to them.
func TestBoltKeepsWhatItAcknowledged(t *testing.T) {
	n := 60
	if testing.Short() {
		n = 10
	}
	rounds(t, n, false, func(dir string, durable int) *exec.Cmd {
		return self("bolt", filepath.Join(dir, "bolt.db"), strconv.Itoa(durable))
	})
}

func playBolt(path, acknowledged string) error {
	durable, err := strconv.Atoi(acknowledged)
	if err != nil {
		return err
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{})
	if err != nil {
		return fmt.Errorf("after %d writes: %w", durable, err)
	}
	last, err := checkBolt(db)
	if err != nil || last < durable {
		return fmt.Errorf("%d writes were acknowledged, but only %d are there: %w", durable, last, err)
	}
	for i := last + 1; ; i++ {
		if err := db.Update(func(tx *bbolt.Tx) error { return putBolt(tx, i) }); err != nil {
			return err
		}
		fmt.Println(i)
	}
}

var boltBucket = []byte("b")

// valueOf returns a different value for every number. Some values are large.
func valueOf(i int) []byte {
	r := rand.New(rand.NewPCG(uint64(i), 0))
	v := make([]byte, 1+r.IntN(100)+r.IntN(2)*r.IntN(10_000))
	for at := range v {
		v[at] = byte(r.Uint32())
	}
	return v
}

func keyOf(i int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(i)) }

func putBolt(tx *bbolt.Tx, i int) error {
	b, err := tx.CreateBucketIfNotExists(boltBucket)
	if err != nil {
		return err
	}
	if i > 100 && i%3 == 0 { // pages become free and are used again
		if err := b.Delete(keyOf(i - 100)); err != nil {
			return err
		}
	}
	return b.Put(keyOf(i), valueOf(i))
}

// checkBolt checks all values, and returns the last number.
func checkBolt(db *bbolt.DB) (last int, err error) {
	err = db.View(func(tx *bbolt.Tx) error {
		for err := range tx.Check() {
			return err
		}
		b := tx.Bucket(boltBucket)
		if b == nil {
			return nil
		}
		return b.ForEach(func(k, v []byte) error {
			last = int(binary.BigEndian.Uint64(k))
			if string(v) != string(valueOf(last)) {
				return fmt.Errorf("the value of key %d is wrong", last)
			}
			return nil
		})
	})
	return last, err
}
