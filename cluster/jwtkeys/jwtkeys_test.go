package jwtkeys

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/seal"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

type world struct {
	state   *clusterpb.ControlState
	now     time.Time
	awaited func() // changes the state
}

func (w *world) State() *clusterpb.ControlState { return w.state }

func (w *world) Await(ctx context.Context, reached func(*clusterpb.ControlState) bool) error {
	if w.awaited == nil || reached(w.state) {
		return ctx.Err()
	}
	w.awaited()
	return nil
}

func (w *world) signer(issuer string, secrets *seal.Keys) *Signer {
	s := NewSigner(issuer)
	s.Use(w, secrets, func() time.Time { return w.now })
	return s
}

func newWorld(tb testing.TB, algorithms ...string) *world {
	tb.Helper()
	w := &world{state: &clusterpb.ControlState{ClusterId: "c1"}, now: time.UnixMilli(1_000_000)}
	for _, algorithm := range algorithms {
		w.state.JwtKeys = append(w.state.JwtKeys, newKey(tb, algorithm))
	}
	return w
}

func newKey(tb testing.TB, algorithm string) *clusterpb.JwtKey {
	tb.Helper()
	k, err := New(algorithm)
	assert.NoError(tb, err)
	return k
}

// verified returns the claims and the key's id of a token that the published keys verify.
func verified(t *testing.T, token string, keys []*clusterpb.JwtKey) (claims, id string) {
	t.Helper()
	published, err := KeySet(keys)
	assert.NoError(t, err)
	for _, member := range []string{`"d"`, `"p"`, `"q"`} {
		if bytes.Contains(published, []byte(member)) {
			t.Fatalf("a private key is published: %s", published)
		}
	}
	var set jose.JSONWebKeySet
	assert.NoError(t, json.Unmarshal(published, &set))
	signed, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.EdDSA, jose.RS256})
	assert.NoError(t, err)
	header := signed.Signatures[0].Header
	assert.Equal(t, header.ExtraHeaders["typ"], any("JWT"))
	found := set.Key(header.KeyID)
	if len(found) != 1 || found[0].Algorithm != header.Algorithm || found[0].Use != "sig" {
		t.Fatalf("kid %s, %s among %s", header.KeyID, header.Algorithm, published)
	}
	payload, err := signed.Verify(found[0])
	assert.NoError(t, err)
	return string(payload), header.KeyID
}

func TestTokensVerify(t *testing.T) {
	w := newWorld(t, task.EdDSA, task.RS256)
	s := w.signer("", nil)
	for i, algorithm := range []string{"", task.RS256} {
		token, err := s.Sign(t.Context(), algorithm, []byte(`{"sub":"a"}`))
		assert.NoError(t, err)
		claims, id := verified(t, token, w.state.JwtKeys)
		assert.Equal(t, claims, `{"sub":"a"}`)
		assert.Equal(t, id, w.state.JwtKeys[i].Id)
	}
	_, err := s.Sign(t.Context(), "HS256", nil)
	assert.Equal(t, err.Error(), "the cluster has no key of tokens for HS256 yet")
	assert.Equal(t, s.Issuer(), "c1")
	assert.Equal(t, w.signer("https://timers.example", nil).Issuer(), "https://timers.example")
	_, err = NewSigner("").Sign(t.Context(), "", nil)
	assert.Equal(t, err != nil, true, "without keys")
	empty, err := KeySet(nil)
	assert.NoError(t, err)
	assert.Equal(t, string(empty), `{"keys":[]}`)
}

