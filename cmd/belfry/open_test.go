package main

import (
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/gated"
)

// advised matches a flag with its value in a refusal.
var advised = regexp.MustCompile(`--[a-z-]+( FILE|\b)`)

// A node that other machines could reach openly does not start. It starts once the operator has done exactly what the
// refusals say. Then its keys reach what they should, over TLS.
func TestRefusalsOfOpenPortsMendThemselves(t *testing.T) {
	t.Parallel()
	mended(t, direct).checkKeys()
}

// A node behind a proxy mends itself likewise.
func TestRefusalsBehindAProxyMendThemselves(t *testing.T) {
	gated.Need(t, gated.Real)
	g := mended(t, behindProxy)
	g.must(0, g.admin, "task schedule a --delay 1h")
	assert.Equal(t, g.judge(0, ""), http.StatusUnauthorized, "without a key")
}

const behindProxy, direct = true, false

// mended runs a node on all addresses of this machine until the test ends. It gets the flags that its refusals name.
func mended(t *testing.T, proxied bool) *guarded {
	t.Helper()
	dir, _ := certsDir(t, "n1=127.0.0.1")
	node := filepath.Join(dir, "nodes", "n1")
	key := filepath.Join(t.TempDir(), "root.key")
	files := map[string]string{
		"--root-key-file": key, "--http-cert": filepath.Join(node, "node.pem"), "--http-key": filepath.Join(node, "node.key"),
	}
	args := []string{"--http", "0.0.0.0:0", "--data", filepath.Join(t.TempDir(), "data")}
	out, code := belfry(t, append([]string{"serve", "--peer", "127.0.0.1:0"}, args...)...)
	if code != exitSettings || !strings.Contains(out, "--http: other machines can reach 0.0.0.0:0") {
		t.Fatalf("%d %s", code, out)
	}
	if !strings.Contains(out, `"belfry key new-root > FILE"`) {
		t.Fatalf("no command makes the key: %s", out)
	}
	rootKey(t, key)
	for _, flag := range advised.FindAllString(out[strings.Index(out, "and calls"):], -1) {
		flag = strings.TrimSuffix(flag, " FILE")
		switch {
		case flag == "--behind-proxy" && proxied:
			args = append(args, flag)
		case files[flag] == "" && flag != "--behind-proxy":
			t.Fatalf("the refusal names %s: %s", flag, out)
		case files[flag] != "" && (!proxied || flag == "--root-key-file"):
			args = append(args, flag, files[flag])
		}
	}
	addr, stop := serving(t, args...)
	t.Cleanup(func() {
		assert.Equal(t, stop(), nil)
	})
	_, port, err := net.SplitHostPort(addr)
	assert.NoError(t, err)
	g := &guarded{t: t, urls: []string{"http://127.0.0.1:" + port}, admin: key, http: http.DefaultClient}
	if !proxied {
		g.urls[0], g.ca = "https://127.0.0.1:"+port, filepath.Join(node, "ca.pem")
		g.tls, err = client.LoadTLS(g.ca, "", "")
		assert.NoError(t, err)
		g.http = &http.Client{Transport: &http.Transport{TLSClientConfig: g.tls}}
		t.Cleanup(g.http.CloseIdleConnections)
	}
	awaitNil(t, func() error {
		_, _, err := g.run(0, key, "task list")
		return err
	})
	return g
}
