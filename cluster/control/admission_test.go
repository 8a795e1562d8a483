package control

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

const hour = int64(time.Hour / time.Millisecond)

// admit is the registration of a node under terms, one hour after the instant 0 unless they say otherwise.
func admit(id, name, token string, edit ...func(*clusterpb.Admission)) *clusterpb.ControlEntry {
	terms := &clusterpb.Admission{AtMs: hour}
	if token != "" {
		terms.TokenHash = HashToken(token)
	}
	for _, f := range edit {
		f(terms)
	}
	node := &clusterpb.Node{Id: id, Name: name, CommandVersion: Version, Boot: 1}
	return &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_Register{
		Register: &clusterpb.Register{Node: node, Admission: terms}}}
}

func addToken(token string, created, expires int64) *clusterpb.ControlEntry {
	hash := HashToken(token)
	return &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_AddJoinToken{AddJoinToken: &clusterpb.AddJoinToken{
		Token: &clusterpb.JoinToken{Id: tokenID(hash), Hash: hash, CreatedMs: created, ExpiresMs: expires}}}}
}

// newToken is a token as a node asks for it.
func newToken(token string, life time.Duration) *clusterpb.ControlEntry {
	return &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_AddJoinToken{AddJoinToken: &clusterpb.AddJoinToken{
		Token: &clusterpb.JoinToken{Hash: HashToken(token)}, ValidMs: life.Milliseconds()}}}
}

// admitting returns a machine of a cluster with the node a, and tokens that expire after two hours.
func admitting(t *testing.T, tokens ...string) *machine {
	t.Helper()
	m := newMachine()
	founder := admit("a", "one", "", func(terms *clusterpb.Admission) { terms.Exempt = true })
	begin, err := initialise(plan)
	assert.NoError(t, err)
	entries := []*clusterpb.ControlEntry{begin.entry, founder}
	for _, token := range tokens {
		entries = append(entries, addToken(token, 0, 2*hour))
	}
	for _, e := range entries {
		_, err := change(t, m, e)
		assert.NoError(t, err)
	}
	return m
}

func TestAdmission(t *testing.T) {
	late := func(terms *clusterpb.Admission) { terms.AtMs = 2 * hour }
	justInTime := func(terms *clusterpb.Admission) { terms.AtMs = 2*hour - 1 }
	exempt := func(terms *clusterpb.Admission) { terms.Exempt = true }
	for name, tt := range map[string]struct {
		entry *clusterpb.ControlEntry
		says  string // empty: let in
	}{
		"known":                {admit("a", "One", ""), ""},
		"renamed":              {admit("a", "two", ""), "was registered as one, and a node with another name needs a token"},
		"renamed, exempt":      {admit("a", "two", "", exempt), "needs a token"},
		"renamed with a token": {admit("a", "two", "t1"), ""},
		"new":                  {admit("b", "two", ""), "node two (b) is new, and a new node needs a token"},
		"founding":             {admit("b", "two", "", exempt), ""},
		"with a token":         {admit("b", "two", "t1", justInTime), ""},
		"expired":              {admit("b", "two", "t1", late), "expired at 1970-01-01T02:00:00Z"},
		"another's":            {admit("b", "two", "t2"), "is unknown"},
		"prefix of the hash": {admit("b", "two", "t1", func(terms *clusterpb.Admission) {
			terms.TokenHash = terms.TokenHash[:8]
		}), "is unknown"},
		"no certificates": {register("b", 1, Version), ""},
	} {
		m := admitting(t, "t1")
		before, _ := m.watch()
		_, err := change(t, m, tt.entry)
		switch {
		case tt.says == "":
			assert.Equal(t, err, nil, "%s", name)
		case !errors.Is(err, errNotAdmitted) || !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), tt.says) ||
			!strings.Contains(err.Error(), "belfry node token create"):
			t.Errorf("%s: %v, want %q", name, err, tt.says)
		default:
			if after, _ := m.watch(); !proto.Equal(before, after) {
				t.Errorf("%s: the refusal changed the state to %v", name, after)
			}
		}
	}
}

// Of two nodes with one token, exactly one is let in. Its repeated registration is answered in the same way.
func TestTokenLetsOneNodeIn(t *testing.T) {
	m := admitting(t, "t1", "t2")
	for range 2 {
		if _, err := change(t, m, admit("b", "two", "t1")); err != nil {
			t.Fatal(err)
		}
		_, err := change(t, m, admit("c", "three", "t1"))
		if !errors.Is(err, errNotAdmitted) || !strings.Contains(err.Error(), "was used by node two (b) at 1970-01-01T01:00:00Z") {
			t.Fatalf("the second node: %v", err)
		}
	}
	state, _ := m.watch()
	if used := Token(state, tokenID(HashToken("t1"))); used.UsedBy != "b" || used.UsedName != "two" || used.UsedMs != hour {
		t.Errorf("the token is %v", used)
	}
	free := Token(state, tokenID(HashToken("t2")))
	assert.Equal(t, free.UsedBy, "", "the other token is %v", free)
	assert.Equal(t, len(state.Nodes), 2, "nodes %v", state.Nodes)
}

