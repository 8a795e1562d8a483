package access

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
)

// An address has a hundred wrong keys a second. Keys that were right before pass meanwhile, and so do other addresses.
func TestWrongKeysAreLimited(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	record, right := newKey(time.Time{})
	fresh, freshText := newKey(time.Time{})
	source := newKeys(record, fresh)
	a := newAuthority(t, Config{Source: source, Now: func() time.Time { return now }})
	passes(t, a, withKey(right))
	for range 10 * wrongPerSecond {
		refuses(t, a, Credentials{Addr: home}, Missing) // counts as no attempt
	}
	for i := range wrongPerSecond {
		if i%2 == 0 {
			_, wrong := NewKey()
			refuses(t, a, withKey(wrong), Unknown)
		} else {
			refuses(t, a, withKey("bfy_cut"), Malformed)
		}
	}
	_, wrong := NewKey()
	r := refuses(t, a, withKey(wrong), TooMany)
	assert.Equal(t, r.RetryAfter, time.Second, "retry after")
	refuses(t, a, withKey("bfy_cut"), TooMany)
	refuses(t, a, Credentials{Authorization: "Basic eDp5", Addr: home}, TooMany)
	refuses(t, a, Credentials{Addr: home}, Missing)

	refuses(t, a, withKey(freshText), TooMany) // it was never judged, so it may be a guess
	passes(t, a, withKey(right))
	source.put(record)
	passes(t, a, withKey(right)) // judged again
	elsewhere := withKey(freshText)
	elsewhere.Addr = netip.MustParseAddr("192.0.2.2")
	passes(t, a, elsewhere)
	passes(t, a, withKey(freshText))

	now = now.Add(10 * time.Millisecond)
	refuses(t, a, withKey(wrong), Unknown)
	refuses(t, a, withKey(wrong), TooMany)
	now = now.Add(time.Hour)
	for range wrongPerSecond {
		refuses(t, a, withKey(wrong), Unknown)
	}
	refuses(t, a, withKey(wrong), TooMany)
}

// TestRenewedAuthority checks that a change of the node's credentials during an attack locks no caller out, lets no
// earlier root key in, and gives the attacker no new attempts.
func TestRenewedAuthority(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	record, right := newKey(time.Time{})
	_, former := NewKey()
	_, latter := NewKey()
	cfg := Config{Source: newKeys(record), Root: rootKey(t, former), Now: func() time.Time { return now }}
	a := newAuthority(t, cfg)
	passes(t, a, withKey(right))
	passes(t, a, withKey(former))
	for range wrongPerSecond {
		refuses(t, a, withKey("bfy_cut"), Malformed)
	}
	cfg.Root = rootKey(t, latter)
	next, err := a.Renewed(cfg)
	assert.NoError(t, err)
	passes(t, next, withKey(right))
	refuses(t, next, withKey("bfy_cut"), TooMany)
	refuses(t, next, withKey(latter), TooMany) // it was never judged
	refuses(t, next, withKey(former), TooMany) // it is judged, and counts as wrong
	now = now.Add(time.Second)
	refuses(t, next, withKey(former), Unknown)
	passes(t, next, withKey(latter))
}

func rootKey(t *testing.T, text string) *RootKey {
	t.Helper()
	root, err := NewRootKey(text)
	assert.NoError(t, err)
	return root
}

// A revoked key is a wrong one from the first call on.
func TestRevokedKeyCountsAsWrong(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	record, text := newKey(time.Time{})
	source := newKeys(record)
	a := newAuthority(t, Config{Source: source, Now: func() time.Time { return now }})
	passes(t, a, withKey(text))
	source.revoke(record.ID)
	for range wrongPerSecond {
		refuses(t, a, withKey(text), Unknown)
	}
	refuses(t, a, withKey(text), TooMany)
	assert.Equal(t, a.keys.Len(), 0, "a revoked key is remembered")
}

// Above the limit no new token is verified, and known ones pass.
func TestWrongTokensAreLimited(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	issuer := &tokens{until: now.Add(time.Hour)}
	a := newAuthority(t, Config{Source: newKeys(), Tokens: issuer, Now: func() time.Time { return now }})
	passes(t, a, withKey("good.jane"))
	for range wrongPerSecond {
		refuses(t, a, withKey("bad"), Unknown)
	}
	calls := issuer.calls
	refuses(t, a, withKey("bad"), TooMany)
	refuses(t, a, withKey("good.joe"), TooMany)
	passes(t, a, withKey("good.jane"))
	assert.Equal(t, issuer.calls, calls, "a token was verified above the limit")
	now = issuer.until
	issuer.err = &Refusal{Kind: Unknown, Detail: "an expired token"}
	refuses(t, a, withKey("good.jane"), Unknown)
	assert.Equal(t, a.tokens.Len(), 0, "an expired token is remembered")
}

func TestAddressesOfOneSubscriber(t *testing.T) {
	cases := map[string]string{
		"192.0.2.7":              "192.0.2.7",
		"::ffff:192.0.2.7":       "192.0.2.7",
		"2001:db8:1:2:3:4:5:6":   "2001:db8:1:2::",
		"2001:db8:1:2:ffff::":    "2001:db8:1:2::",
		"2001:db8:1:3::":         "2001:db8:1:3::",
		"fe80::1%eth0":           "fe80::",
		"::1":                    "::",
		"::ffff:192.0.2.7%wlan0": "192.0.2.7",
	}
	for text, want := range cases {
		got := subscriber(netip.MustParseAddr(text))
		assert.Equal(t, got.String(), want, "%s: %v", text, got)
	}
	if got := subscriber(netip.Addr{}); got.IsValid() {
		t.Errorf("no address becomes %v", got)
	}
}

// An attack from any number of addresses takes a bounded memory.
func TestManyAddressesTakeBoundedMemory(t *testing.T) {
	a := newAuthority(t, Config{Source: newKeys()})
	now := time.Unix(1_000_000, 0)
	addr := netip.MustParseAddr("2001:db8::")
	for i := range 3 * maxAddresses {
		raw := addr.As16()
		raw[4], raw[5], raw[6] = byte(i), byte(i>>8), byte(i>>16)
		a.wrong.add(netip.AddrFrom16(raw), now)
	}
	assert.Equal(t, a.wrong.byAddress.Len(), maxAddresses, "addresses are remembered")
}

// The memory of right keys is bounded, too, and holds no wrong ones.
func TestMemoryOfKeysIsBounded(t *testing.T) {
	issuer := &tokens{}
	record, text := newKey(time.Time{})
	a := newAuthority(t, Config{Source: newKeys(record), Tokens: issuer})
	for i := range 2 * maxVerdicts {
		passes(t, a, withKey("good."+time.Duration(i).String()))
	}
	assert.Equal(t, a.tokens.Len(), maxVerdicts, "tokens are remembered")
	passes(t, a, withKey(text))
	for range 50 {
		_, wrong := NewKey()
		refuses(t, a, withKey(wrong), Unknown)
		refuses(t, a, withKey("bad"+wrong), Unknown)
	}
	if a.keys.Len() != 1 || a.tokens.Len() != maxVerdicts {
		t.Errorf("%d keys and %d tokens are remembered", a.keys.Len(), a.tokens.Len())
	}
	_, err := a.Caller(context.Background(), withKey(text))
	assert.Equal(t, err, nil)
}
