package oidc

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
)

// maxAnswerBytes bounds the answers of the issuer.
const maxAnswerBytes = 1 << 20

// boundedClient returns a client that reads bounded answers and follows redirects to permitted addresses only.
func boundedClient(base *http.Client) *http.Client {
	client := *base
	if client.Transport == nil {
		client.Transport = http.DefaultTransport
	}
	client.Transport = boundedTransport{client.Transport}
	client.Timeout = fetchTimeout
	client.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		if len(via) >= 5 {
			return errors.New("the issuer redirects more than five times")
		}
		return checkURL(req.URL.String())
	}
	return &client
}

type boundedTransport struct{ base http.RoundTripper }

// RoundTrip ends an answer that is too long with an error.
func (t boundedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.base.RoundTrip(req)
	if err == nil {
		resp.Body = http.MaxBytesReader(nil, resp.Body, maxAnswerBytes)
	}
	return resp, err
}

// checkURL checks an address of the issuer: HTTPS, or HTTP on loopback.
func checkURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "":
		return errors.New("is no absolute URL")
	case u.User != nil || u.Fragment != "":
		return errors.New("has a user or a fragment")
	case u.Scheme == "https" || u.Scheme == "http" && onLoopback(u.Hostname()):
		return nil
	}
	return fmt.Errorf("%s://%s is neither https nor on loopback", u.Scheme, u.Host)
}

func onLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.Unmap().IsLoopback()
}
