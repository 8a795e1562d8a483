package access

import (
	"context"
	"testing"
	"time"
)

// BenchmarkJudgedKey is the price of a key for each call after its first.
func BenchmarkJudgedKey(b *testing.B) {
	record, text := newKey(time.Now().Add(time.Hour))
	a := newAuthority(b, Config{Source: &oneKey{record: record, version: 1}})
	benchmarkCaller(b, a, withKey(text), true)
}

// BenchmarkFreshKey is the price of a key's first call after a change of keys.
func BenchmarkFreshKey(b *testing.B) {
	record, text := newKey(time.Time{})
	source := &oneKey{record: record, version: 1}
	a := newAuthority(b, Config{Source: source})
	c := withKey(text)
	b.ReportAllocs()
	for b.Loop() {
		source.version++
		if _, err := a.Caller(context.Background(), c); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkWrongKey(b *testing.B) {
	record, _ := newKey(time.Time{})
	a := newAuthority(b, Config{Source: &oneKey{record: record, version: 1}})
	_, wrong := NewKey()
	benchmarkCaller(b, a, withKey(wrong), false)
}

func BenchmarkJudgedToken(b *testing.B) {
	a := newAuthority(b, Config{Source: newKeys(), Tokens: &tokens{until: time.Now().Add(time.Hour)}})
	token := make([]byte, 1200)
	for i := range token {
		token[i] = 'a'
	}
	benchmarkCaller(b, a, withKey("good."+string(token)), true)
}

// oneKey is a Source of one key that costs next to nothing.
type oneKey struct {
	record  KeyRecord
	version uint64
}

func (k *oneKey) KeysVersion() uint64             { return k.version }
func (k *oneKey) KeysInForce() bool               { return true }
func (k *oneKey) Key(id string) (KeyRecord, bool) { return k.record, id == k.record.ID }
func (k *oneKey) KeyUsed(string)                  {}

func benchmarkCaller(b *testing.B, a *Authority, c Credentials, right bool) {
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := a.Caller(context.Background(), c); right != (err == nil) {
				b.Fatal(err)
			}
		}
	})
}
