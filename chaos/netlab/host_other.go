//go:build !linux

package netlab

import (
	"errors"
	"net/netip"
	"os"
)

var errUnsupported = errors.New("netlab: network namespaces are Linux's")

// Supported returns an error, because networks need Linux.
func Supported() error { return errUnsupported }

type block struct{}

func claimBlock() (*block, error)    { return nil, errUnsupported }
func (b *block) outside() netip.Addr { return netip.Addr{} }
func (b *block) close() error        { return nil }

type host struct {
	Host
	port    *os.File
	outside cable
}

func newHost(*block, int, int) (*host, error) { return nil, errUnsupported }
func (h *host) close() error                  { return nil }
