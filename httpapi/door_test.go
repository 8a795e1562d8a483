package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/belfryhq/belfry/internal/assert"
)

// TestOneKeyDoesNotLockOthersOut checks that idle batches, streams and waiting leases of one key leave room for others
// at the same address, and that those of a namespace leave room for another one.
func TestOneKeyDoesNotLockOthersOut(t *testing.T) {
	for path, body := range map[string]string{
		"/v1/batch": "", "/v1/queues/q/stream": "", "/v1/queues/q/lease": `{"wait":"1m"}`,
	} {
		synctest.Test(t, func(t *testing.T) {
			h := newHarness(t, withAccess, func(c *Config) { c.MaxBatches, c.MaxStreams, c.MaxPolls = 8, 8, 8 })
			call := func(caller string, body io.Reader) *httptest.ResponseRecorder {
				r := httptest.NewRequest("POST", path, body)
				r.Header.Set("Authorization", "Bearer "+caller)
				r.Header.Set("Content-Type", jsonType)
				if strings.HasSuffix(path, "batch") || strings.HasSuffix(path, "stream") {
					r.Header.Set("Content-Type", ndjsonType)
				}
				w := httptest.NewRecorder()
				h.server.ServeHTTP(w, r)
				return w
			}
			var idle sync.WaitGroup
			var ends []*io.PipeWriter
			hold := func(caller string, n int) {
				for range n {
					in, end := io.Pipe()
					ends = append(ends, end)
					idle.Go(func() { call(caller, io.MultiReader(strings.NewReader(body), in)) })
				}
				synctest.Wait()
			}
			end := func() {
				for _, end := range ends {
					_ = end.Close()
				}
			}
			first, second := "schedule@a consume@a", "consume@a schedule@a"
			hold(first, 4)
			if body != "" { // a lease reads its whole body before it waits
				end()
				synctest.Wait()
			}
			refused := func(caller, limit string) {
				t.Helper()
				w := call(caller, strings.NewReader(""))
				if w.Code != 429 || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), `"limit":"`+limit+`"`) {
					t.Errorf("%s of %q: %d %s", path, caller, w.Code, w.Body)
				}
			}
			refused(first, "4")
			hold(second, 2)
			refused(second, "2")
			refused("consume@a schedule@a read@a", "6") // the namespace has three quarters
			w := call("schedule@b consume@b", strings.NewReader(""))
			assert.Equal(t, w.Code, 200, "%s of another namespace: %s", path, w.Body)
			end()
			h.server.close() // ends the leases
			idle.Wait()
		})
	}
}

// TestOneAddressDoesNotLockOthersOut checks that idle batches of one address leave room for others, and that streams do
// too.
func TestOneAddressDoesNotLockOthersOut(t *testing.T) {
	for _, path := range []string{"/v1/batch", "/v1/queues/q/stream"} {
		synctest.Test(t, func(t *testing.T) {
			h := newHarness(t, func(c *Config) { c.MaxBatches, c.MaxStreams = 4, 4 })
			call := func(remote string, body io.Reader) *httptest.ResponseRecorder {
				r := httptest.NewRequest("POST", path, body)
				r.Header.Set("Content-Type", ndjsonType)
				r.RemoteAddr = remote
				w := httptest.NewRecorder()
				h.server.ServeHTTP(w, r)
				return w
			}
			var idle sync.WaitGroup
			var ends []*io.PipeWriter
			for range 3 {
				body, end := io.Pipe()
				ends = append(ends, end)
				idle.Go(func() { call("192.0.2.1:1", body) })
			}
			synctest.Wait()
			if w := call("192.0.2.1:2", strings.NewReader("")); w.Code != 429 || w.Header().Get("Retry-After") == "" ||
				!strings.Contains(w.Body.String(), `"limit":"3"`) {
				t.Errorf("%s, the same address: %d %s", path, w.Code, w.Body)
			}
			w := call("192.0.2.2:1", strings.NewReader(""))
			assert.Equal(t, w.Code, 200, "%s, another address: %s", path, w.Body)
			for _, end := range ends {
				_ = end.Close()
			}
			idle.Wait()
		})
	}
}

