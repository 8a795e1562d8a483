package main

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// advised matches a flag with its value in a refusal.
var advised = regexp.MustCompile(`--[a-z-]+( FILE|\b)`)

// A node that other machines could reach openly does not start. It starts once the operator has done exactly what the
// refusals say.
func TestRefusalsOfOpenPortsMendThemselves(t *testing.T) {
	if testing.Short() {
		t.Skip("starts two nodes")
	}
	dir, _ := certsDir(t, "n1=127.0.0.1")
	node := filepath.Join(dir, "nodes", "n1")
	for _, proxied := range []bool{false, true} {
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
		callsNeedKeys(t, addr, node, key, proxied)
		if err := stop(); err != nil {
			t.Error(err)
		}
	}
}

// callsNeedKeys checks that a node on all addresses answers only callers with the key.
func callsNeedKeys(t *testing.T, addr, node, key string, plain bool) {
	t.Helper()
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(filepath.Join(node, "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	url := "https://127.0.0.1:" + port
	if plain {
		url = "http://127.0.0.1:" + port
	}
	resp, err := c.Get(url + "/v1/tasks")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a key: %s", resp.Status)
	}
	args := []string{"task", "schedule", "a", "--delay", "1h", "--addr", url, "--key-file", key, "--ca", filepath.Join(node, "ca.pem")}
	if out, code := belfry(t, args...); code != 0 {
		t.Errorf("with the key: %d %s", code, out)
	}
}
