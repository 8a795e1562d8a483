package oidc

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/internal/assert"
)

const realRoles = `
rules:
  - claim: groups
    values: [schedulers]
    namespaces: namespaces
    grants: [{role: schedule}]
  - claim: [realm_access, roles]
    values: [belfry-*]
    grants: [{role: read, namespace: "*"}]
`

// realIssuer is a process of the command realissuer.
type realIssuer struct {
	Issuer string
	Secret string
}

// startIssuer starts the issuer at an address, until the test or the returned function ends it.
func startIssuer(t *testing.T, binary, addr string) (r *realIssuer, stop func()) {
	t.Helper()
	cmd := exec.Command(binary, "--listen", addr)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	assert.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	assert.NoError(t, err)
	assert.NoError(t, cmd.Start())
	stop = sync.OnceFunc(func() {
		assert.Equal(t, stdin.Close(), nil)
		assert.Equal(t, cmd.Wait(), nil)
	})
	t.Cleanup(stop)
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	assert.NoError(t, err)
	assert.NoError(t, json.Unmarshal(line, &r))
	return r, stop
}

// token asks the issuer for a token of a client, with scopes.
func (r *realIssuer) token(t *testing.T, client string, scopes ...string) string {
	t.Helper()
	form := url.Values{"grant_type": {"client_credentials"}, "scope": {strings.Join(scopes, " ")}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.Issuer+"/oauth/token", strings.NewReader(form.Encode()))
	assert.NoError(t, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.SetBasicAuth(client, r.Secret)
	var answer struct {
		Token string `json:"access_token"`
	}
	if err := json.Unmarshal(do(t, req), &answer); err != nil || answer.Token == "" {
		t.Fatalf("the issuer gave no token: %v", err)
	}
	return answer.Token
}

// post does an action of the test at the issuer.
func (r *realIssuer) post(t *testing.T, action string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.Issuer+"/test/"+action, http.NoBody)
	assert.NoError(t, err)
	do(t, req)
}

func do(t *testing.T, req *http.Request) []byte {
	t.Helper()
	resp, err := http.DefaultClient.Do(req)
	assert.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("status %d: %v", resp.StatusCode, err)
	}
	return body
}

// lines is a log. Lines that find no room are dropped.
type lines chan string

func (l lines) Write(line []byte) (int, error) {
	select {
	case l <- string(line):
	default:
	}
	return len(line), nil
}

// await waits for a line that contains a text.
func (l lines) await(t *testing.T, text string) {
	t.Helper()
	timeout := time.After(time.Minute)
	for {
		select {
		case line := <-l:
			if strings.Contains(line, text) {
				return
			}
		case <-timeout:
			t.Fatalf("no line with %q in the log", text)
		}
	}
}

// freeAddr returns an address on loopback at which nothing listens.
func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// TestRealIssuer judges the tokens of an issuer in a process of its own, which comes up late, rotates and withdraws its
// keys, and goes away.
func TestRealIssuer(t *testing.T) {
	binary := os.Getenv("BELFRY_OIDC_ISSUER")
	if binary == "" {
		t.Skip("BELFRY_OIDC_ISSUER is not set: make test-oidc builds the issuer")
	}
	addr, log := freeAddr(t), make(lines, 100)
	i, err := New(Config{Issuer: "http://" + addr, Audience: audience, Roles: loadRoles(t, realRoles),
		Logger: slog.New(slog.NewTextHandler(log, nil))})
	assert.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { i.Run(ctx) })
	defer func() { cancel(); wg.Wait() }()
	log.await(t, "connection refused")
	refuses(t, i, newSigner(t, "first").sign(t, "", claims(nil)), errAway)

	issuer, stop := startIssuer(t, binary, addr)
	log.await(t, "was reached")
	first := issuer.token(t, "job", "audience:belfry", "groups:schedulers", "namespace:shop", "namespace:*", "role:belfry-viewer")
	caller, _ := passes(t, i, first)
	isSchedule := func(g access.Grant) bool { return g.Role == access.Schedule && g.Namespace == "shop" }
	isRead := func(g access.Grant) bool { return g.Role == access.Read && g.Namespace == access.AllNamespaces }
	if caller.ID != "job" || len(caller.Grants) != 2 || !isSchedule(caller.Grants[0]) || !isRead(caller.Grants[1]) {
		t.Errorf("got %+v", caller)
	}
	refuses(t, i, issuer.token(t, "job", "audience:other", "groups:schedulers"), errOther)
	refuses(t, i, issuer.token(t, "job", "audience:belfry", "lifetime:-31s"), errLate)
	passes(t, i, issuer.token(t, "job", "audience:belfry", "lifetime:-5s"))

	issuer.post(t, "rotate")
	second := issuer.token(t, "job", "audience:belfry")
	if keyOf(t, first) == keyOf(t, second) {
		t.Fatal("the issuer did not change its key")
	}
	passes(t, i, second)
	passes(t, i, first)
	issuer.post(t, "withdraw")
	if err := i.connect(ctx); err != nil { // as Run does every ten minutes
		t.Fatal(err)
	}
	refuses(t, i, first, errForeign)
	passes(t, i, second)
	stop()
	passes(t, i, second)
}

func keyOf(t *testing.T, token string) string {
	t.Helper()
	header, err := headerOf(token)
	if err != nil || header.KeyID == "" || !slices.Contains(names(algorithms), header.Algorithm) {
		t.Fatalf("the header %+v: %v", header, err)
	}
	return header.KeyID
}
