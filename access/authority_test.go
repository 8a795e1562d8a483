package access

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
)

// keys is a Source in memory.
type keys struct {
	mu      sync.Mutex
	version uint64
	inForce bool
	records map[string]KeyRecord
	uses    map[string]int
	looked  int // calls of Key
}

func newKeys(records ...KeyRecord) *keys {
	k := &keys{version: 1, records: map[string]KeyRecord{}, uses: map[string]int{}}
	for _, r := range records {
		k.put(r)
	}
	return k
}

func (k *keys) put(r KeyRecord) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.records[r.ID], k.inForce = r, true
	k.version++
}

func (k *keys) revoke(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.records, id)
	k.version++
}

func (k *keys) KeysVersion() uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.version
}

func (k *keys) KeysInForce() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.inForce
}

func (k *keys) Key(id string) (KeyRecord, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.looked++
	r, ok := k.records[id]
	return r, ok
}

func (k *keys) KeyUsed(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.uses[id]++
}

// newKey returns a record that may schedule in the namespace shop, and its text.
func newKey(expires time.Time) (record KeyRecord, text string) {
	id, text := NewKey()
	return KeyRecord{
		ID: id, Name: "of a test", Grants: []Grant{{Role: Schedule, Namespace: "shop"}},
		Secrets: []KeySecret{{Hash: Hash(text)}}, Expires: expires,
	}, text
}

func newAuthority(t testing.TB, cfg Config) *Authority {
	t.Helper()
	a, err := New(cfg)
	assert.NoError(t, err)
	return a
}

var home = netip.MustParseAddr("192.0.2.1")

func withKey(text string) Credentials {
	return Credentials{Authorization: "Bearer " + text, Addr: home}
}

func passes(t *testing.T, a *Authority, c Credentials) *Caller {
	t.Helper()
	caller, err := a.Caller(context.Background(), c)
	if err != nil {
		t.Helper()
		t.Fatalf("right credentials are refused: %v", err)
	}
	return caller
}

func refuses(t *testing.T, a *Authority, c Credentials, kind RefusalKind) Refusal {
	t.Helper()
	caller, err := a.Caller(context.Background(), c)
	var refusal *Refusal
	if caller != nil || !errors.As(err, &refusal) || refusal.Kind != kind {
		t.Fatalf("got %v and %v, not a refusal of kind %v", caller, err, kind)
	}
	return *refusal
}

func TestKeyTellsItsCaller(t *testing.T) {
	record, text := newKey(time.Time{})
	source := newKeys(record)
	a := newAuthority(t, Config{Source: source})
	for _, header := range []string{"Bearer " + text, "bearer " + text, "BEARER   " + text + " "} {
		caller := passes(t, a, Credentials{Authorization: header})
		if caller.Kind != KindKey || caller.ID != record.ID || caller.Name != record.Name || caller.Namespace() != "shop" {
			t.Errorf("got %+v", caller)
		}
	}
	assert.Equal(t, source.uses[record.ID], 3, "uses of 3 were noted")
	assert.Equal(t, source.looked, 1, "the key was looked up N times")
}

func TestHeadersThatAreNoKeys(t *testing.T) {
	record, text := newKey(time.Time{})
	a := newAuthority(t, Config{Source: newKeys(record)})
	other := "z"
	if text[20:21] == other {
		other = "y"
	}
	refuses(t, a, Credentials{}, Missing)
	refuses(t, a, Credentials{Certificate: &x509.Certificate{}}, Missing)
	for _, header := range []string{
		"Bearer", "Bearer ", "Basic " + text, text, "Bearer" + text, "Bearer eyJhbGciOiJub25lIn0.e30.",
		"Bearer " + text[:len(text)-1], "Bearer " + text + "x", "Bearer " + text[:20] + other + text[21:],
		"Bearer " + text + " " + text, "Bearer\t" + text, "Bearer bfy_", "Bearer " + strings.ToUpper(text),
	} {
		refusal := refuses(t, a, Credentials{Authorization: header}, Malformed)
		if strings.Contains(refusal.Detail, text[15:40]) {
			t.Errorf("the refusal repeats the key: %v", refusal)
		}
	}
}

