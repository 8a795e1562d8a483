package origin

import (
	"fmt"
	"net/http"
	"strings"
)

// Policy decides which host names a node has, and which web pages may call it. The zero Policy allows localhost and IP
// literals, and only the node's own pages. A Policy never changes, so it is safe for concurrent use.
type Policy struct {
	hosts   map[string]bool // in the form of authority
	origins map[page]bool
}

// New returns a policy that also allows these host names, without ports, and pages of these origins, such as
// https://app.example. It skips empty hosts.
func New(hosts, origins []string) (*Policy, error) {
	p := &Policy{hosts: map[string]bool{}, origins: map[page]bool{}}
	for _, text := range hosts {
		if text == "" {
			continue
		}
		host, err := parseName(text)
		if err != nil {
			return nil, err
		}
		p.hosts[host] = true
	}
	for _, text := range origins {
		from, ok := parsePage(unicodePage(text))
		if !ok {
			return nil, fmt.Errorf("%q is not an origin such as https://app.example or http://localhost:3000", text)
		}
		p.origins[from] = true
	}
	return p, nil
}

// Refusal names the header that shows that a request is a web page's, and the reason.
type Refusal struct {
	Header string // Host, Origin or Sec-Fetch-Site
	Detail string
}

// Check returns nil if a request may be a program's, or comes from an allowed page.
func (p *Policy) Check(r *http.Request) *Refusal {
	if !p.knows(r.Host) && !isPublic(r) {
		return &Refusal{"Host", fmt.Sprintf("is %q, which is neither localhost, an IP address nor a name of this node; "+
			"serve --allow-host allows it", clip(r.Host))}
	}
	origins := r.Header["Origin"]
	if p.Allowed(r) != "" {
		return nil
	}
	if len(origins) > 1 || len(origins) == 1 && !isOwn(r, origins[0]) {
		return &Refusal{"Origin", fmt.Sprintf("is %q, which is not this node's; serve --allow-origin allows it",
			clip(strings.Join(origins, ", ")))}
	}
	for _, site := range r.Header["Sec-Fetch-Site"] {
		if site != "same-origin" && site != "none" && !isVisit(r) {
			return &Refusal{"Sec-Fetch-Site", fmt.Sprintf("is %q: a web page of another origin makes the call", clip(site))}
		}
	}
	return nil
}

// Allowed returns the request's Origin if the operator gave it, or else "".
func (p *Policy) Allowed(r *http.Request) string {
	origins := r.Header["Origin"]
	if len(origins) != 1 {
		return ""
	}
	if from, ok := parsePage(origins[0]); !ok || !p.origins[from] {
		return ""
	}
	return origins[0]
}

func (p *Policy) knows(host string) bool {
	a, ok := parseAuthority(host)
	return ok && (a.ip || a.host == "localhost" || p.hosts[a.host])
}

// KeySetPath is the path of the public keys of tokens.
const KeySetPath = "/.well-known/jwks.json"

// isPublic reports whether a request reads what anyone may know: the node's health, or the public keys of tokens.
func isPublic(r *http.Request) bool {
	return isRead(r) && (r.URL.Path == "/healthz" || r.URL.Path == "/readyz" || r.URL.Path == KeySetPath)
}

// isVisit reports whether a browser opens the dashboard in a tab of its own, as after a click on a link.
func isVisit(r *http.Request) bool {
	dest := r.Header.Get("Sec-Fetch-Dest")
	return isRead(r) && (r.URL.Path == "/ui" || strings.HasPrefix(r.URL.Path, "/ui/")) &&
		r.Header.Get("Sec-Fetch-Mode") == "navigate" && (dest == "" || dest == "document")
}

func isRead(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// clip shortens a quotation to about 128 bytes.
func clip(text string) string {
	const most = 128
	if len(text) <= most {
		return text
	}
	return text[:most] + "…"
}
