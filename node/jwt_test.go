package node_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/node"
	"github.com/belfryhq/belfry/node/nodetest"
)

// verifier is a receiver that keeps the tokens of its requests, beside three nodes whose calls need credentials.
type verifier struct {
	*testing.T
	cluster *nodetest.Cluster
	admin   *client.Client
	open    *http.Client // without credentials
	url     string
	got     chan *http.Request
}

func newVerifier(t *testing.T) *verifier {
	t.Helper()
	file := filepath.Join(t.TempDir(), "root.key")
	_, key := access.NewKey()
	assert.NoError(t, os.WriteFile(file, []byte(key+"\n"), 0o600))
	v := &verifier{T: t, got: make(chan *http.Request, 64)}
	v.cluster = nodetest.Start(t, 3, func(_ int, cfg *node.Config) { cfg.Access.RootKeyFile = file })
	v.admin, v.open = v.cluster.Client(client.Config{KeyFile: file}), v.cluster.HTTP()
	listener := v.cluster.Listen()
	v.url = "http://" + listener.Addr().String()
	server := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { v.got <- r })}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return v
}

// keys returns the public keys as a node publishes them to anyone.
func (v *verifier) keys(node int) (set jose.JSONWebKeySet) {
	v.Helper()
	answer, err := v.open.Get(v.cluster.URL(node) + "/.well-known/jwks.json")
	assert.NoError(v, err)
	defer func() { _ = answer.Body.Close() }()
	assert.Equal(v, answer.StatusCode, 200)
	assert.NoError(v, json.NewDecoder(answer.Body).Decode(&set))
	return set
}

// ids returns the ids of the keys of an algorithm, as all running nodes publish them.
func (v *verifier) ids(algorithm string) (ids []string) {
	v.Helper()
	for i := range v.cluster.URLs() {
		if v.cluster.Node(i) == nil {
			continue
		}
		var here []string
		for _, k := range v.keys(i).Keys {
			if k.Algorithm == algorithm {
				here = append(here, k.KeyID)
			}
		}
		if ids == nil {
			ids = here
		}
		assert.EqualSlices(v, here, ids)
	}
	return ids
}

// token has a task delivered, and returns its token.
func (v *verifier) token(id string, auth client.JWT) string {
	v.Helper()
	auth.Audience = "shop"
	_, err := v.admin.Schedule(v.Context(), client.Task{ID: id, Target: &client.Target{
		URL: v.url, Auth: &client.Auth{JWT: &auth},
	}})
	assert.NoError(v, err)
	select {
	case r := <-v.got:
		assert.Equal(v, r.Header.Get("ce-subject"), id)
		token, ok := strings.CutPrefix(r.Header.Get("authorization"), "Bearer ")
		assert.Equal(v, ok, true, "the header authorization has a token")
		return token
	case <-time.After(time.Minute):
		v.Fatalf("%s does not arrive", id)
		return ""
	}
}

// claims are those of a token.
type claims struct {
	jwt.Claims
	Namespace string `json:"belfry_namespace"`
	Queue     string `json:"belfry_queue"`
	Role      string `json:"role"`
}

// verify checks a token now, by the keys of every running node, and returns its key's id.
func (v *verifier) verify(token, id string) (c claims, kid string) {
	v.Helper()
	cluster, err := v.admin.Cluster(v.Context())
	assert.NoError(v, err)
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.EdDSA, jose.RS256})
	assert.NoError(v, err)
	for i := range v.cluster.URLs() {
		if v.cluster.Node(i) == nil {
			continue
		}
		c = claims{}
		set := v.keys(i)
		assert.NoError(v, parsed.Claims(set, &c), "by the keys of node %d", i)
		expected := jwt.Expected{Issuer: cluster.ID, Subject: id, AnyAudience: jwt.Audience{"shop"}}
		assert.NoError(v, c.ValidateWithLeeway(expected.WithTime(time.Now()), 0))
	}
	return c, parsed.Headers[0].KeyID
}

