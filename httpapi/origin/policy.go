package origin

import (
	"fmt"
	"net/http"
	"strings"
)

// Policy says which host names a node goes by, and which web pages may call it. The zero Policy knows localhost and IP
// literals, and only the node's own pages. A Policy does not change, so it is safe for concurrent use.
type Policy struct {
	hosts   map[string]bool // as authority has them
	origins map[page]bool
}

// New makes a policy that also takes these host names, without ports, and the pages of these origins, such as
// https://app.example. An empty host is passed over.
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

// Refusal says which header of a request gives it away as a web page's, and why.
type Refusal struct {
	Header string // Host, Origin or Sec-Fetch-Site
	Detail string
}

// Check returns nil if a request may be a program's, or comes from a page that may call.
func (p *Policy) Check(r *http.Request) *Refusal {
	if !p.knows(r.Host) && !isHealthCheck(r) {
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

// Allowed returns the request's Origin if the operator gave it, else an empty string.
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

// isHealthCheck reports whether a request asks only how the node is.
func isHealthCheck(r *http.Request) bool {
	return isRead(r) && (r.URL.Path == "/healthz" || r.URL.Path == "/readyz")
}

// isVisit reports whether a browser opens the dashboard in a tab of its own, as after a click on a link.
func isVisit(r *http.Request) bool {
	dest := r.Header.Get("Sec-Fetch-Dest")
	return isRead(r) && (r.URL.Path == "/ui" || strings.HasPrefix(r.URL.Path, "/ui/")) &&
		r.Header.Get("Sec-Fetch-Mode") == "navigate" && (dest == "" || dest == "document")
}

func isRead(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// clip keeps a quotation short.
func clip(text string) string {
	const most = 128
	if len(text) <= most {
		return text
	}
	return text[:most] + "…"
}