// book takes places and checks refusals.
type book struct {
	t *testing.T
	*places
}

func (b book) mustTake(h holder) func() {
	b.t.Helper()
	leave, refusal := b.take(h)
	if refusal != nil {
		b.t.Fatalf("%+v: %v", h, refusal)
	}
	return leave
}

func (b book) refused(h holder, limit int) {
	b.t.Helper()
	leave, refusal := b.take(h)
	if refusal == nil {
		leave()
		b.t.Fatalf("%+v takes a place", h)
	}
	if refusal.limit != fmt.Sprint(limit) || refusal.detail == "" || refusal.kind != overloaded {
		b.t.Errorf("%+v: %v, not the limit %d", h, refusal, limit)
	}
}

// fill takes places until the first refusal, and returns their number.
func (b book) fill(h holder) (n int) {
	for {
		if _, refusal := b.take(h); refusal != nil {
			return n
		}
		n++
	}
}

func atAddress(addr string) holder { return holder{group: networkOf(addr)} }

func withKey(id, namespace string) holder {
	return holder{caller: "key " + id, group: "namespace " + namespace}
}

// TestPlacesOfAddresses checks that one machine leaves places to others, whatever port or address of its network it
// calls from.
func TestPlacesOfAddresses(t *testing.T) {
	b := book{t, newPlaces("streams", 8)}
	var leaves []func()
	for i := range 6 { // one machine, with any port or address in its network
		leaves = append(leaves, b.mustTake(atAddress(fmt.Sprintf("[2001:db8::%d%%eth0]:%d", i+1, 1000+i))))
	}
	b.refused(atAddress("[2001:db8::ffff]:1"), 6)
	first := b.mustTake(atAddress("192.0.2.1:1"))
	b.mustTake(atAddress("[::ffff:192.0.2.1]:2"))
	b.refused(atAddress("192.0.2.1:3"), 8) // no place is left at all
	b.refused(atAddress("192.0.2.2:1"), 8)
	leaves[0]()
	b.mustTake(atAddress("[2001:db8::7]:1"))
	first()
	b.mustTake(atAddress("@"))
	if n := b.groups.Taken(); n != 8 || b.callers.Taken() != 8 {
		t.Errorf("%d places are taken", n)
	}
}

// TestPlacesOfKeys checks that each key leaves as many places free as it holds, although all of them come from one address.
func TestPlacesOfKeys(t *testing.T) {
	b := book{t, newPlaces("batches", 256)}
	for i, want := range []int{128, 64, 32, 16, 8, 4, 2, 1} {
		if got := b.fill(withKey(fmt.Sprint("k", i), fmt.Sprint("n", i))); got != want {
			t.Errorf("key %d takes %d places, not %d", i, got, want)
		}
	}
	b.mustTake(withKey("last", "n9"))
	b.refused(withKey("later", "n9"), 256)
	b.refused(withKey("k0", "n0"), 256)
}

// TestKeysBecomeEqual checks that keys that give places back and take what they can end with equal parts.
func TestKeysBecomeEqual(t *testing.T) {
	const keys = 3
	b := book{t, newPlaces("streams", 1024)}
	held := make([][]func(), keys)
	for range 20_000 {
		for k := range held {
			if n := len(held[k]); n > 0 {
				held[k][n-1]()
				held[k] = held[k][:n-1]
			}
			for range 2 {
				if leave, refusal := b.take(withKey(fmt.Sprint(k), fmt.Sprint("n", k))); refusal == nil {
					held[k] = append(held[k], leave)
				}
			}
		}
	}
	for k := range held {
		if n := len(held[k]); n < 250 || n > 260 {
			t.Errorf("key %d holds %d of 1024 places", k, n)
		}
	}
}

