package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
)

// Prefix is the path below which the dashboard is served.
const Prefix = "/ui/"

//go:embed dist
var dist embed.FS

// policy lets the page load and call nothing but its own origin. It has no inline scripts or styles.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"font-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// file is one file of the dashboard, as it is sent.
type file struct {
	kind   string // the media type
	etag   string
	cache  string
	plain  []byte
	packed []byte // by gzip; nil if that saves nothing
}

// Handler returns the handler of all paths below Prefix. It answers GET and HEAD.
func Handler() http.Handler { return handler() }

// handler reads the embedded files once. They are a part of the binary, so that an error is a broken build.
var handler = sync.OnceValue(func() http.Handler {
	root, err := fs.Sub(dist, "dist")
	if err != nil {
		panic(fmt.Sprintf("web: %v", err))
	}
	files, err := read(root)
	if err != nil {
		panic(fmt.Sprintf("web: %v", err))
	}
	return http.HandlerFunc(files.serve)
})

// site holds the files by their paths below Prefix.
type site map[string]*file

func read(root fs.FS) (site, error) {
	files := site{}
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		files[name] = newFile(name, content)
		return nil
	})
	return files, err
}

func newFile(name string, content []byte) *file {
	sum := sha256.Sum256(content)
	f := &file{kind: kindOf(name), etag: `"` + hex.EncodeToString(sum[:12]) + `"`, cache: "no-cache", plain: content}
	if strings.HasPrefix(name, "assets/") { // the name has a hash of the content
		f.cache = "public, max-age=31536000, immutable"
	}
	if packed := pack(content); len(packed) < len(content) {
		f.packed = packed
	}
	return f
}

// kindOf returns the media type of a file. The types do not come from the machine's tables, which differ.
func kindOf(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	case ".txt":
		return "text/plain; charset=utf-8"
	}
	if kind := mime.TypeByExtension(path.Ext(name)); kind != "" {
		return kind
	}
	return "application/octet-stream"
}

func pack(content []byte) []byte {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		panic(fmt.Sprintf("web: %v", err)) // the level is valid
	}
	if _, err := w.Write(content); err != nil {
		panic(fmt.Sprintf("web: %v", err)) // a buffer takes all bytes
	}
	if err := w.Close(); err != nil {
		panic(fmt.Sprintf("web: %v", err))
	}
	return b.Bytes()
}

const indexPage = "index.html"

// find returns the file of a path below Prefix. A path that names no file is an address of the page, unless it is below
// assets: an old page asks there for a script that is gone.
func (s site) find(name string) *file {
	if f := s[name]; f != nil {
		return f
	}
	if strings.HasPrefix(name, "assets/") {
		return nil
	}
	return s[indexPage]
}

func (s site) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	f := s.find(strings.TrimPrefix(r.URL.Path, Prefix))
	if f == nil {
		h.Set("Cache-Control", "no-store")
		http.Error(w, "not found", http.StatusNotFound)
		return
	}
	f.serve(w, r)
}

func (f *file) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("Cache-Control", f.cache)
	h.Set("Vary", "Accept-Encoding")
	content, etag := f.plain, f.etag
	if f.packed != nil && takesGzip(r.Header.Get("Accept-Encoding")) {
		h.Set("Content-Encoding", "gzip")
		content, etag = f.packed, strings.TrimSuffix(f.etag, `"`)+`-gzip"`
	}
	h.Set("ETag", etag)
	if matches(r.Header.Get("If-None-Match"), etag) {
		h.Del("Content-Encoding")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Length", strconv.Itoa(len(content)))
	if r.Method == http.MethodHead {
		return
	}
	_, _ = w.Write(content) // an error is the caller's: it has gone
}

// takesGzip reports whether a caller accepts gzip. Without a header it takes any encoding, but may expect none.
func takesGzip(accepted string) bool {
	for part := range strings.SplitSeq(accepted, ",") {
		name, quality, _ := strings.Cut(strings.TrimSpace(part), ";")
		if strings.TrimSpace(name) != "gzip" && strings.TrimSpace(name) != "*" {
			continue
		}
		q, found := strings.CutPrefix(strings.ReplaceAll(quality, " ", ""), "q=")
		n, err := strconv.ParseFloat(q, 64)
		return !found || err == nil && n > 0
	}
	return false
}

// matches reports whether a header If-None-Match names an ETag. The comparison is weak, as RFC 9110 wants it.
func matches(header, etag string) bool {
	for part := range strings.SplitSeq(header, ",") {
		name := strings.TrimPrefix(strings.TrimSpace(part), "W/")
		if name == etag || name == "*" {
			return true
		}
	}
	return false
}
