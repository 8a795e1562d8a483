package node

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/belfryhq/belfry/httpapi/origin"
)

// place is where callers reach a node.
type place struct {
	addr  string // host:port
	https bool
}

// advertised returns the place of a node: that of Config.AdvertiseHTTP, or else the bound address. The host's name
// replaces an unspecified IP address.
func (c *Config) advertised(bound net.Addr) (place, error) {
	if c.AdvertiseHTTP != "" {
		return parsePlace(c.AdvertiseHTTP, c.TLS.Cert != "")
	}
	p := place{addr: bound.String(), https: c.TLS.Cert != ""}
	addr, ok := bound.(*net.TCPAddr)
	if !ok || !addr.IP.IsUnspecified() {
		return p, nil
	}
	host, err := os.Hostname()
	if err != nil {
		return p, &SettingError{"advertise-http", fmt.Errorf("is missing, and the host's name is not known: %w", err)}
	}
	p.addr = net.JoinHostPort(host, strconv.Itoa(addr.Port))
	return p, nil
}

// parsePlace reads an address, whose scheme https tells, or a URL of http or https, whose port may be left out.
func parsePlace(text string, https bool) (place, error) {
	if !strings.Contains(text, "://") {
		return place{text, https}, nil
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return place{}, errors.New("is no URL") // the error of url.Parse may show a password
	case u.Scheme != "http" && u.Scheme != "https":
		return place{}, fmt.Errorf("%q is no URL of http or https", u.Redacted())
	case u.Hostname() == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		return place{}, fmt.Errorf("%q is no URL with a host, perhaps a port, and nothing else", u.Redacted())
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return place{net.JoinHostPort(u.Hostname(), port), u.Scheme == "https"}, nil
}

func checkAdvertised(text string) error {
	p, err := parsePlace(text, false)
	if err != nil {
		return err
	}
	return originsOf([]string{origin.HostOf(p.addr)}, nil)
}
