// Command unpaidorder is a shop that closes each order that is not paid within 30 minutes. The guide
// docs/guides/unpaid-order.md explains the program.
package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"flag"
	"fmt"
	"log"
	"net/http"
	"time"

	"github.com/belfryhq/belfry/client"
)

func main() {
	log.SetFlags(0)
	addr := flag.String("addr", "127.0.0.1:8480", "address to listen at")
	belfry := flag.String("belfry", "http://127.0.0.1:8400", "a node of the cluster")
	flag.Parse()
	if err := serve(*addr, *belfry); err != nil {
		log.Fatal(err)
	}
}

// serve runs the shop at an address until it fails.
func serve(addr, belfry string) error {
	c, err := client.New(client.Config{Addrs: []string{belfry}})
	if err != nil {
		return err
	}
	defer c.Close()
	secret := newSecret()
	shop, err := New(c, secret)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := SetQueue(ctx, c, "http://"+addr+"/hooks/close", secret); err != nil {
		return err
	}
	fmt.Println("the shop is at http://" + addr)
	return http.ListenAndServe(addr, shop)
}

// newSecret returns a secret for the signatures of webhooks. Several processes of one shop would share a configured
// secret instead.
func newSecret() string {
	key := make([]byte, 24)
	_, _ = rand.Read(key) // never returns an error
	return "whsec_" + base64.StdEncoding.EncodeToString(key)
}