// The newest key signs from its instant on. Keys that are gone stay in no memory.
func TestSignerFollowsTheKeys(t *testing.T) {
	w := newWorld(t, task.EdDSA)
	s := w.signer("", nil)
	signs := func(want *clusterpb.JwtKey) {
		t.Helper()
		token, err := s.Sign(t.Context(), "", []byte("{}"))
		assert.NoError(t, err)
		_, id := verified(t, token, w.state.JwtKeys)
		assert.Equal(t, id, want.Id)
	}
	first, second := w.state.JwtKeys[0], newKey(t, task.EdDSA)
	signs(first)
	second.SignsMs = w.now.Add(time.Minute).UnixMilli()
	w.state = &clusterpb.ControlState{JwtKeys: []*clusterpb.JwtKey{first, second}}
	signs(first)
	w.now = w.now.Add(time.Minute)
	signs(second)
	assert.Equal(t, len(s.signers), 2)
	w.state = &clusterpb.ControlState{JwtKeys: []*clusterpb.JwtKey{second}}
	signs(second)
	assert.Equal(t, len(s.signers), 1)
}

// In a new cluster, the first token waits for its key.
func TestFirstKeyIsAwaited(t *testing.T) {
	w := newWorld(t)
	w.awaited = func() { w.state = newWorld(t, task.EdDSA).state }
	token, err := w.signer("", nil).Sign(t.Context(), "", []byte("{}"))
	assert.NoError(t, err)
	verified(t, token, w.state.JwtKeys)
}

func clusterKeys(t *testing.T, fills ...byte) *seal.Keys {
	t.Helper()
	path, text := filepath.Join(t.TempDir(), "keys"), ""
	for _, fill := range fills {
		text += base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{fill}, seal.KeyBytes)) + "\n"
	}
	assert.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	keys, err := seal.OpenKeys(path, slog.New(slog.DiscardHandler))
	assert.NoError(t, err)
	return keys
}

// A sealed key shows nothing, signs only where its cluster key is, and is bound to its id.
func TestSealedKeys(t *testing.T) {
	one, two := clusterKeys(t, 1), clusterKeys(t, 2, 1)
	plain := newKey(t, task.EdDSA)
	before := proto.CloneOf(plain)
	sealed, err := Seal(one.Ring(), plain)
	assert.NoError(t, err)
	data, err := proto.Marshal(sealed)
	assert.NoError(t, err)
	seed := plain.Private[len(plain.Private)-32:]
	if bytes.Contains(data, seed) || len(sealed.Private) > 0 || !IsCurrent(one.Ring(), sealed) || !proto.Equal(plain, before) {
		t.Errorf("sealed as %v", sealed)
	}
	again, err := Seal(two.Ring(), sealed)
	assert.NoError(t, err)
	assert.Equal(t, again.Sealed.Key, two.Ring().First())
	w := newWorld(t)
	for _, k := range []*clusterpb.JwtKey{sealed, again} {
		w.state = &clusterpb.ControlState{JwtKeys: []*clusterpb.JwtKey{k}}
		token, err := w.signer("", two).Sign(t.Context(), "", []byte("{}"))
		assert.NoError(t, err)
		verified(t, token, w.state.JwtKeys)
	}
	_, err = w.signer("", one).Sign(t.Context(), "", []byte("{}"))
	var missing *seal.MissingKeyError
	if !errors.As(err, &missing) || !strings.Contains(err.Error(), plain.Id) {
		t.Error(err)
	}
	moved := proto.CloneOf(sealed)
	moved.Id = "other"
	_, err = Seal(two.Ring(), moved)
	assert.ErrorIs(t, err, seal.ErrDamaged)
	opened, err := Seal(nil, plain)
	assert.NoError(t, err)
	assert.Equal(t, opened == plain, true, "nothing to seal")
}

func BenchmarkSign(b *testing.B) {
	w := newWorld(b, task.EdDSA, task.RS256)
	claims := []byte(`{"iss":"7f3c3c1e9a5d4b62","sub":"order-1042-close","aud":"https://shop.example","iat":1,"exp":301,` +
		`"belfry_namespace":"default","belfry_queue":"default"}`)
	for _, algorithm := range []string{task.EdDSA, task.RS256} {
		b.Run(algorithm, func(b *testing.B) {
			s := w.signer("", nil)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Sign(b.Context(), algorithm, claims); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
