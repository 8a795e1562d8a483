package linear

import (
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/internal/assert"
)

// stained returns a long history in which one early answer is wrong.
func stained() *story {
	s := &story{}
	s.schedule(0, 1, 90_000)
	rev := uint64(1)
	change := func(at int64) {
		rev += 2
		s.patch(at, rev, 90_000, 1)
	}
	for at := int64(10); at < 500; at += 10 {
		change(at)
	}
	s.call(500, history.Fire, history.Ask{}, history.Unknown, history.Answer{})
	s.get(505, task(rev-4, 90_000, 1)) // an older revision than was read before
	for at := int64(510); at < 1000; at += 10 {
		change(at)
	}
	return s
}

func TestShortestPrefixIsTold(t *testing.T) {
	s := stained()
	r := Check(&s.h, tight())
	if len(r.Finding.Breaches) != 1 || r.Undecided != 0 || r.IDs != 1 {
		t.Fatalf("%+v", r)
	}
	b := r.Finding.Breaches[0]
	if b.ID != "a" || at(b.At) != 507 {
		t.Errorf("%s at %d", b.ID, at(b.At))
	}
	for _, want := range []string{
		"not linearizable: the shortest prefix", "has 51 calls and grants, and 1 calls of unknown outcome. After 50 of them",
		"scheduled, revision 99, 0 attempts", "No way was found from there to: 52 get → scheduled, revision 95",
	} {
		assert.Contains(t, b.What, want)
	}
}

func TestPicture(t *testing.T) {
	s := stained()
	s.arrive(506, 2000, 1, 90_000, 1)
	for i := range s.h.Calls {
		s.h.Calls[i].ID = "a/b"
	}
	s.h.Arrivals[0].ID = "a/b"
	r := Check(&s.h, tight())
	paths, err := r.WriteHTML(t.TempDir())
	if err != nil || len(paths) != 1 || !strings.HasSuffix(paths[0], "linear-1-a_b.html") {
		t.Fatalf("%v, %v", paths, err)
	}
	page, err := os.ReadFile(paths[0])
	assert.NoError(t, err)
	for _, want := range []string{"granted 2000: attempt 1", "unknown outcome", "51 fire", "payload of 1"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("no %q in the picture", want)
		}
	}
	if paths, err := r.WriteHTML("/nowhere/at/all"); err == nil || len(paths) != 0 {
		t.Errorf("drawn into a missing directory: %v", paths)
	}
}

func TestManyFailuresAreOnlyCounted(t *testing.T) {
	var s story
	for i := range explained + 5 {
		s.op = 0
		s.schedule(0, 1, 900)
		s.get(10, task(1, 901, 1))
		for j := range 2 {
			s.h.Calls[2*i+j].ID = string(rune('a' + i))
		}
	}
	r := Check(&s.h, tight())
	if len(r.Finding.Breaches) != explained+5 || r.Finding.Breaches[explained].What != "not linearizable" {
		t.Errorf("%+v", r.Finding)
	}
	if paths, err := r.WriteHTML(t.TempDir()); err != nil || len(paths) != explained {
		t.Errorf("%d pictures, %v", len(paths), err)
	}
}

// An id without enough time for its search does not pass.
func TestUndecidedIsNoPass(t *testing.T) {
	h := simulateAs(rand.New(rand.NewPCG(1, 1)).IntN, 2000, 5, 8)
	r := Check(h, Limits{Skew: 1, Timeout: time.Microsecond})
	if r.Undecided != 1 || !r.Finding.Broken() || !strings.Contains(r.Finding.Breaches[0].What, "not decided within 1µs") {
		t.Errorf("%d undecided: %+v", r.Undecided, r.Finding.Breaches)
	}
}

func TestFigures(t *testing.T) {
	var s story
	s.schedule(0, 1, 90)
	s.maybe(10, 90).ID = "b"
	s.arrive(95, 4, 1, 90, 1)
	r := Check(&s.h, tight())
	want := "2 ids, 1 calls and 1 grants in order, 1 calls of unknown outcome; 0 ids not linearizable, 0 not decided"
	if !strings.HasPrefix(r.Finding.Figures.String(), want) || r.Finding.Broken() {
		t.Error(r.Finding)
	}
}
