package main

import (
	"fmt"
	"net"

	"github.com/belfryhq/belfry/httpapi/origin"
)

// origins says who may call the API from a browser, and by which host names, once the port is bound.
func (f *serveFlags) origins(bound net.Addr) (*origin.Policy, error) {
	address, err := advertised(f.advertiseHTTP, bound)
	if err != nil {
		return nil, err
	}
	if _, err := origin.New(f.allowHosts, nil); err != nil {
		return nil, &usageError{fmt.Errorf("--allow-host: %w", err)}
	}
	if _, err := origin.New(nil, f.allowOrigins); err != nil {
		return nil, &usageError{fmt.Errorf("--allow-origin: %w", err)}
	}
	own := []string{origin.HostOf(f.http), origin.HostOf(address)}
	policy, err := origin.New(append(own, f.allowHosts...), f.allowOrigins)
	if err != nil {
		return nil, &usageError{fmt.Errorf("--http or --advertise-http: %w", err)}
	}
	return policy, nil
}

// warnOpen says that the API is open to others than this machine.
func (n *node) warnOpen() {
	addr, ok := n.listener.Addr().(*net.TCPAddr)
	if ok && !addr.IP.IsLoopback() {
		n.log.Warn("the API is open to the network without authentication: any machine that reaches this address can read "+
			"and change every task; bind it to loopback, or let only trusted machines through to it", "http", addr.String())
	}
}