// Tokens verify by the keys of every node, whichever sends the task, and for as long as they live: through rotations, and
// through the death of the leader of the control group.
func TestTokensVerifyEverywhere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := newVerifier(t)
		time.Sleep(5 * time.Second) // for keys of both algorithms
		first := v.ids("EdDSA")
		assert.Equal(t, len(first), 1)
		assert.Equal(t, len(v.ids("RS256")), 1)
		for _, id := range []string{"a", "b", "c", "d", "e", "f"} { // on several shards
			c, kid := v.verify(v.token(id, client.JWT{Claims: json.RawMessage(`{"role":"closer"}`)}), id)
			assert.Equal(t, kid, first[0])
			assert.Equal(t, c.Expiry.Time().Sub(c.IssuedAt.Time()), 5*time.Minute)
			assert.Equal(t, c.Namespace+" "+c.Queue+" "+c.Role, "default default closer")
		}
		_, kid := v.verify(v.token("rsa", client.JWT{Algorithm: "RS256"}), "rsa")
		assert.Equal(t, kid, v.ids("RS256")[0])

		keys, err := v.admin.RotateJWTKeys(t.Context(), 15*time.Minute)
		assert.NoError(t, err)
		assert.Equal(t, len(keys), 4)
		time.Sleep(time.Second)
		both := v.ids("EdDSA")
		assert.Equal(t, len(both), 2)
		time.Sleep(7 * time.Minute)
		old := v.token("old", client.JWT{}) // nearly the last of its key
		_, kid = v.verify(old, "old")
		assert.Equal(t, kid, both[0])
		time.Sleep(time.Minute)
		_, kid = v.verify(v.token("new", client.JWT{}), "new")
		assert.Equal(t, kid, both[1])
		v.cluster.Kill(v.controlLeader())
		time.Sleep(4*time.Minute - 10*time.Second)
		_, kid = v.verify(old, "old")
		assert.Equal(t, kid, both[0], "as long as the token lives")
		_, kid = v.verify(v.token("later", client.JWT{}), "later")
		assert.Equal(t, kid, both[1], "the keys are those of before")
		time.Sleep(4 * time.Minute)
		assert.EqualSlices(t, v.ids("EdDSA"), both[1:])

		_, err = v.admin.RotateJWTKeys(t.Context(), 0) // they have leaked
		assert.NoError(t, err)
		time.Sleep(time.Second)
		last := v.ids("EdDSA")
		assert.Equal(t, len(last) == 1 && !slices.Contains(both, last[0]), true, "%v after %v", last, both)
		v.verify(v.token("last", client.JWT{}), "last")
	})
}

// controlLeader returns the number of the node that leads the control group.
func (v *verifier) controlLeader() int {
	v.Helper()
	view, err := v.admin.Cluster(v.Context())
	assert.NoError(v, err)
	return v.cluster.Index(view.Node(view.Control.Leader).Name)
}

// A batch has one token, for the batch, and a certificate that the nodes do not have fails the attempt with its name.
func TestProofsOfQueues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := newVerifier(t)
		_, err := v.admin.PutQueue(t.Context(), client.Queue{Name: "q", BatchMax: 10, Target: &client.Target{
			URL: v.url, Auth: &client.Auth{JWT: &client.JWT{Audience: "shop"}},
		}})
		assert.NoError(t, err)
		_, err = v.admin.Schedule(t.Context(), client.Task{ID: "a", Queue: "q"})
		assert.NoError(t, err)
		r := <-v.got
		c, _ := v.verify(strings.TrimPrefix(r.Header.Get("authorization"), "Bearer "), r.Header.Get("webhook-id"))
		assert.Equal(t, c.Queue, "q")

		_, err = v.admin.Schedule(t.Context(), client.Task{ID: "b", Retry: &client.Retry{MaxAttempts: 2}, Target: &client.Target{
			URL: strings.Replace(v.url, "http:", "https:", 1), Auth: &client.Auth{ClientCertificate: "shop-2"},
		}})
		assert.NoError(t, err, "other nodes may have it")
		time.Sleep(time.Minute)
		b, err := v.admin.Get(t.Context(), "b")
		assert.NoError(t, err)
		assert.Equal(t, string(b.State), "dead")
		assert.Equal(t, b.Attempts, 2)
		assert.Contains(t, b.LastError, "not sent: this node has no client certificates, and so not shop-2")
	})
}
