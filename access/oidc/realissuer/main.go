// Command realissuer runs an OpenID Connect issuer for the tests of package oidc. A maintained library of issuers does
// all of the protocol, so that the tests do not believe their own reading of it. Its dependencies are none of Belfry's:
// it is a module of its own.
//
//	POST /oauth/token     grant type client_credentials, with any client id and the printed secret
//	POST /test/rotate     signs with a new key from now on; the others stay published
//	POST /test/withdraw   publishes only the key that signs
//
// The scopes of a token request make its claims: groups:NAME, role:NAME (realm_access.roles) and namespace:NAME. Two
// more set the token's audience and its time to live: audience:NAME and lifetime:DURATION.
//
// The first line on the standard output is a JSON object with the issuer's URL and the secret of clients. The process
// ends with its standard input.
package main

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/zitadel/oidc/v3/pkg/op"
)

func main() {
	addr := flag.String("listen", "127.0.0.1:0", "loopback `address`")
	flag.Parse()
	if err := run(*addr); err != nil {
		fmt.Fprintln(os.Stderr, "realissuer:", err)
		os.Exit(1)
	}
}

func run(addr string) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	url, s := "http://"+listener.Addr().String(), &storage{secret: rand.Text()}
	if err := s.rotate(); err != nil {
		return err
	}
	handler, err := newHandler(url, s)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 2)
	go func() { ended <- server.Serve(listener) }()
	go func() { ended <- untilClosed(os.Stdin) }()
	if err := json.NewEncoder(os.Stdout).Encode(map[string]string{"issuer": url, "secret": s.secret}); err != nil {
		return err
	}
	return errors.Join(<-ended, server.Close())
}

// untilClosed returns when the process that started this one has closed the standard input, or has ended.
func untilClosed(r io.Reader) error {
	_, err := io.Copy(io.Discard, r)
	return err
}

func newHandler(url string, s *storage) (http.Handler, error) {
	var key [32]byte // of opaque tokens
	_, _ = rand.Read(key[:])
	cfg := &op.Config{CryptoKey: key, CryptoKeyId: "1"}
	provider, err := op.NewProvider(cfg, s, op.StaticIssuer(url), op.WithAllowInsecure())
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/", provider)
	mux.HandleFunc("POST /test/rotate", func(w http.ResponseWriter, _ *http.Request) {
		if err := s.rotate(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	mux.HandleFunc("POST /test/withdraw", func(http.ResponseWriter, *http.Request) { s.withdraw() })
	return mux, nil
}
