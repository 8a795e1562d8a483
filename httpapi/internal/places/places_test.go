package places

import (
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// book takes places and checks refusals.
type book struct {
	t *testing.T
	*Places
}

func (b book) take(c Caller) func() {
	b.t.Helper()
	leave, err := b.Take(c)
	if err != nil {
		b.t.Fatalf("%+v: %v", c, err)
	}
	return leave
}

func (b book) refused(c Caller, limit int) {
	b.t.Helper()
	leave, err := b.Take(c)
	if err == nil {
		leave()
		b.t.Fatalf("%+v takes a place", c)
	}
	var full *FullError
	if !errors.As(err, &full) || full.Limit != limit || full.Detail == "" {
		b.t.Errorf("%+v: %v, not the limit %d", c, err, limit)
	}
}

// fill takes places until the first refusal, and returns their number.
func (b book) fill(c Caller) (n int) {
	for {
		if _, err := b.Take(c); err != nil {
			return n
		}
		n++
	}
}

func at(addr string) Caller { return Caller{Addr: addr} }

func key(id, namespace string) Caller {
	return Caller{Kind: "key", ID: id, Namespace: namespace, Addr: "192.0.2.1:1"}
}

func TestAddresses(t *testing.T) {
	b := book{t, New("streams", 8)}
	var leaves []func()
	for i := range 6 { // one machine, with any port or address in its network
		leaves = append(leaves, b.take(at(fmt.Sprintf("[2001:db8::%d%%eth0]:%d", i+1, 1000+i))))
	}
	b.refused(at("[2001:db8::ffff]:1"), 6)
	first := b.take(at("192.0.2.1:1"))
	b.take(at("[::ffff:192.0.2.1]:2"))
	b.refused(at("192.0.2.1:3"), 8) // no place is left at all
	b.refused(at("192.0.2.2:1"), 8)
	leaves[0]()
	b.take(at("[2001:db8::7]:1"))
	first()
	b.take(at("@"))
	if b.taken != 8 || len(b.by) != 3 {
		t.Errorf("%d places, of %v", b.taken, b.by)
	}
}

// TestKeys checks that each key leaves as many places free as it holds, although all of them come from one address.
func TestKeys(t *testing.T) {
	b := book{t, New("batches", 256)}
	for i, want := range []int{128, 64, 32, 16, 8, 4, 2, 1} {
		if got := b.fill(key(fmt.Sprint("k", i), fmt.Sprint("n", i))); got != want {
			t.Errorf("key %d takes %d places, not %d", i, got, want)
		}
	}
	b.take(key("last", "n9"))
	b.refused(key("later", "n9"), 256)
	b.refused(key("k0", "n0"), 256)
}

// TestKeysBecomeEqual checks that keys that give places back and take what they can end with equal parts.
func TestKeysBecomeEqual(t *testing.T) {
	const keys = 3
	b := book{t, New("streams", 1024)}
	held := make([][]func(), keys)
	for range 20_000 {
		for k := range held {
			if n := len(held[k]); n > 0 {
				held[k][n-1]()
				held[k] = held[k][:n-1]
			}
			for range 2 {
				if leave, err := b.Take(key(fmt.Sprint(k), fmt.Sprint("n", k))); err == nil {
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
	b := book{t, New("batches", 256)}
	taken := 0
	for i := range 300 {
		taken += b.fill(key(fmt.Sprint("k", i), "many"))
	}
	if taken != 192 {
		t.Errorf("the keys of one namespace take %d of 256 places", taken)
	}
	b.refused(key("new", "many"), 192)
	if got := b.fill(key("k", "other")); got != 32 {
		t.Errorf("a key of another namespace takes %d places", got)
	}
}

// TestFewPlaces checks that a lone caller gets a place however few there are.
func TestFewPlaces(t *testing.T) {
	for limit := 1; limit <= 4; limit++ {
		b := book{t, New("backups", limit)}
		if got := b.fill(key("k", "")); got != (limit+1)/2 {
			t.Errorf("a key takes %d of %d places", got, limit)
		}
	}
}

func TestPlacesAreGivenBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := New("streams", rapid.IntRange(1, 9).Draw(t, "limit"))
		var leaves []func()
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			if len(leaves) > 0 && rapid.Bool().Draw(t, "leaves") {
				leaves[0]()
				leaves = leaves[1:]
				continue
			}
			c := at(fmt.Sprintf("192.0.2.%d:1", rapid.IntRange(1, 3).Draw(t, "from")))
			if rapid.Bool().Draw(t, "with a key") {
				c = key(fmt.Sprint(rapid.IntRange(1, 3).Draw(t, "key")), fmt.Sprint(rapid.IntRange(1, 2).Draw(t, "namespace")))
			}
			before := p.taken
			leave, err := p.Take(c)
			if err == nil {
				leaves = append(leaves, leave)
			}
			if (err == nil) != (p.taken == before+1) || p.taken > p.limit {
				t.Fatalf("%d places of %d, %d before: %v", p.taken, p.limit, before, err)
			}
		}
		for _, leave := range leaves {
			leave()
		}
		if p.taken != 0 || len(p.by) != 0 {
			t.Fatalf("%d places of %v are never given back", p.taken, p.by)
		}
	})
}