// An API without any credentials to demand has only local callers. The first key ends this, and no deletion opens the
// API again.
func TestFirstKeyClosesTheAPI(t *testing.T) {
	source := newKeys()
	a := newAuthority(t, Config{Source: source})
	record, text := newKey(time.Time{})
	for _, c := range []Credentials{{}, withKey(text), {Authorization: "Basic eDp5"}} {
		if caller := passes(t, a, c); caller.Kind != KindLocal || !caller.Allows(Need{Role: Admin}) {
			t.Errorf("got %+v", caller)
		}
	}
	source.put(record)
	refuses(t, a, Credentials{}, Missing)
	passes(t, a, withKey(text))
	source.revoke(record.ID)
	refuses(t, a, Credentials{}, Missing)
	refuses(t, a, withKey(text), Unknown)
}

// A node that does not know the keys of its cluster opens nothing. The root key works there, too.
func TestNothingOpensByIgnorance(t *testing.T) {
	record, text := newKey(time.Time{})
	source := newKeys()
	source.version = 0
	a := newAuthority(t, Config{Source: source})
	for _, c := range []Credentials{{}, withKey(text)} {
		if r := refuses(t, a, c, Unavailable); r.RetryAfter <= 0 {
			t.Error("no word of a repetition")
		}
	}
	_, rootText := NewKey()
	root, err := NewRootKey(rootText)
	assert.NoError(t, err)
	a = newAuthority(t, Config{Source: source, Root: root})
	refuses(t, a, Credentials{}, Missing)
	refuses(t, a, withKey(text), Unavailable)
	if c := passes(t, a, withKey(rootText)); c.Kind != KindRoot || !c.Allows(Need{Role: Admin}) {
		t.Errorf("got %+v", c)
	}
	source.put(record)
	passes(t, a, withKey(text))
	passes(t, a, withKey(rootText))
	assert.Equal(t, source.uses[root.caller.ID], 0, "a use of the root key was noted at a key of the cluster")
}

// The next call after a change of the keys is judged by the change.
func TestChangesOfKeysHoldAtOnce(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	record, text := newKey(now.Add(time.Hour))
	source := newKeys(record)
	a := newAuthority(t, Config{Source: source, Now: func() time.Time { return now }})
	passes(t, a, withKey(text))

	record.Grants = []Grant{{Role: Read, Namespace: "shop"}}
	source.put(record)
	if c := passes(t, a, withKey(text)); c.Allows(Need{Role: Schedule, Namespace: "shop", AnyQueue: true, AnyID: true}) {
		t.Error("the caller has the grants from before the change")
	}

	second := NewSecret(record.ID)
	record.Secrets = []KeySecret{{Hash: Hash(text), Expires: now.Add(time.Minute)}, {Hash: Hash(second)}}
	source.put(record)
	passes(t, a, withKey(text))
	passes(t, a, withKey(second))
	now = now.Add(time.Minute)
	refuses(t, a, withKey(text), Unknown)
	passes(t, a, withKey(second))
	now = now.Add(time.Hour)
	refuses(t, a, withKey(second), Unknown)

	record.Expires = time.Time{}
	source.put(record)
	passes(t, a, withKey(second))
	source.revoke(record.ID)
	refuses(t, a, withKey(second), Unknown)
}

// A change that comes between the lookup and the memory of a verdict is not missed.
func TestRevocationDuringLookup(t *testing.T) {
	record, text := newKey(time.Time{})
	source := &revoking{keys: newKeys(record), id: record.ID}
	a := newAuthority(t, Config{Source: source})
	passes(t, a, withKey(text)) // it was right when it was looked up
	refuses(t, a, withKey(text), Unknown)
}

// revoking revokes a key right after it was looked up.
type revoking struct {
	*keys
	id string
}

func (r *revoking) Key(id string) (KeyRecord, bool) {
	record, ok := r.keys.Key(id)
	r.revoke(r.id)
	return record, ok
}

// Unknown, expired and revoked keys, and a wrong secret of a key that exists, get one answer.
func TestWrongKeysAreAlike(t *testing.T) {
	a, wrong, _ := wrongKeys(t)
	answer := refuses(t, a, withKey(NewSecret("abcdefghij")), Unknown)
	for name, text := range wrong {
		if refusal := refuses(t, a, withKey(text), Unknown); refusal != answer {
			t.Errorf("%s: %+v, others: %+v", name, refusal, answer)
		}
	}
}

