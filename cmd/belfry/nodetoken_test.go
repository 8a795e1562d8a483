package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/gated"
)

// recruit is a real process that runs a node with certificates at a loopback address of its own.
type recruit struct {
	name, url string
	token     string // file of --join-token-file
	command   []string
	process   *exec.Cmd
}

// newRecruit describes node number n of a cluster of one, which the first node forms.
func newRecruit(binary, dir, home, peerPort, httpPort string, n int) *recruit {
	name, host := fmt.Sprint("n", n), fmt.Sprint("127.0.0.", n)
	keys := filepath.Join(dir, "nodes", name)
	r := &recruit{name: name, url: "http://" + host + ":" + httpPort, token: filepath.Join(home, name+".token")}
	r.command = []string{
		binary, "serve", "--data", filepath.Join(home, name), "--name", name, "--http", host + ":" + httpPort,
		"--peer", host + ":" + peerPort, "--peer-cert", filepath.Join(keys, "node.pem"),
		"--peer-key", filepath.Join(keys, "node.key"), "--peer-ca", filepath.Join(keys, "ca.pem"),
		"--gossip-key-file", filepath.Join(keys, "gossip.key"),
	}
	if n == 1 {
		r.command = append(r.command, "--bootstrap-expect", "1")
	} else {
		r.command = append(r.command, "--join", "127.0.0.1:"+peerPort, "--join-token-file", r.token)
	}
	return r
}

func (r *recruit) start(t *testing.T) {
	t.Helper()
	var log bytes.Buffer
	r.process = exec.CommandContext(t.Context(), r.command[0], r.command[1:]...)
	r.process.Stderr = &log
	process := r.process
	assert.NoError(t, process.Start())
	t.Cleanup(func() {
		_ = process.Process.Kill() // it may have been killed before
		_ = process.Wait()
		if t.Failed() {
			t.Logf("%s:\n%s", r.name, log.String())
		}
	})
}

func (r *recruit) kill(t *testing.T) {
	t.Helper()
	assert.NoError(t, r.process.Process.Kill())
	_ = r.process.Wait() // it was killed
}

// give writes a token into the node's file.
func (r *recruit) give(t *testing.T, token string) {
	t.Helper()
	assert.NoError(t, os.WriteFile(r.token, []byte(token+"\n"), 0o600))
}

// awaitAnswer waits until the node's answer to /readyz contains one of the texts, and returns that text.
func (r *recruit) awaitAnswer(t *testing.T, texts ...string) string {
	t.Helper()
	found := ""
	awaitNil(t, func() error {
		answer := r.readyz(t)
		for _, text := range texts {
			if strings.Contains(answer, text) {
				found = text
				return nil
			}
		}
		return fmt.Errorf("%s says %q, and not one of %q", r.name, answer, texts)
	})
	return found
}

// readyz returns the node's answer to /readyz, or the error of the call.
func (r *recruit) readyz(t *testing.T) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+"/readyz", http.NoBody)
	assert.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err.Error()
	}
	return string(body)
}

// newToken runs `belfry node token create` and returns the token.
func newToken(t *testing.T, binary, url string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), binary, "node", "token", "create", "--addr", url).Output()
	assert.NoError(t, err)
	return strings.TrimSpace(string(out))
}

// Real nodes join a cluster with certificates. A node without a token waits, and gets in once its file holds one. It
// needs no token when it starts again after kill -9. Of two nodes with one token, one gets in.
func TestNodesJoinByToken(t *testing.T) {
	gated.Need(t, gated.Real)
	t.Parallel()
	binary, home := program(t), t.TempDir()
	dir, _ := certsDir(t, "n1", "n2", "n3", "n4")
	peerPort, httpPort := freePeerPort(t), freePeerPort(t)
	var nodes []*recruit
	for n := range 4 {
		nodes = append(nodes, newRecruit(binary, dir, home, peerPort, httpPort, n+1))
	}
	const ready = `"status":"ready"`
	first, second := nodes[0], nodes[1]
	first.start(t)
	first.awaitAnswer(t, ready)

	second.start(t)
	second.awaitAnswer(t, "no such file")
	second.give(t, "not a token")
	second.awaitAnswer(t, "does not hold a token")
	second.give(t, "belfry-join-"+strings.Repeat("a", 32))
	second.awaitAnswer(t, "is unknown: it was removed, or is of another cluster; `belfry node token create` makes")
	second.give(t, newToken(t, binary, first.url))
	second.awaitAnswer(t, ready)
	second.kill(t)
	assert.NoError(t, os.Remove(second.token))
	second.start(t)
	second.awaitAnswer(t, ready)

	token := newToken(t, binary, second.url)
	for _, n := range nodes[2:] {
		n.give(t, token)
		n.start(t)
	}
	const used = "which was used by node"
	in, out := nodes[2], nodes[3]
	if in.awaitAnswer(t, ready, used) == used {
		in, out = out, in
	}
	in.awaitAnswer(t, ready)
	out.awaitAnswer(t, used)
	out.give(t, newToken(t, binary, in.url))
	out.awaitAnswer(t, ready)
	checkJoined(t, first.url)
}

// checkJoined checks that each node that has joined used a token of its own.
func checkJoined(t *testing.T, url string) {
	t.Helper()
	c, err := client.New(client.Config{Addrs: []string{url}})
	assert.NoError(t, err)
	view, err := c.Cluster(t.Context())
	if err != nil || len(view.Nodes) != 4 {
		t.Fatalf("%+v, %v", view, err)
	}
	tokens, err := c.JoinTokens(t.Context())
	assert.NoError(t, err)
	users := map[string]bool{}
	for _, token := range tokens {
		users[token.UsedName] = true
	}
	if len(tokens) != 3 || !users["n2"] || !users["n3"] || !users["n4"] {
		t.Errorf("tokens %+v", tokens)
	}
	out, code := belfry(t, "node", "token", "remove", "--addr", url, tokens[0].ID)
	assert.Equal(t, code, 0, "removed: %s", out)
	if out, code := belfry(t, "node", "token", "list", "--addr", url); code != 0 || strings.Contains(out, tokens[0].ID) ||
		!strings.Contains(out, tokens[1].UsedName+" ("+tokens[1].UsedBy+")") {
		t.Errorf("listed: %d\n%s", code, out)
	}
	if out, code := belfry(t, "node", "token", "remove", "--addr", url, "none"); code == 0 {
		t.Errorf("removed no token: %s", out)
	}
}