// TestKeysOfANamespace checks that a namespace with any number of keys leaves a quarter of the places to others.
func TestKeysOfANamespace(t *testing.T) {
	b := book{t, newPlaces("batches", 256)}
	taken := 0
	for i := range 300 {
		taken += b.fill(withKey(fmt.Sprint("k", i), "many"))
	}
	if taken != 192 {
		t.Errorf("the keys of one namespace take %d of 256 places", taken)
	}
	b.refused(withKey("new", "many"), 192)
	if got := b.fill(withKey("k", "other")); got != 32 {
		t.Errorf("a key of another namespace takes %d places", got)
	}
}

// TestFewPlaces checks that a lone caller gets a place however few there are.
func TestFewPlaces(t *testing.T) {
	for limit := 1; limit <= 4; limit++ {
		b := book{t, newPlaces("backups", limit)}
		if got := b.fill(withKey("k", "")); got != (limit+1)/2 {
			t.Errorf("a key takes %d of %d places", got, limit)
		}
	}
}

func TestPlacesAreGivenBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newPlaces("streams", rapid.IntRange(1, 9).Draw(t, "limit"))
		var leaves []func()
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			if len(leaves) > 0 && rapid.Bool().Draw(t, "leaves") {
				leaves[0]()
				leaves = leaves[1:]
				continue
			}
			c := atAddress(fmt.Sprintf("192.0.2.%d:1", rapid.IntRange(1, 3).Draw(t, "from")))
			if rapid.Bool().Draw(t, "with a key") {
				c = withKey(fmt.Sprint(rapid.IntRange(1, 3).Draw(t, "key")), fmt.Sprint(rapid.IntRange(1, 2).Draw(t, "namespace")))
			}
			before := p.callers.Taken()
			leave, refusal := p.take(c)
			if refusal == nil {
				leaves = append(leaves, leave)
			}
			taken := p.callers.Taken()
			if (refusal == nil) != (taken == before+1) || taken > p.limit || taken != p.groups.Taken() {
				t.Fatalf("%d places of %d, %d before: %v", taken, p.limit, before, refusal)
			}
		}
		for _, leave := range leaves {
			leave()
		}
		if n := p.callers.Taken(); n != 0 || p.groups.Taken() != 0 {
			t.Fatalf("%d places are never given back", n)
		}
	})
}

// commitNow commits at once, or returns 0 if the namespace must wait.
func commitNow(t *testing.T, c *commits, namespace string, lines int) (n int, done func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	n, done, err := c.begin(ctx, namespace, lines)
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	return n, done
}

// TestAloneANamespaceCommitsAll checks that commits are whole and unbounded while one namespace calls, and again a
// second after the last call of another one.
func TestAloneANamespaceCommitsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCommits(nil)
		all := func(namespace string) {
			t.Helper()
			c.note(namespace)
			for range 3 {
				n, _ := commitNow(t, c, namespace, 2000)
				assert.Equal(t, n, 2000, "lines")
			}
		}
		all("a")
		c.note("b")
		if n, done := commitNow(t, c, "a", 2000); n != mixedLines {
			t.Errorf("%d lines beside another namespace", n)
		} else {
			done()
		}
		c.note("b")
		time.Sleep(time.Second)
		all("b")
	})
}

// TestOneCommitAtATime checks that a namespace waits for its own commit, and for no other namespace's.
func TestOneCommitAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCommits(func(namespace string) int { return map[string]int{"heavy": 3}[namespace] })
		c.note("storm")
		c.note("heavy")
		n, done := commitNow(t, c, "storm", 1000)
		assert.Equal(t, n, mixedLines, "lines")
		if n, _ := commitNow(t, c, "storm", 1); n != 0 {
			t.Error("a second commit of the namespace begins")
		}
		if n, other := commitNow(t, c, "heavy", 1000); n != 3*mixedLines {
			t.Errorf("%d lines of the heavy namespace", n)
		} else {
			other()
		}
		done()
		if n, again := commitNow(t, c, "storm", 5); n != 5 {
			t.Errorf("%d lines of 5", n)
		} else {
			again()
		}
	})
}
