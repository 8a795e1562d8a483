package web

import (
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/internal/assert"
)

// serve makes a call with headers, given as names and values in turn.
func serve(t *testing.T, method, path string, headers ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(method, path, http.NoBody)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	Handler().ServeHTTP(w, r)
	return w.Result()
}

func textOf(t *testing.T, response *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(response.Body)
	assert.NoError(t, err)
	if response.Header.Get("Content-Encoding") != "gzip" {
		return string(body)
	}
	r, err := gzip.NewReader(bytes.NewReader(body))
	assert.NoError(t, err)
	plain, err := io.ReadAll(r)
	assert.NoError(t, err)
	return string(plain)
}

// assets returns the paths of the files that the page names.
func assets(t *testing.T) []string {
	t.Helper()
	page := textOf(t, serve(t, http.MethodGet, "/ui/"))
	paths := regexp.MustCompile(`/ui/assets/[^"]+`).FindAllString(page, -1)
	if len(paths) < 3 {
		t.Fatalf("the page names %v", paths)
	}
	return paths
}

func TestAddressesGetThePage(t *testing.T) {
	for _, path := range []string{"/ui/", "/ui/tasks", "/ui/tasks/order-1042", "/ui/tasks/a%2Fb", "/ui/schedules/x/edit"} {
		response := serve(t, http.MethodGet, path)
		kind, page := response.Header.Get("Content-Type"), textOf(t, response)
		if response.StatusCode != http.StatusOK || kind != "text/html; charset=utf-8" || !strings.Contains(page, `id="app"`) {
			t.Errorf("%s: %d %s %.80s", path, response.StatusCode, kind, page)
		}
		if cache := response.Header.Get("Cache-Control"); cache != "no-cache" {
			t.Errorf("%s is cached: %q", path, cache)
		}
	}
}

func TestAssetsAreThereAndCachedForEver(t *testing.T) {
	for _, path := range assets(t) {
		response := serve(t, http.MethodGet, path, "Accept-Encoding", "gzip, deflate, br")
		if response.StatusCode != http.StatusOK || !strings.Contains(response.Header.Get("Cache-Control"), "immutable") {
			t.Errorf("%s: %d %s", path, response.StatusCode, response.Header)
		}
	}
	gone := serve(t, http.MethodGet, "/ui/assets/app-OLD.js")
	assert.Equal(t, gone.StatusCode, http.StatusNotFound, "a script that is gone")
}

func TestPolicyAllowsNoInlineCode(t *testing.T) {
	response := serve(t, http.MethodGet, "/ui/")
	want := map[string]string{
		"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin",
	}
	for name, value := range want {
		assert.Equal(t, response.Header.Get(name), value, "%s", name)
	}
	csp := response.Header.Get("Content-Security-Policy")
	if strings.Contains(csp, "unsafe") || !strings.HasPrefix(csp, "default-src 'none'") {
		t.Errorf("the policy: %s", csp)
	}
	page := textOf(t, response)
	inline := regexp.MustCompile(`(?i)<script[^>]*>[^<]|<style|\sstyle=|\son[a-z]+=|https?://`)
	assert.Equal(t, inline.FindString(page), "", "the page")
}

func TestETags(t *testing.T) {
	for _, encoding := range []string{"", "gzip"} {
		first := serve(t, http.MethodGet, "/ui/", "Accept-Encoding", encoding)
		etag := first.Header.Get("ETag")
		for _, header := range []string{etag, "W/" + etag, `"other", ` + etag, "*"} {
			again := serve(t, http.MethodGet, "/ui/", "Accept-Encoding", encoding, "If-None-Match", header)
			if again.StatusCode != http.StatusNotModified || again.Header.Get("ETag") != etag {
				t.Errorf("%q %s: %d", encoding, header, again.StatusCode)
			}
		}
		other := serve(t, http.MethodGet, "/ui/", "If-None-Match", `"other"`)
		assert.Equal(t, other.StatusCode, http.StatusOK, "another ETag")
	}
}

func TestCompression(t *testing.T) {
	for accepted, want := range map[string]string{
		"": "", "br": "", "gzip": "gzip", "br, gzip;q=0.5": "gzip", "gzip;q=0": "", "*": "gzip", "identity": "",
	} {
		response := serve(t, http.MethodGet, "/ui/", "Accept-Encoding", accepted)
		assert.Equal(t, response.Header.Get("Content-Encoding"), want, "%q gets", accepted)
		assert.Contains(t, textOf(t, response), `id="app"`, "%q", accepted)
	}
}

func TestMethods(t *testing.T) {
	head := serve(t, http.MethodHead, "/ui/")
	if head.StatusCode != http.StatusOK || head.Header.Get("Content-Length") == "0" || textOf(t, head) != "" {
		t.Errorf("HEAD: %d %s", head.StatusCode, head.Header)
	}
	if post := serve(t, http.MethodPost, "/ui/"); post.StatusCode != http.StatusMethodNotAllowed ||
		post.Header.Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: %d %s", post.StatusCode, post.Header)
	}
}

// TestSize holds all that a browser loads below 150 KB, compressed.
func TestSize(t *testing.T) {
	sizes := map[string]int{}
	sum := 0
	for _, path := range append(assets(t), "/ui/") {
		response := serve(t, http.MethodGet, path, "Accept-Encoding", "gzip")
		body, err := io.ReadAll(response.Body)
		assert.NoError(t, err)
		if _, counted := sizes[path]; !counted {
			sum += len(body)
		}
		sizes[path] = len(body)
	}
	t.Logf("%d bytes: %v", sum, sizes)
	if sum > 150_000 {
		t.Errorf("%d bytes: %v", sum, sizes)
	}
}

// TestNoOutsideAddress checks that no file names another server that it could load something from. Names of XML
// spaces and addresses in examples, all of them of reserved names, are no loads.
func TestNoOutsideAddress(t *testing.T) {
	address := regexp.MustCompile(`https?://[a-zA-Z0-9.-]+`)
	allowed := []string{
		"http://www.w3.org", "https://shop.example", "http://127.0.0.1", "http://localhost",
	}
	err := fs.WalkDir(dist, "dist/assets", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(dist, name)
		if err != nil {
			return err
		}
		found := map[string]bool{}
		for _, a := range address.FindAllString(string(content), -1) {
			found[a] = true
		}
		for _, a := range slices.Sorted(maps.Keys(found)) {
			if !slices.Contains(allowed, a) {
				t.Errorf("%s names %s", name, a)
			}
		}
		return nil
	})
	assert.NoError(t, err)
}

func TestLicences(t *testing.T) {
	text := textOf(t, serve(t, http.MethodGet, "/ui/LICENSES.txt"))
	for _, name := range []string{"preact", "htm", "uplot"} {
		assert.Contains(t, text, name+" ", "no licence of %s", name)
	}
}
