package origin

import (
	"net/http"
	"strings"
)

// The methods and headers that pages of an allowed origin may send, and the headers that they may read.
var (
	corsMethods = strings.Join([]string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut,
		http.MethodPatch, http.MethodDelete}, ", ")
	corsHeaders = strings.Join([]string{"Authorization", "Content-Type", "Idempotency-Key", "If-Match", "If-None-Match",
		"traceparent"}, ", ")
	corsExposed = strings.Join([]string{"ETag", "Location", "Retry-After"}, ", ")
)

const corsMaxAge = "600" // seconds for which a browser may reuse a preflight's answer

// Share lets the calling page read the answer with the header h, if the page's origin is allowed.
func (p *Policy) Share(h http.Header, r *http.Request) {
	if len(p.origins) == 0 {
		return
	}
	h.Add("Vary", "Origin")
	from := p.Allowed(r)
	if from == "" {
		return
	}
	h.Set("Access-Control-Allow-Origin", from)
	h.Set("Access-Control-Expose-Headers", corsExposed)
}

// Preflight reports whether a request is a browser's CORS preflight for a call from an allowed origin, and writes the
// answer into h. The answer has no body.
func (p *Policy) Preflight(h http.Header, r *http.Request) bool {
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" || p.Allowed(r) == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", corsMethods)
	h.Set("Access-Control-Allow-Headers", corsHeaders)
	h.Set("Access-Control-Max-Age", corsMaxAge)
	return true
}