// wrongKeys returns an authority with keys that it refuses, by the reason, and the text of a right key.
func wrongKeys(t testing.TB) (a *Authority, wrong map[string]string, right string) {
	now := time.Unix(1_000_000, 0)
	valid, right := newKey(time.Time{})
	expired, expiredText := newKey(now.Add(-time.Hour))
	rotated, rotatedText := newKey(time.Time{})
	rotated.Secrets[0].Expires = now.Add(-time.Hour)
	revoked, revokedText := newKey(time.Time{})
	_, unknown := NewKey()
	source := newKeys(valid, expired, rotated, revoked)
	source.revoke(revoked.ID)
	a = newAuthority(t, Config{Source: source, Now: func() time.Time { return now }})
	return a, map[string]string{
		"unknown": unknown, "expired": expiredText, "expired secret": rotatedText, "revoked": revokedText,
		"wrong secret": NewSecret(valid.ID),
	}, right
}

func TestRootKeyFile(t *testing.T) {
	_, text := NewKey()
	path := writeFile(t, "root.key", text+"\n", 0o600)
	root, err := LoadRootKey(path)
	assert.NoError(t, err)
	a := newAuthority(t, Config{Source: newKeys(), Root: root})
	c := passes(t, a, withKey(text))
	assert.Equal(t, c.Kind, KindRoot, "got %+v", c)
	_, other := NewKey()
	refuses(t, a, withKey(other), Unknown)
	refuses(t, a, Credentials{}, Missing)

	for i, bad := range []string{
		writeFile(t, "open.key", text, 0o604), writeFile(t, "shared.key", text, 0o620),
		writeFile(t, "cut.key", text[:70], 0o600), writeFile(t, "two.key", text+"\n"+text, 0o600),
		writeFile(t, "empty.key", "", 0o600), path + ".absent",
	} {
		if _, err := LoadRootKey(bad); err == nil || strings.Contains(err.Error(), text[15:40]) {
			t.Errorf("file %d: %v", i, err)
		}
	}
}

func TestAuthorityNeedsASource(t *testing.T) {
	_, err := New(Config{})
	assert.Error(t, err, "an authority without keys")
}

// tokens knows tokens of the form "good.<subject>".
type tokens struct {
	until time.Time
	calls int
	err   error
}

func (f *tokens) Caller(_ context.Context, token string) (*Caller, time.Time, error) {
	f.calls++
	if subject, ok := strings.CutPrefix(token, "good."); ok && f.err == nil {
		return &Caller{Kind: KindToken, ID: subject}, f.until, nil
	}
	if f.err != nil {
		return nil, time.Time{}, f.err
	}
	return nil, time.Time{}, &Refusal{Kind: Unknown, Detail: "a wrong token"}
}

// A token is verified once for its time.
func TestTokensAreRemembered(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	issuer := &tokens{until: now.Add(time.Minute)}
	a := newAuthority(t, Config{Source: newKeys(), Tokens: issuer, Now: func() time.Time { return now }})
	for range 3 {
		c := passes(t, a, withKey("good.jane"))
		assert.Equal(t, c.ID, "jane", "got %+v", c)
	}
	assert.Equal(t, issuer.calls, 1, "the token was verified N times")
	now, issuer.until = issuer.until, now.Add(time.Hour)
	passes(t, a, withKey("good.jane"))
	assert.Equal(t, issuer.calls, 2, "the token was not verified again after its time")
	refuses(t, a, withKey("bad.jane"), Unknown)
	refuses(t, a, withKey(strings.Repeat("a", MaxTokenBytes+1)), Malformed)
	refuses(t, a, Credentials{}, Missing)
	_, key := NewKey()
	refuses(t, a, withKey(key), Unknown)
	assert.Equal(t, issuer.calls, 3, "a long token or a key was handed to the issuer")
	issuer.err = &Refusal{Kind: Unavailable, Detail: "the issuer is away", RetryAfter: time.Second}
	for range 2 * wrongPerSecond {
		refuses(t, a, withKey("good.joe"), Unavailable) // counts as no attempt
	}
	passes(t, a, withKey("good.jane"))
}

func TestCallersAreJudgedConcurrently(t *testing.T) {
	var records []KeyRecord
	var texts []string
	for range 20 {
		record, text := newKey(time.Time{})
		records, texts = append(records, record), append(texts, text)
	}
	source := newKeys(records...)
	a := newAuthority(t, Config{Source: source})
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 500 {
				n := (i*7 + g) % len(texts)
				c, err := a.Caller(context.Background(), withKey(texts[n]))
				if err != nil || c.ID != records[n].ID {
					panic(fmt.Sprintf("key %d: %v %v", n, c, err))
				}
				if i%100 == 0 {
					source.put(records[n])
				}
			}
		})
	}
	wg.Wait()
}
