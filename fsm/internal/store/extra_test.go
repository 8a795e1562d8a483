package store

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/internal/assert"
)

// An extra reads back unchanged, shared or not. Its hash and size are the same either way.
func TestExtraIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := drawExtra(t)
		free, full := New(0), New(0)
		full.fillManners()
		var sums []uint64
		for _, s := range []*Store{free, full} {
			c := &cold{delay: NoDelay}
			s.mem.setExtra(c, e)
			if got := s.mem.extraOf(c); !proto.Equal(got, e) {
				t.Fatalf("%v, not %v", got, e)
			}
			if c.manner != 0 && s == full || c.manner == 0 && s == free && mannerOf(e.Spec).SizeVT() > 0 {
				t.Errorf("manner %d", c.manner)
			}
			sums = append(sums, s.mem.digestCold(&record{}, c), uint64(extraBytes(s.mem.extraOf(c))))
		}
		if sums[0] != sums[2] || sums[1] != sums[3] {
			t.Errorf("hashes and sizes %v", sums)
		}
	})
}

func (s *Store) fillManners() {
	for i := range maxInterned {
		s.mem.manners.acquire(fmt.Sprint("manner ", i), func() manner { return manner{extra: noExtra} })
	}
}

func drawExtra(t *rapid.T) *fsmpb.Extra {
	e := &fsmpb.Spec{
		ContentType:    rapid.SampledFrom([]string{"", "text/plain"}).Draw(t, "content type"),
		ExpiresAfterMs: rapid.SampledFrom([]int64{0, 1000}).Draw(t, "expires after"),
		Traceparent:    rapid.SampledFrom([]string{"", "00-1-2-01"}).Draw(t, "traceparent"),
	}
	if rapid.Bool().Draw(t, "retry") {
		e.Retry = &fsmpb.Retry{MaxAttempts: 3, DelaysMs: rapid.SliceOfN(rapid.Int64Range(1, 9), 0, 3).Draw(t, "delays")}
	}
	if rapid.Bool().Draw(t, "target") {
		e.Target = &fsmpb.Target{Url: "http://a"}
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "labels") {
		e.Labels = append(e.Labels, &fsmpb.Label{Name: fmt.Sprint(i), Value: rapid.String().Draw(t, "value")})
	}
	return &fsmpb.Extra{Spec: e}
}

// Tasks whose targets differ in their proof alone keep their own, and have different hashes.
func TestProofsAreKeptApart(t *testing.T) {
	sums := map[uint64]bool{}
	s := New(0)
	for i, a := range []*fsmpb.Auth{
		nil, {ClientCertificate: "a"}, {Jwt: &fsmpb.Jwt{Audience: "a"}}, {Jwt: &fsmpb.Jwt{Audience: "a"}, ClientCertificate: "a"},
		{Jwt: &fsmpb.Jwt{Audience: "a", Algorithm: "RS256"}}, {Jwt: &fsmpb.Jwt{Audience: "a", Claims: []byte("{}")}},
	} {
		id, spec := fmt.Sprint(i), &fsmpb.Spec{Target: &fsmpb.Target{Url: "https://a", Auth: a}}
		put(s, id, spec)
		assert.Equal(t, proto.Equal(s.Find("", id).Target(), spec.Target), true, "%v", a)
		alone := New(0)
		put(alone, "a", spec)
		sums[alone.Hash()] = true
	}
	assert.Equal(t, len(sums), 6, "hashes")
	assert.NoError(t, s.Audit())
}

// The table has a manner only as long as a task uses it.
func TestMannersAreLetGo(t *testing.T) {
	s := New(0)
	labelled := func(id string, labels ...*fsmpb.Label) {
		t.Helper()
		put(s, id, &fsmpb.Spec{Labels: labels})
		assert.NoError(t, s.Audit())
	}
	gold, iron := &fsmpb.Label{Name: "tier", Value: "gold"}, &fsmpb.Label{Name: "tier", Value: "iron"}
	labelled("a", gold)
	labelled("b", gold)
	labelled("c", iron)
	assert.Equal(t, len(s.mem.manners.numbers), 2, "manners of three tasks")
	labelled("a", iron)
	labelled("b", iron)
	assert.Equal(t, len(s.mem.manners.numbers), 1, "manners when all are the same")
	for _, id := range []string{"a", "b", "c"} {
		labelled(id)
	}
	assert.Equal(t, len(s.mem.manners.numbers), 0, "manners when none is left")
}

// put makes a task, or replaces its content.
func put(s *Store, id string, spec *fsmpb.Spec) {
	s.Number++
	content := Content{Spec: spec, Occurrence: s.Number, DelayMs: NoDelay}
	if t := s.Find("", id); t.Exists() {
		s.Change(t, func(e Edit) {
			e.Rewrite(content)
			e.Reschedule(99)
		})
		return
	}
	s.Add(s.PlaceOf("", id), "", id, nil, content, 99)
}