func TestTokensOfAState(t *testing.T) {
	m := admitting(t, "t1", "t2")
	must := func(e *clusterpb.ControlEntry) *clusterpb.ControlState {
		t.Helper()
		_, err := change(t, m, e)
		assert.NoError(t, err)
		state, _ := m.watch()
		return state
	}
	must(admit("b", "two", "t1"))
	if s := must(addToken("t1", hour, 9*hour)); Token(s, tokenID(HashToken("t1"))).UsedBy != "b" || len(s.JoinTokens) != 2 {
		t.Errorf("a repeated addition made it %v", s.JoinTokens)
	}
	remove := &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_RemoveJoinToken{
		RemoveJoinToken: &clusterpb.RemoveJoinToken{Id: tokenID(HashToken("t2"))}}}
	for range 2 {
		s := must(remove)
		assert.Equal(t, len(s.JoinTokens), 1, "after the removal: %v", s.JoinTokens)
	}
	_, err := change(t, m, admit("c", "three", "t2"))
	assert.ErrorIs(t, err, errNotAdmitted, "a removed token")
	if s := must(addToken("t3", 2*hour, 3*hour)); len(s.JoinTokens) != 1 || s.JoinTokens[0].Id != tokenID(HashToken("t3")) {
		t.Errorf("expired tokens were kept: %v", s.JoinTokens)
	}
	for i := range MaxTokens - 1 {
		must(addToken(fmt.Sprint("more", i), 2*hour, 3*hour))
	}
	var full *task.FieldError
	if _, err := change(t, m, addToken("surplus", 2*hour, 3*hour)); !errors.As(err, &full) || full.Limit != "100" {
		t.Errorf("one too many: %v", err)
	}
	must(addToken("later", 3*hour, 4*hour))
}

func TestToken(t *testing.T) {
	a, b := NewToken(), NewToken()
	if a == b || CheckToken(a) != nil {
		t.Errorf("made %s and %s", a, b)
	}
	for _, text := range []string{"", a[1:], a + "x", strings.TrimPrefix(a, tokenPrefix), strings.Repeat("x", len(a))} {
		if err := CheckToken(text); err == nil || text != "" && strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A group whose nodes show certificates lets a new node in by its token, while the token is valid.
func TestGroupAdmits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, now := single(t, idleShards{}), time.Now()
		g.cfg.Tokens, g.cfg.Clock = true, func() time.Time { return now }
		add := func() string {
			token := NewToken()
			changed, err := g.Change(t.Context(), asking(newToken(token, time.Hour)))
			if added := changed.GetToken(); err != nil || added.GetExpiresMs() != now.Add(time.Hour).UnixMilli() || added.GetId() != tokenID(HashToken(token)) {
				t.Fatalf("added %v, %v", changed, err)
			}
			return token
		}
		node := &clusterpb.Node{Id: "b", Name: "two", CommandVersion: Version, Boot: 1}
		if err := g.Register(t.Context(), node); !errors.Is(err, errNotAdmitted) {
			t.Fatalf("without a token: %v", err)
		}
		old := add()
		now = now.Add(time.Hour)
		admit := func(token string) error {
			_, err := g.change(t.Context(), Registration(node, token))
			return err
		}
		if err := admit(old); !errors.Is(err, errNotAdmitted) || !strings.Contains(err.Error(), "expired") {
			t.Fatalf("with an old token: %v", err)
		}
		token := add()
		now = now.Add(time.Hour - time.Millisecond)
		for boot := range uint64(2) { // the second registration is of a restarted node
			node.Boot += boot
			assert.NoError(t, admit(token), "with a token")
		}
		node.Boot++
		assert.Equal(t, g.Register(t.Context(), node), nil, "a known node without a token")
		remove := &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_RemoveJoinToken{
			RemoveJoinToken: &clusterpb.RemoveJoinToken{Id: tokenID(HashToken(token))}}}
		removed, err := g.Change(t.Context(), asking(remove))
		if err != nil || !removed.Existed || removed.Token.GetUsedBy() != "b" || len(g.State().JoinTokens) != 0 {
			t.Errorf("removed %v, %v; left %v", removed, err, g.State().JoinTokens)
		}
		if _, err := g.change(t.Context(), asking(newToken("x", time.Second))); !errors.Is(err, ErrRefused) {
			t.Errorf("a short life: %v", err)
		}
	})
}
